"""A thin trace holds the same blocks at the end of every window, and little else."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.doubles.traces import TraceMaker, load
from tuner.errors import SpecError, TraceError
from tuner.trace import thin as thinning
from tuner.trace.file import Events, Op, Trace
from tuner.trace.thin import Thinning, drop_short_lives, thin

HOW = Thinning(n_middle=400, n_first=100, n_last=100)


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thinning, "WINDOW_EVENTS", 1000)
    monkeypatch.setattr(thinning, "N_WINDOWS", 1000)


def churn(
    path: Path, n_steps: int = 10_000, life: tuple[int | None, int | None] = (None, None)
) -> Path:
    """Write a trace in which every tenth block lives long, and some are resized."""
    maker, draw = TraceMaker(), random.Random(5)
    short: list[int] = []
    long: list[int] = []
    for _ in range(n_steps):
        (long if draw.random() < 0.1 else short).append(maker.allocate(draw.randrange(1, 500)))
        if draw.random() < 0.1 and long:
            maker.reallocate(draw.choice(long), draw.randrange(1, 500))
        while len(short) > draw.randrange(1, 9):
            maker.free(short.pop(draw.randrange(len(short))))
        while len(long) > 300:
            maker.free(long.pop(0))
    return maker.write(path, life)


def live_bytes(events: Events) -> list[int]:
    sizes: dict[int, int] = {}
    live: list[int] = []
    for op, slot, size in events[["op", "slot", "size"]].tolist():
        change = 0 if op == Op.FREE else size
        live.append((live[-1] if live else 0) + change - sizes.get(slot, 0))
        sizes[slot] = change
    return live


@pytest.mark.slow
def test_live_bytes_at_the_end_of_windows_are_those_of_the_long_trace(tmp_path: Path):
    long = churn(tmp_path / "long.trace")
    found = thin(long, tmp_path / "thin.trace", HOW)
    whole, kept = load(long), load(tmp_path / "thin.trace")
    assert (found.n_events, found.n_kept) == (len(whole), len(kept))
    assert len(kept) < len(whole) // 3
    ends = whole["time_ns"][999 : len(whole) - 100 : 1000]
    at = [np.searchsorted(events["time_ns"], ends, "right") - 1 for events in (whole, kept)]
    assert np.array_equal(np.array(live_bytes(whole))[at[0]], np.array(live_bytes(kept))[at[1]])


def test_time_goes_on_as_before_and_begin_and_end_are_whole(tmp_path: Path):
    long = churn(tmp_path / "long.trace")
    thin(long, tmp_path / "thin.trace", HOW)
    with Trace(long) as whole, Trace(tmp_path / "thin.trace") as kept:
        assert kept.totals.duration_ns == whole.totals.duration_ns
        assert kept.metadata["thinned_from"] == whole.totals.n_events
        sizes, kept_sizes = whole.read_all()["size"], kept.read_all()["size"]
    assert np.array_equal(sizes[:100], kept_sizes[:100])
    assert np.array_equal(sizes[-100:], kept_sizes[-100:])


def test_what_is_thinned_again_stands_for_the_whole(tmp_path: Path):
    long = churn(tmp_path / "long.trace")
    thin(long, tmp_path / "thin.trace", HOW)
    thin(tmp_path / "thin.trace", tmp_path / "thinner.trace", replace(HOW, n_middle=150))

    with Trace(long) as whole, Trace(tmp_path / "thinner.trace") as kept:
        assert kept.metadata["thinned_from"] == whole.totals.n_events


def test_lives_that_cross_a_border_stay(tmp_path: Path):
    maker = TraceMaker()
    before = maker.allocate(1)
    within = maker.allocate(2)
    maker.reallocate(within, 3)
    maker.free(within)
    maker.free(before)
    after = maker.allocate(4)
    maker.reallocate(after, 5)
    maker.write(tmp_path / "a.trace")
    events = load(tmp_path / "a.trace")
    assert drop_short_lives(events[1:])["size"].tolist() == [0, 4, 5]
    assert drop_short_lives(events)["size"].tolist() == [4, 5]


def test_a_trace_that_is_short_already_is_an_error(tmp_path: Path):
    long = churn(tmp_path / "long.trace", 100)
    with pytest.raises(SpecError, match="events; keep fewer, or use it as it is"):
        thin(long, tmp_path / "thin.trace", HOW)
    long.write_bytes(long.read_bytes()[:-1])
    with pytest.raises(TraceError, match="the file was cut off after"):
        thin(long, tmp_path / "thin.trace", HOW)


def test_a_set_up_that_takes_all_the_time_is_an_error(tmp_path: Path):
    long = churn(tmp_path / "long.trace", life=(0, 10**9))
    with pytest.raises(SpecError, match=r"ends after 1\.000 s; its set-up must take less"):
        thin(long, tmp_path / "thin.trace", replace(HOW, set_up_ns=10**9))


def test_several_threads_are_refused(tmp_path: Path):
    maker = TraceMaker()
    maker.start(1)
    maker.allocate(8, thread=1)
    maker.write(tmp_path / "a.trace")
    with pytest.raises(TraceError, match="has 2 threads at once; only one can be thinned"):
        thin(tmp_path / "a.trace", tmp_path / "thin.trace", HOW)


def test_set_up_takes_no_time_and_the_rest_its_real_time(tmp_path: Path):
    long = churn(tmp_path / "long.trace")
    thin(long, tmp_path / "as-it-was.trace", HOW)
    times = load(tmp_path / "as-it-was.trace")["time_ns"].astype(np.int64)
    set_up_ns = int(times[len(times) // 4])
    how = replace(HOW, set_up_ns=set_up_ns, pace=2.0)
    thin(long, tmp_path / "thin.trace", how)
    found = load(tmp_path / "thin.trace")["time_ns"].astype(np.int64)
    late_ns = np.maximum(times - set_up_ns, 0) / 2.0 - found
    assert 0.0 <= late_ns.min() <= late_ns.max() < 10_000.0  # a trace counts in steps of 10 us
    assert found[-1] > 0
    with Trace(tmp_path / "thin.trace") as kept:
        assert (kept.metadata["set_up_ns"], kept.metadata["pace"]) == (set_up_ns, 2.0)


@pytest.mark.parametrize(
    ("how", "life"),
    [
        (HOW, (1000, 10**9)),
        (replace(HOW, set_up_ns=500_000, pace=4.0), (0, (10**9 - 500_000) // 4)),
    ],
)
def test_start_and_end_of_the_process_are_kept(
    tmp_path: Path, how: Thinning, life: tuple[int, int]
):
    long = churn(tmp_path / "long.trace", life=(1000, 10**9))
    thin(long, tmp_path / "thin.trace", how)
    with Trace(tmp_path / "thin.trace") as kept:
        assert (kept.totals.start_ns, kept.totals.end_ns) == life
