"""Run what is missing of a comparison, subject after subject within each task.

All subjects of a task follow each other in an order shuffled by the seed, and a round goes
once through all tasks, so that a drift of the machine meets everybody alike.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
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


def run_missing(
    plan: Plan,
    subjects: Sequence[Subject],
    journal: Journal,
    driver: RunsDriver,
    on_sample: Callable[[Sample], None],
) -> None:
    """Make every run that the journal lacks.

    A subject that failed a task is not run on that task again.

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
    done = _done(journal)
    failed = {(s.task, s.subject) for s in journal.comparison.samples if s.status != Status.OK}
    for step in _steps(plan, subjects):
        if _key(step) in done or (step.task, step.subject.label) in failed:
            continue
        run = driver.run(
            plan.words(step.task),
            environments[step.subject.label],
            step.subject.library,
            plan.timeout_s,
        )
        sample = _sample(step, run)
        if sample.status != Status.OK:
            failed.add((step.task, step.subject.label))
        journal.add(sample)
        on_sample(sample)


def _steps(plan: Plan, subjects: Sequence[Subject]) -> Iterator[_Step]:
    for number, task in itertools.product(range(plan.rounds), plan.tasks):
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
