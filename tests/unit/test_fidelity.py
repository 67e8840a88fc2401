"""The verdict on a profile follows from the measurements, and campaigns heed it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.traces import write_mixed_trace
from tuner.campaign.setup import check_trust
from tuner.cli.main import run
from tuner.errors import SpecError
from tuner.fidelity import Panel, judge
from tuner.fidelity.verdict import curve_distance, size_distance
from tuner.records import Configuration, CurvePoint, Measurement
from tuner.spec import campaign_from_options
from tuner.workload.fit import fit
from tuner.workload.info import TraceInfo, describe
from tuner.workload.profile import read_profile, write_profile
from tuner.workload.trace import Trace
from tuner.workload.trust import summary, weak_families

ONE = Measurement(
    peak_heap_bytes=1000,
    mean_heap_bytes=800.0,
    faults=10,
    syscalls=1,
    instructions=None,
    process_instructions=None,
    cost=None,
    p99_latency_ns=None,
    wall_ns=1,
    peak_live_bytes=500,
    fragmentation_at_peak=2.0,
    curve=(CurvePoint(0, 0, 100, 50), CurvePoint(10, 9, 1000, 500)),
)


@pytest.fixture
def info(tmp_path: Path) -> TraceInfo:
    with Trace(write_mixed_trace(tmp_path / "mixed.trace", 1, 500)) as trace:
        return describe(trace)


def with_peaks(*peaks: int) -> list[Measurement | None]:
    return [replace(ONE, peak_heap_bytes=peak) for peak in peaks]


def panel(trace: list[Measurement | None], *seeds: list[Measurement | None]) -> Panel:
    names = ["glibc", "glibc", "jemalloc", "jemalloc"]
    configurations = [Configuration.of(name, {"a": i}) for i, name in enumerate(names)]
    return Panel(configurations, trace, dict(enumerate(seeds, start=1)))


def test_errors_bias_ranks_and_regret_are_those_worked_out_by_hand(info: TraceInfo) -> None:
    truth, model = with_peaks(1000, 2000, 4000, 5000), with_peaks(1100, 2000, 4000, 3500)
    found = judge(panel(truth, model), info, info)["metrics"]["peak_heap"]
    assert found["median_error"] == pytest.approx(0.05)
    assert found["worst_error"] == pytest.approx(0.30)
    assert found["bias"] == pytest.approx((0.1 - 0.3) / 4)
    assert found["families"]["glibc"]["tau"] == 1.0
    assert found["families"]["jemalloc"]["tau_differing"] == -1.0
    assert found["families"]["jemalloc"]["regret"] == pytest.approx(0.25)
    assert found["families"]["jemalloc"]["true_spread"] == pytest.approx(0.25)
    assert found["regret"] == 0.0


def test_the_model_is_the_median_over_seeds_and_their_spread_its_noise(info: TraceInfo) -> None:
    truth = with_peaks(1000, 1000, 1000, 1000)
    seeds = [with_peaks(*[peak] * 4) for peak in (900, 1000, 1300)]
    found = judge(panel(truth, *seeds), info, info)["metrics"]["peak_heap"]
    assert found["worst_error"] == 0.0
    assert found["seed_spread"] == pytest.approx(0.4)
    assert found["families"]["glibc"]["tau"] is None, "nothing differs"


def test_what_failed_is_left_out_and_what_was_not_measured_is_null(info: TraceInfo) -> None:
    truth = with_peaks(1000, 2000, 4000, 5000)
    verdict = judge(panel(truth, [*truth[:3], None]), info, info)
    assert verdict["configurations"] == 3
    assert verdict["left_out"] == ["jemalloc a=3"]
    assert verdict["metrics"]["instructions"] is None
    json.dumps(verdict, allow_nan=False)


def test_a_workload_is_no_distance_from_itself(info: TraceInfo) -> None:
    assert curve_distance(info.curve, info.curve) == 0.0
    assert size_distance(info, info) == 0.0


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "app.profile.json"
    with Trace(write_mixed_trace(tmp_path / "mixed.trace", 1, 500)) as trace:
        write_profile(path, fit(trace))
    return path


def judged(profile: Path, tau: float | None) -> dict[str, Any]:
    family = {"tau_differing": tau}
    figures = {"median_error": 0.01, "p90_error": 0.05, "seed_spread": 0.0}
    metrics = {"peak_heap": {**figures, "families": {"glibc": family}}, "mean_heap": None}
    members = read_profile(profile)
    members["fidelity"] = {"configurations": 30, "metrics": metrics}
    write_profile(profile, members)
    return members


def test_peak_heap_is_refused_on_a_profile_that_does_not_rank_it(profile: Path) -> None:
    judged(profile, 0.7)
    options = {"trace": profile, "allocators": ["glibc"]}
    with pytest.raises(SpecError, match=r"glibc 0\.70"):
        check_trust(campaign_from_options(**options, objectives=["peak_heap", "cost"]))
    assert check_trust(campaign_from_options(**options, objectives=["mean_heap", "cost"]))


@pytest.mark.parametrize("tau", [0.8, 1.0, None])
def test_a_profile_that_ranks_or_has_nothing_to_rank_is_allowed(
    profile: Path, tau: float | None
) -> None:
    assert weak_families(judged(profile, tau), ["glibc"]) == {}
    assert weak_families(judged(profile, 0.1), ["jemalloc"]) == {}, "not tuned"


def test_the_verdict_in_one_line(profile: Path) -> None:
    assert "unknown" in summary(read_profile(profile))
    assert "peak_heap off by 1.0 % (p90 5.0 %" in summary(judged(profile, 1.0))


def test_a_trace_needs_no_trust(tmp_path: Path, profile: Path) -> None:
    spec = campaign_from_options(trace=tmp_path / "mixed.trace", allocators=["glibc"])
    assert check_trust(spec) is None


def test_fidelity_measures_and_stores_its_verdict(
    tmp_path: Path, profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--trace", str(tmp_path / "mixed.trace"), "--allocators", "glibc", "--seeds", "1"]
    words += ["--configurations", "3", "--instrument", "none"]
    assert run(["fidelity", str(profile), *words]) == 0
    out = capsys.readouterr().out
    verdict = read_profile(profile)["fidelity"]
    assert "ranks within an allocator" in out
    assert verdict["configurations"] == 3
    assert verdict["metrics"]["peak_heap"]["median_error"] < 0.2
    assert run(["trace", "info", str(profile)]) == 0, "still readable"


def test_fidelity_needs_the_trace_itself(profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fidelity", str(profile), "--trace", str(profile)]) == SpecError.exit_code
    assert "a profile" in capsys.readouterr().err
