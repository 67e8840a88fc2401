"""One metric of all samples, and what it shows: medians, intervals, ratios of pairs, tests.

Pairs are of one round and task.  Over several tasks a change is the geometric mean of the ratios,
one a round, so that a long task counts no more than a short one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Generic

from tuner import stats
from tuner.compare.plan import Course, TaskT, ValuesT
from tuner.records import Outcome
from tuner.stats import Estimate


@dataclass(frozen=True)
class Values(Generic[TaskT]):
    """A metric of every run that gave it."""

    table: Mapping[tuple[TaskT, str], Mapping[int, float]]
    """Task and subject -> round -> value."""

    @classmethod
    def of(
        cls, course: Course[TaskT, ValuesT], extract: Callable[[ValuesT], float | None]
    ) -> Values[TaskT]:
        """Return a metric of all good samples of a comparison."""
        return cls.collect(course.samples.items(), extract)

    @classmethod
    def collect(
        cls,
        samples: Iterable[tuple[tuple[int, TaskT, str], Outcome[ValuesT]]],
        extract: Callable[[ValuesT], float | None],
    ) -> Values[TaskT]:
        """Return a metric of samples, each with its round, task and subject.

        Args:
            samples: those that are not OK are left out.
            extract: returns the metric; None where there is none.
        """
        table: dict[tuple[TaskT, str], dict[int, float]] = {}
        for (number, task, subject), sample in samples:
            value = None if sample.good is None else extract(sample.good)
            if value is not None:
                table.setdefault((task, subject), {})[number] = float(value)
        return cls(table)

    def by_round(self, task: TaskT, subject: str) -> Mapping[int, float]:
        """Return the values of a subject on a task, by round."""
        return self.table.get((task, subject), {})

    def median(self, task: TaskT, subject: str) -> Estimate | None:
        """Return the median over the rounds; None without a value."""
        return stats.median_estimate(list(self.by_round(task, subject).values()))

    def pairs(
        self, task: TaskT, subject: str, baseline: str, first_round: int = 0
    ) -> tuple[list[float], list[float]]:
        """Return the values of a subject and of the baseline, of the rounds that have both."""
        mine, base = self.by_round(task, subject), self.by_round(task, baseline)
        rounds = sorted(n for n in mine.keys() & base.keys() if n >= first_round)
        return [mine[n] for n in rounds], [base[n] for n in rounds]

    def ratio(self, task: TaskT, subject: str, baseline: str) -> Estimate | None:
        """Return the median of the ratios to the baseline of the same round.

        Returns:
            None without a pair, or when a baseline is 0.
        """
        return stats.ratio_estimate(*self.pairs(task, subject, baseline))

    def change(self, tasks: Sequence[TaskT], subject: str, baseline: str) -> Estimate | None:
        """Return the median over the rounds of the geometric mean of the ratios over the tasks.

        Returns:
            None when no round has all tasks under both, or a value is not above 0.
        """
        mine = [self.by_round(task, subject) for task in tasks]
        base = [self.by_round(task, baseline) for task in tasks]
        if not tasks:
            return None
        shared = set.intersection(*(a.keys() & b.keys() for a, b in zip(mine, base, strict=True)))
        means = []
        for number in sorted(shared):
            pairs = [(a[number], b[number]) for a, b in zip(mine, base, strict=True)]
            if any(value <= 0.0 or reference <= 0.0 for value, reference in pairs):
                return None
            means.append(geometric_mean([value / reference for value, reference in pairs]))
        return stats.median_estimate(means)
