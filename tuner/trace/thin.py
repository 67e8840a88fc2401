"""Thin a long trace out: every block that lives long, and samples of what comes and goes.

A simulation allocates for minutes what is free again at once.  An exact trace of it is too
large to keep and slow to replay, while what it holds changes little.  Thinning keeps

    the first and the last events whole, where programs set up and tear down,
    of every window between them the first events whole,
    of the rest of a window every life that began before it or outlives it,

and drops lives that begin and end within that rest.  Times stay as they are, so that the
mean over time and the settings that wait for a time (decay, purge) mean what they meant; or they
are made those of the program without the recorder, which slows down what allocates much, and its
set-up takes no time, so that the mean over time is that of what follows.

Guarantee: at the end of every window the same blocks are alive as in the long trace.
Limits: peaks within what was dropped are lost; work is counted for what is kept only, so
set-up has more weight in it than in the long trace.  Traces of one thread only: a slot that
was handed from thread to thread by a life that is dropped would have no owner.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tuner.errors import SpecError, TraceError
from tuner.output import check_apart
from tuner.trace.file import Events, Op, Trace, TraceWriter

WINDOW_EVENTS = 1 << 20
"""Fewest events of a window."""

N_WINDOWS = 64
"""Most windows: at the end of each, what is just in use is cut off from its free, and stays."""

_NO_SLOT = np.uint32(2**32 - 1)


@dataclass(frozen=True)
class Thinning:
    """How many events are kept."""

    n_middle: int
    """Events kept whole between the first and the last ones, about, at least 1."""
    n_first: int = 500_000
    """Events kept whole at the begin, at least 0."""
    n_last: int = 500_000
    """Events kept whole at the end, at least 0."""
    set_up_ns: int = 0
    """What was recorded before takes no time; at least 0."""
    pace: float = 1.0
    """Recorded over real time of what follows, above 0."""


@dataclass(frozen=True)
class Thinned:
    """What became of a trace."""

    n_events: int
    """Events of the long trace."""
    n_kept: int
    """Events of the thin one."""


def thin(trace: Path, output: Path, how: Thinning) -> Thinned:
    """Write a thin trace that stands for a long one.

    Args:
        trace: the long trace.
        output: the file to write.
        how: how many events are kept.

    Raises:
        SpecError: the trace is not longer than what is to be kept or than its set-up, or `output`
            is the trace.
        TraceError: it cannot be read, or has no events or more than one thread.
        OutputError: the output cannot be written.
    """
    check_apart(trace, output)
    with Trace(trace) as source:
        totals = source.totals
        n_between = totals.n_events - how.n_first - how.n_last
        _check(source, how, n_between)
        n_kept = 0
        slots = np.full(totals.n_slots, _NO_SLOT, np.uint32)
        before = source.metadata.get("thinned_from")
        n_whole = before if isinstance(before, int) else totals.n_events
        metadata = {**source.metadata, "thinned_from": n_whole}
        if how.set_up_ns:
            metadata["set_up_ns"] = how.set_up_ns
        if how.pace != 1.0:
            metadata["pace"] = how.pace
        with TraceWriter(output, metadata, totals.page_bytes) as writer:
            for events in _thin_windows(source, how, how.n_middle / n_between):
                _renumber(events, slots)
                _retime(events, how)
                writer.write(events)
                n_kept += len(events)
            writer.set_life(_real_time(totals.start_ns, how), _real_time(totals.end_ns, how))
    return Thinned(totals.n_events, n_kept)


def _check(source: Trace, how: Thinning, n_between: int) -> None:
    """Refuse what cannot be thinned in this way; see `thin`."""
    trace, totals = source.path, source.totals
    if totals.n_threads > 1:
        raise TraceError(
            f"{trace}: has {totals.n_threads} threads at once; only one can be thinned"
        )
    if not totals.n_events:
        raise TraceError(f"{trace}: {source.why_empty}")
    if n_between <= how.n_middle:
        raise SpecError(f"{trace}: has {totals.n_events} events; keep fewer, or use it as it is")
    end_ns = totals.duration_ns if totals.end_ns is None else totals.end_ns
    if how.set_up_ns and how.set_up_ns >= end_ns:
        raise SpecError(f"{trace}: ends after {end_ns / 1e9:.3f} s; its set-up must take less")


def drop_short_lives(events: Events) -> Events:
    """Return the events without the lives that begin and end among them.

    Args:
        events: in order, of one thread; shape (n_events,), dtype `EVENT`.
    """
    order = np.argsort(events["slot"], kind="stable")
    op, slot = events["op"][order], events["slot"][order]
    is_birth = op <= Op.ALIGNED
    begins = is_birth.copy()
    begins[1:] |= slot[1:] != slot[:-1]
    begins[:1] = True
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(order)) - 1
    is_short = is_birth[starts] & (op[ends] == Op.FREE)
    is_kept = np.empty(len(events), np.bool_)
    is_kept[order] = np.repeat(~is_short, ends - starts + 1)
    return events[is_kept]


def _thin_windows(trace: Trace, how: Thinning, share: float) -> Iterator[Events]:
    """Yield what is kept, window by window.

    Args:
        trace: read from its begin to its end.
        how: how many events are whole at both ends.
        share: of every window between them that is whole, 0 .. 1.
    """
    n_seen = 0
    last = trace.totals.n_events - how.n_last
    for events in trace.batches(max(WINDOW_EVENTS, -(-trace.totals.n_events // N_WINDOWS))):
        n_first = min(max(0, how.n_first - n_seen), len(events))
        n_until = min(max(n_first, last - n_seen), len(events))
        n_whole = n_first + round(share * (n_until - n_first))
        yield events[:n_whole]
        if n_whole < n_until:
            yield drop_short_lives(events[n_whole:n_until])
        yield events[n_until:]
        n_seen += len(events)


def _real_time(time_ns: int | None, how: Thinning) -> int | None:
    """Return what `_retime` makes of a time; None stays None."""
    return None if time_ns is None else math.ceil(max(0, time_ns - how.set_up_ns) / how.pace)


def _retime(events: Events, how: Thinning) -> None:
    """Let the set-up take no time, and the rest its real time; events are changed in place."""
    if how.set_up_ns or how.pace != 1.0:
        times = np.maximum(events["time_ns"].astype(np.int64) - how.set_up_ns, 0)
        events["time_ns"] = np.rint(times / how.pace).astype(np.uint64)


def _renumber(events: Events, slots: npt.NDArray[np.uint32]) -> None:
    """Give slots new numbers, dense and in the order of their first use.

    Args:
        events: changed in place.
        slots: new number of each slot so far, `_NO_SLOT` for none; shape (n_slots,).
    """
    found, first = np.unique(events["slot"], return_index=True)
    is_new = slots[found] == _NO_SLOT
    news = found[is_new][np.argsort(first[is_new])]
    n_known = int(np.count_nonzero(slots != _NO_SLOT))
    slots[news] = np.arange(n_known, n_known + len(news), dtype=np.uint32)
    events["slot"] = slots[events["slot"]]
