"""NSGA-II of DEAP, corrected for small budgets and conditional spaces.

DEAP does the non-dominated sorting, crowding, selection and tournament.  Ours
are the operators (see `tuner.search.operators`), the filter against everything
ever proposed, and a fitness that knows feasibility.

DEAP draws from Python's global generator; here it draws from a state of our
own, which is swapped in for the duration of the call.  Its ``creator`` is not
used, because it makes global classes.

Limits: while the tournament runs, no other thread may use the `random` module.

Source: Deb, Pratap, Agarwal, Meyarivan, "A fast and elitist multiobjective
genetic algorithm: NSGA-II", IEEE Trans. Evol. Comput. 6(2), 2002.
Fortin et al., "DEAP: Evolutionary Algorithms Made Easy", JMLR 13, 2012.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence

import numpy as np
from deap.base import Fitness
from deap.tools import selNSGA2, selTournamentDCD

from tuner.search.base import BatchStrategy, Told
from tuner.search.operators import crossover, mutate
from tuner.space import Genome, Space

_MAX_MATINGS = 20
"""Matings in a row without a new child before chance and the walk fill up."""

_TOURNAMENT_QUANTUM = 4
"""DEAP's tournament works on groups of four."""


class DeapNsga2(BatchStrategy):
    """One batch is one generation."""

    name = "deap-nsga2"

    def __init__(
        self, space: Space, n_objectives: int, population: int, seed: int, initial: Sequence[Genome]
    ) -> None:
        """See `tuner.search.making.make_strategy`."""
        super().__init__(space, n_objectives, initial)
        self._population = population
        self._rng = np.random.default_rng([seed, 1])
        self._deap_state = random.Random(seed).getstate()  # noqa: S311 - not cryptography
        self._parents: list[_Individual] = []

    def _propose(self) -> list[Genome]:
        born = self._breed() if self._parents else self._novelty.only_new(self._initial)
        n_missing = max(0, self._population - len(born))
        return born + self._novelty.draw(self._rng, n_missing, born)

    def _breed(self) -> list[Genome]:
        """Return new children, at most a population of them."""
        born: list[Genome] = []
        in_vain = 0
        while len(born) < self._population and in_vain < _MAX_MATINGS:
            in_vain += 1
            chosen = self._tournament()
            for mother, father in zip(chosen[::2], chosen[1::2], strict=True):
                children = crossover(self._space, mother.genome, father.genome, self._rng)
                mutants = [mutate(self._space, child, self._rng) for child in children]
                new = self._novelty.only_new(mutants, born)
                in_vain = 0 if new else in_vain
                born += new
        return born[: self._population]

    def _tournament(self) -> list[_Individual]:
        """Return an even number of parents."""
        n_whole = len(self._parents) // _TOURNAMENT_QUANTUM * _TOURNAMENT_QUANTUM
        if n_whole == 0:
            picks = self._rng.integers(len(self._parents), size=_TOURNAMENT_QUANTUM)
            return [self._parents[index] for index in picks.tolist()]
        with self._global_random():
            return list(selTournamentDCD(self._parents, n_whole))

    @contextlib.contextmanager
    def _global_random(self) -> Iterator[None]:
        """Lend our own state to the global generator."""
        theirs = random.getstate()
        random.setstate(self._deap_state)
        try:
            yield
        finally:
            self._deap_state = random.getstate()
            random.setstate(theirs)

    def _learn(self, results: Sequence[Told]) -> None:
        everyone = self._parents + [_Individual(result, self._n_objectives) for result in results]
        self._parents = list(selNSGA2(everyone, min(self._population, len(everyone))))


class _FeasibilityFirst(Fitness):  # type: ignore[misc]  # DEAP ships no types
    """Minimised objectives; less violation dominates more, whatever the objectives.

    Source: Deb, "An efficient constraint handling method for genetic
    algorithms", Comput. Methods Appl. Mech. Eng. 186, 2000.
    """

    def __init__(self, values: Sequence[float], violation: float) -> None:
        self.weights = (-1.0,) * len(values)
        self.violation = violation
        super().__init__(tuple(values))

    def dominates(self, other: _FeasibilityFirst, obj: slice = slice(None)) -> bool:
        """Compare violations, then objectives."""
        if self.violation > 0.0 or other.violation > 0.0:
            return bool(self.violation < other.violation)
        return bool(super().dominates(other, obj))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _FeasibilityFirst)
            and self.wvalues == other.wvalues
            and self.violation == other.violation
        )

    def __hash__(self) -> int:
        return hash((self.wvalues, self.violation))


class _Individual:
    """What DEAP's selections ask for: anything with a fitness."""

    def __init__(self, result: Told, n_objectives: int) -> None:
        self.genome = result.genome
        # A failure has no objectives; its violation decides every comparison.
        values = result.objectives or (0.0,) * n_objectives
        self.fitness = _FeasibilityFirst(values, result.violation)
