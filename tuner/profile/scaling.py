"""Scale a profile: larger blocks, more or fewer lives, more or fewer threads.

When the number of allocations in a window changes, so does every time that is counted in
them.  Ages are therefore carried over by the map from old allocations to new ones, which
is linear within a window: what lived through a tenth of a window still does.
"""

import bisect
import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tuner.profile.model import UNKNOWN, Life, Model, Window, is_start
from tuner.trace.file import Op

LARGE_SHARE: Final = 1 / 64
"""Share of the peak from which on a single block is scaled in size, not in number.

A few blocks of this size cannot be thinned or multiplied by a fraction; smaller ones can,
and the live curve then errs by no more than one of them.
"""


@dataclass(frozen=True)
class TickMap:
    """From allocations of the old profile to those of the new one."""

    old: Sequence[int]
    """Allocations before each window and in all; shape (n_windows + 1,)."""
    new: Sequence[int]
    """The same of the new profile."""

    def window_of(self, tick: float) -> int:
        """Return the last window that begins at or before a tick, a burst only if none else."""
        return min(max(bisect.bisect_right(self.old, tick) - 1, 0), len(self.old) - 2)

    def __call__(self, tick: float) -> float:
        """Return the new place of a tick."""
        window = self.window_of(tick)
        begin, end = self.old[window], self.old[window + 1]
        first, last = self.new[window], self.new[window + 1]
        if end == begin:
            return float(last)
        return first + (tick - begin) * (last - first) / (end - begin)


def starts(allocations: Sequence[int]) -> list[int]:
    """Return the allocations before each window, and in all."""
    return [0, *itertools.accumulate(allocations)]


def scale_sizes(model: Model, factor: float) -> Model:
    """Multiply the size of every block; none becomes empty that was not."""
    return Model(
        model.head,
        model.windows,
        [_scaled(life, factor, int(model.head["page_bytes"])) for life in model.lives],
    )


def _scaled(life: Life, factor: float, page_bytes: int) -> Life:
    def scale(size: int) -> int:
        return max(1, round(size * factor)) if size > 0 else size

    steps = [scale(value) if at % 2 == 0 else value for at, value in enumerate(life.kind[4:])]
    kind = (*life.kind[:2], scale(life.kind[2]), life.kind[3], *steps)
    untouched = tuple(
        UNKNOWN if pages == UNKNOWN else min(round(pages * factor), size // page_bytes)
        for pages, size in zip(life.untouched, kind[2::2], strict=False)
    )
    return replace(life, kind=kind, untouched=untouched)


def scale_intensity(model: Model, factor: float, peak_bytes: int) -> Model:
    """Multiply the number of lives in every window; the few largest grow or shrink instead.

    Args:
        model: what to scale.
        factor: of the allocations per time, and so of the live curve.
        peak_bytes: greatest live bytes of the profile; large lives are a share of it.
    """
    large = LARGE_SHARE * peak_bytes
    # One remainder per quarter of an octave, so that neither count nor bytes drift.
    rest: dict[int, float] = defaultdict(lambda: 0.5)
    lives = []
    for life in sorted(model.lives, key=lambda life: (life.window, life.codes, life.size)):
        if life.largest >= large:
            lives.append(_scaled(life, factor, int(model.head["page_bytes"])))
            continue
        kind_of_size = (life.size.bit_length() << 2) + (life.size << 2 >> life.size.bit_length())
        rest[kind_of_size] += life.count * factor
        count = int(rest[kind_of_size])
        rest[kind_of_size] -= count
        if count > 0:
            lives.append(replace(life, count=count))
    return _in_new_time(model, lives, factor)


def scale_threads(model: Model, n_threads: int) -> Model:
    """Change the number of threads; added ones repeat, in turn, what the workers there do.

    The first thread is repeated only where there is no other.  Lives that left-out
    threads would begin are left out; their steps in other lives fall to threads that stay.

    Args:
        model: what to change.
        n_threads: threads wanted, the first one included.
    """
    old = int(model.head["threads"])
    if n_threads <= old:
        lives, windows = _fewer_threads(model, n_threads)
    else:
        lives, windows = _more_threads(model, old, n_threads)
    number = _start_order(windows, n_threads)
    for window in windows:
        window.thread_events = [(op, number[thread]) for op, thread in window.thread_events]
    lives = [_with_threads(life, number) for life in lives]
    head = {**model.head, "threads": n_threads}
    return _in_new_time(Model(head, windows, model.lives), lives, 1.0)


def _with_threads(life: Life, number: Sequence[int]) -> Life:
    kind = list(life.kind)
    kind[3::2] = [number[thread] for thread in life.threads]
    return replace(life, kind=tuple(kind))


def _fewer_threads(model: Model, n_threads: int) -> tuple[list[Life], list[Window]]:
    n_workers = n_threads - 1
    most = max((max(life.threads) for life in model.lives), default=0)
    instead = [
        thread if thread < n_threads else (1 + (thread - 1) % n_workers if n_workers else 0)
        for thread in range(most + 1)
    ]
    lives = [_with_threads(life, instead) for life in model.lives if life.kind[3] < n_threads]
    windows = [
        replace(w, thread_events=[event for event in w.thread_events if event[1] < n_threads])
        for w in model.windows
    ]
    return lives, windows


def _more_threads(model: Model, old: int, n_threads: int) -> tuple[list[Life], list[Window]]:
    n_sources, first = (old - 1, 1) if old > 1 else (1, 0)
    copies: dict[int, list[list[int]]] = defaultdict(list)
    twins: dict[int, list[int]] = defaultdict(list)
    for thread in range(old, n_threads):
        generation, at = divmod(thread - 1, n_sources) if old > 1 else (thread, 0)
        shift = generation * n_sources
        number = [
            other + shift if other >= first and other + shift < n_threads else other
            for other in range(old)
        ]
        copies[first + at].append(number)
        twins[first + at].append(thread)
    Model.check_size(sum(1 + len(copies[life.kind[3]]) for life in model.lives))
    lives = list(model.lives)
    for life in model.lives:
        lives += [_with_threads(life, number) for number in copies[life.kind[3]]]
    windows = []
    for place, window in enumerate(model.windows):
        events = [(int(Op.THREAD_START), t) for t in twins.get(0, ())] if place == 0 else []
        for op, thread in window.thread_events:
            events += [(op, thread), *((op, twin) for twin in twins.get(thread, ()))]
        windows.append(replace(window, thread_events=events))
    return lives, windows


def _start_order(windows: Sequence[Window], n_threads: int) -> list[int]:
    """Return new numbers of threads: in the order in which they first start, as traces ask."""
    order = [0]
    for window in windows:
        for op, thread in window.thread_events:
            if is_start(op) and thread not in order:
                order.append(thread)
    number = [0] * n_threads
    for place, thread in enumerate(order):
        number[thread] = place
    return number


def _in_new_time(model: Model, lives: list[Life], factor: float) -> Model:
    """Return a model with the lives, their places and ages in the new count of allocations.

    Args:
        model: the old one; its windows are those of the new one.
        lives: with places and ages of the old one.
        factor: of the events in windows that have no allocations.
    """
    old = model.allocations()
    made = Model(model.head, model.windows, lives)
    new = made.allocations()
    tick_map = TickMap(starts(old), starts(new))
    made.windows = [
        replace(window, n_events=round(window.n_events * (after / before if before else factor)))
        for window, before, after in zip(model.windows, old, new, strict=True)
    ]
    made.lives = [_aged_anew(made, life, tick_map, old, new) for life in lives]
    return made


def _aged_anew(
    model: Model, life: Life, tick_map: TickMap, old: Sequence[int], new: Sequence[int]
) -> Life:
    window = life.window
    before, after = old[window], new[window]
    offset = before / 2 if life.offset is None else life.offset
    tick = tick_map.old[window] + offset + 1
    codes = []
    for step in range(len(life.codes)):
        age = model.age(life, step)
        part = life.part(step)
        if part is not None:
            at = min(window + part // model.parts, len(old) - 1)
            share = (part % model.parts + 0.5) / model.parts
            tick = tick_map.old[at] + old[at] * share
            codes.append(life.codes[step])
        elif age is not None:
            aged = round(tick_map(tick + age) - tick_map(tick))
            codes.append(life.codes[step] if aged == age else model.code_of_age(life, aged))
            tick += age
    place = None if life.offset is None else life.offset * after / before
    return replace(life, codes=tuple(codes), offset=place)
