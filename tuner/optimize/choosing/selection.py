"""Runs that choose the candidates: each once, the promising ones again.

The program as it is runs once in a few.  The best of many single runs is mostly a lucky one, so
those that look best run again, once or twice, before they are chosen.  Where none of them is worth
confirming, the time left goes to others.  Where none is worth a run any more, it ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tuner.compare.plan import Course, Step, shuffled
from tuner.optimize.proof.duets import MOST_AT_ONCE
from tuner.optimize.tuned import AS_IS, Sample

ROUND_OF_SELECTION = MOST_AT_ONCE - 1
"""Candidates that run between two runs of the program as it is."""

MOST_SELECTED = 24
"""Settings that run at all."""

_PROMISING = 3
"""Of so many one runs again."""

_FEW_RUNS, _SOME_RUNS = 60, 150
"""Runs that the time must allow for a second look, and for a third."""

_FOR_SECOND, _FOR_THIRD = 15, 22
"""Settings from which there are such looks: a search that goes on in another time has the same."""


@dataclass(frozen=True)
class Budget:
    """How many runs choose the candidates."""

    n_first: int
    """Settings that run once."""
    n_again: int
    """Of these, run again."""
    times: int
    """How often."""

    @classmethod
    def of(cls, n_possible: int) -> Budget:
        """Return what is spent of so many runs, those of the confirmation too."""
        if n_possible < _FEW_RUNS:
            return cls.begun_with(min(_FOR_SECOND - 1, max(2, n_possible // 3)))
        most = MOST_SELECTED if n_possible >= _SOME_RUNS else _FOR_THIRD - 1
        return cls.begun_with(min(most, n_possible // 4))

    @classmethod
    def begun_with(cls, n_first: int) -> Budget:
        """Return what is spent where so many settings run once."""
        if n_first < _FOR_SECOND:
            return cls(n_first, 0, 0)
        return cls(n_first, n_first // _PROMISING, 1 if n_first < _FOR_THIRD else 2)

    @property
    def n_runs(self) -> int:
        """All runs, those of the program as it is too."""
        return _with_as_is(self.n_first) + self.times * _with_as_is(self.n_again)


def _with_as_is(n_runs: int) -> int:
    return n_runs + -(-n_runs // ROUND_OF_SELECTION)


Promising = Callable[[Course[None, Sample]], Sequence[str]]
"""From the runs so far to the labels that run next."""

Ends = Callable[[Course[None, Sample]], bool]
"""From the runs so far to whether more of them could choose something."""


class Selection:
    """A plan: each candidate once, the program as it is once in every round of a few."""

    def __init__(
        self,
        labels: Sequence[str],
        seed: int,
        promising: Promising | None = None,
        times: int = 1,
        *,
        others: Promising | None = None,
        ends: Ends | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Prepare; the order in a round comes from the seed.

        Args:
            labels: of the candidates, those that tell most first.
            seed: of the order.
            promising: which run again; None: none do.
            times: how often they do.
            others: a few more that run after these, until there are none; None: none do.
            ends: is asked after every round, which therefore waits for the one before it; None: all
                rounds are made.
            is_over: whether the time is; then nothing begins but the first round.
        """
        self._is_over = is_over
        self._ends = ends
        self._others = others
        self._times = times
        self._promising = promising
        self._rounds = _rounds_of(labels)
        self._seed = seed

    def blocks(self, course: Course[None, Sample]) -> Iterator[Sequence[Step[None]]]:
        """Yield the rounds."""
        for number, first in enumerate(self._rounds):
            steps = self._round(number, first)
            if number and self._is_late(course, steps):
                return
            yield steps
            if self._ends:
                yield ()  # all of them have to be known
                if self._ends(course.first(number + 1)):
                    return
        yield ()  # likewise
        again = self._again(course)
        for number, some in enumerate(again, start=len(self._rounds)):
            steps = self._round(number, some)
            if self._is_late(course, steps):
                return
            yield steps
        for number in itertools.count(len(self._rounds) + len(again)):
            yield ()  # likewise
            begun = [one for at, _, one in course.samples if at == number and one != AS_IS]
            found = begun or (self._others(course) if self._others else ())
            if not found:
                return
            yield self._round(number, found)

    def _is_late(self, course: Course[None, Sample], steps: Sequence[Step[None]]) -> bool:
        return self._is_over() and any(map(course.wants, steps))

    def _again(self, course: Course[None, Sample]) -> list[Sequence[str]]:
        """Return the rounds of those that run again."""
        if self._promising is None:
            return []
        first = course.first(len(self._rounds))
        labels = [label for label in self._promising(first) if (None, label) not in first.out]
        return _rounds_of(labels) * self._times

    def n_left(self, course: Course[None, Sample]) -> int:
        """Return how many of the first runs are missing."""
        blocks = (self._round(number, labels) for number, labels in enumerate(self._rounds))
        return sum(course.wants(step) for block in blocks for step in block)

    def _round(self, number: int, labels: Sequence[str]) -> list[Step[None]]:
        return shuffled((AS_IS, *labels), number, self._seed, None)


def _rounds_of(labels: Sequence[str]) -> list[Sequence[str]]:
    starts = range(0, len(labels), ROUND_OF_SELECTION)
    return [labels[at : at + ROUND_OF_SELECTION] for at in starts]
