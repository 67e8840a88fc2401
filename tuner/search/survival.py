"""Ranks and crowding distances, NSGA-II's survival and tournament, for pymoo's algorithm.

pymoo has the same, in modules that import scipy for other measures of crowding; that takes more
CPU time than all of pymoo and numpy.  Tests compare each part with pymoo's.

Source: Deb, Pratap, Agarwal, Meyarivan, "A fast and elitist multiobjective genetic
algorithm: NSGA-II", IEEE Trans. Evol. Comput. 6(2), 2002, section III.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from pymoo.core.survival import Survival
from pymoo.operators.selection.tournament import compare
from pymoo.util.nds.non_dominated_sorting import NonDominatedSorting
from pymoo.util.randomized_argsort import randomized_argsort

PymooPopulation: TypeAlias = Any
"""A `pymoo.core.population.Population`; pymoo ships no types."""

Floats: TypeAlias = npt.NDArray[np.float64]


def crowding_distances(objectives: Floats) -> Floats:
    """Return how far the neighbours of each point are from it, along each objective.

    Args:
        objectives: of one front, shape (n_points, n_objectives), at least one point.

    Returns:
        Shape (n_points,): the mean over the objectives of the distance between the neighbours
        over the range; infinite for the ends, and for all of at most two points.

    Example:
        >>> crowding_distances(np.array([[0.0, 4.0], [1.0, 2.0], [4.0, 0.0]])).tolist()
        [inf, 1.0, inf]
    """
    n_points, n_objectives = objectives.shape
    if n_points <= 2:  # noqa: PLR2004 - both are ends
        return np.full(n_points, np.inf)
    total = np.zeros(n_points)
    for values in objectives.T:
        order = np.argsort(values, kind="stable")
        ordered = np.concatenate(([-np.inf], values[order], [np.inf]))
        span = ordered[-2] - ordered[1]
        if span > 0.0:
            to_last, to_next = ordered[1:-1] - ordered[:-2], ordered[2:] - ordered[1:-1]
            total[order] += to_last / span + to_next / span
    mean: Floats = total / n_objectives
    return mean


class RankAndCrowding(Survival):  # type: ignore[misc]  # pymoo ships no types
    """The best fronts survive; of the one that must be cut, the least crowded points."""

    def __init__(self) -> None:
        super().__init__(filter_infeasible=True)
        self._sorting = NonDominatedSorting()

    def _do(
        self,
        _problem: object,
        population: PymooPopulation,
        *_: object,
        n_survive: int,
        random_state: np.random.Generator,
        **__: object,
    ) -> PymooPopulation:
        """Return the survivors; each knows its rank and crowding from now on."""
        objectives = population.get("F").astype(float, copy=False)
        survivors: list[int] = []
        for rank, front in enumerate(self._sorting.do(objectives, n_stop_if_ranked=n_survive)):
            crowding = crowding_distances(objectives[front])
            for index, distance in zip(front, crowding, strict=True):
                population[index].set("rank", rank)
                population[index].set("crowding", distance)
            n_excess = len(survivors) + len(front) - n_survive
            if n_excess > 0:
                order = randomized_argsort(crowding, order="descending", random_state=random_state)
                survivors.extend(front[order[:-n_excess]])
            else:
                survivors.extend(front)
        return population[survivors]


def binary_tournament(
    population: PymooPopulation,
    pairs: npt.NDArray[np.int64],
    algorithm: Any,  # noqa: ANN401 - pymoo ships no types
    **_: object,
) -> npt.NDArray[np.int64]:
    """Return the better of each pair, shape (n_pairs, 1).

    Smaller violation, if one violates anything, then lower rank, then less crowding; chance
    decides between equals.

    Args:
        population: ranked by `RankAndCrowding`.
        pairs: indices, shape (n_pairs, 2).
        algorithm: whose generator is asked.
    """
    # Asked of every individual once: it is in many pairs.
    standings = [
        _Standing(float(one.CV[0]), one.get("rank"), one.get("crowding")) for one in population
    ]
    winners = [
        _better(standings, first, second, algorithm.random_state)
        for first, second in pairs.tolist()
    ]
    return np.array(winners, dtype=np.int64)[:, None]


class _Standing(NamedTuple):
    violation: float
    rank: int
    crowding: float


def _better(
    standings: Sequence[_Standing], first: int, second: int, random_state: np.random.Generator
) -> int:
    one, other = standings[first], standings[second]
    chance = {"return_random_if_equal": True, "random_state": random_state}
    if one.violation > 0.0 or other.violation > 0.0:
        smaller = compare(
            first, one.violation, second, other.violation, "smaller_is_better", **chance
        )
        return int(smaller)
    if one.rank != other.rank:
        return first if one.rank < other.rank else second
    return int(compare(first, one.crowding, second, other.crowding, "larger_is_better", **chance))
