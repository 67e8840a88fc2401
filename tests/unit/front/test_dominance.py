"""Dominance, fronts of any objectives, and hypervolume."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doubles.fronts import NAMES, TRIALS
from tests.doubles.runs import MIB, valued
from tuner.errors import MissingToolError, SpecError
from tuner.front.dominance import (
    front,
    front_points,
    hypervolume,
    non_dominated,
    reference_point,
    relative_hypervolume,
)


def test_front_is_ordered_and_names_its_equals():
    points = front_points(TRIALS, NAMES)

    assert [point.trial.number for point in points] == [2, 1, 3]
    assert [point.equals for point in points] == [(), (4,), ()]
    assert points[1].values == (80.0 * MIB, 990.0)


def test_front_of_other_objectives_keeps_the_records_of_the_campaign():
    points = front_points(TRIALS, ("cost",))

    assert [point.trial for point in points] == [TRIALS[3]]


def test_front_of_a_metric_that_was_not_measured_says_why():
    with pytest.raises(MissingToolError, match="p99_latency"):
        front_points(TRIALS, ("p99_latency",))


def test_front_of_an_unknown_metric_names_the_known_ones():
    with pytest.raises(SpecError, match="mean_heap"):
        front_points(TRIALS, ("heap",))


# Fronts


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_never_reach_the_library(bad: float):
    points = np.array([[1.0, 2.0], [bad, 1.0]])

    for refusing in (non_dominated, lambda p: hypervolume(p, (5.0, 5.0))):
        with pytest.raises(ValueError, match="finite"):
            refusing(points)


@given(points=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30))
def test_non_dominated_agrees_with_the_definition(points: list[tuple[int, int]]):
    array = np.array(points, dtype=np.float64)

    def dominates(a: tuple[int, int], b: tuple[int, int]) -> bool:
        return a != b and a[0] <= b[0] and a[1] <= b[1]

    expected = [
        index
        for index, point in enumerate(points)
        if not any(dominates(other, point) for other in points) and point not in points[:index]
    ]
    assert expected == non_dominated(array)


def test_the_front_holds_feasible_successes_only():
    many = [
        valued(0, (5.0, 5.0)),
        valued(1, (1.0, 1.0), violated=0.1),
        valued(2, None),
        valued(3, (4.0, 6.0)),
        valued(4, (6.0, 6.0)),
    ]

    assert [member.number for member in front(reversed(many))] == [0, 3]
    assert front([]) == []
    assert front(many[1:3]) == []


# Hypervolume


@given(
    points=st.lists(st.tuples(*[st.floats(0, 2000, allow_nan=False)] * 3), min_size=1, max_size=4)
)
def test_hypervolume_agrees_with_inclusion_and_exclusion(points: list[tuple[float, float, float]]):
    reference = (1000.0, 1000.0, 1000.0)

    def box(corners: Sequence[tuple[float, ...]]) -> float:
        worst = [max(values) for values in zip(*corners, strict=True)]
        sides = [max(0.0, math.log1p(1000.0) - math.log1p(value)) for value in worst]
        return math.prod(sides)

    expected = sum(
        (-1) ** (size + 1) * sum(map(box, itertools.combinations(points, size)))
        for size in range(1, len(points) + 1)
    )
    found = hypervolume(np.array(points), reference)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_points_beyond_the_reference_and_no_points_have_no_volume():
    assert hypervolume(np.array([[10.0, 10.0]]), (5.0, 50.0)) == 0.0
    assert hypervolume(np.empty((0, 2)), (5.0, 50.0)) == 0.0


def test_the_reference_is_the_nadir_of_the_defaults_and_a_tenth():
    defaults = [valued(0, (100.0, 20.0)), valued(1, None), valued(2, (50.0, 40.0), violated=2.0)]

    assert reference_point(defaults) == pytest.approx((110.0, 44.0))
    assert reference_point([valued(0, (0.0, 20.0))]) == pytest.approx((1.0, 22.0))
    assert reference_point([valued(0, None)]) is None


def test_gain_compares_with_the_defaults():
    default = valued(0, (100.0, 100.0), default=True)
    better = valued(1, (50.0, 100.0))
    reference = reference_point([default])
    assert reference is not None

    assert relative_hypervolume([default], reference) == 1.0
    gain = relative_hypervolume([default, better], reference)
    assert gain == pytest.approx(math.log(111 / 51) / math.log(111 / 101))
    assert relative_hypervolume([better], reference) is None
