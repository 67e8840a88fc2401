"""Evaluations on several workloads, with a stand-in for rand_malloc."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.runs import measurement
from tuner.allocators import Installation, get_allocator
from tuner.campaign.setup import open_campaign
from tuner.config import campaign_from_options, dump_campaign, load_campaign
from tuner.emulation import Calibration
from tuner.errors import ProgramError, SpecError
from tuner.measure.emulator import Emulation, EmulatorEvaluator
from tuner.measure.evaluation import Evaluation
from tuner.measure.several import SeveralWorkloads, mean_measurement, worst_measurement
from tuner.profile.trust import Workload, join_workloads
from tuner.records import Configuration, Outcome, Status

_DOUBLE = Path(__file__).parents[2] / "doubles" / "rand_malloc"
GLIBC = Configuration("glibc")


def workload(folder: Path, name: str, **orders: Any) -> EmulatorEvaluator:
    trace = folder / name
    trace.write_text(json.dumps(orders))
    allocators = {"glibc": (get_allocator("glibc"), Installation("glibc", None, "2.36"))}
    prices = Calibration(c_fault=100.0, c_syscall=10.0)
    emulation = Emulation(trace, allocators, prices, emulator=_DOUBLE, reads_back=False)
    return EmulatorEvaluator(emulation)


def test_figures_are_geometric_means_over_the_workloads(tmp_path: Path):
    small = {"mean_heap_bytes": 1e6, "faults": 9, "peak_heap_bytes": 1_000_000}
    large = {"mean_heap_bytes": 4e6, "faults": 0, "peak_heap_bytes": 9_000_000}
    several = SeveralWorkloads(
        [workload(tmp_path, "a", result=small), workload(tmp_path, "b", result=large)]
    )
    found = several.evaluate(GLIBC).values
    assert found is not None
    assert math.isclose(found.value("mean_heap"), 2e6, rel_tol=1e-6)
    assert math.isclose(found.value("peak_heap"), 3_000_000, rel_tol=1e-6)
    assert found["faults"] == 2, "the root of 10 * 1, less 1: a 0 does not decide"
    assert found["wall"] == 2 * 12345


def test_what_fails_on_one_workload_is_not_measured_on_the_rest(tmp_path: Path):
    broken = workload(tmp_path, "b", exit=1, stderr="rand_malloc: replay: killed by SIGABRT")
    several = SeveralWorkloads([workload(tmp_path, "a"), broken, workload(tmp_path, "c")])
    found = several.evaluate(GLIBC)
    assert (found.status, found.reason) == (Status.FAILED, "replay: killed by SIGABRT")
    assert not (tmp_path / "c.calls").exists()


def test_what_one_workload_lacks_the_mean_lacks():
    mean = mean_measurement([measurement(cost=1e8), measurement(cost=None)])
    assert mean["cost"] is None
    assert mean["instructions"] is None
    assert mean["syscalls"] == 365


def test_traces_of_a_campaign_file_are_relative_to_it(tmp_path: Path):
    file = tmp_path / "c.toml"
    file.write_text(
        'name = "c"\ntrace = "a.trace"\nfurther_traces = ["b.trace"]\nallocators = ["glibc"]\n'
    )
    spec = load_campaign(file)
    assert spec.traces == (tmp_path / "a.trace", tmp_path / "b.trace")
    (tmp_path / "d.toml").write_text(dump_campaign(spec))
    assert load_campaign(tmp_path / "d.toml") == spec


def test_screening_takes_one_trace():
    options: dict[str, Any] = {"trace": "a.trace", "allocators": ["glibc"]}
    with pytest.raises(SpecError, match="screening shrinks one workload"):
        campaign_from_options(**options, further_traces=["b.trace"], screening={"fidelity": 0.25})


def test_notes_of_all_workloads_are_kept_and_the_coarsest_resolution_counts():
    first = Workload(Path("a"), ("one",), {"cost": 0.01})
    other = Workload(Path("b"), ("two", "one"), {"cost": 0.03, "faults": 0.1}, "careful")
    joined = join_workloads(first, [other, Workload(Path("c"))])
    assert joined.path == Path("a")
    assert joined.notes == ("one", "two")
    assert joined.resolution == {"cost": 0.03, "faults": 0.1}
    assert joined.caveat == "careful"


def test_the_worst_figure_is_that_of_the_greatest_ratio_to_the_default(tmp_path: Path):
    bases = [measurement(mean_heap=1e6, cost=1e8), measurement(mean_heap=4e6, cost=1e8)]
    found = [measurement(mean_heap=5e5, cost=1e8), measurement(mean_heap=6e6, cost=9e7)]

    worst = worst_measurement(found, bases)

    assert math.isclose(worst.value("mean_heap"), 2e6 * 1.5, rel_tol=1e-5)
    assert math.isclose(worst.value("cost"), 1e8, rel_tol=1e-5)
    same = worst_measurement(bases, bases)
    assert math.isclose(same.value("mean_heap"), 2e6, rel_tol=1e-6)


def test_a_worst_case_measures_the_default_once_for_all(tmp_path: Path):
    small, large = {"mean_heap_bytes": 1e6}, {"mean_heap_bytes": 4e6}
    evaluators = [workload(tmp_path, "a", result=small), workload(tmp_path, "b", result=large)]
    several = SeveralWorkloads(evaluators, GLIBC)
    other = Configuration.of("glibc", {"tcache_count": 0})

    found = [several.evaluate(one).values for one in (GLIBC, other, other)]

    assert all(one and math.isclose(one.value("mean_heap"), 2e6, rel_tol=1e-6) for one in found)
    assert len((tmp_path / "a.calls").read_text().splitlines()) == 3


def test_what_happened_to_the_default_of_a_worst_case_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Once: with the evaluation that it was measured for."""
    evaluator = workload(tmp_path, "a")
    good = evaluator.evaluate(GLIBC)

    def evaluate(one: Configuration, _: int | None) -> Evaluation:
        return replace(good, incidents=(f"{one.key} was short of huge pages",))

    monkeypatch.setattr(evaluator, "evaluate", evaluate)
    several = SeveralWorkloads([evaluator], GLIBC)
    other = Configuration.of("glibc", {"tcache_count": 0})

    found = [several.evaluate(other).incidents for _ in range(2)]

    own, base = (f"{one.key} was short of huge pages" for one in (other, GLIBC))
    assert found == [(own, base), (own,)]


def test_a_default_that_fails_is_no_outcome_of_a_candidate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    evaluator = workload(tmp_path, "a")
    good, bad = evaluator.evaluate(GLIBC), Outcome[Any].did_not_succeed(Status.FAILED, "no memory")
    monkeypatch.setattr(evaluator, "evaluate", lambda one, _: bad if one == GLIBC else good)

    with pytest.raises(ProgramError, match=r"the default of glibc, .* failed: no memory"):
        SeveralWorkloads([evaluator], GLIBC).evaluate(Configuration.of("glibc", {"x": 0}))


def test_seeds_make_further_workloads_of_a_profile(tmp_path: Path):
    profile = Path(__file__).parents[3] / "configs/workloads/pigz-threads"
    spec = campaign_from_options(
        trace=profile / "pigz-threads.profile.json.zst", allocators=["glibc"],
        objectives=["mean_heap", "peak_heap"], evaluations=1,
        emulation={"seeds": 3, "combine": "worst"},
    )  # fmt: skip

    campaign = open_campaign(spec, tmp_path / "run")
    campaign.store.close()

    traces = [one.trace.read_bytes() for one in campaign.emulations]
    assert len(set(traces)) == 3
    assert [one.reads_back for one in campaign.emulations] == [True, False, False]
