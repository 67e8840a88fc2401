"""Runs that choose the candidates, each once, the promising again."""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.unit.optimize.confirming.test_race import Kept, Nowhere
from tuner.compare.loop import compare
from tuner.compare.plan import Course, Step
from tuner.optimize.choosing.selection import Budget, Selection
from tuner.optimize.proof.duets import AT_ONCE, AtOnce, Duets
from tuner.optimize.quantities import CPU
from tuner.optimize.tuned import AS_IS, Sample
from tuner.records import Outcome, Status


def test_each_candidate_runs_once_and_the_program_as_it_is_in_every_round():
    labels = [f"setting {number}" for number in range(6)]
    course: Course[None, Sample] = Course()
    plan = Selection(labels, seed=1)

    blocks = [[step.subject for step in block] for block in plan.blocks(course) if block]

    assert [len(block) for block in blocks] == [5, 3]
    assert all(block.count(AS_IS) == 1 for block in blocks)
    assert sorted(name for block in blocks for name in block if name != AS_IS) == labels
    assert plan.n_left(course) == 8


def test_a_round_that_is_not_begun_runs_at_once():
    duets = Duets(samples({}), [samples({"a": 2.0})])
    names = ["a", "b", "c", "d", "e"]

    plan = AtOnce(Selection(names, seed=1), duets)
    course = compare(plan, duets.runs, Nowhere(), baseline=AS_IS)

    at_once = sorted(one.good[AT_ONCE] for one in course.samples.values() if one.good)
    assert at_once == [2.0] * 2 + [5.0] * 5

    alone = Outcome.succeeded({CPU: 1.0})
    begun = {key: alone for key in course.samples if key[2] == AS_IS}
    later = Duets(samples({}), [samples({})])
    plan = AtOnce(Selection(names, seed=1), later)
    again = compare(plan, later.runs, Kept(begun), baseline=AS_IS)
    others = [s.good for (_, _, name), s in again.samples.items() if name != AS_IS]
    assert all(one and one[AT_ONCE] == 1.0 for one in others)


def samples(names: dict[str, float]) -> Callable[[Step[None]], Outcome[Sample]]:
    return lambda step: Outcome.succeeded({CPU: names.get(step.subject, 1.0)})


def test_nothing_begins_once_the_time_is_over_and_what_is_kept_stays():
    labels = [f"setting {number}" for number in range(12)]
    course = compare(
        Selection(labels, 1, lambda _: labels[:2], is_over=lambda: True),
        samples({}), Nowhere(), baseline=AS_IS,
    )  # fmt: skip
    whole = compare(Selection(labels, 1), samples({}), Nowhere(), baseline=AS_IS)

    assert len(course.samples) == 5
    later = Selection(labels, 1, is_over=lambda: True)
    assert sum(map(len, later.blocks(whole))) == 15


def test_what_looks_best_runs_twice_more():
    labels = [f"setting {number}" for number in range(6)]
    asked: list[int] = []

    def promising(first: Course[None, Sample]) -> list[str]:
        asked.append(len(first.samples))
        return labels[:2]

    plan = Selection(labels, 1, promising, times=2)
    course = compare(plan, samples({}), Nowhere(), baseline=AS_IS)

    runs = Counter(label for _, _, label in course.samples)
    assert [runs[label] for label in labels] == [3, 3, 1, 1, 1, 1]
    assert runs[AS_IS] == 4
    assert asked == [8], "by the first runs alone"


def test_what_failed_does_not_run_again():
    def run(step: Step[None]) -> Outcome[Sample]:
        if step.subject == "bad":
            return Outcome.did_not_succeed(Status.FAILED, "killed by SIGSEGV")
        return Outcome.succeeded({CPU: 1.0})

    plan = Selection(["good", "bad"], 1, lambda _: ["bad", "good"], times=2)
    course = compare(plan, run, Nowhere(), baseline=AS_IS)

    runs = Counter(label for _, _, label in course.samples)
    assert (runs["good"], runs["bad"]) == (3, 1)


@pytest.mark.parametrize(
    ("n_possible", "expected"),
    [
        (8, Budget(2, 0, 0)),
        (59, Budget(14, 0, 0)),
        (60, Budget(15, 5, 1)),
        (149, Budget(21, 7, 1)),
        (150, Budget(24, 8, 2)),
    ],
)
def test_choosing_takes_less_than_half_of_the_runs(n_possible: int, expected: Budget):
    found = Budget.of(n_possible)

    assert found == expected
    assert found.n_runs <= n_possible / 2


def test_a_selection_that_goes_on_in_another_time_has_the_same_looks():
    for n_possible in range(5, 400):
        found = Budget.of(n_possible)

        assert Budget.begun_with(found.n_first) == found


def test_it_ends_after_the_round_that_left_nothing_to_choose():
    labels = [f"setting {number}" for number in range(12)]
    plan = Selection(
        labels,
        1,
        promising=lambda _: labels[:4],
        others=lambda _: ["other"],
        ends=lambda course: len(course.samples) >= 10,
    )

    course = compare(plan, samples({}), Nowhere(), baseline=AS_IS)

    assert {one for _, _, one in course.samples} == {AS_IS, *labels[:8]}, "the first run first"


def test_one_that_goes_on_ends_where_it_ended():
    labels = [f"setting {number}" for number in range(12)]
    seen: list[int] = []

    def ends(course: Course[None, Sample]) -> bool:
        seen.append(len(course.samples))
        return False

    plan = Selection(labels, 1, ends=ends)
    course = compare(plan, samples({}), Nowhere(), baseline=AS_IS)
    for block in Selection(labels, 1, ends=ends).blocks(course):
        assert all(step.key in course.samples for step in block)

    assert seen == [5, 10, 15] * 2
