"""NSGA-II of pymoo, corrected for small budgets and conditional spaces.

pymoo runs the algorithm and sorts into fronts.  Ours are the operators (see
`tuner.search.operators`), survival and tournament (`tuner.search.survival`), and the
filter against everything ever proposed; pymoo itself compares with parents and
siblings only.  Ranks, not dominance, decide the tournament.

Every operator is built anew for every strategy, because pymoo's default ones
are shared objects, and all chance comes from the generator that pymoo seeds
for this one algorithm.

Source: Deb, Pratap, Agarwal, Meyarivan, "A fast and elitist multiobjective
genetic algorithm: NSGA-II", IEEE Trans. Evol. Comput. 6(2), 2002.
Blank and Deb, "pymoo: Multi-Objective Optimization in Python", IEEE Access 8, 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from pymoo.algorithms.base.genetic import GeneticAlgorithm
from pymoo.core.crossover import Crossover
from pymoo.core.duplicate import DuplicateElimination
from pymoo.core.evaluator import Evaluator
from pymoo.core.mating import Mating
from pymoo.core.mutation import Mutation
from pymoo.core.population import Population
from pymoo.core.problem import Problem
from pymoo.core.survival import Survival
from pymoo.core.termination import NoTermination
from pymoo.operators.selection.tournament import TournamentSelection
from pymoo.problems.static import StaticProblem

from tuner.search.base import BatchStrategy, Told
from tuner.search.novelty import Novelty
from tuner.search.operators import crossover, mutate
from tuner.search.survival import PymooPopulation, RankAndCrowding, binary_tournament
from tuner.space import Genome, Space

Genes: TypeAlias = npt.NDArray[np.int64]
"""Genomes as pymoo keeps them; the last axis is the genes."""


class PymooNsga2(BatchStrategy):
    """One batch is one generation."""

    name = "nsga2"

    def __init__(
        self, space: Space, n_objectives: int, population: int, seed: int, initial: Sequence[Genome]
    ) -> None:
        """See `tuner.search.making.make_strategy`."""
        super().__init__(space, n_objectives, initial)
        self._population = population
        self._start_rng = np.random.default_rng([seed, 1])
        n_missing = max(0, population - len(self._initial))
        start = self._initial + self._draw_start(self._start_rng, n_missing)
        self._problem = Problem(n_var=len(space.parameters), n_obj=n_objectives, n_ieq_constr=1)
        self._algorithm = GeneticAlgorithm(
            pop_size=population,
            sampling=np.array(start, dtype=np.int64),
            mating=self._make_mating(),
            survival=self._make_survival(population),
            eliminate_duplicates=False,
            advance_after_initial_infill=True,
            output=None,
        )
        self._algorithm.setup(self._problem, termination=NoTermination(), seed=seed)
        self._has_begun = False

    def _draw_start(self, rng: np.random.Generator, n: int) -> list[Genome]:
        """Return `n` new genomes that start the search beside the initial ones."""
        return self._novelty.draw(rng, n, self._initial)

    def _make_survival(self, _population: int) -> Survival:
        """Return what chooses the parents of the next generation."""
        return RankAndCrowding()

    def _make_mating(self) -> NewOffspring:
        """Return what makes the children of a generation."""
        return NewOffspring(self._space, self._novelty)

    def _propose(self) -> list[Genome]:
        if self._has_begun and not self._algorithm.is_initialized:
            return self._draw_start(self._start_rng, self._population)
        self._has_begun = True
        offspring = self._algorithm.ask()
        return [] if offspring is None else genomes_of(offspring)

    def _learn(self, results: Sequence[Told]) -> None:
        # A failure has no objectives.  Feasibility comes first everywhere, so its
        # zeros are never compared with anything.
        zeros = (0.0,) * self._n_objectives
        objectives = np.array([result.objectives or zeros for result in results])
        violations = np.array([[result.violation] for result in results])
        told = Population.new(X=np.array([result.genome for result in results], dtype=np.int64))
        Evaluator().eval(StaticProblem(self._problem, F=objectives, G=violations), told)
        self._algorithm.tell(infills=told)


class _UniformCrossover(Crossover):  # type: ignore[misc]  # pymoo ships no types
    """`operators.crossover` for pymoo; always applied."""

    def __init__(self, space: Space) -> None:
        super().__init__(n_parents=2, n_offsprings=2, prob=1.0)
        self._space = space

    def _do(
        self,
        _problem: object,
        parents: Genes,
        *_: object,
        random_state: np.random.Generator,
        **__: object,
    ) -> Genes:
        """Cross an array (2, n_matings, n_genes); the result has the same shape."""
        children = np.empty_like(parents)
        for index in range(parents.shape[1]):
            mother, father = (tuple(genome.tolist()) for genome in parents[:, index])
            children[:, index] = crossover(self._space, mother, father, random_state)
        return children


class _StepMutation(Mutation):  # type: ignore[misc]  # pymoo ships no types
    """`operators.mutate` for pymoo; always applied."""

    def __init__(self, space: Space) -> None:
        super().__init__(prob=1.0)
        self._space = space

    def _do(
        self,
        _problem: object,
        genomes: Genes,
        *_: object,
        random_state: np.random.Generator,
        **__: object,
    ) -> Genes:
        """Mutate an array (n_genomes, n_genes)."""
        return np.array([mutate(self._space, tuple(g.tolist()), random_state) for g in genomes])


class _NeverProposed(DuplicateElimination):  # type: ignore[misc]  # pymoo ships no types
    """Keeps the offspring whose configurations were never proposed."""

    def __init__(self, novelty: Novelty) -> None:
        super().__init__()
        self._novelty = novelty

    def do(
        self, offspring: PymooPopulation, *others: PymooPopulation, **_: object
    ) -> PymooPopulation:
        """Filter a population; the last of `others` are siblings not yet proposed."""
        siblings = genomes_of(others[-1]) if others else []
        new = set(self._novelty.only_new(genomes_of(offspring), siblings))
        keep: list[int] = []
        for index, genome in enumerate(genomes_of(offspring)):
            if genome in new:
                new.remove(genome)
                keep.append(index)
        return offspring[keep]


class NewOffspring(Mating):  # type: ignore[misc]  # pymoo ships no types
    """Mating that fills up by chance, then by a walk, when nothing new is born."""

    def __init__(self, space: Space, novelty: Novelty) -> None:
        super().__init__(
            TournamentSelection(func_comp=binary_tournament),
            _UniformCrossover(space),
            _StepMutation(space),
            eliminate_duplicates=_NeverProposed(novelty),
            n_max_iterations=20,
        )
        self._novelty = novelty

    def do(
        self,
        problem: Problem,
        parents: PymooPopulation,
        n_offsprings: int,
        random_state: np.random.Generator | None = None,
        **options: object,
    ) -> PymooPopulation:
        """Return `n_offsprings` new individuals, fewer when the space is exhausted."""
        born = super().do(problem, parents, n_offsprings, random_state=random_state, **options)
        return self._filled_up(born, n_offsprings, random_state)

    def _filled_up(
        self, born: PymooPopulation, n: int, random_state: np.random.Generator | None
    ) -> PymooPopulation:
        n_missing = n - len(born)
        if n_missing <= 0 or random_state is None:
            return born
        drawn = self._novelty.draw(random_state, n_missing, genomes_of(born))
        return Population.merge(born, Population.new(X=np.array(drawn))) if drawn else born


def genomes_of(population: PymooPopulation) -> list[Genome]:
    """Return the genomes of a population of pymoo as tuples of Python integers."""
    return [tuple(individual.X.tolist()) for individual in population]
