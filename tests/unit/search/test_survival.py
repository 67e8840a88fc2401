"""Survival and tournament of NSGA-II do what pymoo's do, number by number."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pymoo.algorithms.moo import nsga2
from pymoo.core.population import Population
from pymoo.core.problem import Problem
from pymoo.operators.survival.rank_and_crowding import metrics
from pymoo.operators.survival.rank_and_crowding.classes import RankAndCrowding as TheirSurvival

from tuner.search.survival import RankAndCrowding, binary_tournament, crowding_distances

N_POINTS = 40


def population(seed: int, n_objectives: int) -> Any:
    """Return points with many ties, a third of which violate a constraint."""
    rng = np.random.default_rng(seed)
    found = Population.new(X=np.arange(N_POINTS)[:, None])
    found.set("F", rng.integers(0, 9, (N_POINTS, n_objectives)).astype(float))
    found.set("G", np.maximum(0.0, rng.integers(-4, 3, (N_POINTS, 1)).astype(float)))
    return found


def survive(survival: Any, points: Any, n_survive: int) -> Any:
    problem = Problem(n_var=1, n_obj=points.get("F").shape[1], n_ieq_constr=1)
    rng = np.random.default_rng(5)
    return survival.do(problem, points, n_survive=n_survive, random_state=rng)


@pytest.mark.parametrize("n_points", [1, 2, 3, 30])
@pytest.mark.parametrize("n_objectives", [1, 2, 3])
@pytest.mark.parametrize("n_levels", [1, 5, 10_000])
def test_crowding_distances_are_those_of_pymoo(n_points: int, n_objectives: int, n_levels: int):
    rng = np.random.default_rng(n_points)
    objectives = rng.integers(0, n_levels, (n_points, n_objectives)).astype(float)

    expected = metrics.get_crowding_function("cd").do(objectives)

    assert crowding_distances(objectives).tolist() == expected.tolist()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_objectives", [2, 3])
@pytest.mark.parametrize("n_survive", [1, 16, 39, 40])
def test_the_same_survive_with_the_same_ranks(seed: int, n_objectives: int, n_survive: int):
    ours = survive(RankAndCrowding(), population(seed, n_objectives), n_survive)
    theirs = survive(TheirSurvival(), population(seed, n_objectives), n_survive)

    for name in ("X", "rank", "crowding"):
        assert ours.get(name).tolist() == theirs.get(name).tolist()


@pytest.mark.parametrize("seed", range(5))
def test_the_same_win_the_tournament(seed: int):
    points = survive(RankAndCrowding(), population(seed, 2), N_POINTS)
    pairs = np.random.default_rng(seed).integers(0, N_POINTS, (200, 2))
    kind = "comp_by_rank_and_crowding"

    def winners(tournament: Any) -> Any:
        algorithm = SimpleNamespace(random_state=np.random.default_rng(7), tournament_type=kind)
        return tournament(points, pairs, algorithm=algorithm)

    assert winners(binary_tournament).tolist() == winners(nsga2.binary_tournament).tolist()
