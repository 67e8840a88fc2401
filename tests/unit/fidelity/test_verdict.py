"""The verdict on a profile follows from the measurements, and campaigns heed it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import pytest

from tests.doubles.command_line import CommandLine
from tests.doubles.judged import ONE, panel, with_peaks
from tests.doubles.traces import write_mixed_trace
from tuner.cli.main import run
from tuner.errors import MissingToolError, SpecError
from tuner.fidelity import judge, judge_shrunk
from tuner.fidelity.verdict import curve_distance, resolution, size_distance, verdict_sentence
from tuner.profile.fidelity import (
    FamilyFidelity,
    Fidelity,
    MetricFidelity,
    ShrunkMetric,
    fidelity_of,
)
from tuner.profile.file import read_profile
from tuner.profile.trust import summary
from tuner.records import Configuration, CurvePoint, Measurement
from tuner.trace.file import Trace
from tuner.trace.info import TraceInfo, describe

Metric_co = TypeVar("Metric_co", bound=MetricFidelity | ShrunkMetric, covariant=True)


class HasMetrics(Protocol[Metric_co]):
    """A verdict."""

    @property
    def metrics(self) -> Mapping[str, Metric_co | None]: ...


def peak_of(found: HasMetrics[Metric_co]) -> Metric_co:
    peak = found.metrics["peak_heap"]
    assert peak is not None
    return peak


@pytest.fixture
def info(tmp_path: Path) -> TraceInfo:
    with Trace(write_mixed_trace(tmp_path / "mixed.trace", 1, 500)) as trace:
        return describe(trace)


def test_errors_bias_ranks_and_regret_are_those_worked_out_by_hand(info: TraceInfo):
    truth, model = with_peaks(1000, 2000, 4000, 5000), with_peaks(1100, 2000, 4000, 3500)
    found = peak_of(judge(panel(truth, model), info, info))
    assert found.median_error == pytest.approx(0.05)
    assert found.worst_error == pytest.approx(0.30)
    assert found.bias == pytest.approx((0.1 - 0.3) / 4)
    assert found.families["glibc"].tau == 1.0
    assert found.families["jemalloc"].tau_differing == -1.0
    assert found.families["jemalloc"].regret == pytest.approx(0.25)
    assert found.families["jemalloc"].true_spread == pytest.approx(0.25)
    assert found.regret == 0.0


def test_the_model_is_the_median_over_seeds_and_their_spread_its_noise(info: TraceInfo):
    truth = with_peaks(1000, 1000, 1000, 1000)
    seeds = [with_peaks(*[peak] * 4) for peak in (900, 1000, 1300)]
    found = peak_of(judge(panel(truth, *seeds), info, info))
    assert found.worst_error == 0.0
    assert found.seed_spread == pytest.approx(0.4)
    assert found.families["glibc"].tau is None, "nothing differs"


def test_what_failed_is_left_out_and_what_was_not_measured_is_null(info: TraceInfo):
    truth = with_peaks(1000, 2000, 4000, 5000)
    verdict = judge(panel(truth, [*truth[:3], None]), info, info)
    assert verdict.configurations == 3
    assert verdict.left_out == ("jemalloc a=3",)
    assert verdict.metrics["instructions"] is None
    json.dumps(verdict.as_json(), allow_nan=False)


def test_fragmentation_is_compared_where_enough_is_alive(info: TraceInfo):
    """Where the last bytes are freed, heap over live bytes is large and says nothing."""
    curve = [CurvePoint(0, 0, 1000, 500), CurvePoint(10, 9, 1000, 500), CurvePoint(20, 19, 900, 0)]
    higher = [p._replace(heap_bytes=p.heap_bytes * 5 // 4) for p in curve]
    rows: list[Measurement | None] = [replace(ONE, curve=tuple(curve))] * 4
    model: list[Measurement | None] = [replace(ONE, curve=tuple(higher))] * 4
    found = judge(panel(rows, model), info, info)
    assert found.fragmentation_curve_distance == pytest.approx(0.25)
    assert found.heap_curve_distance == pytest.approx(0.25)
    nothing = [p._replace(live_bytes=0) for p in curve]
    rows = [replace(ONE, curve=tuple(nothing))] * 4
    assert judge(panel(rows, model), info, info).fragmentation_curve_distance is None


def test_a_workload_is_no_distance_from_itself(info: TraceInfo):
    assert curve_distance(info.curve, info.curve) == 0.0
    assert size_distance(info, info) == 0.0


def test_noise_that_all_configurations_share_makes_no_difference(info: TraceInfo):
    truth = with_peaks(1000, 2000, 4000, 5000)
    shared = [with_peaks(1000 * k, 2000 * k, 4000 * k, 5000 * k) for k in (1, 2, 3)]
    found = peak_of(judge(panel(truth, *shared), info, info))
    assert found.resolution == pytest.approx(0.0, abs=1e-9)
    assert peak_of(judge(panel(truth, truth), info, info)).resolution is None


def test_the_resolution_is_the_least_difference_that_is_no_noise():
    rng = np.random.default_rng(1)
    values = np.exp(rng.normal(0.0, 0.01, (5, 400)) + np.linspace(5.0, 9.0, 400))
    assert resolution(values) == pytest.approx(1.96 * 2**0.5 * 0.01, rel=0.1)


def test_fidelity_measures_and_stores_its_verdict(tmp_path: Path, profile: Path, cli: CommandLine):
    words = ["--trace", str(tmp_path / "mixed.trace"), "--allocators", "glibc", "--seeds", "1"]
    words += ["--configurations", "3", "--instrument", "none"]
    out, err = cli.run("fidelity", profile, *words)
    assert "fitted" not in err
    verdict = read_profile(profile)["fidelity"]
    assert "ranks within an allocator" in out
    assert out.splitlines()[-1].startswith("verdict: ")
    assert verdict["configurations"] == 3
    assert verdict["metrics"]["peak_heap"]["median_error"] < 0.2
    assert [small["fidelity"] for small in verdict["shrunk"]] == [0.25]
    assert run(["trace", "info", str(profile)]) == 0, "still readable"


def test_a_verdict_against_another_trace_is_noted(tmp_path: Path, profile: Path, cli: CommandLine):
    other = write_mixed_trace(tmp_path / "other.trace", 1, 500, seed=9)
    words = ["--trace", str(other), "--allocators", "glibc", "--seeds", "1", "--shrunk", ""]
    words += ["--configurations", "2", "--instrument", "none"]
    assert (
        "not the trace the profile was fitted to (mixed.trace)"
        in cli.run("fidelity", profile, *words)[1]
    )


def test_fidelity_needs_the_trace_itself(profile: Path, cli: CommandLine):
    assert "a profile" in cli.fails(SpecError.exit_code, "fidelity", profile, "--trace", profile)


def test_without_its_trace_fidelity_says_what_to_give(profile: Path, cli: CommandLine):
    for words in ([], ["--shrunk", "none"]):
        assert "give --trace FILE, the trace that the profile was fitted to" in (
            cli.fails(SpecError.exit_code, "fidelity", profile, *words)
        )


@pytest.mark.parametrize(
    ("taus", "words"),
    [
        ({"mean_heap": 0.9, "cost": 0.95}, "good enough to tune mean_heap, cost with"),
        (
            {"mean_heap": 0.9, "cost": 0.3},
            (
                "good enough to tune mean_heap with; not for the rest: cost of glibc has tau 0.30 "
                "(0.8 is needed)"
            ),
        ),
        ({"cost": 0.3}, "not good enough to tune with: cost of glibc has tau 0.30 (0.8 is needed)"),
        ({}, "nothing could be judged"),
    ],
)
def test_the_verdict_is_one_sentence(taus: dict[str, float], words: str):
    metrics = {
        name: MetricFidelity(families={"glibc": FamilyFidelity(tau_differing=tau)})
        for name, tau in taus.items()
    }

    assert verdict_sentence(Fidelity(metrics={**metrics, "faults": None})) == f"verdict: {words}"


def test_a_shrunk_profile_is_judged_by_how_it_ranks_the_whole_one():
    configurations = [Configuration.of("glibc", {"a": i}) for i in range(4)]
    whole = with_peaks(1000, 2000, 3000, 4000)
    found = judge_shrunk(configurations, whole, [*with_peaks(10, 20, 40), None], 0.25)
    assert found.fidelity == 0.25
    assert found.configurations == 3
    assert peak_of(found).tau == 1.0
    assert found.metrics["cost"] is None
    turned = judge_shrunk(configurations, whole, with_peaks(40, 30, 20, 10), 0.25)
    assert peak_of(turned).families == {"glibc": -1.0}
    assert judge_shrunk(configurations, [None] * 4, whole, 0.25).time_share is None


@pytest.mark.parametrize("text", ["1", "0", "0.0005", "x", "0.5,2"])
def test_a_share_that_shrinks_nothing_is_refused(
    tmp_path: Path, profile: Path, text: str, cli: CommandLine
):
    words = ["--trace", str(tmp_path / "mixed.trace"), "--shrunk", text]
    assert "--shrunk" in cli.fails(SpecError.exit_code, "fidelity", profile, *words)


def test_a_program_that_is_not_there_is_said_at_once(
    tmp_path: Path, profile: Path, cli: CommandLine
):
    words = ["--trace", str(tmp_path / "mixed.trace"), "--", "./typo"]
    said = cli.fails(MissingToolError.exit_code, "fidelity", profile, *words)
    assert "./typo: no such program" in said


def test_without_the_trace_the_shrunk_profiles_are_still_measured(profile: Path, cli: CommandLine):
    words = ["--allocators", "glibc", "--configurations", "3", "--instrument", "none"]
    assert "shrunk to 0.5" in cli.run("fidelity", profile, *words, "--shrunk", "0.5")[0]
    verdict = read_profile(profile)["fidelity"]
    assert [small["fidelity"] for small in verdict["shrunk"]] == [0.5]
    assert "unknown" in summary(fidelity_of(read_profile(profile))), (
        "nothing is known against the trace"
    )
    assert run(["fidelity", str(profile), "--shrunk", ""]) == SpecError.exit_code
    assert run(["fidelity", str(profile), "--", "true"]) == SpecError.exit_code
