"""Evidence that may be looked at after every round: bounded e-tests of symmetry.

A round gives a pair: the baseline and a subject, in random order.  If both are of the same
distribution, either is the smaller one with probability 1/2, whatever load, drift or outliers
did to their sizes.  The evidence against that is a product of bets on the sign, which a fair
coin lets grow beyond 1/a with a probability of at most a, ever.  So rounds go on until the
question is decided, and the error rate holds all the same; a classical test would be wrong more
often the more often it is looked at.

Source: Vovk and Wang, "Nonparametric e-tests of symmetry", New England Journal of Statistics in
Data Science 2, 2024, section 4; the score is bounded and falls for outliers.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np

_STAKES: Final = np.array([0.1, 0.2, 0.4, 0.8, 1.6])
"""Sizes of the bets; the evidence is the mean over them, so none has to be the right one."""

_OUTLIER: Final = 3.0
"""Differences of more than so many typical ones count less the greater they are."""

_PRECISION: Final = 1e-4
"""Of the ends of an interval, in logarithms: 0.01 %."""


def greatest_evidence(differences: Sequence[float]) -> float:
    """Return the greatest evidence, over all rounds so far, that differences are above 0.

    Args:
        differences: one a round, in order; finite.  Such as ``log(baseline / subject)``.

    Returns:
        At least 1.0.  Where signs are a fair coin's, it ever reaches 1/a with probability a
        at most, so its inverse is a p-value, whenever one looks.

    Example:
        >>> greatest_evidence([]), round(greatest_evidence([0.1] * 10), 1)
        (1.0, 176.6)
    """
    if not differences:
        return 1.0
    scores = np.array(_scores(differences))
    # Each factor is 2 / (1 + exp(-2 t z)) for a stake t and a score z.
    factors = math.log(2.0) - np.logaddexp(0.0, -2.0 * np.outer(scores, _STAKES))
    return max(1.0, float(np.exp(factors.cumsum(axis=0)).mean(axis=1).max()))


def lower_bound(differences: Sequence[float], error: float) -> float:
    """Return what the typical difference is at least.

    Args:
        differences: one a round, in order; finite.
        error: probability with which the bound may ever be too high, above 0 and below 1.

    Returns:
        ``-inf`` where the rounds are too few for any bound.
    """
    wanted = 1.0 / error
    if len(differences) < fewest_rounds(error):
        return -math.inf
    low, high = min(differences) - _PRECISION, max(differences)
    # A shift that is refuted lies below the bound; evidence falls as the shift grows.
    while high - low > _PRECISION:
        middle = (low + high) / 2.0
        if greatest_evidence([x - middle for x in differences]) >= wanted:
            low = middle
        else:
            high = middle
    return low


def upper_bound(differences: Sequence[float], error: float) -> float:
    """Return what the typical difference is at most; as `lower_bound`, ``inf`` without bound."""
    return -lower_bound([-x for x in differences], error)


@cache
def fewest_rounds(error: float) -> int:
    """Return how many rounds decide at the least, all of them alike.

    Example:
        >>> fewest_rounds(0.05), fewest_rounds(0.05 / 6)
        (7, 10)
    """
    n_rounds = 1
    while greatest_evidence([1.0] * n_rounds) < 1.0 / error:
        n_rounds += 1
    return n_rounds


def showable_gain(spread: float, n_rounds: int, error: float) -> float:
    """Return the gain that about half of such comparisons show.

    Args:
        spread: standard deviation of the logarithm of one run.
        n_rounds: that there is time for.
        error: of the claim.

    Returns:
        A share, ``inf`` where there is no time for any.  The rule is fitted to simulations of
        `greatest_evidence` with normal noise: rounds = 4 + 2.6 ln(1/error) (1.41 spread/gain)^2.
    """
    beyond = n_rounds - 4
    if beyond <= 0 or n_rounds < fewest_rounds(error):
        return math.inf
    return math.sqrt(2.0) * spread * math.sqrt(2.6 * math.log(1.0 / error) / beyond)


def rounds_for(gain: float, spread: float, error: float) -> int:
    """Return how many rounds a gain needs, by the rule of `showable_gain`; gain is above 0."""
    wanted = 4.0 + 2.6 * math.log(1.0 / error) * (math.sqrt(2.0) * spread / gain) ** 2
    return max(fewest_rounds(error), math.ceil(wanted))


def _scores(differences: Sequence[float]) -> list[float]:
    """Return every difference in units of the typical one until then; falling for outliers."""
    sizes: list[float] = []
    scores = []
    for difference in differences:
        bisect.insort(sizes, abs(difference))
        typical = _middle(sizes)
        units = abs(difference) / typical if typical > 0.0 else 0.0
        bounded = units if units < _OUTLIER else _OUTLIER * (_OUTLIER / units) ** 2
        scores.append(math.copysign(bounded, difference))
    return scores


def _middle(ordered: Sequence[float]) -> float:
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2.0
