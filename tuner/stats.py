"""Statistics of repeated measurements and of rankings.

The bootstrap is scipy's.  Kendall's tau-b is computed here, because values
within measuring noise of each other count as ties, and such ties are not
transitive, so no ranking exists that scipy's function could take; with a
tolerance of 0 both give the same number, which a test checks.

Nothing here ever returns NaN: what is not defined is None.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

TIE = 0.005
"""Values closer than this share of the greater one are tied.

Source: the fidelity metrics of docs/decisions/measuring.md.
"""

DIFFERENT = 0.01
"""Pairs farther apart than this share of the greater value differ without doubt."""

_N_RESAMPLES = 9999
_SEED = 20250807
"""Fixed, so that the same samples always give the same interval."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval, ends included."""

    low: float
    high: float

    def excludes(self, value: float) -> bool:
        """Tell whether a value lies outside."""
        return not self.low <= value <= self.high


@dataclass(frozen=True)
class Estimate:
    """A median with its interval."""

    median: float
    interval: Interval | None
    """None when there is but one value: nothing is known about its spread."""
    n: int
    """Number of values, at least 1."""


@dataclass(frozen=True)
class Concordance:
    """How often one ranking orders pairs as another one does."""

    share: float
    """0.0 .. 1.0 of the pairs that clearly differ in the reference."""
    n_pairs: int
    """Number of those pairs, at least 1."""


def median_estimate(values: Sequence[float], *, confidence: float = 0.95) -> Estimate | None:
    """Return the median and its percentile bootstrap interval.

    Args:
        values: finite numbers, one per independent run.
        confidence: nominal coverage, above 0 and below 1.

    Returns:
        None for no value.  With n < 6 the interval can at best span all values,
        which covers the true median with probability 1 - 2 ** (1 - n): 75 % for
        n = 3, 94 % for n = 5.

    Raises:
        ValueError: a value is not finite.

    Example:
        >>> median_estimate([3.0, 3.0, 3.0])
        Estimate(median=3.0, interval=Interval(low=3.0, high=3.0), n=3)
    """
    _check_finite(values)
    if not values:
        return None
    middle = float(statistics.median(values))
    return Estimate(middle, _interval(values, confidence), len(values))


def ratio_estimate(
    values: Sequence[float], baselines: Sequence[float], *, confidence: float = 0.95
) -> Estimate | None:
    """Return the median of the paired ratios ``value / baseline`` and its interval.

    Pairs come from the same round, so a drift of the machine cancels.

    Args:
        values: one per round.
        baselines: of the same rounds, in the same order.
        confidence: nominal coverage, above 0 and below 1.

    Returns:
        None when there is no pair, or when a baseline is 0: no ratio exists.

    Raises:
        ValueError: the lengths differ or a value is not finite.
    """
    _check_finite([*values, *baselines])
    pairs = list(zip(values, baselines, strict=True))
    if any(baseline == 0 for _, baseline in pairs):
        return None
    return median_estimate([value / base for value, base in pairs], confidence=confidence)


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


def concordance(
    claimed: Sequence[float], reference: Sequence[float], different: float = DIFFERENT
) -> Concordance | None:
    """Return how often the claimed values order a pair as the reference does.

    Only pairs whose reference values differ by more than `different` count; a
    pair that the claimed values leave equal counts as not ordered.

    Returns:
        None when no pair differs that much.

    Raises:
        ValueError: the lengths differ or a value is not finite.
    """
    _check_paired(claimed, reference)
    truth = _signs(reference, different)
    n_pairs = int((truth != 0).sum())
    if n_pairs == 0:
        return None
    agree = int(((truth == _signs(claimed, 0.0)) & (truth != 0)).sum())
    return Concordance(agree / n_pairs, n_pairs)


def _interval(values: Sequence[float], confidence: float) -> Interval | None:
    if len(values) < 2:  # noqa: PLR2004 - one value has no spread
        return None
    if min(values) == max(values):
        return Interval(float(values[0]), float(values[0]))
    from scipy.stats import bootstrap  # noqa: PLC0415 - slow to import, rarely needed

    result = bootstrap(
        (np.asarray(values, dtype=np.float64),),
        np.median,
        n_resamples=_N_RESAMPLES,
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    )
    found = result.confidence_interval
    return Interval(float(found.low), float(found.high))


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
        message = f"{len(first)} values are paired with {len(second)}"
        raise ValueError(message)
    _check_finite([*first, *second])


def _check_finite(values: Sequence[float]) -> None:
    if not all(math.isfinite(value) for value in values):
        message = "statistics need finite numbers"
        raise ValueError(message)
