"""Make a profile longer or shorter: repeat or leave out windows where the heap stays level.

In a level window as much is born to stay as dies of what was there before.  That keeps
the curve level when such a window is repeated: what one copy leaves alive dies in the
next one, when what the program had alive died in the first.  When a window is left out, what
would have died in it takes over the ends of what would have been born in it.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tuner.errors import SpecError
from tuner.profile.model import FREED, Life, Model, without_steps
from tuner.profile.scaling import starts
from tuner.trace.lives import Ints

LEVEL_SHARE: Final = 0.01
"""Change of the live bytes in a window, over the peak, up to which it is level."""

_SHORTFALL: Final = 0.05
"""How much longer than asked, over the whole, a shortened profile may stay."""

Moment = tuple[int, int]
"""A window and a part of it."""


def level_windows(changes: Ints, peak_bytes: int, allocations: Sequence[int]) -> list[bool]:
    """Return which windows can be repeated or left out.

    Args:
        changes: of the live bytes from the first to the last allocation of each window;
            shape (n_windows,).
        peak_bytes: greatest live bytes of all.
        allocations: of each window.
    """
    most = LEVEL_SHARE * peak_bytes
    return [
        n > 0 and abs(change) <= most
        for n, change in zip(allocations, changes.tolist(), strict=True)
    ]


def scale_length(model: Model, factor: float, changes: Ints, peak_bytes: int) -> Model:
    """Repeat level windows, or leave them out, until the allocations are `factor` times as many.

    Args:
        model: what to change.
        factor: of the number of allocations, kept to about a window.
        changes: of the live bytes from the first to the last allocation of each window;
            shape (n_windows,).
        peak_bytes: greatest live bytes of all.

    Raises:
        SpecError: no window is level, or too few are to make it as short.
    """
    allocations = model.allocations()
    is_level = level_windows(changes, peak_bytes, allocations)
    total = sum(allocations)
    level = sum(n for n, good in zip(allocations, is_level, strict=True) if good)
    if level == 0:
        raise SpecError(
            "--length: the live heap is never level, so nothing can be repeated or left out"
        )
    each = (factor * total - (total - level)) / level
    repeats = _repeats(model, is_level, max(each, 0.0), changes, LEVEL_SHARE * peak_bytes)
    found = sum(n * count for n, count in zip(allocations, repeats, strict=True)) / total
    if factor < 1 and found > factor + _SHORTFALL:
        raise SpecError(
            f"--length {factor:g}: only windows in which the heap stays level can be left out, "
            f"and without them it is {found:.2f} as long; give at least that, or fit the profile "
            "with fewer lives at fixed places (--fixed 4000)"
        )
    Model.check_size(sum(repeats[life.window] for life in model.lives))
    return _Lengthening(model, repeats).model()


def _repeats(
    model: Model, is_level: Sequence[bool], each: float, changes: Ints, most: float
) -> list[int]:
    """Return how often each window comes.

    A window stays where threads start or exit, and where leaving it out would make the
    change that is lost in all more than `most` bytes.
    """
    repeats = []
    wanted = lost = 0.0
    for window, n, good, change in zip(
        model.windows, model.allocations(), is_level, changes.tolist(), strict=True
    ):
        if not good:
            repeats.append(1)
            continue
        wanted += each * n
        count = max(round(wanted / n), 0)
        if count == 0 and (window.thread_events or abs(lost + change) > most):
            count = 1
        lost += change if count == 0 else 0
        wanted -= count * n
        repeats.append(count)
    return repeats


@dataclass(frozen=True)
class _Cut:
    """How many lives get each of several ends."""

    edges: list[float]
    """Shares of the bytes up to which each end reaches, ascending to 1."""

    @staticmethod
    def of(weights: Sequence[float]) -> _Cut:
        total = sum(weights)
        shares = (
            np.cumsum(weights) / total if total > 0 else np.linspace(0, 1, len(weights) + 1)[1:]
        )
        return _Cut(shares.tolist())

    def counts(self, lives: Sequence[Life]) -> Iterator[list[int]]:
        """Yield for each entry of lives how many get each end, by cumulated bytes."""
        total = sum(life.count * max(life.size, 1) for life in lives) or 1
        done = 0
        for life in lives:
            size = max(life.size, 1)
            found = []
            taken = 0
            for edge in self.edges:
                upto = round((edge * total - done) / size)
                n = min(max(upto, taken), life.count) - taken
                found.append(n)
                taken += n
            found[-1] += life.count - taken
            done += life.count * size
            yield found


class _Lengthening:
    """The same lives over another list of windows."""

    def __init__(self, model: Model, repeats: Sequence[int]) -> None:
        self.old = model
        self.repeats = repeats
        self.allocations = model.allocations()
        self.ticks = starts(self.allocations)
        self.lives = self._without_ends_in_gaps()
        self.first = starts(repeats)
        self.deaths = self._death_weights()

    def model(self) -> Model:
        old = self.old
        made = Model(old.head, [], [])
        time_ns = old.windows[0].time_ns
        ends = [window.time_ns for window in old.windows[1:]] + [old.head["duration_ns"]]
        for window, end_ns, n in zip(old.windows, ends, self.repeats, strict=True):
            for copy in range(n):
                events = window.thread_events if copy == 0 else []
                made.windows.append(replace(window, time_ns=time_ns, thread_events=events))
                time_ns += end_ns - window.time_ns
        made.head = old.lasting(time_ns)
        made.lives = self._repeated()
        self._make_whole(made)
        return made

    # Where steps fall

    def _moments(self, life: Life) -> list[Moment | None]:
        """Return window and part of each step; None for one soon after the step before."""
        parts = self.old.parts
        tick = self.ticks[life.window] + (life.offset or 0) + 1
        found: list[Moment | None] = []
        for step in range(len(life.codes)):
            part = life.part(step)
            if part is not None:
                window = min(life.window + part // parts, len(self.repeats) - 1)
                tick = self.ticks[window] + self.allocations[window] * (part % parts) / parts
                found.append((window, part % parts))
            elif life.is_fixed:
                tick += life.codes[step]
                found.append(self._moment_of(tick))
            else:
                found.append(None)
        return found

    def _moment_of(self, tick: float) -> Moment:
        at = min(bisect.bisect_right(self.ticks, tick) - 1, len(self.repeats) - 1)
        into = (tick - self.ticks[at]) * self.old.parts // max(self.allocations[at], 1)
        return at, min(int(into), self.old.parts - 1)

    def _end(self, life: Life) -> Moment | None:
        """Return the moment of the free; None if there is none, or it comes soon."""
        return self._moments(life)[-1] if life.is_freed else None

    # Windows that are left out

    def _without_ends_in_gaps(self) -> list[Life]:
        """Move what ends in a window that is left out to the ends of what begins in it."""
        by_window: list[list[Life]] = [[] for _ in self.repeats]
        ending: list[list[Life]] = [[] for _ in self.repeats]
        for life in self.old.lives:
            end = self._end(life)
            ends_in_gap = end is not None and end[0] > life.window and self.repeats[end[0]] == 0
            if ends_in_gap and self.repeats[life.window] > 0 and end is not None:
                ending[end[0]].append(life)
            else:
                by_window[life.window].append(life)
        for gap, n in enumerate(self.repeats):
            if n > 0:
                continue
            for life in self._given_ends(ending[gap], by_window[gap], gap):
                end = self._end(life)
                if end is not None and self.repeats[end[0]] == 0:
                    ending[end[0]].append(life)
                else:
                    by_window[life.window].append(life)
            by_window[gap] = []
        return [life for lives in by_window for life in lives]

    def _given_ends(self, ending: list[Life], born: list[Life], gap: int) -> Iterator[Life]:
        """Yield the ending lives with the ends of those of the born that outlive the gap."""
        weights: dict[Moment | None, float] = {}
        for life in born:
            end = self._end(life)
            if not life.is_freed or (end is not None and end[0] > gap):
                weights[end] = weights.get(end, 0) + life.count * max(life.size, 1)
        last = (len(self.repeats), 0)
        ends = sorted(weights or {(gap + 1, 0): 1.0}, key=lambda end: end or last)
        cut = _Cut.of([weights.get(end, 1.0) for end in ends])
        for life, counts in zip(ending, cut.counts(ending), strict=True):
            for end, n in zip(ends, counts, strict=True):
                if n > 0:
                    yield self._ending_at(replace(life, count=n), end)

    def _ending_at(self, life: Life, end: Moment | None) -> Life:
        if end is None or end[0] >= len(self.repeats):
            kind, codes = without_steps(life, len(life.codes) - 1)
            return replace(life, kind=kind, codes=codes)
        part = (end[0] - life.window) * self.old.parts + end[1]
        return replace(life, codes=(*life.codes[:-1], life.code_of_part(part)))

    # Windows that are repeated

    def _death_weights(self) -> list[list[float]]:
        """Return for each window the bytes that end in each part and were there before it."""
        weights = [[0.0] * self.old.parts for _ in self.repeats]
        for life in self.lives:
            end = self._end(life)
            if end is not None and end[0] > life.window:
                weights[end[0]][end[1]] += life.count * max(life.size, 1)
        return weights

    def _repeated(self) -> list[Life]:
        made: list[Life] = []
        staying: list[list[Life]] = [[] for _ in self.repeats]
        for life in self.lives:
            n = self.repeats[life.window]
            at = self.first[life.window]
            made.append(self._moved(life, at + n - 1))
            if n > 1 and self._outlives(life):
                staying[life.window].append(life)
            else:
                made += [replace(life, window=at + copy) for copy in range(n - 1)]
        for window, lives in enumerate(staying):
            copies = range(self.first[window], self.first[window] + self.repeats[window] - 1)
            for life in self._relieved(lives, window):
                made += [replace(life, window=copy) for copy in copies]
        return made

    def _outlives(self, life: Life) -> bool:
        moments = self._moments(life)
        goes_on = any(moment is not None and moment[0] > life.window for moment in moments)
        return goes_on or not life.is_freed

    def _relieved(self, lives: list[Life], window: int) -> Iterator[Life]:
        """Yield lives that end in the next copy of their window, when older ones did in this."""
        parts = self.old.parts
        cut = _Cut.of(self.deaths[window])
        for life, counts in zip(lives, cut.counts(lives), strict=True):
            kept = sum(moment is None or moment[0] == window for moment in self._moments(life))
            kept = min(kept, len(life.codes) - life.is_freed)
            kind, codes = without_steps(life, kept)
            kind = (*kind, FREED, kind[-1])
            for part, n in enumerate(counts):
                if n > 0:
                    code = life.code_of_part(parts + part)
                    yield replace(life, kind=kind, codes=(*codes, code), count=n)

    def _moved(self, life: Life, window: int) -> Life:
        """Return a life of the last copy, its steps where the windows they fall in are now."""
        codes = []
        for step, moment in enumerate(self._moments(life)):
            if moment is None or moment[0] == life.window:
                codes.append(life.codes[step])
                continue
            at = self.first[moment[0]]
            if life.part(step) is None and not self._is_changed(life.window, moment[0]):
                codes.append(life.codes[step])
                continue
            part = moment[1] if self.repeats[moment[0]] > 0 else 0
            codes.append(life.code_of_part((at - window) * self.old.parts + part))
        return replace(life, window=window, codes=tuple(codes))

    def _is_changed(self, begin: int, end: int) -> bool:
        """Return whether a window between the two, or the last one, comes not exactly once."""
        return any(n != 1 for n in self.repeats[begin + 1 : end + 1])

    @staticmethod
    def _make_whole(model: Model) -> None:
        """Let the windows pace their clock by the lives they have now."""
        for window, n in zip(model.windows, model.allocations(), strict=True):
            window.n_events = max(window.n_events, n)
