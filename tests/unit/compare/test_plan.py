"""The order of runs, and which subjects are out."""

from tuner.compare.plan import Course, Once, Rounds, Step, order
from tuner.records import Outcome, Status

GOOD = Outcome.succeeded("seen")
FAILED = Outcome.did_not_succeed(Status.FAILED, "it fell over")


def steps(plan: Rounds[str], course: Course[str, str] | None = None) -> list[Step[str]]:
    return [step for block in plan.blocks(course or Course()) for step in block]


def test_every_subject_runs_once_in_every_round_on_every_task():
    found = steps(Rounds(("a", "b", "c"), ("x", "y"), 4))

    assert len(found) == len({step.key for step in found}) == 3 * 2 * 4


def test_a_block_is_one_task_in_one_round():
    blocks = list(Rounds(("a", "b"), ("x", "y"), 2).blocks(Course()))

    assert [{(s.round, s.task) for s in block} for block in blocks] == [
        {(0, "x")},
        {(0, "y")},
        {(1, "x")},
        {(1, "y")},
    ]


def test_rounds_are_shuffled_each_anew_and_the_first_one_too():
    found = {tuple(order(4, number, seed)) for number in range(30) for seed in (1, 2)}
    firsts = {order(4, 0, seed)[0] for seed in range(20)}

    assert len(found) > 15
    assert firsts == {0, 1, 2, 3}


def test_the_order_depends_on_seed_round_and_task_alone():
    assert order(5, 3, 7, "x") == order(5, 3, 7, "x")
    assert [order(8, 3, 7, where) for where in "xyz"] != [order(8, 3, 7, "x")] * 3


def test_a_validation_that_was_begun_before_goes_on_in_its_order():
    """The order of versions before 0.2 for a program, which has no tasks."""
    assert [order(4, number, 1) for number in range(3)] == [
        [2, 0, 1, 3],
        [1, 2, 0, 3],
        [3, 2, 1, 0],
    ]


def test_a_leader_comes_first_in_the_first_round_alone():
    firsts = [
        [
            b[0].subject
            for b in Rounds(("a", "b", "c"), ("x",), 9, seed, leads=True).blocks(Course())
        ]
        for seed in range(9)
    ]

    assert {row[0] for row in firsts} == {"a"}
    assert {name for row in firsts for name in row[1:]} == {"a", "b", "c"}


def test_a_task_that_repeats_itself_is_in_the_first_rounds_only():
    plan = Rounds(("a",), ("x", "once"), 3, repeats=lambda task: 1 if task == "once" else 3)

    assert [(s.round, s.task) for s in steps(plan)] == [(0, "x"), (0, "once"), (1, "x"), (2, "x")]


def test_a_subject_that_failed_is_out_of_its_task_alone():
    plan = Rounds(("a", "b"), ("x", "y"), 3)
    course: Course[str, str] = Course()
    course.add((0, "x", "b"), FAILED)

    assert course.out == {("x", "b"): "it fell over"}
    assert plan.n_left(course) == 3 * 2 * 2 - 3


def test_without_its_baseline_a_task_is_over():
    plan = Rounds(("a", "b"), ("x", "y"), 3)
    course: Course[str, str] = Course("a")
    course.add((0, "x", "a"), FAILED)

    assert course.is_over("x")
    assert not course.is_over("y")
    assert plan.n_left(course) == 3 * 2


def test_the_first_reason_to_leave_is_kept():
    course: Course[str, str] = Course()
    course.leave("x", "a", "lost")
    course.add((4, "x", "a"), FAILED)

    assert course.out["x", "a"] == "lost"


def test_the_last_sample_of_a_run_counts():
    course: Course[str, str] = Course(None, [((0, "x", "a"), FAILED), ((0, "x", "a"), GOOD)])

    assert not course.out


def test_once_wants_what_is_missing():
    plan = Once(tuple(Step(0, n, task, "a") for n, task in enumerate("xyz")))
    course: Course[str, str] = Course()
    course.add((0, "y", "a"), GOOD)

    assert plan.n_left(course) == 2


def test_what_is_known_of_a_subject_follows_its_samples():
    course: Course[str, str] = Course()
    for number in range(3):
        course.add((number, "tree", "exgen"), Outcome.succeeded(f"run {number}"))
    before = course.first(2)

    course.drop((0, "tree", "exgen"))
    course.put((1, "tree", "exgen"), FAILED)

    assert course.good("tree", "exgen") == {2: "run 2"}
    assert not course.out
    assert course.first(2).good("tree", "exgen") == {}
    assert before.good("tree", "exgen") == {0: "run 0", 1: "run 1"}
