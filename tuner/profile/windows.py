"""Cut a trace into the windows of a profile.

Within a window a profile forgets the order of small lives, so windows end where order
matters: where threads start and exit, around long bursts of frees, at pauses, and, as
long as the live curve bends within a window, at the point where it bends most
(Douglas and Peucker's rule, The Canadian Cartographer 10(2), 1973).
"""

import heapq
import itertools
from typing import Final

import numpy as np
import numpy.typing as npt

from tuner.trace.file import Events, Op
from tuner.trace.lives import Ints

LEAST_BURST: Final = 256
"""Frees in a row that get windows of their own, or 1/4000 of the events if that is more."""

LEAST_PAUSE: Final = 0.005
"""Share of the trace's time without an event that is a window of its own."""

LEAST_BEND: Final = 0.0025
"""Distance of the live curve from a straight line, over its peak, that splits a window."""

MOST_WINDOWS: Final = 65535
"""Of a profile, as rand_malloc takes it; ``rand_malloc/profile/profile.h``."""

_SHORTEST = 32
"""Events below which no window is split."""


def cut_windows(events: Events, live_bytes: Ints, n_even: int, n_most: int) -> Ints:
    """Choose where windows begin.

    Args:
        events: the whole trace, at least one event.
        live_bytes: after each event, shape (n_events,).
        n_even: windows of equal length to begin with.
        n_most: windows in all; threads, bursts and pauses may ask for more.

    Returns:
        Ascending indices of events, the first 0 and the last n_events: window w holds the
        events cuts[w] .. cuts[w + 1] - 1.  Thread events stand at the begin of a window.
    """
    n = len(events)
    cuts = {0, n, *np.linspace(0, n, n_even + 1).astype(int).tolist()}
    cuts.update(_bursts(events), _pauses(events))
    is_thread = events["op"] >= Op.THREAD_START
    # A cut between two thread events of a row would leave a window without room for steps.
    cuts.difference_update(np.flatnonzero(is_thread).tolist())
    cuts.update(np.flatnonzero(is_thread & ~np.roll(is_thread, 1)).tolist())
    cuts |= {0, n}
    return _split_bends(sorted(cuts), live_bytes, n_most, is_thread)


def _bursts(events: Events) -> list[int]:
    is_free = np.concatenate([[0], events["op"] == Op.FREE, [0]]).astype(np.int8)
    edges = np.flatnonzero(np.diff(is_free))
    begins, ends = edges[::2], edges[1::2]
    is_long = ends - begins >= max(LEAST_BURST, len(events) // 4000)
    return [*begins[is_long].tolist(), *ends[is_long].tolist()]


def _pauses(events: Events) -> list[int]:
    waited = np.diff(events["time_ns"].astype(np.float64))
    whole = int(events["time_ns"][-1]) - int(events["time_ns"][0])
    before = np.flatnonzero(waited > max(LEAST_PAUSE * whole, 1))
    # The event before a pause has a window of its own, which lasts as long as the pause: the
    # events of a window are spread evenly over its time.
    found: list[int] = np.union1d(before, before + 1).tolist()
    return found


def _split_bends(
    cuts: list[int], live_bytes: Ints, n_most: int, is_thread: npt.NDArray[np.bool_]
) -> Ints:
    scale = max(1, int(live_bytes.max()))
    queue = [_bend(live_bytes, begin, end) for begin, end in itertools.pairwise(cuts)]
    heapq.heapify(queue)
    found = list(cuts)
    while queue and len(found) <= n_most:
        bend, begin, end, middle = heapq.heappop(queue)
        if -bend <= LEAST_BEND * scale:
            break
        if is_thread[middle]:
            continue
        found.append(middle)
        heapq.heappush(queue, _bend(live_bytes, begin, middle))
        heapq.heappush(queue, _bend(live_bytes, middle, end))
    return np.array(sorted(found), np.int64)


def _bend(live_bytes: Ints, begin: int, end: int) -> tuple[float, int, int, int]:
    """Return the greatest distance from a straight line, negated, and behind which event."""
    if end - begin < _SHORTEST:
        return 0.0, begin, end, begin
    curve = live_bytes[begin:end]
    start = int(live_bytes[begin - 1]) if begin else 0
    distance = np.abs(curve - np.linspace(start, int(curve[-1]), len(curve)))
    at = int(distance[:-1].argmax())
    return -float(distance[at]), begin, end, begin + at + 1
