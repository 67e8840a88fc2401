"""What emulation gets wrong, learned from runs of the program: log(real / expected).

The difference has a part that all share, one for each allocator, one that goes with what was
expected, and one of each setting's own.  A ridge fits them at once; the penalty of a setting's own
part is small where runs repeat themselves, so there the measurement wins, and great where they do
not, so there it is smoothed.  Candidates are chosen by these values, never by the luckiest run.

Source: the difference of a cheap and a dear source as a model of its own: Kennedy and O'Hagan,
"Predicting the output from a complex computer code when fast approximations are available",
Biometrika 87, 2000; with a factor of 1, since the program's own part is in what is expected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_BIAS = 0.1
"""Standard deviation of what emulation gets wrong for an allocator, in logarithms: 10 %."""

_OWN_BIAS = 0.03
"""The same of one setting of it."""


def corrected(
    groups: Sequence[str],
    expected: Sequence[float],
    measured: Mapping[int, Sequence[float]],
    noise: float,
) -> Floats:
    """Return what is to be expected after the runs made so far.

    Args:
        groups: allocator of every setting.
        expected: log of the ratio to the baseline of every setting, shape (n,).
        measured: index of a setting -> log ratio of its runs; settings without runs are absent.
        noise: standard deviation of the logarithm of one run, 0 where runs repeat themselves.

    Returns:
        Log ratios, shape (n,); `expected` itself without runs.
    """
    return estimated(groups, expected, measured, noise)[0]


def estimated(
    groups: Sequence[str],
    expected: Sequence[float],
    measured: Mapping[int, Sequence[float]],
    noise: float,
) -> tuple[Floats, Floats]:
    """Return the same, and how much is doubtful: the standard deviations of what is expected.

    Returns:
        Two of shape (n,); without runs what emulation gets wrong as a rule is the doubt.
    """
    before = np.asarray(expected, dtype=np.float64)
    if not measured:
        return before, np.full(len(before), _BIAS)
    design = _design(groups, before)
    own = np.eye(len(before))
    # Prior standard deviations: shared part and allocators, slope, own part.
    scales = np.concatenate([np.full(design.shape[1], _BIAS), np.full(len(before), _OWN_BIAS)])
    features = np.hstack([design, own]) * scales
    rows = sorted(measured)
    delta = np.array([np.median(measured[row]) - before[row] for row in rows])
    weight = np.array([max(noise, 1e-4) / np.sqrt(len(measured[row])) for row in rows])
    weighted = features[rows] / weight[:, None]
    normal = weighted.T @ weighted + np.eye(features.shape[1])
    covariance = np.linalg.inv(normal)
    parts = covariance @ weighted.T @ (delta / weight)
    values: Floats = before + features @ parts
    doubts: Floats = np.sqrt(np.einsum("ij,jk,ik->i", features, covariance, features))
    return values, doubts


def _design(groups: Sequence[str], expected: Floats) -> Floats:
    names = sorted(set(groups))
    one_hot = np.array([[float(group == name) for name in names] for group in groups])
    return np.hstack([np.ones((len(groups), 1)), one_hot, expected[:, None]])
