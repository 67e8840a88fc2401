"""A varied profile is what its factors promise: the live curve, counts and owners follow them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.doubles.traces import TraceMaker, write_mixed_trace
from tests.doubles.varied import fitted, read, varied, write_server_trace
from tuner.cli.main import run
from tuner.errors import SpecError, TraceError
from tuner.profile import model
from tuner.profile.file import profile_text, read_profile, write_profile
from tuner.profile.variation import Variation, vary
from tuner.trace.file import Op

ON_FILES = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.slow
@ON_FILES
@given(
    n_threads=st.integers(1, 4),
    seed=st.integers(1, 10**6),
    length=st.sampled_from([1.0, 1.5, 3.0]),
    intensity=st.sampled_from([1.0, 0.3, 2.5]),
    size=st.sampled_from([1.0, 0.01, 3.0]),
    threads=st.sampled_from([None, 1, 2, 3, 7]),
    aged=st.sampled_from([0, 1, 50_000]),
)
def test_every_free_frees_a_live_block_once_whatever_is_varied(  # noqa: PLR0917
    tmp_path: Path, n_threads: int, seed: int, length: float, intensity: float, size: float,
    threads: int | None, aged: int,
):  # fmt: skip
    """The reader refuses any other: a free of a dead block, an owner that does not run."""
    profile = fitted(write_mixed_trace(tmp_path / "mixed.trace", n_threads, 600, seed))
    events, lives = read(profile)
    changes: dict[str, Any] = {"intensity": intensity, "size": size, "threads": threads}
    try:
        made, new = varied(profile, length=length, aged_bytes=aged, **changes)
    except SpecError:  # this heap is never level
        made, new = varied(profile, aged_bytes=aged, **changes)
    n_frees = int((made["op"] == Op.FREE).sum())
    assert n_frees <= len(new.births)
    assert (new.live_bytes >= 0).all()
    if threads is not None:
        assert made["thread"].max() < threads
    if threads is None and length == 1.0 and aged == 0:  # large blocks change their size instead
        least, most = sorted((1.0, intensity))
        assert 0.85 * least <= len(new.births) / len(lives.births) <= 1.15 * most
        assert 0.8 * least <= n_frees / (events["op"] == Op.FREE).sum() <= 1.2 * most


def test_the_same_variation_gives_the_same_text(tmp_path: Path):
    small = fitted(write_server_trace(tmp_path / "small.trace", n_requests=40))
    wanted = Variation(length=2.0, intensity=1.7, threads=3, size=1.1, aged_bytes=10_000)
    assert profile_text(vary(small, wanted)) == profile_text(vary(small, wanted))


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_an_aged_heap_lies_under_the_whole_curve(server: Path, share: float):
    events, lives = read(server)
    made, new = varied(server, aged_bytes=2_000_000, aged_share=share)
    n_prologue = len(made) - len(events)
    assert new.live_bytes[: n_prologue + 1].max() == pytest.approx(2_000_000, rel=0.02)
    after = new.live_bytes[-len(events) :]
    assert np.abs(after - lives.live_bytes - share * 2_000_000).max() < 0.06 * 2_000_000


@pytest.mark.parametrize(
    "changes",
    [{"size": 0.0}, {"length": -1.0}, {"intensity": float("nan")}, {"threads": 0},
     {"threads": 10**6}, {"aged_bytes": -1}, {"aged_share": 1.5}],
)  # fmt: skip
def test_a_value_out_of_range_is_refused(changes: dict[str, Any]):
    with pytest.raises(SpecError):
        Variation(**changes)


@pytest.mark.parametrize(
    "changes", [{"intensity": 1000.0, "length": 1000.0}, {"aged_bytes": 1 << 38}]
)
def test_too_many_events_are_refused_at_once(server: Path, changes: dict[str, Any]):
    with pytest.raises(SpecError, match="at most 268,435,456: vary it by less"):
        vary(server, Variation(**changes))


@pytest.mark.parametrize("changes", [{"threads": 1000}, {"length": 100.0}, {"intensity": 1e3}])
def test_what_would_take_all_memory_is_refused(
    server: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
):
    monkeypatch.setattr(model, "MOST_LIVES", 30_000)
    vary(server, Variation(threads=2))
    with pytest.raises(SpecError, match="groups of lives; at most 30,000"):
        vary(server, Variation(**changes))


def test_a_block_larger_than_any_is_refused(tmp_path: Path):
    maker = TraceMaker()
    maker.allocate(1 << 40)
    profile = fitted(maker.write(tmp_path / "one.trace"))
    assert varied(profile, size=128.0)[0]["size"].max() == 1 << 47
    with pytest.raises(SpecError, match=r"a block of 140,.* bytes; one has at most 140,737"):
        vary(profile, Variation(size=128.1))


def test_the_command_writes_the_profile_without_a_verdict_that_is_not_its_own(
    server: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    judged, output = tmp_path / "judged.json", tmp_path / "two.json"
    made = read_profile(server)
    used = {"cpu_s": 0.5, "peak_anon_bytes": 4096, "mean_anon_bytes": 2048}
    metadata = {**made["metadata"], **used, "exit_status": 0}
    write_profile(judged, {**made, "metadata": metadata, "fidelity": {"configurations": 1}})
    assert run(["vary", str(judged), "-o", str(output), "--size", "2"]) == 0
    members = read_profile(output)
    assert "fidelity" not in members
    assert members["source"]["varied"] == [{"size": 2.0}]
    assert members["metadata"]["exit_status"] == 0
    assert not used.keys() & members["metadata"].keys(), "what the program used was of half of it"
    assert "peak live" in capsys.readouterr().err
    assert run(["vary", str(judged), "-o", str(output)]) == SpecError.exit_code
    assert run(["vary", str(judged), "-o", str(output), "--aged", "much"]) == SpecError.exit_code


def test_a_trace_is_no_profile_and_fit_makes_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    trace = write_mixed_trace(tmp_path / "mixed.trace", 1, 100)
    words = ["-o", str(tmp_path / "two.json"), "--size", "2"]
    assert run(["vary", str(trace), *words]) == TraceError.exit_code
    assert "malloc-tuner fit" in capsys.readouterr().err


@pytest.mark.parametrize(
    "change", [{"length": 3.0}, {"aged_bytes": 10_000}, {"intensity": 0.5}, {"size": 2.0}]
)
def test_a_varied_process_idles_as_long_at_its_ends(tmp_path: Path, change: dict[str, Any]):
    profile = fitted(write_server_trace(tmp_path / "server.trace"))
    members = read_profile(profile)
    members |= {"start_ns": 0, "end_ns": members["duration_ns"] + 7_000_000}
    write_profile(profile, members)
    changed = vary(profile, Variation(**change))
    assert changed["start_ns"] == 0
    assert changed["end_ns"] == changed["duration_ns"] + 7_000_000
