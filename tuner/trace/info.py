"""What a trace says about its program: counts, live curve, sizes, lifetimes, threads.

Events are taken batch by batch and only as whole arrays, so a trace of twenty
million events is described in seconds; memory is proportional to the slots and
to the fixed number of bins and curve points.

Lifetimes are measured in events of the whole trace ("how much did the heap do
meanwhile"), which no clock can blur.  A realloc continues a block; blocks alive at
the end have no lifetime and are counted as never freed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tuner.trace.file import Api, Events, Op, Trace, TraceTotals

N_CURVE_POINTS: Final = 1000
"""Most points of the live curve; each is the peak of its share of the events."""

N_LOG2_BINS: Final = 65
"""Bin 0 holds the value 0, bin k holds 2**(k-1) <= value < 2**k."""

LARGE_BYTES: Final = 32768
"""Least size of a block whose touched pages a recording has."""

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Histogram:
    """Counts over powers of two; all arrays have shape (`N_LOG2_BINS`,)."""

    blocks: Counts
    """Blocks per bin."""
    bytes: Floats
    """Requested bytes of these blocks."""


@dataclass(frozen=True)
class LiveCurve:
    """What was alive over the trace; arrays of one shape (n_points,)."""

    event: Counts
    """Number of events passed at the end of the point's share."""
    time_ns: Counts
    live_bytes: Counts
    """Greatest requested bytes alive within the point's share of the events."""
    live_blocks: Counts
    """Blocks alive at the end of the share."""


@dataclass(frozen=True)
class Touching:
    """How much of its large blocks the program touched; a realloc counts as a block."""

    blocks: int
    """Of `LARGE_BYTES` or more."""
    bytes: int
    """Requested bytes of these."""
    known_blocks: int
    """Those of which it was recorded."""
    known_bytes: int
    touched_bytes: int
    """Of the known bytes; what lies in one page with a touched byte counts as touched."""


@dataclass(frozen=True)
class TraceInfo:
    """Statistics of one trace."""

    totals: TraceTotals
    file_bytes: int
    events_per_op: Mapping[str, int]
    """Events by operation, lower-case names of `Op`."""
    events_per_api: Mapping[str, int]
    """Events by function called, lower-case names of `Api`; those that occur."""
    events_per_thread: tuple[int, ...]
    """By thread number, thread starts and exits included."""
    n_thread_starts: int
    """Threads ever started beside the first; many may share one number."""
    allocated_bytes: int
    """Requested bytes of all allocations together, growth by realloc included."""
    n_never_freed: int
    """Blocks alive at the end."""
    never_freed_bytes: int
    mean_live_bytes: float
    """Over the life of the process, as `TraceTotals` knows it: from the first event where its start
    is not known, to the last event where its end is not; over the events when that is no time."""
    cross_thread_frees: int
    """Frees by a thread that is not the owner."""
    size: Histogram
    """Requested sizes of all allocations (a realloc counts as one of its new size)."""
    lifetime: Histogram
    """Lifetimes in events of all blocks that were freed."""
    curve: LiveCurve
    touching: Touching

    @property
    def n_allocations(self) -> int:
        """Malloc, calloc and aligned allocations."""
        return sum(self.events_per_op[name] for name in ("malloc", "calloc", "aligned"))

    @property
    def realloc_share(self) -> float:
        """Reallocs per allocation or realloc, 0..1."""
        n_reallocs = self.events_per_op["realloc"]
        return n_reallocs / max(1, n_reallocs + self.n_allocations)

    @property
    def cross_thread_share(self) -> float:
        """Cross-thread frees per free, 0..1."""
        return self.cross_thread_frees / max(1, self.events_per_op["free"])

    @property
    def bytes_per_event(self) -> float:
        """Size of the file per event."""
        return self.file_bytes / max(1, self.totals.n_events)


def log2_bins(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Return the bin of each value: 0 for 0, else its number of bits.

    Example:
        >>> log2_bins(np.array([0, 1, 2, 3, 4, 1023, 1024], np.uint64)).tolist()
        [0, 1, 2, 2, 3, 10, 11]
    """
    exponents = np.frexp(values.astype(np.float64))[1].astype(np.int64)
    # Above 2**53 rounding to float64 may reach the next power of two: step back.
    too_high = (exponents > 0) & ((values >> np.maximum(exponents - 1, 0).astype(np.uint64)) == 0)
    bins: npt.NDArray[np.int64] = exponents - too_high
    return bins


def previous_in_group(
    group: npt.NDArray[np.uint32],
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Return for each element the element before it in the same group.

    Args:
        group: shape (n,), the group of each element.

    Returns:
        Index of the previous element (undefined for the first of a group), and
        whether there is one; both of shape (n,).

    Example:
        >>> previous_in_group(np.array([7, 5, 7, 7], np.uint32))[0].tolist()[2:]
        [0, 2]
    """
    order = np.argsort(group, kind="stable")
    previous = np.empty(len(group), np.intp)
    has_previous = np.zeros(len(group), np.bool_)
    if len(group):
        previous[order[0]] = order[0]
        previous[order[1:]] = order[:-1]
        has_previous[order[1:]] = group[order[1:]] == group[order[:-1]]
    return previous, has_previous


def sum_bytes(sizes: npt.NDArray[np.uint64]) -> int:
    """Return the exact sum of up to 2**32 sizes, which 64 bits may not hold.

    Example:
        >>> sum_bytes(np.array([2**63, 2**63, 5], np.uint64)) - 2**64
        5
    """
    return (int((sizes >> 32).sum()) << 32) + int((sizes & 0xFFFFFFFF).sum())


class _Slots:
    """The blocks alive between two batches, by slot."""

    def __init__(self, n_slots: int) -> None:
        self.bytes = np.zeros(n_slots, np.uint64)
        self.birth = np.zeros(n_slots, np.int64)
        self.is_live = np.zeros(n_slots, np.bool_)


class _Survey:
    """Adds up batches of events; `result` gives the statistics."""

    def __init__(self, totals: TraceTotals) -> None:
        self.totals = totals
        self.slots = _Slots(totals.n_slots)
        self.n_events = 0
        self.ops = np.zeros(len(Op), np.int64)
        self.apis = np.zeros(len(Api), np.int64)
        self.threads = np.zeros(totals.n_threads, np.int64)
        self.allocated_bytes = 0
        self.cross_thread_frees = 0
        self.sizes = np.zeros((2, N_LOG2_BINS))
        self.lifetimes = np.zeros((2, N_LOG2_BINS))
        self.touching: tuple[int, ...] = (0,) * 5
        self.live_bytes = 0
        self.live_blocks = 0
        self.begin_ns = totals.start_ns
        self.last_time_ns = 0
        self.byte_time = 0.0
        self.byte_events = 0.0
        self.step = max(1, -(-totals.n_events // N_CURVE_POINTS))
        self.curve: list[tuple[int, int, int, int]] = []

    def add(self, events: Events) -> None:
        """Count one batch, at most as long as one share of the curve or any number."""
        self.ops += np.bincount(events["op"], minlength=len(Op))
        self.apis += np.bincount(events["api"], minlength=len(Api))
        self.threads += np.bincount(events["thread"], minlength=len(self.threads))
        counted = zip(self.touching, self._count_touches(events), strict=True)
        self.touching = tuple(before + now for before, now in counted)
        delta_bytes = self._follow_blocks(events)
        self._follow_curve(events, delta_bytes)
        self.n_events += len(events)

    def _count_touches(self, events: Events) -> tuple[int, ...]:
        """Return the fields of `Touching` of a batch."""
        large = events[events["size"] >= LARGE_BYTES]
        known = large[large["touch"] > 0]
        n_bytes = sum_bytes(known["size"])
        untouched = int((known["touch"].astype(np.int64) - 1).sum()) * self.totals.page_bytes
        return len(large), sum_bytes(large["size"]), len(known), n_bytes, n_bytes - untouched

    def _follow_blocks(self, events: Events) -> npt.NDArray[np.int64]:
        """Return by how much each event changes the live bytes; update sizes and lifetimes."""
        change = np.zeros(len(events), np.int64)
        index = np.flatnonzero(events["op"] < Op.THREAD_START)
        work = events[index]
        op, slot, size = work["op"], work["slot"], work["size"]
        previous, has_previous = previous_in_group(slot)
        bytes_before = np.where(has_previous, size[previous], self.slots.bytes[slot])
        is_free, is_realloc, is_new = op == Op.FREE, op == Op.REALLOC, op < Op.REALLOC
        change[index] = np.where(is_new, size, size - bytes_before).astype(np.int64)
        grown = np.maximum(change[index][is_realloc], 0).astype(np.uint64)
        self.allocated_bytes += sum_bytes(size[is_new]) + sum_bytes(grown)
        self.cross_thread_frees += int((is_free & (work["owner"] != work["thread"])).sum())
        sizes = size[~is_free]
        self._count(self.sizes, log2_bins(sizes), sizes)
        self._follow_lifetimes(index, slot, is_new, is_free, bytes_before)
        self.slots.bytes[slot] = size
        self.slots.is_live[slot] = ~is_free
        return change

    def _follow_lifetimes(
        self,
        index: npt.NDArray[np.intp],
        slot: npt.NDArray[np.uint32],
        is_new: npt.NDArray[np.bool_],
        is_free: npt.NDArray[np.bool_],
        bytes_before: npt.NDArray[np.uint64],
    ) -> None:
        """Find the birth of every freed block; reallocs do not interrupt a life."""
        number = self.n_events + index
        ends = is_new | is_free
        slots, numbers = slot[ends], number[ends]
        previous, has_previous = previous_in_group(slots)
        birth = np.where(has_previous, numbers[previous], self.slots.birth[slots])
        freed = is_free[ends]
        lifetimes = (numbers - birth)[freed].astype(np.uint64)
        self._count(self.lifetimes, log2_bins(lifetimes), bytes_before[is_free])
        self.slots.birth[slots] = numbers

    @staticmethod
    def _count(table: Floats, bins: Counts, weights: npt.NDArray[np.uint64]) -> None:
        table[0] += np.bincount(bins, minlength=N_LOG2_BINS)
        table[1] += np.bincount(bins, weights.astype(np.float64), minlength=N_LOG2_BINS)

    def _follow_curve(self, events: Events, change: npt.NDArray[np.int64]) -> None:
        live = self.live_bytes + np.cumsum(change)
        op, times = events["op"], events["time_ns"].astype(np.int64)
        blocks = (op < Op.REALLOC).astype(np.int64) - (op == Op.FREE)
        live_blocks = self.live_blocks + np.cumsum(blocks)
        before = np.concatenate(([self.live_bytes], live[:-1]))
        if self.begin_ns is None:
            self.begin_ns = int(times[0])
        since_begin = np.maximum(times, self.begin_ns)
        elapsed = np.diff(since_begin, prepend=max(self.last_time_ns, self.begin_ns))
        self.byte_time += float(before.astype(np.float64) @ elapsed.astype(np.float64))
        self.byte_events += float(live.sum(dtype=np.float64))
        number = self.n_events + np.arange(len(events))
        starts = np.flatnonzero(np.diff(number // self.step, prepend=-1))
        ends = np.append(starts[1:], len(events)) - 1
        for end, peak in zip(ends, np.maximum.reduceat(live, starts), strict=True):
            point = (int(number[end]) + 1, int(times[end]), int(peak), int(live_blocks[end]))
            self._add_point(point, is_continued=(point[0] - 1) // self.step < len(self.curve))
        self.live_bytes, self.live_blocks = int(live[-1]), int(live_blocks[-1])
        self.last_time_ns = int(times[-1])

    def _add_point(self, point: tuple[int, int, int, int], *, is_continued: bool) -> None:
        if is_continued:  # the share of the curve began in the batch before
            peak = max(self.curve[-1][2], point[2])
            self.curve[-1] = (point[0], point[1], peak, point[3])
        else:
            self.curve.append(point)

    def result(self, file_bytes: int) -> TraceInfo:
        end_ns = self.last_time_ns if self.totals.end_ns is None else self.totals.end_ns
        begin_ns = self.begin_ns or 0
        duration_ns = max(0, end_ns - begin_ns)
        rest_ns = max(0, end_ns - max(self.last_time_ns, begin_ns))
        byte_time = self.byte_time + self.live_bytes * rest_ns
        mean = byte_time / duration_ns if duration_ns else self.byte_events
        points = np.array(self.curve, np.int64).reshape(-1, 4)
        is_live = self.slots.is_live
        return TraceInfo(
            totals=self.totals,
            file_bytes=file_bytes,
            events_per_op={op.name.lower(): int(self.ops[op]) for op in Op},
            events_per_api={api.name.lower(): int(self.apis[api]) for api in Api if self.apis[api]},
            events_per_thread=tuple(self.threads.tolist()),
            n_thread_starts=int(self.ops[Op.THREAD_START]),
            allocated_bytes=self.allocated_bytes,
            n_never_freed=int(is_live.sum()),
            never_freed_bytes=sum_bytes(self.slots.bytes[is_live]),
            mean_live_bytes=mean if duration_ns else mean / max(1, self.n_events),
            cross_thread_frees=self.cross_thread_frees,
            size=Histogram(self.sizes[0].astype(np.int64), self.sizes[1]),
            lifetime=Histogram(self.lifetimes[0].astype(np.int64), self.lifetimes[1]),
            curve=LiveCurve(*points.T),
            touching=Touching(*self.touching),
        )


def survey(totals: TraceTotals, batches: Iterable[Events], file_bytes: int) -> TraceInfo:
    """Return the statistics of the events of a trace.

    Args:
        totals: of the whole trace.
        batches: all its events in order, in arrays of any length.
        file_bytes: size of the file.
    """
    state = _Survey(totals)
    for events in batches:
        if len(events):
            state.add(events)
    return state.result(file_bytes)


def describe(trace: Trace) -> TraceInfo:
    """Return the statistics of an open trace whose events were not read yet.

    Raises:
        TraceError: the file is damaged.
    """
    return survey(trace.totals, trace.batches(), trace.path.stat().st_size)


def filled_bins(histogram: Histogram) -> Iterator[tuple[int, int, int, float]]:
    """Yield the bins from the first to the last that is filled.

    Yields:
        Least value, greatest value, blocks and bytes of the bin.
    """
    filled = np.flatnonzero(histogram.blocks)
    for k in range(filled[0], filled[-1] + 1) if len(filled) else ():
        low, high = (0, 0) if k == 0 else (1 << (k - 1), (1 << k) - 1)
        yield low, high, int(histogram.blocks[k]), float(histogram.bytes[k])
