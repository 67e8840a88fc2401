"""What is missing is run, kept when it ends, and goes on after any end."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.doubles.clock import Clock
from tuner.compare.loop import Observer, TimeBudget, compare
from tuner.compare.plan import Course, Once, Rounds, Step
from tuner.errors import InterruptedCampaign, OutputError, ProgramError
from tuner.records import Outcome, Status

PLAN = Rounds(("base", "good", "other"), ("x", "y"), 3)
KEYS = {step.key for block in PLAN.blocks(Course()) for step in block}


Sample = Outcome[str]
GOOD = Outcome.succeeded("seen")


class Memory:
    """Keeps samples in memory."""

    def __init__(self) -> None:
        self.samples: dict[tuple[int, str, str], Sample] = {}

    def kept(self) -> list[tuple[tuple[int, str, str], Sample]]:
        return list(self.samples.items())

    def keep(self, step: Step[str], sample: Sample) -> None:
        assert step.key not in self.samples
        self.samples[step.key] = sample


def good(step: Step[str]) -> Sample:
    del step
    return GOOD


def failing(*where: tuple[str, str]) -> Callable[[Step[str]], Sample]:
    def run(step: Step[str]) -> Sample:
        is_bad = (step.task, step.subject) in where
        return Outcome.did_not_succeed(Status.FAILED, "fell over") if is_bad else GOOD

    return run


def test_everything_is_run_once_and_kept():
    memory = Memory()

    course = compare(PLAN, good, memory)

    assert set(memory.samples) == set(course.samples) == KEYS


def test_a_comparison_goes_on_after_every_possible_end():
    for n_before in range(len(KEYS)):
        memory = Memory()
        calls: list[Any] = []

        def run(step: Step[str], calls: list[Any] = calls, end: int = n_before) -> Sample:
            if len(calls) == end:
                raise KeyboardInterrupt
            calls.append(step.key)
            return GOOD

        with pytest.raises(InterruptedCampaign, match="every run so far is kept"):
            compare(PLAN, run, memory)
        assert len(memory.samples) == n_before
        compare(PLAN, good, memory)

        assert set(memory.samples) == KEYS


def test_a_failed_subject_leaves_its_task_and_the_rest_goes_on():
    memory = Memory()

    course = compare(PLAN, failing(("x", "good")), memory)

    assert sum(key[1:] == ("x", "good") for key in memory.samples) == 1
    assert sum(key[1:] == ("y", "good") for key in memory.samples) == 3
    assert course.out == {("x", "good"): "fell over"}


def test_without_the_baseline_the_block_ends_at_once():
    memory = Memory()

    course = compare(PLAN, failing(("x", "base")), memory, baseline="base")

    assert course.is_over("x")
    first = next(b for b in PLAN.blocks(Course()) if b[0].task == "x")
    place = next(s.position for s in first if s.subject == "base")
    assert sum(key[1] == "x" for key in memory.samples) == place + 1
    assert sum(key[1] == "y" for key in memory.samples) == 9


def test_an_observer_sees_samples_and_what_is_left():
    seen: list[Any] = []
    observer: Observer[str, str] = Observer(
        on_sample=lambda step, sample: seen.append(step.subject), on_left=seen.append
    )

    compare(Rounds(("a", "b"), ("x",), 2), failing(("x", "b")), Memory(), observer)

    numbers = [one for one in seen if isinstance(one, int)]
    assert numbers[0] == 4
    assert len(numbers) == 2
    assert seen.count("b") == 1
    assert seen.count("a") == 2


def test_a_budget_leaves_out_blocks_as_a_whole():
    clock = Clock()
    memory = Memory()
    left_out: list[int] = []
    budget = TimeBudget(10.0, clock)

    def run(step: Step[str]) -> Sample:
        clock.now_s += 2.0
        return good(step)

    observer: Observer[str, str] = Observer(on_left_out=left_out.append)
    compare(PLAN, run, memory, observer, budget=budget)

    assert len(memory.samples) == 3
    assert left_out == [3] * 5


def test_a_budget_knows_the_kinds_of_tasks_apart():
    clock = Clock()
    budget = TimeBudget(10.0, clock, kind=str)

    def takes(seconds: float) -> Callable[[], Sample]:
        def run() -> Sample:
            clock.now_s += seconds
            return GOOD

        return run

    budget.time("slow", takes(4.0))
    budget.time("fast", takes(1.0))

    assert not budget.allows("slow", 2)
    assert budget.allows("fast", 5)
    assert budget.allows("unknown", 2)
    assert not budget.allows("unknown", 3)


def test_a_sample_that_cannot_be_kept_ends_the_comparison():
    class Full(Memory):
        def keep(self, step: Step[str], sample: Sample) -> None:
            raise OutputError

    stopped: list[None] = []
    for workers in (1, 2):
        with pytest.raises(OutputError):
            compare(PLAN, good, Full(), workers=workers, stop=lambda: stopped.append(None))

    assert len(stopped) == 2


def test_workers_run_a_block_at_once():
    barrier = threading.Barrier(2)

    def run(step: Step[str]) -> Sample:
        barrier.wait(60.0)
        return good(step)

    duet = Once((Step(0, 0, "x", "a"), Step(0, 1, "x", "b")))
    memory = Memory()
    compare(duet, run, memory, workers=2)

    assert len(memory.samples) == 2


def test_an_error_beside_other_runs_stops_them():
    barrier = threading.Barrier(2)
    stopped: list[None] = []

    def run(step: Step[str]) -> Sample:
        barrier.wait(60.0)
        if step.subject == "b":
            raise ProgramError
        return GOOD

    memory = Memory()
    duet = Once((Step(0, 0, "x", "a"), Step(0, 1, "x", "b")))
    with pytest.raises(ProgramError):
        compare(duet, run, memory, workers=2, stop=lambda: stopped.append(None))

    assert len(stopped) == 1


def test_a_race_is_a_plan_that_looks_at_the_course():
    class Race:
        """The slower of two leaves after two rounds; the other is run no more then."""

        def blocks(self, course: Course[str, str]) -> Iterator[Sequence[Step[str]]]:
            for number in range(9):
                if number == 2:
                    course.leave("x", "slow", "lost")
                if sum(("x", name) in course.out for name in ("slow", "fast")):
                    return
                yield [Step(number, place, "x", n) for place, n in enumerate(("slow", "fast"))]

        def n_left(self, course: Course[str, str]) -> int:
            return 18 - len(course.samples)

    memory = Memory()
    course = compare(Race(), good, memory)

    assert len(memory.samples) == 4
    assert course.out == {("x", "slow"): "lost"}
