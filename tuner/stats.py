"""Statistics of repeated measurements and of rankings.

Tests and intervals are exact and need no distribution: Wilcoxon's signed ranks for pairs of
one round, order statistics for a median, both scipy's.  Only a mean over simulations is
bootstrapped.  Kendall's tau-b is computed here, because values within measuring noise of each
other count as ties, and such ties are not transitive, so no ranking exists that scipy's
function could take; with a tolerance of 0 both give the same number, which a test checks.

Nothing here ever returns NaN: what is not defined is None.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

TIE = 0.005
"""Values closer than this share of the greater one are tied.

Source: the fidelity metrics of docs/decisions/measuring.md.
"""

DIFFERENT = 0.01
"""Pairs farther apart than this share of the greater value differ without doubt."""

CONFIDENCE = 0.95
"""Least probability with which an interval holds the true median."""

_N_RESAMPLES = 9999
_SEED = 20250807
"""Fixed, so that the same units always give the same interval."""

_MAD_TO_SD = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""

FAMILY_ERROR = 0.05
"""Greatest probability of one false difference or more among all claims of a validation."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval, ends included."""

    low: float
    high: float

    def excludes(self, value: float) -> bool:
        """Return whether a value lies outside."""
        return not self.low <= value <= self.high


@dataclass(frozen=True)
class Estimate:
    """A median with its interval."""

    median: float
    interval: Interval | None
    """None when there is but one value: nothing is known about its spread."""
    n: int
    """Number of values, at least 1."""

    @property
    def is_range(self) -> bool:
        """True when the interval is but the range of too few values: see `median_estimate`."""
        return self.interval is not None and self.n < fewest_pairs(1, 1.0 - CONFIDENCE)


@dataclass(frozen=True)
class Concordance:
    """How often one ranking orders pairs as another one does."""

    share: float
    """0.0 .. 1.0 of the pairs that clearly differ in the reference."""
    n_pairs: int
    """Number of those pairs, at least 1."""


def median_estimate(values: Sequence[float]) -> Estimate | None:
    """Return the median and its interval: two order statistics.

    Args:
        values: finite numbers, one per independent run.

    Returns:
        None for no value.  The interval holds the true median with a probability of
        `CONFIDENCE` or more, whatever the distribution.  Fewer than six values have no such
        interval: theirs is the range, which holds it with probability 1 - 2 ** (1 - n),
        75 % for n = 3 and 94 % for n = 5.

    Raises:
        ValueError: a value is not finite.

    Source: Conover, Practical Nonparametric Statistics, section 3.2.

    Example:
        >>> median_estimate([3.0, 3.0, 3.0])
        Estimate(median=3.0, interval=Interval(low=3.0, high=3.0), n=3)
    """
    _check_finite(values)
    if not values:
        return None
    middle = float(statistics.median(values))
    return Estimate(middle, _interval(values), len(values))


def ratio_estimate(values: Sequence[float], baselines: Sequence[float]) -> Estimate | None:
    """Return the median of the paired ratios ``value / baseline`` and its interval.

    Pairs come from the same round, so a drift of the machine cancels.

    Args:
        values: one per round.
        baselines: of the same rounds, in the same order.

    Returns:
        None when there is no pair, or when a baseline is 0: no ratio exists.

    Raises:
        ValueError: the lengths differ or a value is not finite.
    """
    _check_finite([*values, *baselines])
    pairs = list(zip(values, baselines, strict=True))
    if any(baseline == 0 for _, baseline in pairs):
        return None
    return median_estimate([value / base for value, base in pairs])


def geometric_mean_interval(values: Sequence[float]) -> Interval | None:
    """Return where the geometric mean over other units like these may lie.

    It is the percentile interval of `CONFIDENCE` over resampled units: simulations, say, whose
    ratios differ from one to the other by far more than from round to round.

    Args:
        values: above 0, one per unit.

    Returns:
        None for fewer than two values; the range for fewer than six, as for a median.

    Raises:
        ValueError: a value is not finite or not above 0.
    """
    _check_finite(values)
    if any(value <= 0.0 for value in values):
        raise ValueError("a geometric mean needs positive numbers")
    if len(values) < 2:  # noqa: PLR2004 - one value has no spread
        return None
    few = len(values) < fewest_pairs(1, 1.0 - CONFIDENCE)
    if few or min(values) == max(values):
        return Interval(float(min(values)), float(max(values)))
    from scipy.stats import bootstrap  # noqa: PLC0415 - slow to import, rarely needed

    logs = np.log(np.asarray(values, dtype=np.float64))
    found = bootstrap(
        (logs,),
        np.mean,
        n_resamples=_N_RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    return Interval(math.exp(found.low), math.exp(found.high))


def paired_p_value(values: Sequence[float], baselines: Sequence[float]) -> float:
    """Return how probable a difference as clear as this one is when there is none.

    The test is Wilcoxon's of signed ranks over the logarithms of the ratios, exact and
    two-sided.  Where a value and its baseline are of the same distribution and came in random
    order, either sign is equally probable in each round, whatever load, drift or outliers did
    to it; nothing else is assumed.  Pairs without a difference are left out.  Among differences
    of the same size the earlier pair has the lower rank, which favours no sign, and keeps the
    test exact.

    Args:
        values: one per round, not negative.
        baselines: of the same rounds, in the same order.

    Returns:
        Above 0.0, at most 1.0; at the least 2 ** (1 - n) for n pairs.

    Raises:
        ValueError: the lengths differ or a value is not finite.

    Source: Wilcoxon, "Individual comparisons by ranking methods", Biometrics Bulletin 1, 1945.

    Example:
        >>> paired_p_value([9.0, 8.0, 7.0, 9.0, 8.0, 9.5], [10.0] * 6)
        0.03125
    """
    _check_paired(values, baselines)
    first, second = (np.asarray(one, dtype=np.float64) for one in (values, baselines))
    # As monotonic in the ratio and as symmetric as its logarithm, and finite next to a 0.
    differing = first != second
    score = (first - second)[differing] / (first + second)[differing]
    signs = np.sign(score[np.argsort(np.abs(score), kind="stable")])
    ranks = np.arange(1, len(signs) + 1)
    return _signed_rank_p_value(len(signs), int(ranks[signs > 0.0].sum()))


@cache
def _signed_rank_p_value(n: int, rank_sum: int) -> float:
    """Return the exact two-sided p-value of n signed ranks, given the sum of the positive ones."""
    from scipy.stats import wilcoxon  # noqa: PLC0415 - slow to import, rarely needed

    if n == 0:
        return 1.0
    signed = []
    for rank in range(n, 0, -1):  # any signs of this sum will do
        is_positive = rank <= rank_sum
        rank_sum -= rank * is_positive
        signed.append(rank if is_positive else -rank)
    return float(wilcoxon(signed, method="exact").pvalue)


def holm(p_values: Sequence[float], n_tests: int) -> list[float]:
    """Return p-values adjusted for a family of tests, in their order.

    Calling those of at most alpha different is wrong about one or more of the family with
    a probability of alpha at most, however the tests depend on each other.

    Args:
        p_values: of the tests that were made.
        n_tests: that were planned, at least as many.

    Source: Holm, "A simple sequentially rejective multiple test procedure", Scandinavian
    Journal of Statistics 6, 1979.

    Example:
        >>> holm([0.04, 0.01], 2), holm([0.01], 3)
        ([0.04, 0.02], [0.03])
    """
    adjusted = [1.0] * len(p_values)
    greatest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        greatest = max(greatest, min(1.0, (n_tests - rank) * p_values[index]))
        adjusted[index] = greatest
    return adjusted


def fewest_pairs(n_tests: int, error: float = FAMILY_ERROR) -> int:
    """Return how many pairs the first of a family of tests needs to show anything.

    It is the least n with ``n_tests * 2 ** (1 - n) <= error``: with fewer, not even pairs that
    all differ in the same direction are evidence enough, see `paired_p_value` and `holm`.

    Args:
        n_tests: at least 1.
        error: of the family, above 0 and below 1.

    Example:
        >>> fewest_pairs(1), fewest_pairs(22)
        (6, 10)
    """
    return 1 + math.ceil(math.log2(n_tests / error))


def pairs_to_show(ratios: Sequence[float], effect: float, n_tests: int) -> int | None:
    """Return about how many pairs would show a change as large as this one.

    Half of the attempts with so many pairs show it, if the ratios go on to vary as these do.

    Args:
        ratios: above 0, of the pairs so far.
        effect: the ratio to be shown, above 0.
        n_tests: of the family, at least 1.

    Returns:
        At least `fewest_pairs`; None for fewer than three ratios, or for no effect.

    Source: sample size of Wilcoxon's test by its efficiency against the normal one, 3 / pi:
    Lehmann, Nonparametrics, section 4.2.  The spread is the median absolute deviation, which
    outliers do not widen.

    Example:
        >>> pairs_to_show([0.97, 1.0, 1.03, 0.96, 1.04, 1.0], 0.98, 2)
        26
    """
    logs = [math.log(ratio) for ratio in ratios if ratio > 0.0]
    if len(logs) < 3 or effect <= 0.0 or effect == 1.0:  # noqa: PLR2004 - fewer have no spread
        return None
    sd = robust_sd(logs)
    quantile = statistics.NormalDist().inv_cdf(1.0 - FAMILY_ERROR / n_tests / 2.0)
    needed = math.pi / 3.0 * (quantile * sd / math.log(effect)) ** 2
    return max(fewest_pairs(n_tests), math.ceil(needed))


def robust_sd(values: Sequence[float]) -> float:
    """Return the standard deviation by the median absolute deviation; 0 of nothing."""
    middle = statistics.median(values) if values else 0.0
    return _MAD_TO_SD * statistics.median(abs(x - middle) for x in values) if values else 0.0


def kendall_tau(first: Sequence[float], second: Sequence[float], tie: float = TIE) -> float | None:
    """Return Kendall's tau-b of two paired samples, near values being ties.

    ``tau_b = sum(a_ij * b_ij) / sqrt(sum(a_ij ** 2) * sum(b_ij ** 2))`` over all
    pairs i < j, where a_ij is -1, 0 or +1: the sign of the difference, 0 for a tie.

    Args:
        first: finite, not negative.
        second: of the same length.
        tie: greatest relative difference of two tied values; 0 only ties equal ones.

    Returns:
        -1.0 .. 1.0; None when either sample is all ties (or has fewer than two
        values): it then ranks nothing.

    Raises:
        ValueError: the lengths differ or a value is not finite.

    Source: Kendall, "The treatment of ties in ranking problems", Biometrika 33, 1945.
    """
    _check_paired(first, second)
    signs_first, signs_second = _signs(first, tie), _signs(second, tie)
    norm = math.sqrt(float((signs_first**2).sum()) * float((signs_second**2).sum()))
    return float((signs_first * signs_second).sum()) / norm if norm > 0.0 else None


def concordance(claimed: Sequence[float], reference: Sequence[float]) -> Concordance | None:
    """Return how often the claimed values order a pair as the reference does.

    Only pairs whose reference values differ by more than `DIFFERENT` count; a
    pair that the claimed values leave equal counts as not ordered.

    Returns:
        None when no pair differs that much.

    Raises:
        ValueError: the lengths differ or a value is not finite.
    """
    _check_paired(claimed, reference)
    truth = _signs(reference, DIFFERENT)
    n_pairs = int((truth != 0).sum())
    if n_pairs == 0:
        return None
    agree = int(((truth == _signs(claimed, 0.0)) & (truth != 0)).sum())
    return Concordance(agree / n_pairs, n_pairs)


def _interval(values: Sequence[float]) -> Interval | None:
    if len(values) < 2:  # noqa: PLR2004 - one value has no spread
        return None
    ordered = sorted(map(float, values))
    low, high = _ranks(len(ordered))
    return Interval(ordered[low], ordered[high])


@cache
def _ranks(n: int) -> tuple[int, int]:
    """Return which of n sorted values are the ends of the median's interval; n is at least 2.

    They are the same whatever the values: asked once, of the ranks themselves.
    """
    from scipy.stats import quantile_test  # noqa: PLC0415 - slow to import, rarely needed

    found: Any = quantile_test(np.arange(n), p=0.5).confidence_interval(CONFIDENCE)
    low, high = found  # scipy-stubs takes it for a number
    return (0, n - 1) if math.isnan(low) or math.isnan(high) else (int(low), int(high))


def _signs(values: Sequence[float], tie: float) -> npt.NDArray[np.int64]:
    """Return the sign of every difference i < j, 0 for ties: shape (n * (n - 1) / 2,)."""
    array = np.asarray(values, dtype=np.float64)
    rows, columns = np.triu_indices(len(array), k=1)
    difference = array[columns] - array[rows]
    limit = tie * np.maximum(np.abs(array[columns]), np.abs(array[rows]))
    signs = np.where(np.abs(difference) <= limit, 0.0, np.sign(difference))
    return signs.astype(np.int64)


def _check_paired(first: Sequence[float], second: Sequence[float]) -> None:
    if len(first) != len(second):
        raise ValueError(f"{len(first)} values are paired with {len(second)}")
    _check_finite([*first, *second])


def _check_finite(values: Sequence[float]) -> None:
    if not all(math.isfinite(value) for value in values):
        raise ValueError("statistics need finite numbers")
