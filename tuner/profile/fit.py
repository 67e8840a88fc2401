"""Fit a workload profile to a trace: the windowed hybrid model.

Each window of the trace keeps a multiset of lives: what is allocated, by whom, what
becomes of it and when.  Small lives are moved about within their window when the profile
is generated; the largest stay at their exact places, and their steps in order, which is by age
unless ranks say otherwise.  A step that comes soon is timed by
the allocations since the step before, in bins that widen with the distance; a step that
comes late by the part of the window in which it falls, so that what ended together
still does.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.errors import TraceError
from tuner.profile.file import SCHEMA, VERSION, life_members, workload_sha256
from tuner.profile.model import FREED
from tuner.profile.windows import MOST_WINDOWS, cut_windows
from tuner.trace.file import Events, Op, Trace
from tuner.trace.lives import Ints, Lives, find_lives

_MOST_AGE = (1 << 15) - 1
"""Ages from here on are one to the generator (`RANK_MAX / 2` there)."""


@dataclass(frozen=True)
class FitOptions:
    """How fine a profile is; see docs/how-to/profiles.md."""

    even_windows: int = 64
    """Windows of equal length to begin with."""
    most_windows: int = 256
    """Windows after splitting at bends of the live curve."""
    age_bins_log2: int = 2
    """Base-2 logarithm of the bins per octave of short ages; exact below two octaves' bins."""
    parts: int = 4
    """Parts of a window that late steps are placed in."""
    most_fixed: int = 20_000
    """Lives that keep their exact places: the largest, of equal ones the earliest."""


def fit(trace: Trace, options: FitOptions | None = None) -> dict[str, Any]:
    """Return the profile of a trace, as docs/formats.md describes it.

    Args:
        trace: an open trace whose events were not read yet.
        options: how fine the profile is.

    Raises:
        TraceError: the trace is damaged, holds no allocations, or would have too many windows.
    """
    options = options or FitOptions()
    events = trace.read_all()
    if not (events["op"] <= Op.ALIGNED).any():
        is_read = len(events) or trace.totals.is_complete
        why = "holds no allocations; record it again" if is_read else trace.why_empty
        raise TraceError(f"{trace.path}: {why}")
    lives = find_lives(events)
    cuts = cut_windows(events, lives.live_bytes, options.even_windows, options.most_windows)
    if len(cuts) - 1 > MOST_WINDOWS:
        raise TraceError(
            f"{trace.path}: threads start or exit too often for a profile; tune on the trace"
        )
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "level": "windowed hybrid",
        "metadata": dict(trace.metadata),
        "source": {
            "events": len(events),
            "peak_live_bytes": trace.totals.peak_live_bytes,
            "fit": asdict(options),
            "trace": {"name": trace.path.name, "sha256": workload_sha256(trace.path)},
        },
        "page_bytes": trace.totals.page_bytes,
        "threads": trace.totals.n_threads,
        "duration_ns": trace.totals.duration_ns,
        **life_members(trace.totals),
        **_Fit(events, lives, cuts, options).members(),
    }


def age_bins(ages: Ints, bins_log2: int) -> Ints:
    """Return the bin of each age: exact at first, then 2**bins_log2 bins per octave.

    Source: the layout of HDR histograms; `profile_bin` of rand_malloc is its inverse.

    Example:
        >>> age_bins(np.array([0, 7, 8, 9, 10, 16]), 2).tolist()
        [0, 7, 8, 8, 9, 12]
    """
    shift = np.maximum(np.frexp(ages.astype(np.float64))[1] - 1 - bins_log2, 0).astype(np.int64)
    bins: Ints = (shift << bins_log2) + (ages >> shift)
    return bins


def group_rows(rows: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the distinct rows in order, the group of each row, and the groups' sizes.

    Args:
        rows: shape (n, n_columns).
    """
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    is_new = np.ones(len(rows), np.bool_)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    group = np.empty(len(rows), np.int64)
    group[order] = np.cumsum(is_new) - 1
    begins = np.flatnonzero(is_new)
    return ordered[begins], group, np.diff(np.append(begins, len(rows)))


class _Fit:
    """The parts of one profile."""

    def __init__(self, events: Events, lives: Lives, cuts: Ints, options: FitOptions) -> None:
        self.events = events
        self.options = options
        self.lives = lives
        self.cuts = cuts
        n_lives = len(self.lives.births)
        self.ticks = np.append(self.lives.tick, n_lives)[self.cuts]
        self.window = np.repeat(np.arange(len(self.cuts) - 1), np.diff(self.cuts))
        self.is_fixed = self._choose_fixed()
        self.ranks = self._find_ranks()
        self.kinds: list[list[int | list[int]]] = []
        self.kind_numbers: dict[tuple[int, ...], int] = {}

    @property
    def n_windows(self) -> int:
        return len(self.cuts) - 1

    def _choose_fixed(self) -> npt.NDArray[np.bool_]:
        largest_first = np.argsort(-self.lives.largest, kind="stable")
        is_fixed = np.zeros(len(largest_first), np.bool_)
        is_fixed[largest_first[: self.options.most_fixed]] = True
        return is_fixed

    def members(self) -> dict[str, Any]:
        """Return what a profile generates from."""
        lives: list[list[list[int]]] = [[] for _ in range(self.n_windows)]
        fixed: list[list[list[int]]] = [[] for _ in range(self.n_windows)]
        n_steps = np.diff(self.lives.first_step)
        for count in np.unique(n_steps).tolist():
            self._add_lives(np.flatnonzero((n_steps == count) & ~self.is_fixed), count, lives)
            self._add_fixed(np.flatnonzero((n_steps == count) & self.is_fixed), count, fixed)
        times = self.events["time_ns"][self.cuts[:-1]]
        allocations, lifo = np.diff(self.ticks), self._lifo()
        number = self._commonest_first(lives, fixed)
        windows = [
            {
                "time_ns": int(times[window]),
                "events": int(self.cuts[window + 1] - self.cuts[window]),
                "allocations": int(allocations[window]),
                "lifo_permille": int(lifo[window]),
                "threads": self._thread_events(window),
                "lives": sorted([number[kind], *codes] for kind, *codes in lives[window]),
                "fixed": _as_gaps(fixed[window], number),
            }
            for window in range(self.n_windows)
        ]
        return {
            "age_bins_log2": self.options.age_bins_log2,
            "parts": self.options.parts,
            "kinds": [self.kinds[kind] for kind in sorted(number, key=number.__getitem__)],
            "windows": windows,
        }

    def _commonest_first(
        self, lives: list[list[list[int]]], fixed: list[list[list[int]]]
    ) -> dict[int, int]:
        """Return a new number for each kind, the shortest for those that occur most."""
        uses = Counter(dict.fromkeys(range(len(self.kinds)), 0))
        uses.update(row[0] for rows in lives for row in rows)
        uses.update(row[1] for rows in fixed for row in rows)
        return {kind: number for number, (kind, _) in enumerate(uses.most_common())}

    def _find_ranks(self) -> Ints:
        """Return each event's rank among the steps of its moment; 0: its age gives its place.

        Steps of one moment lie between the same two allocations; where windows are cut there,
        in the same of them, and in the same part of a burst.  Nothing comes of the order of
        frees behind the last allocation.
        """
        ranks = np.zeros(len(self.events), np.int64)
        steps = np.sort(self.lives.steps)
        life, tick = self.lives.life[steps], self.lives.tick[steps]
        is_head = self._is_head(steps)
        part = np.where(is_head, self._parts(life, steps[:, None])[:, 0] % self.options.parts, 0)
        moment = np.stack([tick, np.where(is_head, self.window[steps], -1), part])
        is_new = np.ones(len(steps), np.bool_)
        is_new[1:] = (moment[:, 1:] != moment[:, :-1]).any(axis=0)
        group, begins = np.cumsum(is_new) - 1, np.flatnonzero(is_new)
        chosen = np.flatnonzero(self.is_fixed[life] & (tick < len(self.lives.births)))
        age = np.minimum(tick - life - 1, _MOST_AGE)[chosen]
        by_age = (age[1:] > age[:-1]) | ((age[1:] == age[:-1]) & (age[1:] < _MOST_AGE))
        is_wrong = (group[chosen][1:] == group[chosen][:-1]) & ~by_age
        chosen = chosen[is_head[chosen] | np.isin(group[chosen], group[chosen][1:][is_wrong])]
        ranks[steps[chosen]] = chosen - begins[group[chosen]] + 1
        return ranks

    def _is_head(self, steps: Ints) -> npt.NDArray[np.bool_]:
        """Return which steps come before all allocations of their window, and must stay in it.

        Among them are all steps of bursts, windows without allocations.  Where the window
        before ends with an allocation, and no thread event comes, nothing can go wrong.
        """
        op, begins = self.events["op"], self.cuts[:-1]
        is_cut = (op[np.maximum(begins - 1, 0)] > Op.ALIGNED) | (op[begins] >= Op.THREAD_START)
        is_cut |= np.diff(self.ticks) == 0
        window = self.window[steps]
        found: npt.NDArray[np.bool_] = is_cut[window] & (
            self.lives.tick[steps] == self.ticks[window]
        )
        return found

    def _steps(self, lives: Ints, count: int) -> Ints:
        """Return the events of the lives' steps, shape (n_lives, count)."""
        found: Ints = self.lives.steps[self.lives.first_step[lives][:, None] + np.arange(count)]
        return found

    def _kind_rows(self, lives: Ints, steps: Ints) -> Ints:
        """Return op, alignment, size, thread, and size and thread of each step, by life.

        Behind them come the touches of the allocation and of each step, as in events.
        """
        births = self.events[self.lives.births[lives]]
        columns = [births[name].astype(np.int64) for name in ("op", "align_log2", "size", "thread")]
        for step in steps.T:
            events = self.events[step]
            size = np.where(events["op"] == Op.FREE, FREED, events["size"].astype(np.int64))
            columns += [size, events["thread"].astype(np.int64)]
        columns += [births["touch"].astype(np.int64), *self.events["touch"][steps].T]
        return np.stack(columns, axis=1)

    def _kind_of(self, lives: Ints, steps: Ints) -> Ints:
        """Return the number of each life's kind, adding those that are new."""
        distinct, group, _ = group_rows(self._kind_rows(lives, steps))
        numbers = np.empty(len(distinct), np.int64)
        for index, row in enumerate(distinct.tolist()):
            key = tuple(row)
            if key not in self.kind_numbers:
                self.kind_numbers[key] = len(self.kinds)
                self.kinds.append(_kind(row, steps.shape[1]))
            numbers[index] = self.kind_numbers[key]
        found: Ints = numbers[group]
        return found

    def _elapsed(self, lives: Ints, steps: Ints) -> Ints:
        """Return the allocations from each step's predecessor to it, shape of `steps`."""
        ticks = np.concatenate([lives[:, None] + 1, self.lives.tick[steps]], axis=1)
        return np.diff(ticks, axis=1)

    def _parts(self, lives: Ints, steps: Ints) -> Ints:
        """Return the part of a window in which each step falls, counted from the birth's."""
        born = self.window[self.lives.births[lives]][:, None]
        window = self.window[steps]
        length = np.diff(self.ticks)
        # A window without allocations is a burst: its events are its parts.
        begin, width = self.ticks[window], length[window] + 1
        at = np.where(length[window] > 0, self.lives.tick[steps] - begin, 0)
        burst = length[window] == 0
        at = np.where(burst, steps - self.cuts[window], at)
        width = np.where(burst, self.cuts[window + 1] - self.cuts[window], width)
        part = at * self.options.parts // width
        parts: Ints = 1 + (window - born) * self.options.parts + part
        return parts

    def _codes(self, lives: Ints, steps: Ints) -> Ints:
        """Return when each step comes: a negated age bin, or a later part of a window."""
        elapsed = self._elapsed(lives, steps)
        born = self.window[self.lives.births[lives]][:, None]
        window = self.window[steps]
        length = np.diff(self.ticks)
        is_soon = (window == born) | ((elapsed < length[born]) & (length[window] > 0))
        bins = -age_bins(elapsed, self.options.age_bins_log2)
        codes: Ints = np.where(is_soon, bins, self._parts(lives, steps))
        return codes

    def _fixed_codes(self, lives: Ints, steps: Ints) -> Ints:
        """Return when each step comes, exactly; at the head of a window, by its part of it."""
        elapsed = self._elapsed(lives, steps)
        codes: Ints = np.where(self._is_head(steps), -self._parts(lives, steps), elapsed)
        return codes

    def _add_lives(self, lives: Ints, count: int, windows: list[list[list[int]]]) -> None:
        if len(lives) == 0:
            return
        steps = self._steps(lives, count)
        window = self.window[self.lives.births[lives]]
        columns = [window[:, None], self._kind_of(lives, steps)[:, None], self._codes(lives, steps)]
        rows, _, counts = group_rows(np.concatenate(columns, axis=1))
        for window_number, kind, entries in _runs(rows, counts):
            windows[window_number].append([kind, *entries])

    def _add_fixed(self, lives: Ints, count: int, windows: list[list[list[int]]]) -> None:
        if len(lives) == 0:
            return
        steps = self._steps(lives, count)
        window = self.window[self.lives.births[lives]]
        offset = lives - self.ticks[window]
        columns = [offset, self._kind_of(lives, steps), *self._fixed_codes(lives, steps).T]
        rows = np.stack(columns, axis=1).tolist()
        ranks = self.ranks[steps].tolist()
        for number, row, ranked in zip(window.tolist(), rows, ranks, strict=True):
            windows[number].append([*row, *ranked] if any(ranked) else row)

    def _lifo(self) -> Ints:
        """Return for each window how many of 1000 frees in a row end the younger life first."""
        frees = np.flatnonzero(self.events["op"] == Op.FREE)
        is_row = np.diff(frees) == 1
        later, window = frees[1:][is_row], self.window[frees[1:][is_row]]
        youngest_first = self.lives.life[later] < self.lives.life[frees[:-1][is_row]]
        n_rows = np.bincount(window, minlength=self.n_windows)
        n_lifo = np.bincount(window, youngest_first, minlength=self.n_windows)
        share: Ints = np.rint(
            np.where(n_rows > 0, 1000 * n_lifo / np.maximum(n_rows, 1), 500)
        ).astype(np.int64)
        return share

    def _thread_events(self, window: int) -> list[list[int]]:
        events = self.events[self.cuts[window] : self.cuts[window + 1]]
        chosen = events[events["op"] >= Op.THREAD_START]
        return [[int(event["op"]), int(event["thread"])] for event in chosen]


def _kind(row: list[int], n_steps: int) -> list[int | list[int]]:
    """Return a kind as profiles have it, from its key."""
    n_columns = 4 + 2 * n_steps
    kind: list[int | list[int]] = [*row[:n_columns]]
    touches = row[n_columns:]
    if n_steps and row[n_columns - 2] == FREED:
        touches.pop()
    if any(touches):
        kind.append([touch - 1 for touch in touches])
    return kind


def _as_gaps(rows: list[list[int]], number: Mapping[int, int]) -> list[list[int]]:
    """Return rows of fixed lives with the allocations since the one before for their offsets."""
    rows = sorted(rows)
    befores = [-1, *(row[0] for row in rows)]
    return [
        [offset - before - 1, number[kind], *codes]
        for before, (offset, kind, *codes) in zip(befores, rows, strict=False)
    ]


def _runs(rows: Ints, counts: Ints) -> Iterator[tuple[int, int, list[int]]]:
    """Yield window, kind and codes with counts for each run of rows equal in the first two."""
    codes = np.concatenate([rows[:, 2:], counts[:, None]], axis=1)
    starts = np.flatnonzero(np.concatenate([[True], (rows[1:, :2] != rows[:-1, :2]).any(axis=1)]))
    for begin, end in zip(starts, np.append(starts[1:], len(rows)), strict=True):
        yield int(rows[begin, 0]), int(rows[begin, 1]), codes[begin:end].ravel().tolist()
