"""A profile taken apart into lives, so that they can be counted, moved and put together again.

`take_apart` and `Model.members` are inverses up to the order of lives within a window.
Moments are given two ways, as in profiles: by the allocations since the step before, and
by a part of a window; docs/formats.md describes the codes that stand for them.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tuner.errors import SpecError
from tuner.profile.file import VERSION
from tuner.trace.file import Op

FREED: Final = -1
"""Stands for the size of a step that is a free."""

Kind = tuple[int, ...]
"""Op, alignment, size, thread, then size and thread of each step."""

UNKNOWN: Final = -1
"""Stands for the untouched pages of a block where they were not measured."""

MOST_LIVES: Final = 1 << 22
"""Of a model, some GiB of memory while it is made; each may stand for many allocations."""

_HEAD = 4

_UNLESS_SAID: Final = {"page_bytes": 4096, "duration_ns": 0, "age_bins_log2": 0}
"""What a profile may leave out, as rand_malloc reads it; of a window it may be all."""


def age_bin(age: int, bins_log2: int) -> int:
    """Return the bin of an age: exact at first, then 2**bins_log2 bins per octave.

    Source: the layout of HDR histograms; `profile_bin` of rand_malloc is its inverse.
    """
    shift = max(age.bit_length() - 1 - bins_log2, 0)
    return (shift << bins_log2) + (age >> shift)


def bin_middle(number: int, bins_log2: int) -> int:
    """Return the middle of the ages of a bin.

    Example:
        >>> [bin_middle(number, 2) for number in (0, 7, 8, 12)]
        [0, 7, 9, 18]
    """
    n_bins = 1 << bins_log2
    octave = number // n_bins
    if octave <= 1:
        return number
    width = 1 << (octave - 1)
    return (number % n_bins + n_bins) * width + width // 2


@dataclass(frozen=True)
class Life:
    """Lives of one kind that begin in one window and whose steps come at the same times."""

    window: int
    kind: Kind
    codes: tuple[int, ...]
    """One for each step, as in profiles."""
    count: int = 1
    offset: float | None = None
    """Allocations of the window before it; None: anywhere in the window."""
    ranks: tuple[int, ...] = ()
    """Of a fixed life, for each step: its place among the steps of one moment, from 1, or 0:
    youngest life first.  Steps behind the last rank have 0."""
    untouched: tuple[int, ...] = ()
    """Pages never touched, of the allocation, then of each realloc, or `UNKNOWN`; those behind
    the last one are not known."""

    @property
    def is_fixed(self) -> bool:
        """True when it keeps its place, and its codes count allocations exactly."""
        return self.offset is not None

    @property
    def is_freed(self) -> bool:
        """True when the last step is a free."""
        return len(self.kind) > _HEAD and self.kind[-2] == FREED

    @property
    def size(self) -> int:
        """Size at its end."""
        sizes = (self.kind[2], *self.kind[_HEAD::2])
        return sizes[-2] if self.is_freed else sizes[-1]

    @property
    def largest(self) -> int:
        """Greatest size it ever has."""
        return max(self.kind[2], *self.kind[_HEAD::2]) if len(self.kind) > _HEAD else self.kind[2]

    @property
    def threads(self) -> tuple[int, ...]:
        """The thread that allocates, then those of the steps."""
        return self.kind[3::2]

    def part(self, step: int) -> int | None:
        """Return the part of a window in which a step falls, from 0 at the birth's window.

        Returns:
            None when the step is timed by allocations.
        """
        code = -self.codes[step] if self.is_fixed else self.codes[step]
        return code - 1 if code > 0 else None

    def code_of_part(self, part: int) -> int:
        """Return the code of a part of a window, counted as `part` does."""
        return -(part + 1) if self.is_fixed else part + 1


@dataclass
class Window:
    """What a window says beside its lives."""

    time_ns: int
    n_events: int
    """Of the trace; paces the clock."""
    lifo_permille: int
    thread_events: list[tuple[int, int]] = field(default_factory=list)
    """Operation and thread."""


@dataclass
class Model:
    """A whole profile."""

    head: dict[str, Any]
    """Members beside kinds and windows, without the verdict, which a change makes untrue."""
    windows: list[Window]
    lives: list[Life]

    @staticmethod
    def check_size(n_lives: int) -> None:
        """Refuse a model before it is made.

        Raises:
            SpecError: it would have more than `MOST_LIVES`.
        """
        if n_lives > MOST_LIVES:
            raise SpecError(
                f"{n_lives:,} groups of lives; at most {MOST_LIVES:,} can be made: vary it by less"
            )

    @property
    def bins_log2(self) -> int:
        """Base-2 logarithm of the age bins per octave."""
        return int(self.head["age_bins_log2"])

    @property
    def parts(self) -> int:
        """Parts of a window."""
        return int(self.head["parts"])

    def lasting(self, duration_ns: int) -> dict[str, Any]:
        """Return the head of a model whose last event comes then; it idles on as long as this."""
        head = {**self.head, "duration_ns": duration_ns}
        if "end_ns" in head:
            head["end_ns"] += duration_ns - self.head["duration_ns"]
        return head

    def allocations(self) -> list[int]:
        """Return the allocations of each window."""
        found = [0] * len(self.windows)
        for life in self.lives:
            found[life.window] += life.count
        return found

    def age(self, life: Life, step: int) -> int | None:
        """Return the allocations from the step before to this one; None: see `Life.part`."""
        if life.part(step) is not None:
            return None
        code = life.codes[step]
        return code if life.is_fixed else bin_middle(-code, self.bins_log2)

    def code_of_age(self, life: Life, age: int) -> int:
        """Return the code of an age."""
        return age if life.is_fixed else -age_bin(age, self.bins_log2)

    def members(self) -> dict[str, Any]:
        """Return the members of the profile."""
        kinds: dict[tuple[Kind, tuple[int, ...]], int] = {}
        small: list[dict[int, dict[tuple[int, ...], int]]] = [{} for _ in self.windows]
        fixed: list[list[Life]] = [[] for _ in self.windows]
        allocations = self.allocations()
        for life in self.lives:
            number = kinds.setdefault(_key(life), len(kinds))
            if life.is_fixed:
                fixed[life.window].extend([life] * life.count)
            else:
                counts = small[life.window].setdefault(number, {})
                counts[life.codes] = counts.get(life.codes, 0) + life.count
        return {
            **self.head,
            "version": VERSION,
            "kinds": [[*kind, *([list(pages)] if pages else [])] for kind, pages in kinds],
            "windows": [
                {
                    "time_ns": window.time_ns,
                    "events": window.n_events,
                    "allocations": n,
                    "lifo_permille": window.lifo_permille,
                    "threads": [list(event) for event in window.thread_events],
                    "lives": _life_rows(lives),
                    "fixed": _fixed_rows(places, n, kinds),
                }
                for window, n, lives, places in zip(
                    self.windows, allocations, small, fixed, strict=True
                )
            ],
        }


def take_apart(profile: Mapping[str, Any]) -> Model:
    """Return the model of a profile that rand_malloc has accepted."""
    kinds = [_told_apart(kind) for kind in profile["kinds"]]
    lives: list[Life] = []
    windows = []
    for number, window in enumerate(profile["windows"]):
        windows.append(
            Window(
                window.get("time_ns", 0),
                window.get("events", 0),
                window.get("lifo_permille", 0),
                [(op, thread) for op, thread in window.get("threads", ())],
            )
        )
        for kind_number, *entries in window.get("lives", ()):
            kind, pages = kinds[kind_number]
            for codes, count in _entries(entries, (len(kind) - _HEAD) // 2):
                lives.append(Life(number, kind, codes, count, untouched=pages))
        lives += _fixed_lives(number, kinds, window.get("fixed", ()), profile["version"])
    head = {key: profile[key] for key in profile if key not in ("kinds", "windows", "fidelity")}
    for key, value in _UNLESS_SAID.items():
        head.setdefault(key, value)
    return Model(head, windows, lives)


def _told_apart(row: Sequence[Any]) -> tuple[Kind, tuple[int, ...]]:
    """Return the kind and the untouched pages of a kind's row."""
    has_pages = len(row) % 2 == 1
    return tuple(row[:-1] if has_pages else row), tuple(row[-1] if has_pages else ())


def _key(life: Life) -> tuple[Kind, tuple[int, ...]]:
    """Return what a row of kinds holds: an entry of `untouched` for each size, or none."""
    n_sizes = 1 + (len(life.kind) - _HEAD) // 2 - life.is_freed
    pages = (*life.untouched, *[UNKNOWN] * n_sizes)[:n_sizes]
    return life.kind, pages if any(n != UNKNOWN for n in pages) else ()


def _fixed_lives(
    window: int,
    kinds: Sequence[tuple[Kind, tuple[int, ...]]],
    rows: Sequence[Sequence[int]],
    version: int,
) -> Iterator[Life]:
    """Yield the lives of a window that keep their places."""
    least = 0
    for place, number, *codes in rows:
        kind, pages = kinds[number]
        n_steps = (len(kind) - _HEAD) // 2
        offset = place if version == 1 else least + place
        least = offset + 1
        yield Life(window, kind, tuple(codes[:n_steps]), 1, offset, tuple(codes[n_steps:]), pages)


def _entries(entries: list[int], n_steps: int) -> list[tuple[tuple[int, ...], int]]:
    stride = n_steps + 1
    return [
        (tuple(entries[at : at + n_steps]), entries[at + n_steps])
        for at in range(0, len(entries), stride)
    ]


def _life_rows(lives: Mapping[int, Mapping[tuple[int, ...], int]]) -> list[list[int]]:
    return [
        [kind, *itertools.chain.from_iterable((*codes, n) for codes, n in sorted(counts.items()))]
        for kind, counts in sorted(lives.items())
    ]


def _fixed_rows(
    lives: list[Life], n: int, kinds: Mapping[tuple[Kind, tuple[int, ...]], int]
) -> list[list[int]]:
    """Return the rows; the offsets become whole, distinct and below `n`."""
    ordered = sorted(lives, key=lambda life: life.offset or 0)
    rows: list[list[int]] = []
    least = 0
    for place, life in enumerate(ordered):
        latest = n - (len(ordered) - place)
        at = min(max(least, round(life.offset or 0)), latest)
        rows.append([at - least, kinds[_key(life)], *life.codes, *_rank_row(life)])
        least = at + 1
    return rows


def _rank_row(life: Life) -> list[int]:
    """Return a rank for each step, or nothing where age is enough."""
    ranks = life.ranks[: len(life.codes)]
    return [*ranks, *[0] * (len(life.codes) - len(ranks))] if any(ranks) else []


def without_steps(life: Life, kept: int) -> tuple[Kind, tuple[int, ...]]:
    """Return kind and codes of a life whose steps behind the first `kept` are left out."""
    return life.kind[: _HEAD + 2 * kept], life.codes[:kept]


def is_start(op: int) -> bool:
    """Return whether a thread event is a start."""
    return op == Op.THREAD_START
