"""Intervals, rank correlation and concordance against closed forms and a second implementation."""

from __future__ import annotations

import math
import random

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from tuner.stats import (
    Concordance,
    Estimate,
    Interval,
    concordance,
    kendall_tau,
    median_estimate,
    ratio_estimate,
)

_SAMPLES = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=2, max_size=25)


def test_one_value_has_no_interval() -> None:
    assert median_estimate([4.0]) == Estimate(4.0, None, 1)


def test_no_value_has_no_estimate() -> None:
    assert median_estimate([]) is None


def test_equal_values_have_an_interval_of_width_zero() -> None:
    assert median_estimate([2.0, 2.0]) == Estimate(2.0, Interval(2.0, 2.0), 2)


def test_interval_is_the_same_every_time() -> None:
    values = [1.0, 5.0, 3.0, 9.0, 2.0, 7.0]
    assert median_estimate(values) == median_estimate(values)


def test_interval_of_few_values_spans_them_at_most() -> None:
    found = median_estimate([1.0, 2.0, 3.0, 4.0, 10.0])
    assert found is not None
    assert found.interval == Interval(1.0, 10.0)


def test_interval_covers_the_true_median_about_as_often_as_it_says() -> None:
    rng = random.Random(7)
    n_covered = 0
    for _ in range(60):
        found = median_estimate([rng.gauss(10.0, 1.0) for _ in range(15)])
        assert found is not None
        assert found.interval is not None
        n_covered += not found.interval.excludes(10.0)
    assert n_covered >= 52


def test_ratio_of_pairs_cancels_a_drift() -> None:
    baselines = [1.0, 2.0, 4.0, 8.0]
    found = ratio_estimate([0.5, 1.0, 2.0, 4.0], baselines)
    assert found == Estimate(0.5, Interval(0.5, 0.5), 4)


def test_ratio_to_nothing_does_not_exist() -> None:
    assert ratio_estimate([1.0], [0.0]) is None


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_values_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        median_estimate([1.0, bad])
    with pytest.raises(ValueError, match="finite"):
        kendall_tau([1.0, bad], [1.0, 2.0])


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="2 values are paired with 1"):
        concordance([1.0, 2.0], [1.0])


def test_same_order_has_tau_one_and_reverse_order_minus_one() -> None:
    values = [1.0, 2.0, 4.0]
    assert kendall_tau(values, values) == 1.0
    assert kendall_tau(values, values[::-1]) == -1.0


def test_sample_of_ties_ranks_nothing() -> None:
    assert kendall_tau([100.0, 100.4, 100.2], [1.0, 2.0, 3.0]) is None
    assert kendall_tau([1.0], [2.0]) is None
    assert kendall_tau([0.0, 0.0], [1.0, 2.0]) is None


def test_values_within_half_a_percent_are_tied() -> None:
    # The first pair disagrees, but only within the tolerance: 2 of 3 pairs count.
    assert kendall_tau([100.0, 100.4, 200.0], [2.0, 1.0, 3.0]) == pytest.approx(2 / math.sqrt(6))


@given(_SAMPLES)
def test_tau_without_tolerance_equals_scipy(pairs: list[tuple[int, int]]) -> None:
    first = [float(a) for a, _ in pairs]
    second = [float(b) for _, b in pairs]
    found = kendall_tau(first, second, tie=0.0)
    expected = float(scipy.stats.kendalltau(first, second).statistic)
    if math.isnan(expected):
        assert found is None
    else:
        assert found == pytest.approx(expected)


def test_concordance_counts_only_pairs_that_differ() -> None:
    # Reference pairs: (1, 1.005) too near; (1, 2) ordered; (1.005, 2) left equal by the claim.
    assert concordance([1.0, 3.0, 3.0], [1.0, 1.005, 2.0]) == Concordance(0.5, 2)


def test_concordance_without_different_pairs_is_unknown() -> None:
    assert concordance([1.0, 2.0], [5.0, 5.01]) is None
