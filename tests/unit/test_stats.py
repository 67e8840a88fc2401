"""Intervals, rank correlation and concordance against closed forms and a second implementation."""

import itertools
import math
import random
import statistics

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from tuner.stats import (
    FAMILY_ERROR,
    Concordance,
    Estimate,
    Interval,
    concordance,
    fewest_pairs,
    geometric_mean_interval,
    holm,
    kendall_tau,
    median_estimate,
    paired_p_value,
    pairs_to_show,
    ratio_estimate,
)

_SAMPLES = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=2, max_size=25)


def test_one_value_has_no_interval():
    assert median_estimate([4.0]) == Estimate(4.0, None, 1)


def test_no_value_has_no_estimate():
    assert median_estimate([]) is None


def test_equal_values_have_an_interval_of_width_zero():
    assert median_estimate([2.0, 2.0]) == Estimate(2.0, Interval(2.0, 2.0), 2)


def test_interval_is_the_same_every_time():
    values = [1.0, 5.0, 3.0, 9.0, 2.0, 7.0]
    assert median_estimate(values) == median_estimate(values)


def test_interval_of_few_values_spans_them_at_most():
    found = median_estimate([1.0, 2.0, 3.0, 4.0, 10.0])
    assert found is not None
    assert found.interval == Interval(1.0, 10.0)


@pytest.mark.parametrize(
    ("n", "low", "high"), [(5, 1, 5), (6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (15, 4, 12)]
)
def test_interval_is_of_the_order_statistics_that_cover_exactly(n: int, low: int, high: int):
    """Source: tables of the binomial distribution, such as Conover's A3."""
    found = median_estimate([float(value) for value in range(1, n + 1)])
    assert found is not None
    assert found.interval == Interval(low, high)
    assert found.is_range == (n < 6)
    if not found.is_range:
        assert scipy.stats.binom.cdf(low - 1, n, 0.5) <= 0.025


@pytest.mark.parametrize("n", [6, 12])
def test_interval_covers_the_true_median_at_least_as_often_as_it_says(n: int):
    rng = random.Random(7)
    n_covered = 0
    for _ in range(200):
        found = median_estimate([rng.expovariate(1.0) for _ in range(n)])
        assert found is not None
        assert found.interval is not None
        n_covered += not found.interval.excludes(math.log(2.0))
    assert n_covered >= 0.93 * 200


def test_geometric_mean_of_few_units_has_their_range():
    assert geometric_mean_interval([0.9]) is None
    assert geometric_mean_interval([0.9, 0.8, 1.1]) == Interval(0.8, 1.1)
    assert geometric_mean_interval([0.9] * 9) == Interval(0.9, 0.9)


def test_geometric_mean_interval_covers_what_it_should():
    values = [math.exp(0.01 * k) for k in range(-10, 11)]
    found = geometric_mean_interval(values)
    assert found is not None
    error = statistics.pstdev(range(-10, 11)) * 0.01 / math.sqrt(len(values))
    assert math.log(found.high) == pytest.approx(1.96 * error, rel=0.05)
    assert math.log(found.low) == pytest.approx(-1.96 * error, rel=0.05)
    with pytest.raises(ValueError, match="positive"):
        geometric_mean_interval([1.0, 0.0])


_PAIRS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=8)


@given(_PAIRS)
def test_p_value_equals_that_of_all_signs_written_out(pairs: list[tuple[int, int]]):
    """Second implementation: every assignment of signs to the ranks is equally probable."""
    found = paired_p_value([float(a) for a, _ in pairs], [float(b) for _, b in pairs])
    score = [(a - b) / (a + b) for a, b in pairs if a != b]
    ordered = sorted(score, key=abs)
    seen = sum(rank for rank, value in enumerate(ordered, 1) if value > 0.0)
    total = len(ordered) * (len(ordered) + 1) // 2
    sums = [
        sum(rank for rank, sign in enumerate(signs, 1) if sign)
        for signs in itertools.product((0, 1), repeat=len(ordered))
    ]
    extreme = max(seen, total - seen)
    n_as_far = sum(one >= extreme or one <= total - extreme for one in sums)
    assert found == pytest.approx(n_as_far / len(sums))


def test_p_value_without_ties_equals_scipy():
    values, baselines = [9.1, 8.2, 10.4, 9.7, 8.8, 9.05], [10.0, 10.1, 9.9, 10.3, 9.6, 9.0]
    logs = [math.log(a / b) for a, b in zip(values, baselines, strict=True)]
    expected = scipy.stats.wilcoxon(logs, method="exact").pvalue
    assert paired_p_value(values, baselines) == pytest.approx(expected)
    assert paired_p_value(baselines, values) == pytest.approx(expected)


def test_pairs_that_are_equal_show_nothing():
    assert paired_p_value([3.0] * 20, [3.0] * 20) == 1.0
    assert paired_p_value([], []) == 1.0


def test_nothing_beside_something_is_a_difference():
    assert paired_p_value([0.0] * 6, [5.0] * 6) == 2**-5


def test_holm_steps_down_and_never_back():
    assert holm([0.01, 0.04, 0.03, 0.005], 4) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8], 2) == [1.0, 1.0]
    assert holm([0.01], 22) == pytest.approx([0.22])
    assert holm([], 3) == []


@given(st.integers(1, 5000))
def test_fewest_pairs_can_show_something_and_one_less_cannot(n_tests: int):
    n = fewest_pairs(n_tests)
    assert holm([paired_p_value([1.0] * n, [2.0] * n)], n_tests)[0] <= FAMILY_ERROR
    assert holm([paired_p_value([1.0] * (n - 1), [2.0] * (n - 1))], n_tests)[0] > FAMILY_ERROR


def test_ratio_of_pairs_cancels_a_drift():
    baselines = [1.0, 2.0, 4.0, 8.0]
    found = ratio_estimate([0.5, 1.0, 2.0, 4.0], baselines)
    assert found == Estimate(0.5, Interval(0.5, 0.5), 4)


def test_ratio_to_nothing_does_not_exist():
    assert ratio_estimate([1.0], [0.0]) is None


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_values_that_are_not_finite_are_refused(bad: float):
    with pytest.raises(ValueError, match="finite"):
        median_estimate([1.0, bad])
    with pytest.raises(ValueError, match="finite"):
        kendall_tau([1.0, bad], [1.0, 2.0])


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="2 values are paired with 1"):
        concordance([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="1 values are paired with 2"):
        concordance([1.0], [1.0, 2.0])


def test_same_order_has_tau_one_and_reverse_order_minus_one():
    values = [1.0, 2.0, 4.0]
    assert kendall_tau(values, values) == 1.0
    assert kendall_tau(values, values[::-1]) == -1.0


def test_sample_of_ties_ranks_nothing():
    assert kendall_tau([100.0, 100.4, 100.2], [1.0, 2.0, 3.0]) is None
    assert kendall_tau([1.0], [2.0]) is None
    assert kendall_tau([0.0, 0.0], [1.0, 2.0]) is None


def test_values_within_half_a_percent_are_tied():
    # The first pair disagrees, but only within the tolerance: 2 of 3 pairs count.
    assert kendall_tau([100.0, 100.4, 200.0], [2.0, 1.0, 3.0]) == pytest.approx(2 / math.sqrt(6))


@given(_SAMPLES)
def test_tau_without_tolerance_equals_scipy(pairs: list[tuple[int, int]]):
    first = [float(a) for a, _ in pairs]
    second = [float(b) for _, b in pairs]
    found = kendall_tau(first, second, tie=0.0)
    expected = float(scipy.stats.kendalltau(first, second).statistic)
    if math.isnan(expected):
        assert found is None
    else:
        assert found == pytest.approx(expected)


def test_concordance_counts_only_pairs_that_differ():
    # Reference pairs: (1, 1.005) too near; (1, 2) ordered; (1.005, 2) left equal by the claim.
    assert concordance([1.0, 3.0, 3.0], [1.0, 1.005, 2.0]) == Concordance(0.5, 2)


def test_concordance_without_different_pairs_is_unknown():
    assert concordance([1.0, 2.0], [5.0, 5.01]) is None


def test_pairs_to_show_grow_with_the_spread_and_shrink_with_the_effect():
    calm, noisy = [0.99, 1.0, 1.01, 1.0, 0.99], [0.9, 1.0, 1.1, 1.05, 0.95]
    assert pairs_to_show(calm, 0.9, 1) == fewest_pairs(1)
    few, many = pairs_to_show(noisy, 0.9, 1), pairs_to_show(noisy, 0.98, 1)
    assert few is not None
    assert many is not None
    assert few < many
    assert many < (pairs_to_show(noisy, 0.98, 20) or 0)


@pytest.mark.parametrize(("ratios", "effect"), [([1.0, 1.1], 0.9), ([1.0] * 9, 1.0)])
def test_pairs_to_show_nothing_are_unknown(ratios: list[float], effect: float):
    assert pairs_to_show(ratios, effect, 1) is None


def test_a_ratio_of_nothing_does_not_count_for_the_pairs_to_show():
    ratios = [0.9, 1.0, 1.1, 1.05, 0.95]
    assert pairs_to_show([*ratios, 0.0], 0.98, 1) == pairs_to_show(ratios, 0.98, 1)


def test_so_many_pairs_show_it_half_of_the_time():
    """Simulated: lognormal ratios; the exact test decides."""
    rng = random.Random(7)
    effect, sd = 0.97, 0.04
    ratios = [math.exp(rng.gauss(0.0, sd)) for _ in range(400)]
    n_pairs = pairs_to_show(ratios, effect, 4)
    assert n_pairs is not None
    n_shown = 0
    for _ in range(200):
        drawn = [effect * math.exp(rng.gauss(0.0, sd)) for _ in range(n_pairs)]
        n_shown += paired_p_value(drawn, [1.0] * n_pairs) * 4 <= 0.05
    assert 70 <= n_shown <= 130
