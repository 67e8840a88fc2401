"""What a comparison of allocators runs, and for how long."""

import pytest

from tuner.bench.plan import BenchPlan, Task, make_tasks, seconds_within
from tuner.cli.main import run
from tuner.errors import SpecError


def test_every_workload_has_tasks():
    tasks = make_tasks(threads=(1, 2, 16))

    assert Task("ring", 16) in tasks
    assert Task("sizes", 2, 2) in tasks
    assert Task("sizes", 1, 32 << 20) in tasks
    assert Task("random-32k", 1) in tasks
    assert Task("random-32k", 16) not in tasks
    assert Task("memory", 1) in tasks
    assert Task("churn", 2) in tasks
    assert len(set(tasks)) == len(tasks)


def test_a_workload_of_two_sides_is_not_run_by_one_thread():
    assert make_tasks(["xmalloc"], (1, 2, 4)) == (Task("xmalloc", 2), Task("xmalloc", 4))


def test_an_unknown_workload_is_an_error_that_names_the_others():
    with pytest.raises(SpecError, match=r"workload 'ringo'.*larson"):
        make_tasks(["ringo"])


def test_time_of_a_run_follows_from_the_budget():
    tasks = make_tasks(["larson"], (2, 4))

    assert seconds_within(60, tasks, 5, 2) == pytest.approx((60 - 2) / 20 / 1.7, abs=0.01)
    assert seconds_within(1, tasks, 5, 2) == 0.02
    assert seconds_within(1e6, tasks, 5, 2) == 2.0


def test_words_for_the_driver():
    plan = BenchPlan((), 0.25, 3, seed=7)

    assert plan.words(Task("sizes", 2, 64)) == [
        *("sizes", "--threads", "2", "--seed", "7", "--seconds", "0.25", "--size", "64")
    ]
    assert "--seconds" not in plan.words(Task("memory", 1))


@pytest.mark.parametrize("option", [("--threads", "2"), ("--sizes", "64"), ()])
def test_a_workload_that_there_is_not_is_named(
    option: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    assert run(["bench", "--workloads", "lars", *option]) == SpecError.exit_code

    assert (
        "workload 'lars': there is none; did you mean 'larson'? allowed: scalability,"
        in capsys.readouterr().err
    )


def test_a_number_of_threads_that_is_none_is_an_error(capsys: pytest.CaptureFixture[str]):
    for word in ("two", "0", "9" * 5000):
        assert run(["bench", "--threads", word]) == SpecError.exit_code
        assert "not a whole number from 1 to 1024" in capsys.readouterr().err


def test_what_no_thread_number_suits_is_an_error():
    with pytest.raises(SpecError, match="workload xmalloc: not with fewer than 2 threads"):
        make_tasks(["xmalloc"], (1,))
