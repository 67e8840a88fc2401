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

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from pymoo.algorithms.base.genetic import GeneticAlgorithm
from pymoo.core.evaluator import Evaluator
from pymoo.core.population import Population
from pymoo.core.problem import Problem
from pymoo.core.selection import Selection
from pymoo.core.survival import Survival
from pymoo.core.termination import NoTermination
from pymoo.operators.selection.tournament import TournamentSelection
from pymoo.problems.static import StaticProblem

from tuner.search.base import BatchStrategy, Told
from tuner.search.novelty import Novelty
from tuner.search.operators import crossover, mutate
from tuner.search.survival import PymooPopulation, RankAndCrowding, binary_tournament
from tuner.space import Genome, Space

Select: TypeAlias = Callable[[int], list[list[int]]]
"""Chooses so many pairs of parents, by their indices."""


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
            sampling=population_of(start),
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

    def _make_selection(self) -> Selection:
        """Return what chooses the parents of a child."""
        return TournamentSelection(func_comp=binary_tournament)

    def _make_mating(self) -> NewOffspring:
        """Return what makes the children of a generation."""
        return NewOffspring(self._space, self._novelty, self._make_selection())

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
        told = population_of([result.genome for result in results])
        Evaluator().eval(StaticProblem(self._problem, F=objectives, G=violations), told)
        self._algorithm.tell(infills=told)


class NewOffspring:
    """Mating that fills up by chance, then by a walk, when nothing new is born.

    Children are tuples until it is known which are proposed: an individual of pymoo takes longer
    to make than a child.
    """

    n_matings = 20
    """Attempts at the number that is wanted."""

    def __init__(self, space: Space, novelty: Novelty, select: Selection) -> None:
        """Choose parents with an operator of pymoo."""
        self._space = space
        self._novelty = novelty
        self._select = select

    def do(
        self,
        problem: Problem,
        parents: PymooPopulation,
        n_offsprings: int,
        *,
        algorithm: GeneticAlgorithm,
        random_state: np.random.Generator,
    ) -> PymooPopulation:
        """Return `n_offsprings` new individuals, fewer when the space is exhausted."""

        def select(n_pairs: int) -> list[list[int]]:
            pairs = self._select(
                problem, parents, n_pairs, n_parents=2, to_pop=False,
                algorithm=algorithm, random_state=random_state,
            )  # fmt: skip
            found: list[list[int]] = pairs.tolist()
            return found

        return population_of(self._new(genomes_of(parents), select, n_offsprings, random_state))

    def _new(
        self, parents: Sequence[Genome], select: Select, n: int, rng: np.random.Generator
    ) -> list[Genome]:
        """Return `n` new genomes, fewer when the space is exhausted."""
        return self._filled_up(self._born(parents, select, n, rng), n, rng)

    def _born(
        self, parents: Sequence[Genome], select: Select, n: int, rng: np.random.Generator
    ) -> list[Genome]:
        """Return up to `n` new children."""
        born: list[Genome] = []
        for _ in range(self.n_matings):
            if len(born) == n:
                break
            pairs = select(math.ceil((n - len(born)) / 2))
            children = self._children([(parents[a], parents[b]) for a, b in pairs], rng)
            born += self._novelty.only_new(children, born)[: n - len(born)]
        return born

    def _children(
        self, pairs: Sequence[tuple[Genome, Genome]], rng: np.random.Generator
    ) -> list[Genome]:
        """Return two children of each pair, crossed and mutated.

        Operators of pymoo draw whether they are applied, before a crossover and after a mutation.
        These always are; the draws are kept so that a seed stands for the search it stood for.
        """
        rng.random(len(pairs))
        crossed = [crossover(self._space, mother, father, rng) for mother, father in pairs]
        children = [child for side in zip(*crossed, strict=True) for child in side]
        mutants = [mutate(self._space, child, rng) for child in children]
        rng.random(len(mutants))
        return mutants

    def _filled_up(self, born: list[Genome], n: int, rng: np.random.Generator) -> list[Genome]:
        n_missing = n - len(born)
        return born + self._novelty.draw(rng, n_missing, born) if n_missing > 0 else born


def population_of(genomes: Sequence[Genome]) -> PymooPopulation:
    """Return a population of pymoo with these genomes, which were not evaluated."""
    # Population.new counts sizes by np.unique, which imports numpy.ma: 8 ms of each campaign.
    population = Population.empty(len(genomes))
    population.set("X", np.array(genomes, dtype=np.int64))
    return population


def genomes_of(population: PymooPopulation) -> list[Genome]:
    """Return the genomes of a population of pymoo as tuples of Python integers."""
    return [tuple(individual.X.tolist()) for individual in population]
