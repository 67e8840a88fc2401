"""What emulation gets wrong, learned from runs of the program: log(real / expected).

The difference has a part that all share, one for each allocator, one that goes with what was
expected, and one of each setting's own.  A ridge fits them at once; the penalty of a setting's own
part is small where runs repeat themselves, so there the measurement wins, and great where they do
not, so there it is smoothed.  How much emulation gets wrong at all differs from program to program,
so fits of several sizes are averaged, each by how likely the runs are under it: where settings
scatter no more than the program as it is, nothing is made of the luckiest.  Candidates are chosen
by these values, never by the luckiest run.

Source: the difference of a cheap and a dear source as a model of its own: Kennedy and O'Hagan,
"Predicting the output from a complex computer code when fast approximations are available",
Biometrika 87, 2000; with a factor of 1, since the program's own part is in what is expected.
Average over models: Hoeting, Madigan, Raftery, Volinsky, "Bayesian model averaging: a tutorial",
Statistical Science 14, 1999.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_BIAS = 0.1
"""Standard deviation of what emulation gets wrong for an allocator, in logarithms: 10 %."""

_OWN_BIAS = 0.03
"""The same of one setting of it."""

_SIZES = {3.0: 0.2, 1.0: 0.4, 0.3: 0.2, 0.1: 0.2}
"""What it may be times, and how likely beforehand: little where allocation hardly matters, much
where processes fork or rest, which emulation does not see."""


def estimated(
    groups: Sequence[str],
    expected: Sequence[float],
    measured: Mapping[int, Sequence[float]],
    noise: float,
) -> tuple[Floats, Floats]:
    """Return what is to be expected after the runs made so far, and how doubtful it is.

    Args:
        groups: allocator of every setting.
        expected: log of the ratio to the baseline of every setting, shape (n,).
        measured: index of a setting -> log ratio of its runs; settings without runs are absent.
        noise: standard deviation of the logarithm of one run, 0 where runs repeat themselves.

    Returns:
        Log ratios and their standard deviations, both of shape (n,).  Without runs `expected`
        itself; the doubt is what emulation gets wrong as a rule.
    """
    before = np.asarray(expected, dtype=np.float64)
    if not measured:
        return before, np.full(len(before), _BIAS)
    features = _features(groups, before)
    rows = sorted(measured)
    delta = np.array([np.median(measured[row]) - before[row] for row in rows])
    weight = np.array([max(noise, 1e-4) / np.sqrt(len(measured[row])) for row in rows])
    fits = [_fit(size * features, rows, delta, weight) for size in _SIZES]
    wrong, doubts, evidence = (np.array(one) for one in zip(*fits, strict=True))
    chances = np.exp(evidence - evidence.max()) * list(_SIZES.values())
    chances /= chances.sum()
    middle: Floats = chances @ wrong
    variances: Floats = chances @ (doubts**2 + (wrong - middle) ** 2)
    return before + middle, np.sqrt(variances)


def _fit(
    features: Floats, rows: Sequence[int], delta: Floats, weight: Floats
) -> tuple[Floats, Floats, float]:
    """Return what emulation gets wrong, its doubts, and the log of how likely the runs are.

    Args:
        features: of every setting, in units of what is usual, shape (n, n_parts).
        rows: settings that ran.
        delta: log(real / expected) of these.
        weight: standard deviations of `delta`.
    """
    weighted, units = features[rows] / weight[:, None], delta / weight
    normal = weighted.T @ weighted + np.eye(features.shape[1])
    covariance = np.linalg.inv(normal)
    parts = covariance @ weighted.T @ units
    doubts: Floats = np.sqrt(np.einsum("ij,jk,ik->i", features, covariance, features))
    # Of the runs' covariance, the quadratic form and the determinant (Woodbury's identity).
    evidence = -0.5 * (units @ (units - weighted @ parts) + np.linalg.slogdet(normal)[1])
    return features @ parts, doubts, float(evidence)


def _features(groups: Sequence[str], before: Floats) -> Floats:
    """Return shared part, allocators, slope and own parts, in units of what is usual of each."""
    design, own = _design(groups, before), np.eye(len(before))
    scales = np.concatenate([np.full(design.shape[1], _BIAS), np.full(len(before), _OWN_BIAS)])
    found: Floats = np.hstack([design, own]) * scales
    return found


def _design(groups: Sequence[str], expected: Floats) -> Floats:
    names = sorted(set(groups))
    one_hot = np.array([[float(group == name) for name in names] for group in groups])
    return np.hstack([np.ones((len(groups), 1)), one_hot, expected[:, None]])
