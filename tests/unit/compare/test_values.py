"""A metric of all samples: medians and ratios against numbers known beforehand."""

import pytest

from tuner.compare.values import Values
from tuner.records import Outcome, Status


def values(rows: dict[tuple[str, str], list[float | None]]) -> Values[str]:
    return Values.collect(
        [
            ((number, task, subject), Outcome.succeeded((value,)))
            for (task, subject), row in rows.items()
            for number, value in enumerate(row)
        ],
        lambda found: found[0],
    )


def test_a_failed_run_has_no_value():
    found = Values.collect(
        [
            ((0, "x", "a"), Outcome.succeeded((1.0,))),
            ((1, "x", "a"), Outcome(Status.FAILED, "no", (9.0,))),
        ],
        lambda found: found[0],
    )

    assert found.by_round("x", "a") == {0: 1.0}


def test_the_ratio_is_the_median_of_pairs_and_not_the_ratio_of_medians():
    found = values({("x", "base"): [1.0, 2.0, 4.0], ("x", "a"): [3.0, 2.0, 2.0]})

    ratio = found.ratio("x", "a", "base")
    assert ratio is not None
    assert ratio.median == 1.0  # 3, 1, 0.5; the medians are both 2
    median = found.median("x", "a")
    assert median is not None
    assert median.median == 2.0


def test_rounds_without_a_pair_are_left_out():
    found = values({("x", "base"): [1.0, None, 4.0], ("x", "a"): [3.0, 2.0, None]})

    assert found.pairs("x", "a", "base") == ([3.0], [1.0])
    assert found.pairs("x", "a", "base", first_round=1) == ([], [])
    assert found.ratio("y", "a", "base") is None


def test_a_change_over_tasks_is_a_geometric_mean_in_each_round():
    found = values(
        {
            ("x", "base"): [1.0, 1.0, 1.0],
            ("x", "a"): [1.5, 3.0, 1.0],
            ("y", "base"): [100.0, 100.0, 100.0],
            ("y", "a"): [150.0, 75.0, 100.0],
        }
    )

    change = found.change(("x", "y"), "a", "base")
    assert change is not None
    assert change.median == pytest.approx(1.5)  # 1.5, 1.5, 1
    assert change.n == 3


def test_a_change_needs_every_task():
    found = values({("x", "base"): [1.0], ("x", "a"): [2.0], ("y", "base"): [0.0], ("y", "a"): [1]})

    assert found.change(("x", "y"), "a", "base") is None
    assert found.change(("x", "z"), "a", "base") is None
    assert found.change((), "a", "base") is None
