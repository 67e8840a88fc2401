"""The order of runs: steps in blocks, and what a comparison knows while it goes on.

Subjects are compared by the ratios to a baseline of the same round, so whatever drifts meets all
of a round alike; the tests of `tuner.stats` need each round in random order.  The order comes from
the seed alone: a comparison that is continued has the order it would have had.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tuner.records import Outcome, Status

TaskT = TypeVar("TaskT")
ValuesT = TypeVar("ValuesT")


@dataclass(frozen=True)
class Step(Generic[TaskT]):
    """One run to make."""

    round: int
    """From 0."""
    position: int
    """Place within its block, from 0."""
    task: TaskT
    subject: str
    """Label."""

    @property
    def key(self) -> tuple[int, TaskT, str]:
        """Round, task and subject: each is run once."""
        return self.round, self.task, self.subject


class Course(Generic[TaskT, ValuesT]):
    """What is known so far: every sample, and the subjects that are out."""

    def __init__(
        self,
        baseline: str | None = None,
        samples: Iterable[tuple[tuple[int, TaskT, str], Outcome[ValuesT]]] = (),
    ) -> None:
        """Begin.

        Args:
            baseline: label; where it is out of a task, nothing is left to compare with, so all
                are.  None: every subject stands for itself.
            samples: each with its round, task and subject; the last of each counts.
        """
        self.baseline = baseline
        self._samples: dict[tuple[int, TaskT, str], Outcome[ValuesT]] = {}
        self._good: dict[tuple[TaskT, str], dict[int, ValuesT]] = {}
        self._first: dict[int, Course[TaskT, ValuesT]] = {}
        self.out: dict[tuple[TaskT, str], str] = {}
        """Task and subject -> why it runs no more."""
        for key, sample in dict(samples).items():
            self.add(key, sample)

    @property
    def samples(self) -> Mapping[tuple[int, TaskT, str], Outcome[ValuesT]]:
        """Round, task and subject -> sample."""
        return self._samples

    @property
    def n_rounds(self) -> int:
        """Rounds up to the last one that a sample is known of."""
        return max((number + 1 for number, _, _ in self.samples), default=0)

    def first(self, n_rounds: int) -> Course[TaskT, ValuesT]:
        """Return what so many rounds showed: a plan that goes on sees what it saw before."""
        if n_rounds not in self._first:
            kept = (one for one in self.samples.items() if one[0][0] < n_rounds)
            self._first = {n_rounds: Course(self.baseline, kept)}
        return self._first[n_rounds]

    def good(self, task: TaskT, subject: str) -> dict[int, ValuesT]:
        """Return what the good runs of a subject on a task showed, by round."""
        return dict(self._good.get((task, subject), {}))

    def add(self, key: tuple[int, TaskT, str], sample: Outcome[ValuesT]) -> None:
        """Take a sample; a subject that failed is out of its task."""
        self.put(key, sample)
        if sample.status is not Status.OK:
            self.leave(key[1], key[2], sample.reason or str(sample.status))

    def put(self, key: tuple[int, TaskT, str], sample: Outcome[ValuesT]) -> None:
        """Take a sample; a subject that failed stays."""
        self.drop(key)
        self._samples[key] = sample
        if sample.good is not None:
            self._good.setdefault(key[1:], {})[key[0]] = sample.good

    def drop(self, key: tuple[int, TaskT, str]) -> Outcome[ValuesT] | None:
        """Leave a sample out, if there is one, and return it."""
        self._first = {}
        self._good.get(key[1:], {}).pop(key[0], None)
        return self._samples.pop(key, None)

    def forget(self, block: Iterable[Step[TaskT]]) -> None:
        """Drop the samples of steps that are made anew; who failed in them alone is back."""
        for step in block:
            sample = self.drop(step.key)
            if sample and sample.reason and self.out.get(step.key[1:]) == sample.reason:
                del self.out[step.key[1:]]
        for key, sample in list(self.samples.items()):
            self.add(key, sample)

    def leave(self, task: TaskT, subject: str, reason: str) -> None:
        """Run a subject no more on a task: it failed, or has lost."""
        self.out.setdefault((task, subject), reason)

    def is_over(self, task: TaskT) -> bool:
        """Return whether the baseline is out of a task."""
        return self.baseline is not None and (task, self.baseline) in self.out

    def wants(self, step: Step[TaskT]) -> bool:
        """Return whether a step is still to be run."""
        is_out = (step.task, step.subject) in self.out or self.is_over(step.task)
        return step.key not in self.samples and not is_out


class Plan(Protocol[TaskT, ValuesT]):
    """Hands out what is run next."""

    def blocks(self, course: Course[TaskT, ValuesT]) -> Iterator[Sequence[Step[TaskT]]]:
        """Yield blocks of steps; what was run or is out is skipped by the loop.

        The next block is asked for when all samples of the last one are in `course`; with several
        machines (apart.py) before, unless an empty block comes in between.
        """
        ...

    def n_left(self, course: Course[TaskT, ValuesT]) -> int:
        """Return how many steps are expected still to be run."""
        ...


@dataclass(frozen=True)
class Rounds(Generic[TaskT]):
    """In every round each subject runs once on each task, in random order within the task."""

    subjects: tuple[str, ...]
    """Labels, the baseline first if there is one."""
    tasks: tuple[TaskT, ...]
    """In the order in which a round takes them."""
    rounds: int
    """At least 1."""
    seed: int = 1
    repeats: Callable[[TaskT], int] | None = None
    """Rounds of a task, up to `rounds`; None: all."""
    leads: bool = False
    """True: the first subject comes first in the first round, as others are judged by it.  That
    round is then no evidence for a test."""
    is_alike: bool = False
    """True: all tasks of a round are taken in one order."""
    is_over: Callable[[], bool] | None = None
    """Asked before every round: whether it and those after it are left out; None: none is."""

    def blocks(self, course: Course[TaskT, ValuesT]) -> Iterator[Sequence[Step[TaskT]]]:
        """Yield a block for every round and task."""
        del course
        for number in range(self.rounds):
            if self.is_over is not None and self.is_over():
                return
            for task in self.tasks:
                if self.repeats is None or number < self.repeats(task):
                    yield shuffled(
                        self.subjects, number, self.seed, task,
                        is_alike=self.is_alike, leads=self.leads and number == 0,
                    )  # fmt: skip

    def n_left(self, course: Course[TaskT, ValuesT]) -> int:
        """Return how many steps are missing."""
        return sum(course.wants(step) for block in self.blocks(course) for step in block)


@dataclass(frozen=True)
class Once(Generic[TaskT]):
    """Every step once, all in one block: for what repeats itself to the last count."""

    steps: tuple[Step[TaskT], ...]

    def blocks(self, course: Course[TaskT, ValuesT]) -> Iterator[Sequence[Step[TaskT]]]:
        """Yield the one block."""
        del course
        yield self.steps

    def n_left(self, course: Course[TaskT, ValuesT]) -> int:
        """Return how many steps are missing."""
        return sum(course.wants(step) for step in self.steps)


def shuffled(
    subjects: Sequence[str],
    number: int,
    seed: int,
    task: TaskT,
    *,
    is_alike: bool = False,
    leads: bool = False,
) -> list[Step[TaskT]]:
    """Return the steps of a round in random order; see `order`.

    Args:
        subjects: labels.
        number: of the round, from 0.
        seed: of the comparison.
        task: of the round.
        is_alike: take the order that every task of the round has.
        leads: put the first subject first.
    """
    found = order(len(subjects), number, seed, "" if is_alike or task is None else str(task))
    if leads:
        found = [0, *(index for index in found if index)]
    return [Step(number, at, task, subjects[index]) for at, index in enumerate(found)]


def order(n_subjects: int, number: int, seed: int, where: str = "") -> list[int]:
    """Return the random order of the subjects in a round.

    Args:
        n_subjects: how many.
        number: of the round, from 0.
        seed: of the comparison.
        where: text of the task; empty where there is only one.

    Example:
        >>> sorted(order(3, 4, 1))
        [0, 1, 2]
    """
    positions = list(range(n_subjects))
    name = f"{seed}/{number}/{where}" if where else f"{seed}/{number}"
    random.Random(name).shuffle(positions)  # noqa: S311 - not cryptography
    return positions
