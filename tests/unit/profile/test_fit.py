"""A fitted and regenerated trace keeps what the model promises to keep."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doubles.command_line import CommandLine
from tests.doubles.fitted import ON_FILES, fitted, refusal
from tests.doubles.traces import TraceMaker, load, write_mixed_trace
from tuner.cli.main import run
from tuner.errors import TraceError
from tuner.profile.file import profile_text, read_profile
from tuner.profile.fit import FitOptions, age_bins, fit, group_rows
from tuner.profile.model import take_apart
from tuner.profile.windows import MOST_WINDOWS
from tuner.trace.file import EVENT, Events, Op, Trace, write_trace
from tuner.trace.lives import find_lives


def births(events: Events) -> list[tuple[int, ...]]:
    """Return operation, size, alignment and thread of every allocation, sorted."""
    chosen = events[events["op"] <= Op.ALIGNED]
    return sorted(tuple(int(event[name]) for name in ("op", "size", "align_log2", "thread"))
                  for event in chosen)  # fmt: skip


def counts(events: Events) -> list[int]:
    found: list[int] = np.bincount(events["op"], minlength=len(Op)).tolist()
    return found


def edges(events: Events) -> dict[tuple[int, int], int]:
    """Return how many blocks each thread frees of each owner."""
    frees = events[events["op"] == Op.FREE]
    pairs, numbers = np.unique(np.stack([frees["owner"], frees["thread"]]), axis=1,
                               return_counts=True)  # fmt: skip
    return {(int(a), int(b)): int(n) for (a, b), n in zip(pairs.T, numbers, strict=True)}


@ON_FILES
@given(n_threads=st.integers(1, 5), n_steps=st.integers(300, 3000), seed=st.integers(1, 10**6))
def test_allocations_and_operations_are_all_kept(
    tmp_path: Path, n_threads: int, n_steps: int, seed: int
):
    """The reader checks beside it that every free frees a live block once."""
    trace = write_mixed_trace(tmp_path / "mixed.trace", n_threads, n_steps, seed)
    events, generated = load(trace), load(fitted(trace), seed)
    assert births(events) == births(generated)
    assert counts(events) == counts(generated)
    assert events["time_ns"][-1] >= generated["time_ns"][-1]
    assert (np.diff(generated["time_ns"].astype(np.int64)) >= 0).all()


def test_a_trace_with_too_many_thread_events_for_a_profile_is_refused(tmp_path: Path):
    maker = TraceMaker()
    for _ in range(MOST_WINDOWS // 2 + 1):
        for act in (maker.start, maker.exit):
            act(1)
            maker.free(maker.allocate(8))
    path = maker.write(tmp_path / "many.trace")

    with Trace(path) as trace, pytest.raises(TraceError) as caught:
        fit(trace)
    assert str(caught.value) == (
        f"{path}: threads start or exit too often for a profile; tune on the trace"
    )


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_live_curve_and_ownership_are_kept(tmp_path: Path, n_threads: int):
    trace = write_mixed_trace(tmp_path / "mixed.trace", n_threads, 20_000)
    events, generated = load(trace), load(fitted(trace))
    live, made = find_lives(events).live_bytes, find_lives(generated).live_bytes
    assert np.abs(made - live).mean() < 0.01 * live.mean()
    assert made.max() == pytest.approx(live.max(), rel=0.01)
    expected, found = edges(events), edges(generated)
    moved = sum(abs(expected.get(key, 0) - found.get(key, 0)) for key in expected | found)
    assert moved <= 0.02 * sum(expected.values())


def test_same_seed_same_events_and_another_seed_others(tmp_path: Path):
    trace = write_mixed_trace(tmp_path / "mixed.trace", 3, 5000)
    profile = fitted(trace, FitOptions(most_fixed=100))
    assert np.array_equal(load(profile, 7), load(profile, 7))
    assert not np.array_equal(load(profile, 7), load(profile, 8))


def whose(events: Events) -> list[tuple[int, ...]]:
    """Return operation, size and life of every event: all but slots and times."""
    columns = events["op"], events["size"], find_lives(events).life
    return list(zip(*(column.tolist() for column in columns), strict=True))


@ON_FILES
@given(seed=st.integers(1, 10**6), most_windows=st.integers(1, 60))
def test_a_profile_that_is_all_fixed_is_the_trace_up_to_slots(
    tmp_path: Path, seed: int, most_windows: int
):
    """Only of the frees behind the last allocation the order may differ."""
    rng = np.random.default_rng(seed)
    maker = TraceMaker(step_ns=10_000)
    live: list[int] = []
    for _ in range(60):
        live += [maker.allocate(int(size)) for size in rng.integers(1, 99, rng.integers(1, 5))]
        for _ in range(int(rng.integers(0, len(live)))):
            slot = live.pop(int(rng.integers(len(live))))
            if rng.random() < 0.3:
                maker.reallocate(slot, int(rng.integers(1, 99)))
            maker.free(slot)
    trace = maker.write(tmp_path / "small.trace")
    options = FitOptions(even_windows=most_windows, most_windows=most_windows)
    events, generated = whose(load(trace)), whose(load(fitted(trace, options), seed))
    last = max(place for place, (op, *_) in enumerate(events) if op <= Op.ALIGNED)
    assert events[: last + 1] == generated[: last + 1]
    assert sorted(events) == sorted(generated)


@pytest.mark.parametrize("n_threads", [2, 5])
def test_the_order_between_threads_is_kept(tmp_path: Path, n_threads: int):
    """But for what the last allocation is followed by."""
    trace = write_mixed_trace(tmp_path / "mixed.trace", n_threads, 3000)
    events, generated = load(trace), load(fitted(trace))
    last = int(np.flatnonzero(events["op"] <= Op.ALIGNED)[-1])
    assert whose(events[: last + 1]) == whose(generated[: last + 1])
    assert (events["thread"] == generated["thread"])[: last + 1].all()


def test_a_burst_of_fixed_lives_keeps_its_order(tmp_path: Path):
    """The pause in it cuts it into windows; what lies behind stays there."""
    maker = TraceMaker(step_ns=10_000)
    rng = np.random.default_rng(1)
    slots = [maker.allocate(100) for _ in range(2000)]
    for slot in rng.permutation(slots).tolist():
        maker.free(int(slot))
    maker.allocate(1)
    trace = maker.write(tmp_path / "burst.trace")
    events = load(trace)
    events["time_ns"][3000:] += 10**9
    write_trace(trace, events, {})
    generated = load(fitted(trace))
    assert whose(events) == whose(generated)
    assert generated["time_ns"][2999] < 10**9 < generated["time_ns"][3001]


def test_a_profile_of_version_1_makes_what_it_made(tmp_path: Path):
    """Its fixed lives count from the begin of the window and have no ranks."""
    window = {"time_ns": 0, "events": 8, "allocations": 5, "lifo_permille": 1000, "threads": [],
              "lives": [[0, 2]], "fixed": [[0, 1, 2], [1, 1, 1], [4, 1, 0]]}  # fmt: skip
    members = {
        "schema": "malloc-tuner.profile", "version": 1, "metadata": {}, "threads": 1,
        "duration_ns": 8000, "age_bins_log2": 2, "parts": 4,
        "kinds": [[0, 0, 8, 0], [0, 0, 5000, 0, -1, 0]], "windows": [window],
    }  # fmt: skip
    path = tmp_path / "old.profile.json"
    path.write_text(profile_text(members))
    expected = [(0, 5000, 0), (0, 5000, 1), (0, 8, 2), (4, 0, 1), (4, 0, 0), (0, 8, 3),
                (0, 5000, 4), (4, 0, 4)]  # fmt: skip
    assert whose(load(path)) == expected
    new = take_apart(read_profile(path)).members()
    assert new["version"] == 4
    assert [row[0] for row in new["windows"][0]["fixed"]] == [0, 0, 2]
    path.write_text(profile_text(new))
    assert whose(load(path)) == expected
    members["version"] = 2
    assert "a fixed life lies beyond its window" in refusal(path, members)


@pytest.mark.parametrize("most_fixed", [50_000, 20])
def test_what_is_touched_is_kept(tmp_path: Path, most_fixed: int):
    """With each block, whether it keeps its place or not."""
    trace = write_mixed_trace(tmp_path / "mixed.trace", 3, 2000)
    profile = fitted(trace, FitOptions(most_fixed=most_fixed))
    assert (load(trace)["touch"] > 1).any()
    assert touches(load(trace)) == touches(load(profile))
    again = tmp_path / "again.profile.json"
    again.write_text(profile_text(take_apart(read_profile(profile)).members()))
    assert touches(load(trace)) == touches(load(again))


def touches(events: Events) -> list[tuple[int, int, int]]:
    """Return op, size and touch of all events that have one, sorted."""
    found = events[events["touch"] > 0]
    return sorted(found[["op", "size", "touch"]].tolist())


def test_untouched_pages_fit_into_their_block(tmp_path: Path):
    profile = read_profile(fitted(write_mixed_trace(tmp_path / "mixed.trace", 1, 300)))
    number = next(i for i, kind in enumerate(profile["kinds"]) if len(kind) % 2)
    profile["kinds"][number][-1][0] = profile["kinds"][number][2] // 4096 + 1
    assert "more untouched pages than its block" in refusal(tmp_path / "bad.json", profile)
    profile["version"] = 2
    assert "a kind is [op" in refusal(tmp_path / "bad.json", profile)


def test_ranks_order_the_steps_of_one_moment(tmp_path: Path):
    window = {"time_ns": 0, "events": 6, "allocations": 3, "lifo_permille": 0, "threads": [],
              "lives": [], "fixed": [[0, 0, 2, 2], [0, 0, 1, 3], [0, 0, 0, 1]]}  # fmt: skip
    members = {
        "schema": "malloc-tuner.profile", "version": 2, "metadata": {}, "threads": 1,
        "duration_ns": 8000, "age_bins_log2": 2, "parts": 4, "kinds": [[0, 0, 8, 0, -1, 0]],
        "windows": [window],
    }  # fmt: skip
    path = tmp_path / "ranked.profile.json"
    path.write_text(profile_text(members))
    assert [life for _, _, life in whose(load(path))] == [0, 1, 2, 2, 0, 1]
    again = take_apart(read_profile(path)).members()
    assert again["windows"][0]["fixed"] == window["fixed"]
    members["version"] = 1
    assert "a fixed life is" in refusal(path, members)


def test_a_trace_of_large_lives_is_kept(tmp_path: Path):
    maker = TraceMaker(step_ns=10_000)
    for number in range(200):
        slot = maker.allocate(5000 + number)
        if number % 3:
            maker.reallocate(slot, 9000)
            maker.allocate(2000)
            maker.free(slot)
    trace = maker.write(tmp_path / "large.trace")
    events, generated = load(trace), load(fitted(trace))
    for name in ("op", "size"):
        assert np.array_equal(events[name], generated[name])


def test_a_trace_written_from_a_profile_reads_back_the_same(tmp_path: Path):
    profile = fitted(write_mixed_trace(tmp_path / "mixed.trace", 4, 3000))
    generated = load(profile)
    write_trace(tmp_path / "copy.trace", generated, {})
    assert np.array_equal(generated, load(tmp_path / "copy.trace"))


def test_totals_of_a_profile_are_those_of_its_events(tmp_path: Path):
    profile = fitted(write_mixed_trace(tmp_path / "mixed.trace", 2, 3000))
    with Trace(profile) as trace:
        events, totals = trace.read_all(), trace.totals
    assert totals.n_events == len(events)
    assert totals.n_slots == events["slot"].max() + 1
    assert totals.peak_live_bytes == find_lives(events).live_bytes.max()


def test_a_burst_of_frees_stays_a_burst(tmp_path: Path):
    maker = TraceMaker()
    slots = [maker.allocate(32) for _ in range(5000)]
    for slot in slots:
        maker.free(slot)
    for _ in range(5000):
        maker.allocate(16)
    trace = maker.write(tmp_path / "burst.trace")
    assert find_lives(load(fitted(trace))).live_bytes[10_000 - 1] == 0


def test_time_without_events_stays_where_it_was(tmp_path: Path):
    """A program that fills its heap at once and then thinks has a full heap most of the time."""
    maker = TraceMaker()
    for _ in range(4000):
        maker.allocate(32)
    trace = maker.write(tmp_path / "pause.trace")
    events = load(trace)
    events["time_ns"] = np.arange(len(events)) * 1000
    events["time_ns"][3000:] += 10**9
    write_trace(trace, events, {})
    assert load(fitted(trace, FitOptions(even_windows=2)))["time_ns"][2999] < 10**8


def test_the_largest_lives_keep_their_places(tmp_path: Path):
    maker = TraceMaker()
    for size in (8, 96, 8, 100, 8, 98, 100):
        maker.allocate(size)
    trace = maker.write(tmp_path / "sizes.trace")
    with Trace(trace) as opened:
        windows = fit(opened, FitOptions(even_windows=1, most_fixed=3))["windows"]
    assert [life[0] for window in windows for life in window["fixed"]] == [3, 1, 0]


@given(st.lists(st.integers(0, 2**40), min_size=1), st.integers(0, 5))
def test_age_bins_ascend_and_are_as_narrow_as_promised(ages: list[int], bins_log2: int):
    ordered = np.array(sorted(ages))
    bins = age_bins(ordered, bins_log2)
    assert (np.diff(bins) >= 0).all()
    same = bins[1:] == bins[:-1]
    assert (np.diff(ordered)[same] * 2**bins_log2 <= ordered[:-1][same]).all()


def test_groups_are_distinct_rows_with_their_counts():
    rows = np.array([[2, 1], [0, 5], [2, 1]])
    distinct, group, numbers = group_rows(rows)
    assert distinct.tolist() == [[0, 5], [2, 1]]
    assert group.tolist() == [1, 0, 1]
    assert numbers.tolist() == [1, 2]


def test_a_trace_without_allocations_cannot_be_fitted(tmp_path: Path):
    write_trace(tmp_path / "empty.trace", np.zeros(0, EVENT), {})
    with (
        Trace(tmp_path / "empty.trace") as trace,
        pytest.raises(TraceError, match="no allocations"),
    ):
        fit(trace)


def test_fit_writes_a_profile_and_describes_it(tmp_path: Path, cli: CommandLine):
    trace = write_mixed_trace(tmp_path / "mixed.trace", 2, 2000)
    output = tmp_path / "app.profile.json"
    assert "kinds of lives" in cli.run("fit", trace, "-o", output, "--windows", "20")[1]
    assert json.loads(output.read_text())["level"] == "windowed hybrid"
    assert run(["trace", "info", str(output)]) == 0


def test_fit_refuses_a_profile(tmp_path: Path, cli: CommandLine):
    profile = fitted(write_mixed_trace(tmp_path / "mixed.trace", 1, 100))
    assert "a profile already" in cli.fails(
        TraceError.exit_code, "fit", profile, "-o", tmp_path / "again"
    )
