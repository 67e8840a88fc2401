"""Medians, ratios, claims, verdicts and rankings of a validation with known numbers."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pytest

from tests.doubles.runs import broken, campaign_record, changed, seen, synthetic_run, trial
from tuner.emulation import Calibration
from tuner.records import Configuration, Outcome
from tuner.report.claims import claims_json
from tuner.report.table import front_table
from tuner.runs import Run
from tuner.stats import Concordance
from tuner.store import (
    RealMeasurement,
    TraceRecord,
    ValidationRecord,
    ValidationSample,
    WorkloadRecord,
)
from tuner.store.subject import DOMINATED, Subject
from tuner.validate.summary import ValidationSummary, count_claims, summarize
from tuner.validate.verdicts import Claim, SubjectSummary, Verdict

_BASE = Configuration("glibc")
_LESS = Configuration.of("glibc", {"mxfast": 0})
_MORE = Configuration("jemalloc")
_HEAPS = {"glibc-default": 2000.0, "less": 1600.0, "jemalloc-default": 2400.0}
"""Real mean heap; emulated it is 1000, 600 and 1400: the same differences."""
_NOISE = (0.7, 1.3, 0.75, 1.25, 0.8, 1.2, 0.72, 1.28)
"""Of each round."""


def subject(label: str, configuration: Configuration, role: str) -> Subject:
    return Subject(label, configuration, None, (role,))


SUBJECTS = (
    subject("glibc-default", _BASE, "default"),
    subject("less", _LESS, "knee"),
    subject("jemalloc-default", _MORE, "default"),
)


PRICES = Calibration(0.0, 0.0, ns_per_instruction=0.5)


def make_run(
    names: Sequence[str] = ("mean_heap", "cost"), calibration: Calibration | None = PRICES
) -> Run:
    """Emulated: the setting saves 400 bytes and 1000 instructions, jemalloc costs as much."""
    trials = (
        trial(0, _BASE, 1000.0, 5000.0),
        trial(1, _LESS, 600.0, 4000.0),
        trial(2, _MORE, 1400.0, 6000.0),
    )
    record = campaign_record(("glibc", "jemalloc"), names, 3)
    return Run(synthetic_run(n_trials=4).folder, replace(record, calibration=calibration), trials)


def make_record(
    heaps: Mapping[str, float] = _HEAPS, rounds: int = 8, drift: float = 0.1, cpu_ns: int = 10_000
) -> ValidationRecord:
    """Every round uses a little more than the last one, which cancels in the ratios."""
    samples = []
    for number in range(rounds):
        for position, entry in enumerate(SUBJECTS):
            factor = 1.0 + drift * number
            heap = heaps[entry.label] * factor
            ratio = heaps[entry.label] / heaps["glibc-default"]
            samples.append(
                ValidationSample(
                    round=number,
                    position=position,
                    label=entry.label,
                    configuration=entry.configuration,
                    trial=None,
                    outcome=Outcome.succeeded(
                        RealMeasurement(
                            peak_rss_bytes=int(heap * 2),
                            peak_heap_bytes=int(heap * 1.5),
                            mean_heap_bytes=heap,
                            faults=7,
                            cpu_ns=int(cpu_ns * ratio),
                            wall_ns=20_000,
                        )
                    ),
                )
            )
    return ValidationRecord(
        ("app",),
        rounds,
        "glibc-default",
        tuple(SUBJECTS),
        notices=("kept",),
        is_shuffled=True,
        samples=tuple(samples),
    )


def summary_of(
    record: ValidationRecord,
    samples: Iterable[ValidationSample],
    names: Sequence[str] = ("mean_heap", "cost"),
) -> ValidationSummary:
    return summarize(make_run(names), replace(record, samples=tuple(samples)))


def found(summary: ValidationSummary, label: str) -> SubjectSummary:
    subject = summary.subject(label)
    assert subject is not None
    return subject


def claim(summary: ValidationSummary, label: str, objective: str) -> Claim:
    (wanted,) = (c for c in found(summary, label).claims if c.objective == objective)
    return wanted


def test_medians_and_paired_ratios():
    metric = found(summarize(make_run(), make_record()), "less").metric("mean_heap")
    assert metric is not None
    assert metric.estimate.median == pytest.approx(1600.0 * 1.35)
    assert metric.ratio is not None
    assert metric.ratio.median == pytest.approx(0.8)
    assert metric.ratio.interval is not None
    assert metric.ratio.interval.high == pytest.approx(0.8)


def test_baseline_has_neither_ratios_nor_claims():
    baseline = found(summarize(make_run(), make_record()), "glibc-default")
    assert baseline.is_baseline
    assert (baseline.claims, baseline.verdict) == ((), None)
    assert all(metric.ratio is None for metric in baseline.metrics)


def test_metric_that_was_not_measured_is_absent():
    assert found(summarize(make_run(), make_record()), "less").metric("instructions") is None


def test_claim_is_carried_over_as_a_difference():
    summary = summarize(make_run(), make_record(drift=0.0))
    heap = claim(summary, "less", "mean_heap")
    assert heap.claimed_ratio == pytest.approx(0.6)
    assert heap.expected_ratio == pytest.approx((2000.0 - 400.0) / 2000.0)
    assert heap.real_ratio is not None
    assert heap.real_ratio.median == pytest.approx(0.8)
    assert heap.verdict is Verdict.CONFIRMED


def test_cost_is_priced_in_time_and_checked_by_cpu_time():
    cost = claim(summarize(make_run(), make_record()), "less", "cost")
    assert cost.metric == "cpu"
    assert cost.expected_ratio == pytest.approx((10_000 - 1000 * 0.5) / 10_000)


@pytest.mark.parametrize(("cpu_ns", "is_said"), [(400, True), (600, False)])
def test_more_than_all_of_a_program_is_a_notice_and_no_negative_ratio(cpu_ns: int, is_said: bool):
    """Emulation saves 1000 instructions of 0.5 ns."""
    summary = summarize(make_run(), make_record(cpu_ns=cpu_ns))

    expected = claim(summary, "less", "cost").expected_ratio
    assert expected is not None
    assert (expected == 0.0) is is_said
    assert any("at least all of it" in notice for notice in summary.notices) is is_said


def test_every_table_expects_what_the_validation_does():
    run, record = make_run(), make_record()
    workload = WorkloadRecord(program=(("cost", 90_000.0), ("mean_heap", 9000.0)))
    run = replace(run, campaign=replace(run.campaign, workload=workload), validations=(record,))

    rows = front_table(run, run.campaign.objectives, everything=True).rows

    seen = {row.trial.configuration: row.expected for row in rows}[record.subjects[1].configuration]
    claims = summarize(run, record).subjects[1].claims
    assert [seen[c.objective] for c in claims] == pytest.approx([c.expected_ratio for c in claims])


def test_instructions_of_one_round_decide_nothing_so_cpu_time_does():
    record = make_record()
    samples = tuple(
        changed(s, instructions=900 if s.label == "less" else 1000) if s.round == 0 else s
        for s in record.samples
    )
    summary = summary_of(record, samples, ("instructions",))
    instructions = claim(summary, "less", "instructions")
    assert instructions.metric == "cpu"
    assert instructions.p_value is not None
    assert found(summary, "less").metric("instructions") is not None


def test_instructions_of_every_round_are_compared_themselves():
    record = make_record()
    samples = tuple(
        changed(s, instructions=9000 if s.label == "less" else 10_000) for s in record.samples
    )
    summary = summary_of(record, samples, ("instructions",))
    assert claim(summary, "less", "instructions").metric == "instructions"


def test_what_one_run_lacks_is_compared_all_the_same():
    record = make_record()
    first, *others = record.samples
    samples = (changed(first, mean_heap_bytes=None), *others)
    summary = summary_of(record, samples, ("mean_heap",))
    assert claim(summary, "less", "mean_heap").metric == "mean_heap"


def test_without_a_price_nothing_is_expected_but_the_claim_is_judged():
    cost = claim(summarize(make_run(calibration=None), make_record()), "less", "cost")
    assert cost.expected_ratio is None
    assert cost.verdict is Verdict.CONFIRMED


def test_of_several_workloads_nothing_is_expected_of_one_program_but_the_claim_is_judged():
    """Emulated means save 6 KiB of 10; the program has 2 KB, of which it saves a fifth."""
    trials = (trial(0, _BASE, 10_000.0), trial(1, _LESS, 4000.0), trial(2, _MORE, 14_000.0))
    run = replace(make_run(("mean_heap",)), trials=trials)
    workload = replace(run.campaign.workload, further=(TraceRecord("b.trace", "0" * 64),))
    both = replace(run, campaign=replace(run.campaign, workload=workload))

    heap = claim(summarize(both, make_record()), "less", "mean_heap")

    assert claim(summarize(run, make_record()), "less", "mean_heap").expected_ratio == 0.0
    assert heap.expected_ratio is None
    assert heap.expected == pytest.approx(0.4)
    assert heap.verdict is Verdict.CONFIRMED


def test_a_baseline_that_the_validation_did_not_run_has_at_least_its_emulated_heap():
    """The program has 300 bytes where 1000 were emulated, the other baseline emulated 600."""
    run = make_run(("mean_heap",))
    record = make_record({**_HEAPS, "glibc-default": 300.0}, drift=0.0)
    other = trial(3, Configuration("mimalloc"), 600.0, 4000.0)
    workload = WorkloadRecord(program=(("mean_heap", 3000.0),))
    campaign = replace(run.campaign, workload=workload)
    run = replace(run, campaign=campaign, trials=(*run.trials, other), validations=(record,))

    def seen(relative_to: str) -> list[float | None]:
        table = front_table(run, ("mean_heap",), relative_to=relative_to, everything=True)
        rows = {row.trial.number: row.expected["mean_heap"] for row in table.rows}
        return [rows[number] for number in (2, 3)]

    assert seen("glibc") == [1.0 + 400.0 / 300.0, 0.0]
    assert seen("mimalloc") == [1.0 + 800.0 / 600.0, 1.0]


def test_objective_without_a_real_counterpart_makes_no_claim():
    summary = summarize(make_run(("mean_heap", "syscalls")), make_record())
    assert [c.objective for c in found(summary, "less").claims] == ["mean_heap"]
    assert {ranking.objective for ranking in summary.rankings} == {"mean_heap"}


def test_contradicted_claim_is_worse():
    record = make_record({**_HEAPS, "less": 2100.0})
    summary = summarize(make_run(), record)
    assert claim(summary, "less", "mean_heap").verdict is Verdict.WORSE
    assert found(summary, "less").verdict is Verdict.WORSE


def test_default_that_costs_what_was_claimed_is_not_called_confirmed():
    verdict = found(summarize(make_run(), make_record()), "jemalloc-default").verdict
    assert verdict is Verdict.COSTS


def test_few_rounds_decide_nothing_and_say_how_many_would():
    summary = summarize(make_run(), make_record(rounds=7))
    assert found(summary, "less").verdict is Verdict.UNDECIDED
    assert claim(summary, "less", "mean_heap").p_value is None
    words = "undecided: 8 rounds needed for 4 claims, 7 cannot show a difference"
    assert any(notice.startswith(words) for notice in summary.notices)


def test_as_many_rounds_as_needed_decide():
    summary = summarize(make_run(), make_record(rounds=8))
    assert claim(summary, "less", "mean_heap").p_value == pytest.approx(4 * 2**-7)
    assert not any("undecided" in notice for notice in summary.notices)


def test_first_round_of_earlier_versions_decides_nothing():
    record = make_record(rounds=8)
    summary = summarize(make_run(), replace(record, is_shuffled=False))
    assert found(summary, "less").verdict is Verdict.UNDECIDED
    assert any("8 rounds needed for 4 claims, 7 cannot" in notice for notice in summary.notices)
    assert any("the baseline first" in notice for notice in summary.notices)


def test_looking_before_the_end_decides_nothing():
    record = make_record(rounds=10)
    summary = summary_of(record, record.samples[:-3])
    assert summary.n_rounds == 9
    assert found(summary, "less").verdict is Verdict.UNDECIDED
    words = "undecided: 9 of 10 rounds are complete"
    assert any(notice.startswith(words) for notice in summary.notices)


def test_difference_that_most_rounds_contradict_is_not_confirmed():
    record = make_record(rounds=8)
    samples = tuple(
        changed(s, mean_heap_bytes=(seen(s).mean_heap_bytes or 0) * (1.6 if s.round % 2 else 0.9))
        if s.label == "less"
        else s
        for s in record.samples
    )
    summary = summary_of(record, samples)
    assert claim(summary, "less", "mean_heap").verdict is Verdict.NOT_CONFIRMED


def test_validation_of_the_baseline_alone_compares_nothing():
    record = make_record()
    assert summarize(make_run(), record).is_comparison
    samples = tuple(
        broken(s, "crashed") if s.label != "glibc-default" else s
        for s in record.samples
        if s.label == "glibc-default" or s.round == 0
    )
    assert not summary_of(record, samples).is_comparison


def test_notices_of_the_runs_are_passed_on():
    assert "kept" in summarize(make_run(), make_record()).notices


def test_a_program_smaller_than_its_trace_is_noticed():
    heaps = {label: heap / 10.0 for label, heap in _HEAPS.items()}
    words = "either it overstates that gain, or prices are too high, or the trace is of a larger"
    assert any(words in notice for notice in summarize(make_run(), make_record(heaps)).notices)
    assert not any(words in notice for notice in summarize(make_run(), make_record()).notices)


def test_dominated_points_make_no_claims():
    record = make_record()
    *others, last = record.subjects
    subjects = (*others, replace(last, roles=(DOMINATED,)))
    summary = summarize(make_run(), replace(record, subjects=subjects))
    assert summary.n_claims == 2
    assert found(summary, "jemalloc-default").claims == ()
    assert found(summary, "jemalloc-default").metrics
    assert len(found(summary, "less").claims) == 2


def test_a_gain_hidden_by_noise_says_how_many_rounds_would_show_it():
    record = make_record(drift=0.0)
    samples = tuple(
        changed(s, mean_heap_bytes=2000.0 * _NOISE[s.round] * 0.8) if s.label == "less" else s
        for s in record.samples
    )
    summary = summary_of(record, samples, ("mean_heap",))
    assert claim(summary, "less", "mean_heap").verdict is Verdict.NOT_CONFIRMED
    (notice,) = [
        notice for notice in summary.notices if "not disproved" in notice or "--rounds" in notice
    ]
    assert "rounds would show the mean heap of less" in notice
    assert int(notice.rpartition("--rounds ")[2].rstrip(")")) > 8


def test_the_rounds_stand_beside_the_claim_that_they_would_show():
    record = make_record(drift=0.0)
    samples = tuple(
        changed(
            s,
            mean_heap_bytes=2000.0 * _NOISE[s.round] * 0.8,
            cpu_ns=int(10_000 * (1.0 + 0.2 * (_NOISE[s.round] - 1.0)) * 0.95),
        )
        if s.label == "less"
        else s
        for s in record.samples
    )

    summary = summary_of(record, samples)

    (notice,) = (one for one in summary.notices if "--rounds" in one)
    assert re.search(r"of less \(--rounds \d+\); 1 more claim needs more$", notice)


def test_a_gain_that_no_number_of_rounds_shows_gets_no_advice():
    heaps = {label: 33.0 * heap for label, heap in _HEAPS.items()}
    record = make_record(heaps, drift=0.0)
    samples = tuple(
        changed(s, mean_heap_bytes=66_000.0 * _NOISE[s.round]) if s.label == "less" else s
        for s in record.samples
    )
    summary = summary_of(record, samples, ("mean_heap",))
    less = claim(summary, "less", "mean_heap")
    assert less.expected_ratio == pytest.approx(0.994, abs=1e-4)
    assert less.verdict is Verdict.NOT_CONFIRMED
    assert not any("--rounds" in notice for notice in summary.notices)


def test_a_gain_that_is_shown_to_be_smaller_needs_no_more_rounds():
    record = make_record({**_HEAPS, "less": 1998.0})
    summary = summarize(make_run(("mean_heap",)), record)
    assert claim(summary, "less", "mean_heap").verdict is Verdict.NOT_CONFIRMED
    assert not any("--rounds" in notice for notice in summary.notices)


def test_the_summary_says_what_to_deploy():
    summary = summarize(make_run(("mean_heap",)), make_record())
    assert summary.decision.label == "less"
    assert summary.decision.sentence.startswith("Deploy less (glibc mxfast=0): mean heap -20 %")


def test_unsteady_baseline_is_noticed():
    record = make_record()
    samples = tuple(
        changed(s, wall_ns=20_000 + 3_000 * s.round, peak_rss_bytes=2000 + 300 * s.round)
        for s in record.samples
    )
    summary = summary_of(record, samples)
    (notice,) = [notice for notice in summary.notices if "more than 10 %" in notice]
    assert "elapsed time" in notice
    assert "peak RSS" in notice
    assert not any("elapsed" in notice for notice in summarize(make_run(), record).notices)


def test_rejected_subject_keeps_its_reason_and_is_not_ranked():
    record = make_record()
    kept = [s for s in record.samples if s.label != "less" or s.round <= 1]
    samples = tuple(broken(s, "crashed") if (s.label, s.round) == ("less", 1) else s for s in kept)
    summary = summary_of(record, samples)
    less = found(summary, "less")
    assert (less.verdict, less.reason, less.n_samples) == (Verdict.REJECTED, "crashed", 1)
    assert less.claims == ()
    assert summary.n_rounds == 8
    assert {ranking.n for ranking in summary.rankings} == {2}


def test_unfinished_rounds_are_not_complete():
    record = make_record()
    summary = summary_of(record, record.samples[:-1])
    assert summary.n_rounds == 7


def test_after_a_failure_of_the_baseline_nothing_is_continued():
    record = make_record()
    *kept, last = record.samples
    summary = summary_of(record, [*kept[:-2], broken(kept[-2], "crashed"), kept[-1], last])
    assert summary.n_rounds == 7
    assert "undecided: the baseline failed; the same command begins anew" in summary.notices


def test_without_a_claim_no_rounds_are_needed():
    summary = summarize(make_run(("syscalls",)), make_record(rounds=5))
    assert summary.n_claims == 0
    assert not any("needed" in notice for notice in summary.notices)


def test_claims_are_counted_before_anything_is_run():
    assert summarize(make_run(), make_record()).n_claims == 4
    assert count_claims(make_run(), SUBJECTS) == 4
    assert count_claims(make_run(("mean_heap", "syscalls")), SUBJECTS) == 2
    unknown = subject("new", Configuration.of("glibc", {"mxfast": 8}), "knee")
    assert count_claims(make_run(), (*SUBJECTS, unknown)) == 4
    assert count_claims(make_run(), (unknown, *SUBJECTS)) == 0


def test_what_runs_showed_is_a_claim_where_there_is_no_trial():
    record, run = make_record(), make_run(("peak_heap", "mean_heap"))
    seen = replace(SUBJECTS[1], expected=(("peak_heap", 0.8), ("mean_heap", 0.9)))
    run = replace(run, trials=tuple(t for t in run.trials if t.configuration != _LESS))
    summary = summarize(run, replace(record, subjects=(SUBJECTS[0], seen, SUBJECTS[2])))

    claims = summary.subjects[1].claims
    assert [(c.metric, c.expected, c.verdict) for c in claims] == [
        ("peak_rss", 0.8, Verdict.CONFIRMED),
        ("mean_heap", 0.9, Verdict.CONFIRMED),
    ]
    assert not any(c.is_emulated for c in claims)
    assert all(c.is_emulated for c in summary.subjects[2].claims)
    assert summary.n_claims == 4


def test_what_has_less_than_its_trial_is_no_trial_and_claims_as_it():
    record, run = make_record(), make_run()
    less = replace(SUBJECTS[1], configuration=Configuration("jemalloc"), trial=1)
    own, other = replace(SUBJECTS[1], trial=1), replace(SUBJECTS[2], trial=2)
    run = replace(run, trials=tuple(t for t in run.trials if t.configuration != less.configuration))

    def trials(one: Subject) -> list[int | None]:
        summary = summarize(run, replace(record, subjects=(SUBJECTS[0], one, other)))
        assert len(found(summary, "less").claims) == 2
        documents = json.loads(claims_json(summary))["subjects"]
        assert [document["trial"] for document in documents] == [s.trial for s in summary.subjects]
        return [found.trial for found in summary.subjects][:2]

    assert trials(own) == [None, 1]
    assert trials(less) == [None, None]


def test_claims_of_subjects_that_failed_still_count():
    record = make_record()
    samples = tuple(
        broken(s, "crashed") if s.label == "jemalloc-default" else s
        for s in record.samples
        if s.label != "jemalloc-default" or s.round == 0
    )
    summary = summary_of(record, samples)
    assert claim(summary, "less", "mean_heap").p_value == pytest.approx(4 * 2**-7)


def test_ranking_compares_emulated_with_real():
    summary = summarize(make_run(), make_record())
    ranking = summary.rankings[0]
    assert (ranking.objective, ranking.allocator, ranking.n) == ("mean_heap", None, 3)
    assert ranking.tau == pytest.approx(1.0)
    assert ranking.concordance == Concordance(1.0, 3)
    # One allocator has two subjects, the other one: too few to rank within.
    assert {found.allocator for found in summary.rankings} == {None}


def test_ranking_that_is_turned_around_shows():
    heaps = {"glibc-default": 2000.0, "less": 2400.0, "jemalloc-default": 1600.0}
    ranking = summarize(make_run(), make_record(heaps)).rankings[0]
    assert ranking.tau == pytest.approx(-1.0)
    assert ranking.concordance == Concordance(0.0, 3)


def test_gain_is_what_is_expected_of_the_real_program():
    # A tenth less of a thousandth of the program is nothing.
    assert not Claim("cost", "cpu", 0.9, 0.9999, None, Verdict.UNDECIDED).is_gain
    assert Claim("cost", "cpu", 0.9, None, None, Verdict.UNDECIDED).is_gain
