"""The verdict on a profile follows from the measurements, and campaigns heed it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.doubles.traces import write_mixed_trace
from tuner.campaign.setup import with_workload
from tuner.cli.main import run
from tuner.config import campaign_from_options
from tuner.errors import SpecError
from tuner.fidelity import Panel, judge, judge_program, judge_shrunk, measure_program
from tuner.fidelity.verdict import curve_distance, resolution, size_distance, verdict_sentence
from tuner.measure.program import ProgramRun, Surroundings
from tuner.profile.file import read_profile, workload_sha256, write_profile
from tuner.profile.fit import fit
from tuner.profile.trust import summary, weak_families
from tuner.profile.variation import shrink
from tuner.records import Configuration, CurvePoint, Measurement
from tuner.trace.file import Trace
from tuner.trace.info import TraceInfo, describe

ONE = Measurement(
    {
        "peak_heap": 1000,
        "mean_heap": 800.0,
        "faults": 10,
        "syscalls": 1,
        "instructions": None,
        "process_instructions": None,
        "cost": None,
        "p99_latency": None,
        "wall": 1,
        "peak_live": 500,
        "fragmentation": 2.0,
    },
    (CurvePoint(0, 0, 100, 50), CurvePoint(10, 9, 1000, 500)),
)


@pytest.fixture
def info(tmp_path: Path) -> TraceInfo:
    with Trace(write_mixed_trace(tmp_path / "mixed.trace", 1, 500)) as trace:
        return describe(trace)


def with_peaks(*peaks: int) -> list[Measurement | None]:
    return [ONE.with_values(peak_heap=peak) for peak in peaks]


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


def test_fragmentation_is_compared_where_enough_is_alive(info: TraceInfo) -> None:
    """Where the last bytes are freed, heap over live bytes is large and says nothing."""
    curve = [CurvePoint(0, 0, 1000, 500), CurvePoint(10, 9, 1000, 500), CurvePoint(20, 19, 900, 0)]
    higher = [replace(p, heap_bytes=p.heap_bytes * 5 // 4) for p in curve]
    rows: list[Measurement | None] = [replace(ONE, curve=tuple(curve))] * 4
    model: list[Measurement | None] = [replace(ONE, curve=tuple(higher))] * 4
    found = judge(panel(rows, model), info, info)
    assert found["fragmentation_curve_distance"] == pytest.approx(0.25)
    assert found["heap_curve_distance"] == pytest.approx(0.25)
    nothing = [replace(p, live_bytes=0) for p in curve]
    rows = [replace(ONE, curve=tuple(nothing))] * 4
    assert judge(panel(rows, model), info, info)["fragmentation_curve_distance"] is None


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
    family = {"tau_differing": tau, "regret": 0.0}
    figures = {"median_error": 0.01, "p90_error": 0.05, "seed_spread": 0.0}
    metrics = {"peak_heap": {**figures, "families": {"glibc": family}}, "mean_heap": None}
    members = read_profile(profile)
    members["fidelity"] = {"configurations": 30, "metrics": metrics}
    write_profile(profile, members)
    return members


def options(profile: Path, *objectives: str) -> dict[str, Any]:
    return {"trace": profile, "allocators": ["glibc"], "objectives": list(objectives)}


def moved(profile: Path) -> Path:
    """Move a profile away from its trace."""
    folder = profile.parent / "elsewhere"
    folder.mkdir()
    return profile.rename(folder / profile.name)


def test_peak_heap_is_refused_on_a_profile_that_does_not_rank_it(profile: Path) -> None:
    judged(profile, 0.7)
    profile = moved(profile)
    spec = campaign_from_options(**options(profile, "peak_heap", "cost"))
    with pytest.raises(SpecError, match=r"peak_heap of glibc has tau 0\.70"):
        with_workload(spec)
    forced, workload = with_workload(spec, is_forced=True)
    assert forced.trace == profile
    assert "forced although" in workload.notes[1]
    mean, workload = with_workload(campaign_from_options(**options(profile, "mean_heap", "cost")))
    assert mean.trace == profile
    assert len(workload.notes) == 1, "the verdict alone: mean heap is not judged weak"


def test_a_bad_verdict_falls_back_to_the_trace_beside_the_profile(profile: Path) -> None:
    judged(profile, 0.7)
    spec, workload = with_workload(campaign_from_options(**options(profile, "peak_heap")))
    assert spec.trace == profile.parent / "mixed.trace"
    (note,) = workload.notes
    assert "exact replay of mixed.trace instead of the profile app.profile.json" in note
    assert "tau 0.70 (0.8 is needed)" in note
    assert workload.resolution is None, "a trace has no noise"


def test_a_file_of_that_name_with_other_content_is_not_the_trace(profile: Path) -> None:
    judged(profile, 0.7)
    write_mixed_trace(profile.parent / "mixed.trace", 1, 600, seed=9)
    with pytest.raises(SpecError, match="exact_trace"):
        with_workload(campaign_from_options(**options(profile, "peak_heap")))


def test_a_varied_profile_does_not_fall_back_to_the_trace_it_no_longer_stands_for(
    profile: Path,
) -> None:
    members = judged(profile, 0.7)
    members["source"]["varied"] = [{"size": 2.0}]
    write_profile(profile, members)
    with pytest.raises(SpecError, match="exact_trace"):
        with_workload(campaign_from_options(**options(profile, "peak_heap")))


def test_the_trace_can_be_named_and_must_be_one(profile: Path) -> None:
    judged(profile, 0.7)
    trace = profile.parent / "mixed.trace"
    there = moved(profile)
    spec = campaign_from_options(**options(there, "peak_heap"), exact_trace=trace)
    assert with_workload(spec)[0].trace == trace
    wrong = campaign_from_options(**options(there, "peak_heap"), exact_trace=there)
    with pytest.raises(SpecError, match="a profile"):
        with_workload(wrong)


def test_regret_falls_back_too_and_without_a_trace_it_is_said(profile: Path) -> None:
    members = judged(profile, 1.0)
    members["fidelity"]["metrics"]["peak_heap"]["families"]["glibc"]["regret"] = 0.021
    write_profile(profile, members)
    spec = campaign_from_options(**options(profile, "peak_heap"))
    assert with_workload(spec)[0].trace.name == "mixed.trace"
    there = moved(profile)
    spec, workload = with_workload(campaign_from_options(**options(there, "peak_heap")))
    assert spec.trace == there
    assert "regret 2.1% (2% is allowed)" in workload.notes[1]


def test_a_verdict_does_not_change_what_the_workload_is(profile: Path) -> None:
    before = workload_sha256(profile)
    judged(profile, 0.7)
    assert workload_sha256(profile) == before
    members = read_profile(profile)
    members["windows"][0]["lifo_permille"] += 1
    write_profile(profile, members)
    assert workload_sha256(profile) != before


def test_noise_that_all_configurations_share_makes_no_difference(info: TraceInfo) -> None:
    truth = with_peaks(1000, 2000, 4000, 5000)
    shared = [with_peaks(1000 * k, 2000 * k, 4000 * k, 5000 * k) for k in (1, 2, 3)]
    found = judge(panel(truth, *shared), info, info)["metrics"]["peak_heap"]
    assert found["resolution"] == pytest.approx(0.0, abs=1e-9)
    assert judge(panel(truth, truth), info, info)["metrics"]["peak_heap"]["resolution"] is None


def test_the_resolution_is_the_least_difference_that_is_no_noise() -> None:
    rng = np.random.default_rng(1)
    values = np.exp(rng.normal(0.0, 0.01, (5, 400)) + np.linspace(5.0, 9.0, 400))
    assert resolution(values) == pytest.approx(1.96 * 2**0.5 * 0.01, rel=0.1)


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
    assert with_workload(spec)[1].notes == ()


def test_fidelity_measures_and_stores_its_verdict(
    tmp_path: Path, profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--trace", str(tmp_path / "mixed.trace"), "--allocators", "glibc", "--seeds", "1"]
    words += ["--configurations", "3", "--instrument", "none"]
    assert run(["fidelity", str(profile), *words]) == 0
    out, err = capsys.readouterr()
    assert "fitted" not in err
    verdict = read_profile(profile)["fidelity"]
    assert "ranks within an allocator" in out
    assert out.splitlines()[-1].startswith("verdict: ")
    assert verdict["configurations"] == 3
    assert verdict["metrics"]["peak_heap"]["median_error"] < 0.2
    assert [small["fidelity"] for small in verdict["shrunk"]] == [0.25]
    assert run(["trace", "info", str(profile)]) == 0, "still readable"


def test_a_verdict_against_another_trace_is_noted(
    tmp_path: Path, profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write_mixed_trace(tmp_path / "other.trace", 1, 500, seed=9)
    words = ["--trace", str(other), "--allocators", "glibc", "--seeds", "1", "--shrunk", ""]
    words += ["--configurations", "2", "--instrument", "none"]
    assert run(["fidelity", str(profile), *words]) == 0
    assert "not the trace the profile was fitted to (mixed.trace)" in capsys.readouterr().err


def test_fidelity_needs_the_trace_itself(profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fidelity", str(profile), "--trace", str(profile)]) == SpecError.exit_code
    assert "a profile" in capsys.readouterr().err


def test_without_its_trace_fidelity_says_what_to_give(
    profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ([], ["--shrunk", "none"]):
        assert run(["fidelity", str(profile), *words]) == SpecError.exit_code
        assert "give --trace FILE, the trace that the profile was fitted to" in (
            capsys.readouterr().err
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
def test_the_verdict_is_one_sentence(taus: dict[str, float], words: str) -> None:
    metrics = {
        name: {"families": {"glibc": {"tau_differing": tau, "regret": 0.0}}}
        for name, tau in taus.items()
    }

    assert verdict_sentence({"metrics": {**metrics, "faults": None}}) == f"verdict: {words}"


# Shrunk profiles


def test_a_shrunk_profile_is_judged_by_how_it_ranks_the_whole_one() -> None:
    configurations = [Configuration.of("glibc", {"a": i}) for i in range(4)]
    whole = with_peaks(1000, 2000, 3000, 4000)
    found = judge_shrunk(configurations, whole, [*with_peaks(10, 20, 40), None], 0.25)
    assert found["fidelity"] == 0.25
    assert found["configurations"] == 3
    assert found["metrics"]["peak_heap"]["tau"] == 1.0
    assert found["metrics"]["cost"] is None
    turned = judge_shrunk(configurations, whole, with_peaks(40, 30, 20, 10), 0.25)
    assert turned["metrics"]["peak_heap"]["families"] == {"glibc": -1.0}
    json.dumps(judge_shrunk(configurations, [None] * 4, whole, 0.25), allow_nan=False)


def test_screening_is_off_where_the_shrunk_profile_does_not_rank(profile: Path) -> None:
    members = judged(profile, 1.0)
    shrunk = {"fidelity": 0.25, "metrics": {"peak_heap": {"tau": 0.4}, "faults": {"tau": 0.9}}}
    members["fidelity"]["shrunk"] = [shrunk]
    write_profile(profile, members)
    wanted = campaign_from_options(
        **options(profile, "peak_heap", "faults"), screening={"fidelity": 0.25}
    )
    spec, workload = with_workload(wanted)
    assert spec.screening.fidelity == 0
    assert "does not rank peak_heap" in workload.notes[-1]
    other = campaign_from_options(**options(profile, "faults"), screening={"fidelity": 0.25})
    assert with_workload(other)[0].screening.fidelity == 0.25


def test_a_trace_and_its_profile_shrink_alike(profile: Path) -> None:
    members = shrink(profile, 0.25)
    assert shrink(profile.parent / "mixed.trace", 0.25) == members
    total = sum(window["allocations"] for window in members["windows"])
    whole = sum(window["allocations"] for window in read_profile(profile)["windows"])
    assert whole / 4 <= total < whole / 2, "all but the large ones, which shrink in size"


# The program itself


class FakeRunner:
    """Runs nothing: memory follows the number in the command's environment."""

    def __init__(self, peaks: dict[str, int], failing: str = "") -> None:
        self.peaks = peaks
        self.failing = failing
        self.seen: list[str] = []

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], surroundings: Surroundings
    ) -> ProgramRun:
        del command, surroundings
        name = environment["WHICH"]
        self.seen.append(name)
        peak = self.peaks[name]
        return ProgramRun(
            exit_status=1 if name == self.failing else 0, signal=None, timed_out=False,
            peak_rss_bytes=peak, peak_anon_bytes=peak, mean_anon_bytes=peak / 2,
            mean_anon_cpu_bytes=0.0, lazy_free_bytes=0, n_samples=1, faults=10, user_ns=peak,
            system_ns=0, children_cpu_ns=0, wall_ns=1, instructions=None, peak_is_exact=True,
            preload_mapped=None, malloc_libraries=(), curve=(), output_sha256="", stderr_tail="",
        )  # fmt: skip


class FakeAllocator:
    def environment(self, _: object, configuration: Configuration) -> dict[str, str]:
        return {"WHICH": str(configuration), "LD_PRELOAD": "x"}


LOCATED: Any = {name: (FakeAllocator(), None) for name in ("tcmalloc", "jemalloc")}


def on_program(peaks: Sequence[int], failing: int | None = None) -> tuple[Panel, Any, FakeRunner]:
    configurations = [
        Configuration.of(name, {"a": i})
        for i, name in enumerate(["tcmalloc", "tcmalloc", "jemalloc", "jemalloc"])
    ]
    names = [str(configuration) for configuration in configurations]
    runner = FakeRunner(dict(zip(names, peaks, strict=True)),
                        names[failing] if failing is not None else "")  # fmt: skip
    program = measure_program(
        ["app"], configurations, LOCATED,
        rounds=2, runner=runner, surroundings=Surroundings(), tell=lambda _: None,
    )  # fmt: skip
    model = with_peaks(1000, 2000, 4000, 5000)
    return Panel(configurations, model, {1: model}), program, runner


def test_ranks_against_the_program_are_apart_from_those_against_the_trace() -> None:
    panel, program, _ = on_program([1000, 2000, 9000, 6000])
    found = judge_program(panel, program)
    families = found["metrics"]["peak_heap"]["families"]
    assert families["tcmalloc"]["tau_differing"] == 1.0
    assert families["jemalloc"]["tau_differing"] == -1.0
    assert families["jemalloc"]["regret"] == pytest.approx(0.5)
    assert found["metrics"]["peak_heap"] == found["trace_metrics"]["peak_heap"]
    assert found["metrics"]["cost"] is None, "no instructions were counted"
    assert found["spread"]["peak_heap"] == 0.0
    json.dumps(found, allow_nan=False)


def test_every_configuration_runs_in_every_round_until_it_fails() -> None:
    panel, program, runner = on_program([1000, 2000, 9000, 6000], failing=2)
    found = judge_program(panel, program)
    assert found["left_out"] == ["jemalloc a=2"]
    assert found["configurations"] == 3
    assert sorted(runner.seen).count("jemalloc a=2") == 1
    assert len(runner.seen) == 4 + 3


def test_the_command_runs_a_real_program_and_stores_what_it_found(
    tmp_path: Path, profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--trace", str(tmp_path / "mixed.trace"), "--allocators", "glibc,jemalloc"]
    words += ["--seeds", "1", "--configurations", "4", "--instrument", "none", "--rounds", "1"]
    assert run(["fidelity", str(profile), *words, "--", sys.executable, "-c", "pass"]) == 0
    program = read_profile(profile)["fidelity"]["program"]
    assert program["configurations"] == 4
    assert program["command"][1:] == ["-c", "pass"]
    assert "against the program" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["1", "0", "x", "0.5,2"])
def test_a_share_that_shrinks_nothing_is_refused(
    tmp_path: Path, profile: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--trace", str(tmp_path / "mixed.trace"), "--shrunk", text]
    assert run(["fidelity", str(profile), *words]) == SpecError.exit_code
    assert "--shrunk" in capsys.readouterr().err


def test_without_the_trace_the_shrunk_profiles_are_still_measured(
    profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--allocators", "glibc", "--configurations", "3", "--instrument", "none"]
    assert run(["fidelity", str(profile), *words, "--shrunk", "0.5"]) == 0
    assert "shrunk to 0.5" in capsys.readouterr().out
    verdict = read_profile(profile)["fidelity"]
    assert [small["fidelity"] for small in verdict["shrunk"]] == [0.5]
    assert "unknown" in summary(read_profile(profile)), "nothing is known against the trace"
    assert run(["fidelity", str(profile), "--shrunk", ""]) == SpecError.exit_code
    assert run(["fidelity", str(profile), "--", "true"]) == SpecError.exit_code
