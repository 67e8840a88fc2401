"""Runs that choose the candidates: each once, and the program as it is once in a few."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from tuner.compare.plan import Course, Step, order
from tuner.optimize.tuned import AS_IS, Sample

_ROUND_OF_SELECTION = 4
"""Candidates that run between two runs of the program as it is."""

_FLOOR_NOISE, _ASSUMED_NOISE, _RUNS_TO_KNOW = 0.01, 0.03, 6
"""Standard deviation of the log of CPU time: at least, and until so many runs are known."""


class Selection:
    """A plan: each candidate once, the program as it is once in every round of a few."""

    def __init__(self, labels: Sequence[str], seed: int) -> None:
        """Prepare; the order comes from the seed."""
        shuffled = [labels[index] for index in order(len(labels), 0, seed, "selection")]
        self._rounds = [
            shuffled[at : at + _ROUND_OF_SELECTION]
            for at in range(0, len(shuffled), _ROUND_OF_SELECTION)
        ]
        self._seed = seed

    def blocks(self, course: Course[None, Sample]) -> Iterator[Sequence[Step[None]]]:
        """Yield the rounds."""
        del course
        for number, labels in enumerate(self._rounds):
            subjects = (AS_IS, *labels)
            shuffled = order(len(subjects), number, self._seed)
            yield [Step(number, at, None, subjects[index]) for at, index in enumerate(shuffled)]

    def n_left(self, course: Course[None, Sample]) -> int:
        """Return how many runs are missing."""
        return sum(course.wants(step) for block in self.blocks(course) for step in block)


def noise_of(values: Sequence[float], *, has_floor: bool) -> float:
    """Return the robust standard deviation of the logarithm of a run, with or without a floor."""
    logs = [math.log(value) for value in values]
    middle = statistics.median(logs) if logs else 0.0
    robust = 1.4826 * statistics.median(abs(x - middle) for x in logs) if logs else 0.0
    if not has_floor:
        return robust
    return max(robust, _FLOOR_NOISE if len(logs) >= _RUNS_TO_KNOW else _ASSUMED_NOISE)
