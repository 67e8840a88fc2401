"""How much of an objective each setting decides, and which settings decide it together.

A forest predicts the logarithms of the objectives, and the distance to the front, from the
settings.  It is fitted to four fifths of an allocator's trials; in the last fifth the values of
one setting are exchanged among the trials.  Half of what this adds to the squared error, over the
variance, is the share of the variance that the setting has a part in (its total effect).  What two
settings have less together than one by one is the share of their interaction.

Guarantee: the same run and seed give the same shares.
Limits: over the trials of the campaign, which lie where the search went.  Values beyond nine
tenths of the trials count as those there, else the worst settings would decide everything.

Source: Breiman, "Random forests", Machine Learning 45, 2001 (the forest, the exchange).
Geurts, Ernst, Wehenkel, "Extremely randomized trees", Machine Learning 63, 2006.
Gregorutti, Michel, Saint-Pierre, "Correlation and variable importance in random forests",
Statistics and Computing 27, 2017, proposition 1 (twice the variance).
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

FRONT: Final = "front"
"""Name of the target that is no objective: the distance to the front of the run."""

FEWEST_TRIALS: Final = 25
"""Of an allocator; fewer say nothing of its settings."""

LEAST_FIT: Final = 0.3
"""Share of the variance that the forest must predict in trials it has not seen."""

_FOLDS: Final = 5
_TREES: Final = 64
_REPEATS: Final = 5
"""Exchanges of each setting in each fold."""
_CLIPPED_FROM: Final = 0.9
"""Quantile of each target beyond which its values count as that quantile."""
_PAIRED: Final = 5
"""Settings, the most important, of which every pair is tried."""
LEAST_PAIR: Final = 0.03
"""Share from which an interaction is strong."""


@dataclass(frozen=True)
class Share:
    """A share of the variance of a target, 0 .. 1, with its uncertainty."""

    value: float
    error: float
    """Standard error over the folds."""

    @property
    def is_sure(self) -> bool:
        """True when it is above zero by twice its error."""
        return self.value > 2.0 * self.error


@dataclass(frozen=True)
class Pair:
    """Two settings that decide a target together."""

    settings: tuple[str, str]
    target: str
    share: Share


@dataclass(frozen=True)
class Importance:
    """What the trials of one allocator say."""

    fit: Mapping[str, float]
    """Target -> share of its variance that is predicted in unseen trials; may be negative."""
    shares: Mapping[str, Mapping[str, Share]]
    """Setting -> target -> its share; targets that are not predicted are absent."""
    pairs: tuple[Pair, ...]
    """Strong interactions, the strongest first."""


def importance_of(
    names: Sequence[str], levels: Floats, targets: Mapping[str, Floats], seed: int
) -> Importance:
    """Compute shares and interactions.

    Args:
        names: of the settings.
        levels: (n_trials, n_settings), the place of each value in its scale.
        targets: name -> (n_trials,).
        seed: of the forests and exchanges.
    """
    from sklearn.model_selection import KFold  # noqa: PLC0415 - half a second, for this alone

    values = np.column_stack([_clipped(column) for column in targets.values()])
    variance = values.var(axis=0)
    is_constant = np.ptp(values, axis=0) == 0.0
    variance[is_constant] = np.inf
    errors, rises, joint = [], [], []
    for number, (learnt, unseen) in enumerate(
        KFold(_FOLDS, shuffle=True, random_state=seed).split(levels)
    ):
        forest = grown_forest(seed + number, levels[learnt], values[learnt])
        exchange = _Exchange(forest, levels[unseen], values[unseen], [seed, number])
        errors.append(exchange.error)
        rises.append([exchange.rise([column]) for column in range(len(names))])
        joint.append(exchange)
    fit = np.where(is_constant, 0.0, 1.0 - np.mean(errors, axis=0) / variance)
    single = np.array(rises) / (2.0 * variance)
    known = {target: i for i, target in enumerate(targets) if fit[i] >= LEAST_FIT}
    shares = {
        name: {target: _share(single[:, row, i]) for target, i in known.items()}
        for row, name in enumerate(names)
    }
    order = np.argsort(-single.mean(axis=0)[:, list(known.values())].max(axis=1, initial=0.0))
    pairs: list[Pair] = []
    for one, other in itertools.combinations(sorted(order[:_PAIRED].tolist()), 2):
        both = np.array([exchange.rise([one, other]) for exchange in joint]) / (2.0 * variance)
        shared = single[:, one] + single[:, other] - both
        found = ((target, _share(shared[:, i])) for target, i in known.items())
        pairs += [Pair((names[one], names[other]), target, share) for target, share in found]
    strong = [pair for pair in pairs if pair.share.value >= LEAST_PAIR and pair.share.is_sure]
    return Importance(
        dict(zip(targets, fit.tolist(), strict=True)),
        shares,
        tuple(sorted(strong, key=lambda pair: -pair.share.value)),
    )


def grown_forest(seed: int, levels: Floats, values: Floats) -> Any:  # noqa: ANN401 - no types
    """Return a forest of extremely randomised trees that predicts several targets.

    Args:
        seed: of the trees.
        levels: (n_trials, n_settings).
        values: (n_trials, n_targets).
    """
    from sklearn.ensemble import ExtraTreesRegressor  # noqa: PLC0415 - as above

    forest = ExtraTreesRegressor(_TREES, min_samples_leaf=2, random_state=seed, n_jobs=1)
    return forest.fit(levels, values[:, 0] if values.shape[1] == 1 else values)


class _Exchange:
    """Exchanges values among unseen trials and returns what that adds to the squared error."""

    def __init__(self, forest: Any, levels: Floats, values: Floats, seed: list[int]) -> None:  # noqa: ANN401
        self._forest, self._levels, self._values, self._seed = forest, levels, values, seed
        self.error = self._error(levels)

    def rise(self, columns: list[int]) -> Floats:
        """Return the mean rise for each target when some settings are exchanged together."""
        rng = np.random.default_rng([*self._seed, *columns])
        changed = np.tile(self._levels, (_REPEATS, 1, 1))
        for one in changed:
            one[:, columns] = one[rng.permutation(len(one))][:, columns]
        return self._error(changed.reshape(-1, self._levels.shape[1])) - self.error

    def _error(self, levels: Floats) -> Floats:
        guessed = self._forest.predict(levels).reshape(-1, *self._values.shape)
        return np.asarray(((guessed - self._values) ** 2).mean(axis=(0, 1)))


def _share(by_fold: Floats) -> Share:
    error = float(by_fold.std(ddof=1) / np.sqrt(len(by_fold)))
    return Share(min(1.0, max(0.0, float(by_fold.mean()))), error)


def _clipped(values: Floats) -> Floats:
    return np.asarray(np.minimum(values, np.quantile(values, _CLIPPED_FROM)))
