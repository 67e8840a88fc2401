"""What `tuner.compare` needs to run a comparison of allocators: the plan, and how one run is made.

A round takes the tasks of the workloads in turn, the middle of each first, so that what a budget
leaves out is spread over all of them.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tuner.bench.journal import Comparison, make_header, open_journal, read_sample, sample_record
from tuner.bench.plan import BenchPlan, Task
from tuner.bench.subjects import BenchSubject
from tuner.compare.journal import JournalKeeper
from tuner.compare.loop import Observer, TimeBudget, compare
from tuner.compare.plan import Rounds, Step
from tuner.measure.driver import DriverResult
from tuner.measure.program import padded
from tuner.records import Outcome


class RunsDriver(Protocol):
    """Runs one workload on one allocator; `tuner.measure.driver.BenchDriver` does."""

    def run(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        library: Path | None,
        timeout_s: float,
    ) -> Outcome[DriverResult]:
        """Run to the end, or say why there is no result."""


class BenchRounds:
    """Runs a workload on a subject: the runner of these rounds."""

    def __init__(
        self, plan: BenchPlan, subjects: Sequence[BenchSubject], driver: RunsDriver
    ) -> None:
        """Prepare; see `run_missing`."""
        environments = padded([subject.environment for subject in subjects])
        self._plan = plan
        self._driver = driver
        self._subjects = {
            subject.label: (environment, subject.library)
            for subject, environment in zip(subjects, environments, strict=True)
        }

    def __call__(self, step: Step[Task]) -> Outcome[DriverResult]:
        """Run it once."""
        environment, library = self._subjects[step.subject]
        words = self._plan.words(step.task)
        return self._driver.run(words, environment, library, self._plan.timeout_s)


def budget_of(seconds: float) -> TimeBudget:
    """Return a budget of elapsed seconds; runs of one workload take about the same time."""
    return TimeBudget(seconds, kind=lambda task: task.workload if isinstance(task, Task) else None)


def run_missing(  # noqa: PLR0917 - tasks, subjects, journal, observer
    plan: BenchPlan,
    subjects: Sequence[BenchSubject],
    folder: Path,
    driver: RunsDriver,
    observer: Observer[Task, DriverResult] | None = None,
    budget: TimeBudget | None = None,
) -> Comparison:
    """Make every run that the journal of a folder lacks, as far as a budget goes.

    Args:
        plan: what is run.
        subjects: on whom.
        folder: where the samples are kept.
        driver: makes the runs.
        observer: is called at every sample.
        budget: None for no limit.

    Returns:
        All that is kept.

    Raises:
        MissingToolError: malloc_bench cannot be started.
        StoreError: the folder holds another comparison, or a damaged one.
        OutputError: a sample cannot be kept.
        InterruptedCampaign: Ctrl-C; all samples are kept.
    """
    run = BenchRounds(plan, subjects, driver)
    labels = tuple(subject.label for subject in subjects)
    rounds = Rounds(labels, tuple(spread(plan.tasks)), plan.rounds, plan.seed, plan.n_runs)
    header = make_header(subjects, plan)
    with open_journal(folder, header) as journal:
        keeper = JournalKeeper(
            journal, lambda step, done: sample_record(step.key, done), read_sample
        )
        compare(rounds, run, keeper, observer, budget=budget)
        return Comparison(labels, dict(keeper.kept()), plan.seconds)


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
