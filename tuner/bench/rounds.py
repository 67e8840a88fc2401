"""Run what is missing of a comparison, subject after subject within each task.

All subjects of a task follow each other in an order shuffled by the seed, and a round goes
once through all tasks, so that a drift of the machine meets everybody alike.

A budget is kept: a task is begun only if it is expected to end in time on every subject, by what
runs took so far.  A round takes the tasks of the workloads in turn, the middle of each first,
so that what a budget leaves out is spread over all of them.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Protocol

from tuner.bench.journal import Journal, Sample
from tuner.bench.plan import Plan, Task
from tuner.bench.subjects import Subject
from tuner.measure.driver import DriverRun
from tuner.measure.program import padded
from tuner.records import Status


class RunsDriver(Protocol):
    """Runs one workload on one allocator; `tuner.measure.driver.BenchDriver` does."""

    def run(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        library: Path | None,
        timeout_s: float,
    ) -> DriverRun:
        """Run to the end, or say why there is no result."""


@dataclass(frozen=True)
class _Step:
    task: Task
    subject: Subject
    round: int


def count_missing(plan: Plan, subjects: Sequence[Subject], journal: Journal) -> int:
    """Return how many runs are still to be made."""
    done = _done(journal)
    return sum(_key(step) not in done for step in _steps(plan, subjects))


class Budget:
    """Elapsed time for all runs, and what runs took so far."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin now.

        Args:
            seconds: for everything from here on.
            clock: in seconds; only differences count.
        """
        self._clock = clock
        self._end_s = clock() + seconds
        self._took_s: dict[str, list[float]] = {}

    def time(self, task: Task, run: Callable[[], DriverRun]) -> DriverRun:
        """Make one run of a task, and remember how long it took."""
        start_s = self._clock()
        done = run()
        self._took_s.setdefault(task.workload, []).append(self._clock() - start_s)
        return done

    def allows(self, task: Task, n_runs: int) -> bool:
        """Tell whether some runs of a task fit in what is left; the first ones always do."""
        known = self._took_s.get(task.workload) or [
            s for took in self._took_s.values() for s in took
        ]
        return not known or self._clock() + n_runs * fmean(known) <= self._end_s


def run_missing(  # noqa: PLR0917 - what is run, where it is kept, and who is told
    plan: Plan,
    subjects: Sequence[Subject],
    journal: Journal,
    driver: RunsDriver,
    on_sample: Callable[[Sample], None],
    budget: Budget | None = None,
    on_left_out: Callable[[int], None] = lambda _: None,
) -> None:
    """Make every run that the journal lacks, as far as a budget goes.

    A subject that failed a task is not run on that task again.

    Args:
        plan: what is run.
        subjects: on whom.
        journal: where the samples are kept.
        driver: makes the runs.
        on_sample: is told of each.
        budget: None for no limit.
        on_left_out: is told how many runs the budget has no room for, task by task.

    Raises:
        MissingToolError: malloc_bench cannot be started.
        OutputError: a sample cannot be kept.
    """
    environments = dict(
        zip(
            [subject.label for subject in subjects],
            padded([subject.environment for subject in subjects]),
            strict=True,
        )
    )
    budget = budget or Budget(math.inf)
    done = _done(journal)
    failed = {(s.task, s.subject) for s in journal.comparison.samples if s.status != Status.OK}

    def run(step: _Step) -> DriverRun:
        label = step.subject.label
        words = plan.words(step.task)
        return driver.run(words, environments[label], step.subject.library, plan.timeout_s)

    for (_, task), group in itertools.groupby(_steps(plan, subjects), lambda s: (s.round, s.task)):
        missing = [
            s for s in group if _key(s) not in done and (task, s.subject.label) not in failed
        ]
        if missing and not budget.allows(task, len(missing)):
            on_left_out(len(missing))
            continue
        for step in missing:
            sample = _sample(step, budget.time(task, functools.partial(run, step)))
            if sample.status != Status.OK:
                failed.add((task, step.subject.label))
            journal.add(sample)
            on_sample(sample)


def spread(tasks: Sequence[Task]) -> list[Task]:
    """Return tasks in an order of which every beginning is spread over workloads and parameters.

    Workloads take turns; within one, every next task lies in the widest gap.

    Example:
        >>> [str(t) for t in spread([Task("ring", n) for n in (1, 2, 4, 8)])][:2]
        ['ring, 4 threads', 'ring, 2 threads']
    """
    by_workload: dict[str, list[Task]] = {}
    for task in tasks:
        by_workload.setdefault(task.workload, []).append(task)
    turns = itertools.zip_longest(*map(_halving, by_workload.values()))
    return [task for turn in turns for task in turn if task is not None]


def _halving(tasks: Sequence[Task]) -> list[Task]:
    """Return the middle task, then those of the halves by turns."""
    if len(tasks) <= 1:
        return list(tasks)
    middle = len(tasks) // 2
    halves = itertools.zip_longest(_halving(tasks[:middle]), _halving(tasks[middle + 1 :]))
    return [tasks[middle], *(task for pair in halves for task in pair if task is not None)]


def _steps(plan: Plan, subjects: Sequence[Subject]) -> Iterator[_Step]:
    for number, task in itertools.product(range(plan.rounds), spread(plan.tasks)):
        if number >= plan.n_runs(task):
            continue
        order = list(subjects)
        random.Random(f"{plan.seed} {number} {task}").shuffle(order)  # noqa: S311 - not secret
        yield from (_Step(task, subject, number) for subject in order)


def _key(step: _Step) -> tuple[Task, str, int]:
    return step.task, step.subject.label, step.round


def _done(journal: Journal) -> set[tuple[Task, str, int]]:
    return {(s.task, s.subject, s.round) for s in journal.comparison.samples}


def _sample(step: _Step, run: DriverRun) -> Sample:
    return Sample(step.task, step.subject.label, step.round, run.status, run.reason, run.result)
