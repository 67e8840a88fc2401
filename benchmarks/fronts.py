"""Shares of a hypervolume whose points are medians of noisy rounds, without the luck in them.

Of many medians the undominated ones are mostly lucky.  So one random half of the rounds chooses
what no other dominates, the other half says how much hypervolume that has, and the other way round;
the mean over many splits counts, the same ones for a set and for the union of all, which may have
less.  Points are logarithms of ratios to the program as it is, a point of every set; the reference
has 10 % more of each.  Settings that break the guard of peak memory beyond doubt are in no set.

Sources: Chernozhukov and others, "Double/debiased machine learning for treatment and structural
parameters", Econometrics Journal 21, 2018: samples that swap their parts.  Bradstreet, While,
Barone, "Incrementally maximising hypervolume for selection in multi-objective evolutionary
algorithms", CEC 2007: what adds least leaves, one after the other.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import moocore
import numpy as np
import numpy.typing as npt

from benchmarks.rounds import changes_of, values_of
from tuner.optimize.proof.judgement import Rules
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.optimize.tuned import AS_IS

GOALS: Final = (MEAN, CPU)
MOST_SHOWN: Final = 6
"""Settings of one front."""
REFERENCE: Final = math.log(1.1)
"""Of the hypervolume: so much more than what it is compared with, in each goal."""
_SPLITS, _SEED = 50, 20250807

Rows = Sequence[Mapping[str, Any]]
Points = npt.NDArray[np.float64]
"""(n_rounds, n_goals) float64, minimised."""

Shown = TypeVar("Shown")


def undominated(
    seen: Mapping[Shown, Sequence[float]],
    most: int = MOST_SHOWN,
    reference: Sequence[float] = (REFERENCE,) * len(GOALS),
) -> list[Shown]:
    """Return what no other dominates, by the first value: the few that have most hypervolume.

    Args:
        seen: to be chosen from -> logarithms, minimised.
        most: how many, at least 1.
        reference: of the hypervolume; what lies beyond it leaves first.
    """
    if not seen:
        return []
    points = np.array(list(seen.values()), dtype=np.float64)
    kept = list(np.flatnonzero(moocore.is_nondominated(points)))
    while len(kept) > most:
        del kept[int(np.argmin(moocore.hv_contributions(points[kept], ref=reference)))]
    kept.sort(key=lambda at: tuple(points[at]))
    names = list(seen)
    return [names[at] for at in kept]


def shares_of(rows: Rows, sets: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Return the share of each set of labels in the hypervolume of all of them."""
    labels = dict.fromkeys(itertools.chain.from_iterable(sets.values()))
    points = {one: found for one in labels if (found := points_of(rows, one)) is not None}
    whole = _volume(points.values())
    return {
        name: _volume(points[one] for one in some if one in points) / whole
        for name, some in sets.items()
    }


def points_of(rows: Rows, label: str) -> Points | None:
    """Return a setting's rounds; None where one failed, or its peak memory breaks the guard."""
    peak = changes_of(rows, label, AS_IS, (PEAK,)).get(PEAK)
    if peak is None or math.log1p(peak.low or 0.0) > Rules().margin(PEAK):
        return None
    pairs = [values_of(rows, goal).pairs(rows[0]["task"], label, AS_IS) for goal in GOALS]
    found: Points = np.log([np.array(mine) / np.array(base) for mine, base in pairs]).T
    return found


def _volume(settings: Iterable[Points]) -> float:
    """Return the hypervolume of settings by rounds that did not choose them, if there are two."""
    found = list(settings)
    if not found:
        return REFERENCE**2
    points = np.stack([np.zeros_like(found[0]), *found])
    n_rounds = points.shape[1]
    n_half = max(1, n_rounds // 2)
    random = np.random.default_rng(_SEED)
    volumes = []
    for order in (random.permutation(n_rounds) for _ in range(_SPLITS)):
        for choose, count in itertools.permutations((order[:n_half], order[-n_half:])):
            chosen = moocore.is_nondominated(np.median(points[:, choose], axis=1))
            medians = np.median(points[chosen][:, count], axis=1)
            volumes.append(moocore.hypervolume(medians, ref=[REFERENCE] * len(GOALS)))
    return float(np.mean(volumes))
