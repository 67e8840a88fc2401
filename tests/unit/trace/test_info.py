"""The statistics of a trace equal those of a plain loop over its events."""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.trace.file import EVENT, Api, Events, Op, TraceTotals
from tuner.trace.info import TraceInfo, filled_bins, log2_bins, survey

Row = tuple[int, ...]


def totals_of(events: Events) -> TraceTotals:
    return TraceTotals(
        version=1,
        n_threads=max(events["thread"].tolist(), default=0) + 1,
        n_slots=max(events["slot"].tolist(), default=-1) + 1,
        page_bytes=4096,
        n_events=len(events),
        duration_ns=int(events["time_ns"][-1]) if len(events) else 0,
        peak_live_bytes=0,
        peak_live_blocks=0,
        is_complete=True,
    )


def survey_in(events: Events, batch: int) -> TraceInfo:
    batches = (events[i : i + batch] for i in range(0, len(events), batch))
    return survey(totals_of(events), batches, file_bytes=2 * len(events))


def rows(*specifications: tuple[Op, int, int, int]) -> Events:
    """Make events from (op, slot, size, time); all of thread 0."""
    api = {Op.FREE: Api.FREE, Op.REALLOC: Api.REALLOC}
    return np.array(
        [(t, size, slot, 0, 0, op, api.get(op, Api.MALLOC), 0, 0, 0, 0)
         for op, slot, size, t in specifications], EVENT)  # fmt: skip


@st.composite
def histories(draw: st.DrawFn) -> Events:
    """Events of one thread on a few slots, so that batches cut through lives."""
    live: dict[int, int] = {}
    out: list[tuple[Op, int, int, int]] = []
    time = 0
    steps = st.tuples(st.integers(0, 5), st.integers(0, 5000), st.integers(0, 3), st.booleans())
    for slot, size, wait, grows in draw(st.lists(steps, max_size=80)):
        time += wait * 10_000
        if slot not in live:
            op = Op.CALLOC if grows else Op.MALLOC
        else:
            op = Op.REALLOC if grows else Op.FREE
        if op == Op.FREE:
            del live[slot]
        else:
            live[slot] = size
        out.append((op, slot, 0 if op == Op.FREE else size, time))
    return rows(*out)


def plain_lifetimes(events: Events) -> Iterator[tuple[int, int]]:
    born: dict[int, int] = {}
    size: dict[int, int] = {}
    for number, event in enumerate(events):
        slot = int(event["slot"])
        if event["op"] == Op.FREE:
            yield number - born[slot], size[slot]
            continue
        if event["op"] != Op.REALLOC:
            born[slot] = number
        size[slot] = int(event["size"])


def plain_live(events: Events) -> list[int]:
    size: dict[int, int] = {}
    live = []
    for event in events:
        size[int(event["slot"])] = int(event["size"])
        live.append(sum(size.values()))
    return live


@given(events=histories(), batch=st.integers(1, 90))
def test_batches_do_not_change_the_statistics(events: Events, batch: int):
    info = survey_in(events, batch)
    lifetimes: dict[int, list[int]] = defaultdict(list)
    for lifetime, size in plain_lifetimes(events):
        lifetimes[lifetime.bit_length()].append(size)
    assert {k: int(n) for k, n in enumerate(info.lifetime.blocks) if n} == {
        k: len(sizes) for k, sizes in lifetimes.items()
    }
    assert info.lifetime.bytes.sum() == sum(map(sum, lifetimes.values()))
    live = plain_live(events)
    assert info.curve.live_bytes.tolist() == live, "one point per event of a short trace"
    frees = int((events["op"] == Op.FREE).sum())
    news = int((events["op"] < Op.REALLOC).sum())
    assert info.n_never_freed == news - frees
    assert info.never_freed_bytes == (live[-1] if live else 0)
    assert info.curve.live_blocks.tolist()[-1:] == ([news - frees] if len(events) else [])


def test_mean_live_bytes_are_weighted_by_time():
    events = rows((Op.MALLOC, 0, 100, 0), (Op.MALLOC, 1, 50, 30_000), (Op.FREE, 0, 0, 40_000))
    assert survey_in(events, 2).mean_live_bytes == pytest.approx((100 * 3 + 150 * 1) / 4)


def test_mean_of_a_trace_without_time_is_over_events():
    events = rows((Op.MALLOC, 0, 100, 0), (Op.MALLOC, 1, 50, 0))
    assert survey_in(events, 9).mean_live_bytes == pytest.approx((100 + 150) / 2)


def test_growth_by_realloc_counts_as_allocated():
    events = rows((Op.MALLOC, 0, 100, 0), (Op.REALLOC, 0, 250, 0), (Op.REALLOC, 0, 10, 0))
    info = survey_in(events, 2)
    assert info.allocated_bytes == 250
    assert info.realloc_share == pytest.approx(2 / 3)
    assert info.events_per_api == {"malloc": 1, "realloc": 2}


def test_cross_thread_frees_are_those_of_another_owner():
    events = rows(
        (Op.MALLOC, 0, 8, 0), (Op.FREE, 0, 0, 0), (Op.MALLOC, 0, 8, 0), (Op.FREE, 0, 0, 0)
    )
    events["thread"][3] = 1
    info = survey_in(events, 3)
    assert info.cross_thread_frees == 1
    assert info.cross_thread_share == 0.5
    assert info.events_per_thread == (3, 1)


def test_a_long_curve_keeps_the_peak_of_every_share():
    n = 5000
    events = rows(*[(Op.MALLOC, 0, 1, 0), *[(Op.REALLOC, 0, 7 * k % 997, 0) for k in range(1, n)]])
    curve = survey_in(events, 333).curve
    assert len(curve.event) == 1000
    assert curve.event.tolist() == list(range(5, n + 1, 5))
    live = plain_live(events)
    assert curve.live_bytes.tolist() == [max(live[i : i + 5]) for i in range(0, n, 5)]


def test_sums_beyond_64_bits_are_exact():
    largest, n = 1 << 47, 1 << 17
    events = rows(*[(Op.MALLOC, 0, largest, 0), (Op.FREE, 0, 0, 0)] * n)
    info = survey_in(events, len(events))
    assert info.allocated_bytes == info.touching.bytes == n * largest == 1 << 64


def test_an_empty_trace_has_empty_statistics():
    info = survey_in(rows(), 5)
    assert info.mean_live_bytes == 0
    assert len(info.curve.event) == 0
    assert not list(filled_bins(info.size))


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1))
def test_a_bin_is_the_number_of_bits(values: list[int]):
    assert log2_bins(np.array(values, np.uint64)).tolist() == [v.bit_length() for v in values]


def test_filled_bins_have_their_limits():
    events = rows(*[(Op.MALLOC, slot, size, 0) for slot, size in enumerate([1, 5, 6, 40])])
    bins = list(filled_bins(survey_in(events, 9).size))
    assert [(low, high, blocks) for low, high, blocks, _ in bins] == [
        (1, 1, 1), (2, 3, 0), (4, 7, 2), (8, 15, 0), (16, 31, 0), (32, 63, 1)
    ]  # fmt: skip
    assert math.isclose(sum(size for *_, size in bins), 52)


@pytest.mark.parametrize(
    ("life", "mean"),
    [
        ((0, 10), 100 * 4 / 10),  # idle before and after
        ((None, None), 100 * 4 / 6),  # from the first event to the last
        ((0, None), 100 * 4 / 8),
        ((None, 10), 100 * 4 / 8),
        ((4, 10), 100 * 2 / 6),  # a process that began with a fork
    ],
)
def test_the_mean_is_over_the_life_of_the_process(life: tuple[int | None, int | None], mean: float):
    events = rows((Op.MALLOC, 0, 100, 2), (Op.FREE, 0, 0, 6), (Op.MALLOC, 0, 0, 8))
    totals = replace(totals_of(events), start_ns=life[0], end_ns=life[1])
    for batch in (1, 3):
        batches = (events[i : i + batch] for i in range(0, len(events), batch))
        assert survey(totals, batches, 0).mean_live_bytes == pytest.approx(mean)
