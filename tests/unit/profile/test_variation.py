"""A varied profile is what its factors promise: the live curve, counts and owners follow them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.doubles.traces import TraceMaker, write_mixed_trace
from tuner.cli.main import run
from tuner.errors import SpecError, TraceError
from tuner.profile.file import profile_text, read_profile, write_profile
from tuner.profile.fit import FitOptions, age_bins, fit
from tuner.profile.model import age_bin, bin_middle, take_apart
from tuner.profile.variation import Variation, vary
from tuner.trace.file import Events, Op, Trace
from tuner.trace.lives import Lives, find_lives

ON_FILES = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read(path: Path) -> tuple[Events, Lives]:
    with Trace(path) as trace:
        events = trace.read_all()
    return events, find_lives(events)


def fitted(trace: Path) -> Path:
    path = trace.with_suffix(".profile.json")
    with Trace(trace) as opened:
        write_profile(path, fit(opened, FitOptions(most_fixed=100)))
    return path


def varied(profile: Path, **changes: Any) -> tuple[Events, Lives]:
    path = profile.with_name("varied.json")
    write_profile(path, vary(profile, Variation(**changes)))
    return read(path)


def write_server_trace(path: Path, n_requests: int = 400) -> Path:
    """Write a program that fills a table, serves requests at a level heap, and empties it."""
    rng = np.random.default_rng(3)
    maker = TraceMaker()
    table = [maker.allocate(int(size)) for size in rng.integers(16, 3000, 600)]
    kept: list[int] = []
    for _ in range(n_requests):
        short = [maker.allocate(int(size)) for size in rng.integers(16, 500, 20)]
        kept.append(maker.allocate(200))
        for slot in short:
            maker.free(slot)
        if len(kept) > 60:
            maker.free(kept.pop(0))
    for slot in table + kept:
        maker.free(slot)
    return maker.write(path)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fit one program for all tests; each writes what it varies anew."""
    return fitted(write_server_trace(tmp_path_factory.mktemp("server") / "server.trace"))


def curve(lives: Lives, n_points: int = 200) -> Any:
    places = np.linspace(0, len(lives.live_bytes) - 1, n_points).astype(int)
    return lives.live_bytes[places]


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
) -> None:  # fmt: skip
    """The reader refuses any other: a free of a dead block, an owner that does not run."""
    profile = fitted(write_mixed_trace(tmp_path / "mixed.trace", n_threads, 1500, seed))
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
    if threads is None and length == 1.0 and aged == 0:
        assert len(new.births) == pytest.approx(len(lives.births) * intensity, rel=0.15)
        assert (events["op"] == Op.FREE).sum() * intensity == pytest.approx(n_frees, rel=0.2)


def test_the_same_variation_gives_the_same_text(tmp_path: Path) -> None:
    small = fitted(write_server_trace(tmp_path / "small.trace", n_requests=100))
    wanted = Variation(length=2.0, intensity=1.7, threads=3, size=1.1, aged_bytes=10_000)
    assert profile_text(vary(small, wanted)) == profile_text(vary(small, wanted))


def test_a_model_put_together_again_is_the_profile(server: Path) -> None:
    members = read_profile(server)
    write_profile(server.with_name("again.json"), take_apart(members).members())
    events, _ = read(server)
    again, _ = read(server.with_name("again.json"))
    assert sorted(events[events["op"] <= Op.ALIGNED]["size"]) == sorted(
        again[again["op"] <= Op.ALIGNED]["size"]
    )


def test_size_scales_the_live_curve(server: Path) -> None:
    _, lives = read(server)
    _, new = varied(server, size=2.5)
    off = np.abs(curve(new) - 2.5 * curve(lives))
    assert off.max() < 0.005 * new.live_bytes.max()


@pytest.mark.parametrize("factor", [0.25, 0.5, 2.0, 5.5])
def test_intensity_scales_the_live_curve_and_the_allocations(server: Path, factor: float) -> None:
    _, lives = read(server)
    _, new = varied(server, intensity=factor)
    assert len(new.births) == pytest.approx(factor * len(lives.births), rel=0.01)
    off = np.abs(curve(new) - factor * curve(lives))
    assert off.max() < 0.045 * factor * lives.live_bytes.max()


def test_intensity_scales_a_few_large_blocks_in_size(tmp_path: Path) -> None:
    maker = TraceMaker()
    maker.allocate(10_000_000)
    for _ in range(500):
        maker.free(maker.allocate(100))
    events, _ = varied(fitted(maker.write(tmp_path / "giant.trace")), intensity=0.5)
    assert events["size"].max() == 5_000_000


@pytest.mark.parametrize("factor", [2.0, 4.0])
def test_length_keeps_the_level_and_stretches_it(server: Path, factor: float) -> None:
    _, lives = read(server)
    _, new = varied(server, length=factor)
    assert len(new.births) == pytest.approx(factor * len(lives.births), rel=0.05)
    assert new.live_bytes.max() == pytest.approx(lives.live_bytes.max(), rel=0.02)
    middle = len(new.live_bytes) // 2
    level = lives.live_bytes[len(lives.live_bytes) // 2]
    assert np.abs(new.live_bytes[middle - 500 : middle + 500] - level).max() < 0.04 * level
    assert new.live_bytes[-1] == 0


def test_a_shorter_profile_keeps_its_level_and_its_end(server: Path) -> None:
    _, lives = read(server)
    _, new = varied(server, length=0.6)
    assert len(new.births) == pytest.approx(0.6 * len(lives.births), rel=0.08)
    assert new.live_bytes.max() == pytest.approx(lives.live_bytes.max(), rel=0.03)
    assert new.live_bytes[-1] == 0


def test_a_heap_that_is_never_level_cannot_be_longer(tmp_path: Path) -> None:
    maker = TraceMaker()
    for _ in range(2000):
        maker.allocate(100)
    profile = fitted(maker.write(tmp_path / "growing.trace"))
    with pytest.raises(SpecError, match=r"never level|as long"):
        vary(profile, Variation(length=0.2))


def test_added_threads_do_what_the_workers_do(tmp_path: Path) -> None:
    profile = fitted(write_mixed_trace(tmp_path / "mixed.trace", 3, 6000))
    events, _ = read(profile)
    made, _ = varied(profile, threads=7)
    births = np.bincount(events["thread"][events["op"] <= Op.ALIGNED])
    found = np.bincount(made["thread"][made["op"] <= Op.ALIGNED])
    assert found[0] == births[0]
    assert sorted(found[1:].tolist()) == sorted([*births[1:].tolist()] * 3)


def test_threads_of_a_program_without_repeat_the_first(server: Path) -> None:
    _, lives = read(server)
    made, new = varied(server, threads=3)
    assert len(new.births) == 3 * len(lives.births)
    assert new.live_bytes.max() == pytest.approx(3 * lives.live_bytes.max(), rel=0.02)
    frees = made[made["op"] == Op.FREE]
    assert (frees["owner"] == frees["thread"]).all(), "each stays with its own"


def test_fewer_threads_leave_out_what_they_allocated(tmp_path: Path) -> None:
    profile = fitted(write_mixed_trace(tmp_path / "mixed.trace", 4, 4000))
    events, _ = read(profile)
    made, new = varied(profile, threads=2)
    is_kept = (events["op"] <= Op.ALIGNED) & (events["thread"] < 2)
    assert len(new.births) == is_kept.sum()
    assert made["thread"].max() == 1


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_an_aged_heap_lies_under_the_whole_curve(server: Path, share: float) -> None:
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
def test_a_value_out_of_range_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        Variation(**changes)


@given(st.integers(0, 2**40), st.integers(0, 5))
def test_bins_are_those_of_the_fit_and_their_middle_lies_in_them(age: int, bins_log2: int) -> None:
    number = age_bin(age, bins_log2)
    assert number == age_bins(np.array([age]), bins_log2)[0]
    assert age_bin(bin_middle(number, bins_log2), bins_log2) == number


def test_the_command_writes_the_profile_without_a_verdict_that_is_not_its_own(
    server: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judged, output = tmp_path / "judged.json", tmp_path / "two.json"
    write_profile(judged, {**read_profile(server), "fidelity": {"configurations": 1}})
    assert run(["vary", str(judged), "-o", str(output), "--size", "2"]) == 0
    members = read_profile(output)
    assert "fidelity" not in members
    assert members["source"]["varied"] == [{"size": 2.0}]
    assert "peak live" in capsys.readouterr().err
    assert run(["vary", str(judged), "-o", str(output)]) == SpecError.exit_code
    assert run(["vary", str(judged), "-o", str(output), "--aged", "much"]) == SpecError.exit_code


def test_a_trace_is_no_profile_and_fit_makes_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = write_mixed_trace(tmp_path / "mixed.trace", 1, 100)
    words = ["-o", str(tmp_path / "two.json"), "--size", "2"]
    assert run(["vary", str(trace), *words]) == TraceError.exit_code
    assert "malloc-tuner fit" in capsys.readouterr().err


def test_what_stays_untouched_grows_with_the_blocks(tmp_path: Path) -> None:
    maker = TraceMaker()
    grown = maker.allocate(40960, untouched=4)
    maker.reallocate(grown, 81920, untouched=0)
    maker.allocate(40960, untouched=10)
    maker.allocate(40960)
    profile = fitted(maker.write(tmp_path / "parts.trace"))
    assert varied(profile, size=2.5)[0]["touch"].tolist() == [11, 1, 26, 0]
    # Never more than fit into the smaller block.
    assert varied(profile, size=0.33)[0]["touch"].tolist() == [2, 1, 4, 0]
    assert varied(profile, intensity=2.0)[0]["touch"].max() <= 21


@pytest.mark.parametrize(
    "change", [{"length": 3.0}, {"aged_bytes": 10_000}, {"intensity": 0.5}, {"size": 2.0}]
)
def test_a_varied_process_idles_as_long_at_its_ends(tmp_path: Path, change: dict[str, Any]) -> None:
    profile = fitted(write_server_trace(tmp_path / "server.trace"))
    members = read_profile(profile)
    members |= {"start_ns": 0, "end_ns": members["duration_ns"] + 7_000_000}
    write_profile(profile, members)
    changed = vary(profile, Variation(**change))
    assert changed["start_ns"] == 0
    assert changed["end_ns"] == changed["duration_ns"] + 7_000_000
