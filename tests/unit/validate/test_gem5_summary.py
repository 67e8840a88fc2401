"""Changes over several simulations, against numbers worked out by hand."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.machine import MACHINE
from tests.doubles.runs import MIB, broken, campaign_record, synthetic_run, trial
from tuner.cli.gem5_tables import print_gem5
from tuner.records import Configuration, Outcome
from tuner.report.gem5 import gem5_figure, gem5_plot
from tuner.report.page import compute_report, render_page
from tuner.runs import Run
from tuner.stats import Estimate
from tuner.store import (
    RealMeasurement,
    SimulationRecord,
    ValidationConditions,
    ValidationRecord,
    ValidationSample,
)
from tuner.store.subject import Subject
from tuner.validate.gem5_summary import Change, Gem5Summary, gem5_records, summarize_gem5

_DEFAULT = Configuration("glibc")
_PICK = Configuration.of("glibc", {"tcache_count": 0})
_POOR = Configuration.of("glibc", {"mxfast": 0})
_SUBJECTS = (
    Subject("glibc-default", _DEFAULT, 0, ("default",)),
    Subject("knee", _PICK, 1, ("knee",)),
    Subject("trial-2", _POOR, 2, ("dominated",)),
)
_HEAPS = {"glibc-default": 100.0, "knee": 90.0, "trial-2": 120.0}


def sample(label: str, number: int, heap: float, **fields: object) -> ValidationSample:
    subject = next(s for s in _SUBJECTS if s.label == label)
    known: dict[str, object] = {
        "peak_heap_bytes": int(2 * heap),
        "mean_heap_bytes": heap,
        "faults": 10,
        "cpu_ns": 1000,
    }
    return ValidationSample(
        round=number,
        position=_SUBJECTS.index(subject),
        label=label,
        configuration=subject.configuration,
        trial=subject.trial,
        outcome=Outcome.succeeded(RealMeasurement(**{**known, **fields})),  # type: ignore[arg-type]
    )


def record(
    name: str, role: str, heaps: Sequence[Mapping[str, float]], identifier: int = 1
) -> ValidationRecord:
    """A validation of one simulation from the mean heaps of its rounds."""
    return ValidationRecord(
        command=("gem5.opt", name),
        rounds=len(heaps),
        baseline="glibc-default",
        subjects=_SUBJECTS,
        conditions=ValidationConditions(seed=1),
        simulation=SimulationRecord(name, role, {"program": "1", "guest": name}),
        machine=MACHINE,
        identifier=identifier,
        samples=tuple(
            sample(label, number, heap)
            for number, found in enumerate(heaps)
            for label, heap in found.items()
        ),
    )


def run_with(*records: ValidationRecord, objective: str = "mean_heap") -> Run:
    trials = (
        trial(0, _DEFAULT, 50.0 * MIB, 5e6),
        trial(1, _PICK, 45.0 * MIB, 5e6),
        trial(2, _POOR, 60.0 * MIB, 5e6),
    )
    campaign = campaign_record(("glibc",), (objective,), 3)
    return Run(Path("runs/x"), campaign, trials, validations=records)


def summaries(*records: ValidationRecord) -> list[Gem5Summary]:
    run = run_with(*records)
    return summarize_gem5(run, gem5_records(run))


def knee_of(found: Gem5Summary) -> tuple[Change, Estimate]:
    knee = found.subjects[1].change("mean_heap")
    assert knee is not None
    assert knee.ratio is not None
    return knee, knee.ratio


def test_changes_are_geometric_means_over_the_simulations():
    large = {"glibc-default": 1000.0, "knee": 500.0, "trial-2": 1000.0}
    (found,) = summaries(
        record("a", "held-out", [_HEAPS, _HEAPS]), record("b", "held-out", [large, large])
    )
    knee, ratio = knee_of(found)
    assert ratio.median == pytest.approx(math.sqrt(0.9 * 0.5))
    assert knee.value == pytest.approx((90.0 + 500.0) / 2)


def test_interval_of_one_simulation_is_over_the_rounds():
    rounds = [{**_HEAPS, "knee": heap} for heap in (90.0, 80.0, 95.0)]
    (found,) = summaries(record("a", "tune", rounds))
    knee, ratio = knee_of(found)
    assert ratio.interval is not None
    assert (ratio.median, ratio.n) == (0.9, 3)
    assert (ratio.interval.low, ratio.interval.high) == (0.8, 0.95)
    assert knee.over_simulations is None
    assert knee.shown == ratio


def test_interval_over_simulations_is_that_of_resampling_them():
    heaps = (80.0, 85.0, 90.0, 95.0, 100.0, 105.0)
    records = [
        record(f"s{number}", "held-out", [{**_HEAPS, "knee": heap}] * 6)
        for number, heap in enumerate(heaps)
    ]
    (found,) = summaries(*records)
    knee, ratio = knee_of(found)
    assert ratio.interval is not None
    assert ratio.interval.high - ratio.interval.low < 1e-9
    assert knee.shown is not None
    assert knee.shown.median == ratio.median
    over = knee.shown.interval
    assert over is not None
    # Standard error of a mean of six such logarithms: about 3.8 %; 1.96 times it either way.
    assert over.low == pytest.approx(ratio.median * 0.93, rel=0.02)
    assert over.high == pytest.approx(ratio.median * 1.07, rel=0.02)


def test_held_out_simulations_come_first_and_apart():
    better = {**_HEAPS, "knee": 50.0}
    found = summaries(record("a", "tune", [better]), record("b", "held-out", [_HEAPS]))
    assert [s.title for s in found] == ["held-out simulations", "simulations tuned on"]
    ratios = [s.subjects[1].change("mean_heap") for s in found]
    assert [r.ratio.median for r in ratios if r and r.ratio] == [0.9, 0.5]


def test_a_subject_that_failed_once_has_no_change():
    good = record("a", "held-out", [_HEAPS])
    bad = record("b", "held-out", [_HEAPS])
    failed = tuple(broken(s, "differs") if s.label == "knee" else s for s in bad.samples)
    (found,) = summaries(good, replace(bad, samples=failed))
    knee = found.subjects[1]
    assert knee.failures == (("b", "differs"),)
    assert knee.changes == ()
    assert found.subjects[2].change("mean_heap") is not None
    assert found.n_rounds == 1


def test_a_simulation_whose_baseline_failed_is_left_out():
    bad = record("b", "held-out", [_HEAPS])
    failed = broken(bad.samples[0], "panic")
    (found,) = summaries(record("a", "held-out", [_HEAPS]), replace(bad, samples=(failed,)))
    assert [s.reason for s in found.simulations] == [None, "panic"]
    change = found.subjects[1].change("mean_heap")
    assert change is not None
    assert change.ratio is not None
    assert change.ratio.median == 0.9


def test_ranking_compares_emulated_values_with_changes():
    (found,) = summaries(record("a", "held-out", [_HEAPS]))
    assert [(r.allocator, r.n, r.tau) for r in found.rankings] == [
        (None, 3, 1.0),
        ("glibc", 3, 1.0),
    ]
    turned = {"glibc-default": 100.0, "knee": 120.0, "trial-2": 90.0}
    (found,) = summaries(record("a", "held-out", [turned]))
    assert found.rankings[0].tau == -1.0


def test_metrics_that_were_not_measured_are_absent():
    (found,) = summaries(record("a", "held-out", [_HEAPS]))
    assert found.subjects[0].change("instructions") is None
    assert found.subjects[0].change("cpu") is not None


def test_only_comparable_validations_are_summed_up():
    old = record("a", "held-out", [_HEAPS], 1)
    other = replace(record("b", "held-out", [_HEAPS], 2), subjects=_SUBJECTS[:2])
    answered = (*_SUBJECTS[:2], replace(_SUBJECTS[2], expected=(("mean_heap", 0.9),)))
    newest = replace(record("a", "held-out", [_HEAPS], 3), subjects=answered)
    run = run_with(old, other, record("c", "held-out", [_HEAPS], 4), newest)
    assert [r.identifier for r in gem5_records(run)] == [4, 3]


def test_instructions_that_were_counted_once_rank():
    plain = record("a", "tune", [_HEAPS, _HEAPS])
    samples = tuple(
        sample(s.label, s.round, 100.0, instructions=None if s.round else 1000 + s.position)
        for s in plain.samples
    )
    run = run_with(replace(plain, samples=samples), objective="instructions")
    (found,) = summarize_gem5(run, gem5_records(run))
    assert {ranking.metric for ranking in found.rankings} == {"instructions"}


def test_an_interrupted_validation_does_not_hide_a_complete_one():
    whole = record("a", "tune", [_HEAPS, _HEAPS], identifier=1)
    begun = record("a", "tune", [_HEAPS, _HEAPS], identifier=2)
    begun = replace(begun, samples=begun.samples[:4])
    assert [r.identifier for r in gem5_records(run_with(whole, begun))] == [1]
    assert [r.identifier for r in gem5_records(run_with(begun))] == [2]


def test_validations_of_other_programs_are_none_of_gem5():
    plain = replace(record("a", "tune", [_HEAPS]), simulation=None)
    assert gem5_records(run_with(plain)) == []


def test_table_shows_default_against_tuned(capsys: pytest.CaptureFixture[str]):
    run = run_with(record("a", "held-out", [_HEAPS, _HEAPS]))
    print_gem5(run, summarize_gem5(run, gem5_records(run)))
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines()]
    assert "gem5, held-out simulations: 1; rounds: 2" in out
    assert ["glibc", "default", "100", "200", "1.000", "10"] in lines
    assert ["glibc", "knee", "90", "180", "1.000", "10"] in lines
    assert "-10.0 %" in out
    assert ["a", "held-out", "6", "0"] in lines
    assert "of one alone, the interval over its rounds" in " ".join(out.split())


def test_table_says_what_is_out_and_why(capsys: pytest.CaptureFixture[str]):
    good = record("a", "held-out", [_HEAPS])
    failed = broken(good.samples[1], "panic [x]")
    run = run_with(replace(good, samples=(good.samples[0], failed, good.samples[2])))
    print_gem5(run, summarize_gem5(run, gem5_records(run)))
    out = capsys.readouterr().out
    assert "knee is out of a: panic [x]" in out
    assert "statistics of what is not out were equal" in " ".join(out.split())


def test_every_simulation_is_shown_alone_as_well():
    better = {**_HEAPS, "knee": 50.0}
    (found,) = summaries(record("a", "tune", [_HEAPS]), record("b", "tune", [better]))
    change = found.subjects[1].change("mean_heap")
    assert change is not None
    assert change.by_simulation == (("a", 0.9), ("b", 0.5))


def test_figure_has_a_panel_per_metric_and_a_row_per_subject():
    (found,) = summaries(record("a", "held-out", [_HEAPS, _HEAPS]))
    plot = gem5_plot(found)
    assert plot is not None
    assert plot.labels == ("knee", "trial-2")
    assert [label for label, _ in plot.panels] == ["mean heap", "CPU time"]
    assert [row.ratio.median for row in plot.panels[0][1] if row.ratio] == [0.9, 1.2]
    assert len(gem5_figure(plot, "gem5").spec["hconcat"]) == 2


def test_page_shows_simulations_apart_from_programs():
    run = synthetic_run(n_trials=30, validation=True)
    gem5 = record("a", "held-out", [_HEAPS, _HEAPS], 2)
    report = compute_report(replace(run, validations=(*run.validations, gem5)))
    assert report.claims is not None
    assert report.claims.record == run.validations[0]
    page = render_page(report)
    assert "gem5, held-out simulations" in page
    assert "-10.0 % [" in page
