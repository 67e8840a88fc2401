"""What is run: workloads, threads, sizes, how long and how often.

The time of one run follows from a budget for all of them, so that a comparison of
ten allocators takes as long as one of two.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tuner.config.reading import closest
from tuner.errors import SpecError

THREADED: Final = (
    "scalability",
    "cache-thrash",
    "cache-scratch",
    "larson",
    "xmalloc",
    "thread-churn",
    "ring",
)
"""Workloads that are run with several numbers of threads."""
RANGES: Final = (
    "pairs-8k",
    "batches-128k",
    "random-4k",
    "random-32k",
    "random-256k",
    "random-1m",
    "grow-step",
    "grow-half",
    "aligned",
    "zeroed",
)
"""Workloads of one range of sizes or one function each, run with one and two threads."""
WORKLOADS: Final = (*THREADED, "sizes", *RANGES, "overhead", "memory", "churn")

DEFAULT_THREADS: Final = (1, 2, 4, 16, 64, 128)
DEFAULT_SIZES: Final = tuple(2 * 4**step for step in range(13))
"""2 B to 32 MiB."""
OVERHEAD_SIZES: Final = (
    *(8, 16, 24, 32, 48, 64, 96, 100, 128, 200, 256, 400, 512, 513, 1000, 1025),
    *(2000, 3000, 4000, 4097, 6000, 10000, 16384, 20000, 32769, 50000, 100000, 300000, 1 << 20),
)
_SIZES_THREADS: Final = (1, 2)
_LEAST_THREADS: Final = {"xmalloc": 2}
_WITHOUT_CLOCK: Final = frozenset({"overhead", "memory"})
_ONCE: Final = frozenset({"overhead"})
"""The same in every run."""
_CURVE_POINTS: Final = 100
_LEAST_S: Final = 0.02
_MOST_S: Final = 2.0
_PHASES: Final = 1.7
"""Warm-up, counting and timing, in units of the counting phase (malloc_bench --help)."""
_START_S: Final = 0.1
"""What a run takes besides, roughly."""
_MEMORY_S: Final = 2.5


@dataclass(frozen=True)
class Task:
    """One workload with its parameters."""

    workload: str
    threads: int
    size: int | None = None
    """Bytes of a block; None where the workload has none."""

    @property
    def has_clock(self) -> bool:
        """True when it runs for a given time."""
        return self.workload not in _WITHOUT_CLOCK

    @property
    def runs_once(self) -> bool:
        """True when a repeat would give the same."""
        return self.workload in _ONCE

    def __str__(self) -> str:
        """Write it for people: ``larson, 16 threads``."""
        text = f"{self.workload}, {self.threads} thread{'s' if self.threads > 1 else ''}"
        return text if self.size is None else f"{text}, {self.size} bytes"


@dataclass(frozen=True)
class BenchPlan:
    """All that is run on each subject."""

    tasks: tuple[Task, ...]
    seconds: float
    """Length of the counting phase of one run."""
    rounds: int
    """Runs of each task on each subject, at least 1."""
    seed: int = 1
    """Of the workloads, and of the order within a round."""
    timeout_s: float = 120.0
    """Limit of one run."""

    def words(self, task: Task) -> list[str]:
        """Return the arguments of malloc_bench for one task."""
        words = [task.workload, "--threads", str(task.threads), "--seed", str(self.seed)]
        if task.has_clock:
            words += ["--seconds", f"{self.seconds:g}"]
        if task.size is not None:
            words += ["--size", str(task.size)]
        if task.workload == "churn":
            words += ["--samples", str(_CURVE_POINTS)]
        return words

    def n_runs(self, task: Task) -> int:
        """Return how often a task is run on each subject."""
        return 1 if task.runs_once else self.rounds


def check_workloads(names: Sequence[str]) -> None:
    """Refuse what is no workload.

    Raises:
        SpecError: one is unknown; says which there are.
    """
    for name in names:
        if name not in WORKLOADS:
            hint = closest(name, WORKLOADS) or ";"
            allowed = ", ".join(WORKLOADS)
            raise SpecError(f"workload {name!r}: there is none{hint} allowed: {allowed}")


def make_tasks(
    workloads: Sequence[str] = WORKLOADS,
    threads: Sequence[int] = DEFAULT_THREADS,
    sizes: Sequence[int] = DEFAULT_SIZES,
    overhead_sizes: Sequence[int] = OVERHEAD_SIZES,
) -> tuple[Task, ...]:
    """Return the tasks of some workloads.

    Args:
        workloads: names out of `WORKLOADS`.
        threads: numbers of threads for the threaded workloads and for churn (its greatest
            up to 4).
        sizes: bytes, for the workload sizes.
        overhead_sizes: bytes, for the workload overhead.

    Raises:
        SpecError: a workload is unknown; says which there are.  Or none has a task: each needs
            more threads.
    """
    check_workloads(workloads)
    tasks: list[Task] = []
    for workload in workloads:
        some = [n for n in threads if n in _SIZES_THREADS] or [min(threads)]
        if workload == "sizes":
            tasks += [Task(workload, n, size) for n, size in itertools.product(some, sizes)]
        elif workload in RANGES:
            tasks += [Task(workload, n) for n in some]
        elif workload == "overhead":
            tasks += [Task(workload, 1, size) for size in overhead_sizes]
        elif workload == "memory":
            tasks.append(Task(workload, 1))
        elif workload == "churn":
            tasks.append(Task(workload, max([n for n in threads if n <= 4] or [1])))  # noqa: PLR2004
        else:
            least = _LEAST_THREADS.get(workload, 1)
            tasks += [Task(workload, n) for n in threads if n >= least]
    if not tasks:
        least = max(_LEAST_THREADS.get(workload, 1) for workload in workloads)
        raise SpecError(f"workload {', '.join(workloads)}: not with fewer than {least} threads")
    return tuple(tasks)


def seconds_within(budget_s: float, tasks: Sequence[Task], n_subjects: int, rounds: int) -> float:
    """Return the length of one counting phase so that all runs fit a budget.

    Args:
        budget_s: elapsed seconds for everything.
        tasks: what is run.
        n_subjects: on how many allocators.
        rounds: how often.

    Returns:
        Seconds, from 0.02 to 2; the least is taken where the budget is too small for it.

    Example:
        >>> seconds_within(600, [Task("ring", 2)] * 100, 4, 1)
        0.82
    """
    n_timed = sum(rounds for task in tasks if task.has_clock) * n_subjects
    fixed_s = n_subjects * sum(_fixed_s(task, rounds) for task in tasks)
    if n_timed == 0:
        return _LEAST_S
    return round(min(_MOST_S, max(_LEAST_S, (budget_s - fixed_s) / n_timed / _PHASES)), 2)


def _fixed_s(task: Task, rounds: int) -> float:
    n_runs = 1 if task.runs_once else rounds
    return n_runs * (_MEMORY_S if task.workload == "memory" else _START_S)
