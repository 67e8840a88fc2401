"""Rounds on several machines: the plan sees whole rounds in their order, whoever is faster."""

from collections.abc import Iterator, Sequence

from tuner.compare.apart import Handout
from tuner.compare.plan import Course, Step
from tuner.records import Outcome, Status

GOOD: Outcome[int] = Outcome.succeeded(1)
FAILED: Outcome[int] = Outcome.did_not_succeed(Status.FAILED, "its worker was lost")


class Plan:
    """Three rounds of two subjects, an empty block, a round of one more."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def blocks(self, course: Course[None, int]) -> Iterator[Sequence[Step[None]]]:
        for number in range(3):
            self.seen.append(len(course.samples))
            yield [Step(number, at, None, name) for at, name in enumerate("ab")]
        yield ()
        self.seen.append(len(course.samples))
        yield [Step(3, 0, None, "c")]

    def n_left(self, course: Course[None, int]) -> int:
        del course
        return 0


def handout(plan: Plan, course: Course[None, int], home: str | None = None) -> Handout[None, int]:
    return Handout(plan, course, lambda _: home, lambda _, sample: sample)


def test_the_plan_sees_whole_rounds_in_order():
    course: Course[None, int] = Course()
    out = handout(Plan(), course)
    first, second = out.next(9), out.next(9)
    assert first is not None
    assert second is not None

    out.took(second, GOOD)
    out.took(second, GOOD)
    out.took(first, GOOD)
    assert not course.samples, "the first round has not ended"
    out.took(first, GOOD)

    assert [number for number, _, _ in course.samples] == [0, 0, 1, 1]


def test_an_empty_block_waits_for_all_before_it():
    plan = Plan()
    course: Course[None, int] = Course()
    out = handout(plan, course)
    rounds = [one for one in (out.next(9) for _ in range(3)) if one]

    assert out.next(9) is None
    for one in rounds:
        out.took(one, GOOD)
        out.took(one, GOOD)
    last = out.next(9)
    assert last is not None
    out.took(last, GOOD)

    assert out.next(9) is None
    assert out.is_over
    assert plan.seen == [0, 0, 0, 6]


def test_no_more_rounds_are_on_their_way_than_allowed():
    out = handout(Plan(), Course())

    assert [out.next(2) is None for _ in range(3)] == [False, False, True]


def test_a_round_that_was_begun_stays_at_home_or_is_made_anew():
    course: Course[None, int] = Course()
    course.add((0, None, "b"), FAILED)
    out = handout(Plan(), course, "north")
    one = out.next(9)
    assert one is not None

    assert (one.home, [step.subject for step in one.left]) == ("north", ["a"])
    out.begin_anew(one, "south")

    assert (one.home, [step.subject for step in one.left]) == ("south", ["a", "b"])
    assert not course.samples


def test_a_round_of_two_machines_is_made_anew():
    """A kill came while the round was made anew: one sample is still of the first machine."""
    course: Course[None, int] = Course(None, [((0, None, name), GOOD) for name in "ab"])
    homes = {"a": "south", "b": "north"}

    one = Handout(Plan(), course, lambda step: homes[step.subject], lambda _, sample: sample).next(
        9
    )

    assert one is not None
    assert (one.home, [step.key for step in one.left]) == (None, [(0, None, n) for n in "ab"])
