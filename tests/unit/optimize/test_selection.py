"""Runs that choose the candidates, and how much they scatter."""

from __future__ import annotations

import math

import pytest

from tuner.compare.plan import Course
from tuner.optimize.selection import Selection, noise_of
from tuner.optimize.tuned import AS_IS, Sample


def test_each_candidate_runs_once_and_the_program_as_it_is_in_every_round() -> None:
    labels = [f"setting {number}" for number in range(6)]
    course: Course[None, Sample] = Course()
    plan = Selection(labels, seed=1)

    blocks = [[step.subject for step in block] for block in plan.blocks(course)]

    assert [len(block) for block in blocks] == [5, 3]
    assert all(block.count(AS_IS) == 1 for block in blocks)
    assert sorted(name for block in blocks for name in block if name != AS_IS) == labels
    assert plan.n_left(course) == 8


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_noise_is_the_median_deviation_made_comparable_with_a_standard_one(sign: float) -> None:
    """Logs of 0, 0.1 to 0.3 either side: the median distance from the median is 0.1."""
    values = [math.exp(sign * x) for x in (-0.3, -0.1, 0.0, 0.1, 0.1, -0.1, 0.2)]

    assert noise_of(values, has_floor=False) == pytest.approx(1.4826 * 0.1)
    assert noise_of(values, has_floor=True) == pytest.approx(1.4826 * 0.1)


def test_noise_of_few_equal_runs_is_assumed_and_of_enough_has_a_floor() -> None:
    assert noise_of([5.0] * 5, has_floor=True) == 0.03
    assert noise_of([5.0] * 6, has_floor=True) == 0.01
    assert noise_of([5.0] * 6, has_floor=False) == 0.0
    assert noise_of([], has_floor=False) == 0.0
