"""Evidence may be looked at after every round: error rates hold, gains are found."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.optimize.proof.evidence import (
    fewest_rounds,
    greatest_evidence,
    lower_bound,
    rounds_for,
    showable_gain,
    upper_bound,
)

FINITE = st.lists(st.floats(-10.0, 10.0, allow_nan=False), max_size=30)


def false_alarms(draw: object, n: int = 400) -> float:
    assert callable(draw)
    return sum(greatest_evidence(draw()) >= 20.0 for _ in range(n)) / n


def test_noise_alone_is_rarely_evidence_however_often_one_looks():
    """At an error of 5 %, the greatest evidence over 40 looks; three kinds of noise."""
    rng = np.random.default_rng(5)

    def normal() -> list[float]:
        return list(rng.normal(0.0, 0.03, 40))

    def with_outliers() -> list[float]:
        return list(rng.normal(0.0, 0.03, 40) * np.where(rng.random(40) < 0.05, 15.0, 1.0))

    def heavy() -> list[float]:
        return list(rng.standard_cauchy(40) * 0.01)

    assert max(map(false_alarms, (normal, with_outliers, heavy))) <= 0.05


def test_a_gain_beyond_the_noise_is_found_in_few_rounds():
    rng = np.random.default_rng(6)

    found = sum(greatest_evidence(list(rng.normal(0.05, 0.03, 20))) >= 20.0 for _ in range(100))

    assert found >= 95


@given(FINITE)
def test_more_rounds_never_take_evidence_away(values: list[float]):
    shorter = greatest_evidence(values[:-1])

    assert 1.0 <= shorter <= greatest_evidence(values) + 1e-9


@given(FINITE, st.floats(0.001, 1000.0))
def test_the_unit_does_not_matter(values: list[float], unit: float):
    assert greatest_evidence([x * unit for x in values]) == pytest.approx(
        greatest_evidence(values), rel=1e-6
    )


def test_one_outlier_does_not_decide():
    """A bet on a difference a hundred times the usual one is small."""
    quiet = [0.01, -0.011, 0.012, -0.009, 0.01, -0.01, 0.011, -0.012]

    assert greatest_evidence([*quiet, 1.0]) < 2.0


def test_bounds_hold_the_truth_and_close_in_on_it():
    """Each end may be wrong in 5 % of the comparisons."""
    rng = np.random.default_rng(7)
    wrong = 0
    for _ in range(100):
        values = list(rng.normal(0.05, 0.02, 40))
        low, high = lower_bound(values, 0.05), upper_bound(values, 0.05)
        wrong += not low < 0.05 < high
        assert high - low < 0.04

    assert wrong <= 10


def test_too_few_rounds_give_no_bound():
    few = [0.1] * (fewest_rounds(0.05) - 1)

    assert math.isinf(lower_bound(few, 0.05))
    assert math.isinf(upper_bound([], 0.05))


def test_a_bound_agrees_with_the_evidence():
    """What lies below the bound is refuted, what lies above it is not."""
    values = list(np.random.default_rng(8).normal(0.05, 0.02, 30))
    low = lower_bound(values, 0.05)

    assert greatest_evidence([x - low + 0.001 for x in values]) >= 20.0
    assert greatest_evidence([x - low - 0.001 for x in values]) < 20.0


def test_fewer_claims_need_fewer_rounds():
    assert [fewest_rounds(0.05 / m) for m in (1, 2, 6, 26)] == [7, 8, 10, 12]


def test_what_can_be_shown_is_the_inverse_of_the_rounds_needed():
    gain = showable_gain(0.03, 80, 0.025)

    assert rounds_for(gain, 0.03, 0.025) == pytest.approx(80, abs=1)
    assert math.isinf(showable_gain(0.03, 5, 0.025))
