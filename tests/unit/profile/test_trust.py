"""Which workload a campaign measures: a profile is believed as far as its verdict goes."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.doubles.judged import write_mixed_profile
from tests.doubles.traces import write_mixed_trace
from tuner.campaign.setup import with_workload
from tuner.config import campaign_from_options
from tuner.errors import SpecError
from tuner.profile.fidelity import fidelity_of
from tuner.profile.file import read_profile, workload_sha256, write_profile
from tuner.profile.trust import gap_in, recorded_facts, summary, weak_families
from tuner.profile.variation import shrink
from tuner.trace.file import EVENT, Trace, write_trace


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    return write_mixed_profile(tmp_path)


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


def test_peak_heap_is_refused_on_a_profile_that_does_not_rank_it(profile: Path):
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


def test_a_bad_verdict_falls_back_to_the_trace_beside_the_profile(profile: Path):
    judged(profile, 0.7)
    spec, workload = with_workload(campaign_from_options(**options(profile, "peak_heap")))
    assert spec.trace == profile.parent / "mixed.trace"
    (note,) = workload.notes
    assert "exact replay of mixed.trace instead of the profile app.profile.json" in note
    assert "tau 0.70 (0.8 is needed)" in note
    assert workload.resolution is None, "a trace has no noise"


def test_a_file_of_that_name_with_other_content_is_not_the_trace(profile: Path):
    judged(profile, 0.7)
    write_mixed_trace(profile.parent / "mixed.trace", 1, 600, seed=9)
    with pytest.raises(SpecError, match="exact_trace"):
        with_workload(campaign_from_options(**options(profile, "peak_heap")))


def test_a_varied_profile_does_not_fall_back_to_the_trace_it_no_longer_stands_for(profile: Path):
    members = judged(profile, 0.7)
    members["source"]["varied"] = [{"size": 2.0}]
    write_profile(profile, members)
    with pytest.raises(SpecError, match="exact_trace"):
        with_workload(campaign_from_options(**options(profile, "peak_heap")))


def test_the_trace_can_be_named_and_must_be_one(profile: Path):
    judged(profile, 0.7)
    trace = profile.parent / "mixed.trace"
    there = moved(profile)
    spec = campaign_from_options(**options(there, "peak_heap"), exact_trace=trace)
    assert with_workload(spec)[0].trace == trace
    wrong = campaign_from_options(**options(there, "peak_heap"), exact_trace=there)
    with pytest.raises(SpecError, match="a profile"):
        with_workload(wrong)


def test_regret_falls_back_too_and_without_a_trace_it_is_said(profile: Path):
    members = judged(profile, 1.0)
    members["fidelity"]["metrics"]["peak_heap"]["families"]["glibc"]["regret"] = 0.021
    write_profile(profile, members)
    spec = campaign_from_options(**options(profile, "peak_heap"))
    assert with_workload(spec)[0].trace.name == "mixed.trace"
    there = moved(profile)
    spec, workload = with_workload(campaign_from_options(**options(there, "peak_heap")))
    assert spec.trace == there
    assert "regret 2.1% (2% is allowed)" in workload.notes[1]


def test_a_verdict_does_not_change_what_the_workload_is(profile: Path):
    before = workload_sha256(profile)
    judged(profile, 0.7)
    assert workload_sha256(profile) == before
    members = read_profile(profile)
    members["windows"][0]["lifo_permille"] += 1
    write_profile(profile, members)
    assert workload_sha256(profile) != before


@pytest.mark.parametrize("tau", [0.8, 1.0, None])
def test_a_profile_that_ranks_or_has_nothing_to_rank_is_allowed(profile: Path, tau: float | None):
    assert weak_families(fidelity_of(judged(profile, tau)), ["glibc"]) == {}
    assert weak_families(fidelity_of(judged(profile, 0.1)), ["jemalloc"]) == {}, "not tuned"


def test_the_verdict_in_one_line(profile: Path):
    assert "unknown" in summary(fidelity_of(read_profile(profile)))
    assert "peak_heap off by 1.0 % (p90 5.0 %" in summary(fidelity_of(judged(profile, 1.0)))


def test_a_trace_needs_no_trust(tmp_path: Path, profile: Path):
    spec = campaign_from_options(trace=tmp_path / "mixed.trace", allocators=["glibc"])
    assert with_workload(spec)[1].notes == ()


def test_screening_is_off_where_the_shrunk_profile_does_not_rank(profile: Path):
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


def test_a_trace_and_its_profile_shrink_alike(profile: Path):
    members = shrink(profile, 0.25)
    assert shrink(profile.parent / "mixed.trace", 0.25) == members
    total = sum(window["allocations"] for window in members["windows"])
    whole = sum(window["allocations"] for window in read_profile(profile)["windows"])
    assert whole / 4 <= total < whole / 2, "all but the large ones, which shrink in size"


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"cpu_s": 0.5, "peak_rss_bytes": 4096}, {"peak_heap": 4096.0, "cost": 5e8}),
        (
            {"cpu_s": 0.5, "peak_anon_bytes": 4096, "mean_anon_bytes": 2048},
            {"peak_heap": 4096.0, "mean_heap": 2048.0, "cost": 5e8},
        ),
        ({"cpu_s": 0.5}, {}),
        ({"cpu_s": None, "peak_rss_bytes": None}, {}),
        ({"cpu_s": 0.5, "peak_rss_bytes": 4096, "thinned_from": 9}, {}),
        ({"cpu_s": 0.5, "peak_rss_bytes": 4096, "is_cut": True}, {}),
        ({"cpu_s": 0.5, "peak_rss_bytes": 4096, "inherited_blocks": 1}, {}),
        ({"cpu_s": 0.5, "peak_rss_bytes": 4096, "stopped": "full"}, {}),
        ({"cpu_s": "0.5", "peak_rss_bytes": 4096}, {}),
        ({"cpu_s": 0.5, "peak_rss_bytes": "4096"}, {}),
    ],
)
def test_what_the_program_used_is_known_of_whole_recordings(
    metadata: dict[str, Any], expected: dict[str, float]
):
    totals = SimpleNamespace(n_events=1, is_complete=True)
    opened = SimpleNamespace(totals=totals, metadata=metadata)

    assert dict(recorded_facts(cast("Trace", opened))["program"]) == expected


def test_a_recording_that_stopped_early_is_said_wherever_its_trace_is_used(tmp_path: Path):
    """A disk was full: `emulate` and `tune` took the first twentieth for the whole program."""
    events = np.zeros(9, EVENT)
    events["size"], events["slot"], events["owner"] = 64, np.arange(9), 0
    path = tmp_path / "app.trace"
    write_trace(path, events, {"argv": ["app"], "stopped": "No space left on device"})

    assert gap_in(path) == (
        f"{path}: recording stopped early: No space left on device; what follows covers no more "
        "of it"
    )
