"""NSGA-III of pymoo: as our NSGA-II, but survivors are spread over directions.

For three objectives and more, among which crowding says little.  Everything else, from operators to
novelty, is that of `tuner.search.pymoo_nsga2`.

Source: Deb and Jain, "An evolutionary many-objective optimization algorithm using
reference-point-based nondominated sorting approach, part I", IEEE Trans. Evol. Comput. 18(4), 2014;
directions of Das and Dennis, SIAM J. Optim. 8(3), 1998.
"""

from itertools import count
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt
from pymoo.algorithms.moo.nsga3 import ReferenceDirectionSurvival
from pymoo.core.selection import Selection
from pymoo.core.survival import Survival
from pymoo.operators.selection.tournament import TournamentSelection, compare
from pymoo.util.ref_dirs import get_reference_directions

from tuner.search.pymoo_nsga2 import PymooNsga2
from tuner.search.survival import PymooPopulation


class PymooNsga3(PymooNsga2):
    """One batch is one generation."""

    name = "nsga3"

    def _make_survival(self, population: int) -> Survival:
        return ReferenceDirectionSurvival(directions(self._n_objectives, population))

    def _make_selection(self) -> Selection:
        return TournamentSelection(func_comp=_less_violating)


def directions(n_objectives: int, most: int) -> npt.NDArray[np.float64]:
    """Return directions that are spread evenly, at most so many, (n, n_objectives).

    Example:
        >>> len(directions(2, 16)), len(directions(3, 16)), len(directions(1, 16))
        (16, 15, 1)
    """
    if n_objectives == 1:
        return np.ones((1, 1))
    n_parts = next(n for n in count(1) if comb(n_objectives + n, n_objectives - 1) > most)
    found = get_reference_directions("das-dennis", n_objectives, n_partitions=n_parts)
    return np.asarray(found, dtype=np.float64)


def _less_violating(
    population: PymooPopulation,
    pairs: npt.NDArray[np.int64],
    algorithm: Any,  # noqa: ANN401 - pymoo ships no types
    **_: object,
) -> npt.NDArray[np.int64]:
    """Return the one of each pair that violates less, else either, shape (n_pairs, 1)."""
    chance = {"return_random_if_equal": True, "random_state": algorithm.random_state}
    winners = [
        compare(a, population[a].CV[0], b, population[b].CV[0], "smaller_is_better", **chance)
        for a, b in pairs.tolist()
    ]
    return np.array(winners, dtype=np.int64)[:, None]
