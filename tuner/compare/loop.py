"""Run what is missing of a comparison: every sample is kept when its run ends.

A subject that fails leaves its task, so do all when the baseline does.  A block that the
time left does not suffice for is left out, so that what is compared stays complete.  Ctrl-C ends
the comparison with all that was measured; the same comparison goes on from there.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from statistics import fmean
from typing import Generic, Protocol

from tuner.compare.plan import Course, Plan, Step, TaskT, ValuesT
from tuner.errors import InterruptedCampaign
from tuner.records import Outcome

INTERRUPTED = "interrupted; every run so far is kept: the same command goes on from there"


class Keeps(Protocol[TaskT, ValuesT]):
    """Where samples are kept."""

    def kept(self) -> Iterable[tuple[tuple[int, TaskT, str], Outcome[ValuesT]]]:
        """Return round, task and subject of every sample, with the sample."""
        ...

    def keep(self, step: Step[TaskT], sample: Outcome[ValuesT]) -> None:
        """Keep a sample; it is on disk when this returns.

        Raises:
            OutputError: there is no room.
        """
        ...


def ignore(*_: object) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Observer(Generic[TaskT, ValuesT]):
    """Is called as a comparison goes on."""

    on_sample: Callable[[Step[TaskT], Outcome[ValuesT]], None] = ignore
    """A run ended and is kept."""
    on_left: Callable[[int], None] = ignore
    """So many runs are left: before the first, and when a subject leaves or a block is left out."""
    on_left_out: Callable[[int], None] = ignore
    """So many runs were left out to keep the budget."""


class TimeBudget:
    """Elapsed time for all runs, and what runs took so far."""

    def __init__(
        self,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        kind: Callable[[object], Hashable] = lambda _: None,
    ) -> None:
        """Begin now.

        Args:
            seconds: for everything from here on.
            clock: in seconds; only differences count.
            kind: of a task; runs of one kind take about the same time.
        """
        self._clock = clock
        self._kind = kind
        self._end_s = clock() + seconds
        self._took_s: dict[Hashable, list[float]] = {}

    def time(self, task: object, run: Callable[[], Outcome[ValuesT]]) -> Outcome[ValuesT]:
        """Make a run of a task, and remember how long it took."""
        start_s = self._clock()
        done = run()
        self._took_s.setdefault(self._kind(task), []).append(self._clock() - start_s)
        return done

    def allows(self, task: object, n_runs: int) -> bool:
        """Return whether some runs of a task fit in what is left; the first ones always do."""
        known = self._took_s.get(self._kind(task)) or [
            seconds for took in self._took_s.values() for seconds in took
        ]
        return not known or self._clock() + n_runs * fmean(known) <= self._end_s


def compare(
    plan: Plan[TaskT, ValuesT],
    run: Callable[[Step[TaskT]], Outcome[ValuesT]],
    keeper: Keeps[TaskT, ValuesT] | None = None,
    observer: Observer[TaskT, ValuesT] | None = None,
    *,
    baseline: str | None = None,
    budget: TimeBudget | None = None,
    workers: int = 1,
    stop: Callable[[], None] = ignore,
    is_of_here: Callable[[Step[TaskT]], bool] = lambda _: True,
) -> Course[TaskT, ValuesT]:
    """Make every run that is missing, and return all that is known.

    Args:
        plan: what is run in which order.
        run: makes one run; a run that fails is a sample with its reason, no error.
        keeper: what was measured, and where more is kept; None: nothing is kept.
        observer: is called at every sample.
        baseline: label that all are compared with, see `Course`.
        budget: None for no limit.
        workers: runs of a block at once; 1 where they would disturb each other.
        stop: ends the runs that are under way; called when one raises, and on Ctrl-C.
        is_of_here: whether a step that is kept was measured on this machine; a block that was
            begun on another one is made anew, so that what is compared is of one machine.

    Raises:
        OutputError: a sample cannot be kept.
        InterruptedCampaign: Ctrl-C; what was measured is kept.
        TunerError: what `run` raises.
    """
    observer = observer or Observer()
    course = Course[TaskT, ValuesT](baseline, keeper.kept() if keeper else ())
    timed = _timed(run, budget) if budget else run
    observer.on_left(plan.n_left(course))
    with interruptible():
        for block in plan.blocks(course):
            if any(map(course.wants, block)) and not all(map(is_of_here, block)):
                course.forget(block)
            steps = [step for step in block if course.wants(step)]
            if steps and budget and not budget.allows(steps[0].task, len(steps)):
                observer.on_left_out(len(steps))
                continue
            with contextlib.closing(_run_block(steps, timed, course, workers, stop)) as ended:
                for step, sample in ended:
                    if keeper:
                        keeper.keep(step, sample)
                    n_out = len(course.out)
                    course.add(step.key, sample)
                    observer.on_sample(step, sample)
                    if len(course.out) > n_out:
                        observer.on_left(plan.n_left(course))
    return course


@contextlib.contextmanager
def interruptible(words: Callable[[], str] = lambda: INTERRUPTED) -> Generator[None]:
    """Turn Ctrl-C into the error that says that nothing is lost.

    Args:
        words: returns what the error says.

    Raises:
        InterruptedCampaign: Ctrl-C.
    """
    try:
        yield
    except KeyboardInterrupt as event:
        raise InterruptedCampaign(words()) from event


def _timed(
    run: Callable[[Step[TaskT]], Outcome[ValuesT]], budget: TimeBudget
) -> Callable[[Step[TaskT]], Outcome[ValuesT]]:
    return lambda step: budget.time(step.task, lambda: run(step))


def _run_block(
    steps: Sequence[Step[TaskT]],
    run: Callable[[Step[TaskT]], Outcome[ValuesT]],
    course: Course[TaskT, ValuesT],
    workers: int,
    stop: Callable[[], None],
) -> Generator[tuple[Step[TaskT], Outcome[ValuesT]]]:
    if workers > 1:
        yield from _run_together(steps, run, workers, stop)
        return
    try:
        for step in steps:
            if course.wants(step):  # the baseline may have left since
                yield step, run(step)
    except BaseException:
        stop()
        raise


def _run_together(
    steps: Sequence[Step[TaskT]],
    run: Callable[[Step[TaskT]], Outcome[ValuesT]],
    workers: int,
    stop: Callable[[], None],
) -> Generator[tuple[Step[TaskT], Outcome[ValuesT]]]:
    with ThreadPoolExecutor(workers) as pool:
        pending = {pool.submit(run, step): step for step in steps}

        try:
            while pending:
                done, _ = wait(pending, return_when=FIRST_COMPLETED)
                # Whatever ended well is kept before a failure of another is raised.
                for future in sorted(done, key=lambda one: one.exception() is not None):
                    yield pending.pop(future), future.result()
        except BaseException:
            for future in pending:
                future.cancel()
            stop()
            raise
