"""The contract of a search strategy, and the bookkeeping all strategies share.

A strategy proposes batches of genomes and learns how each of them fared.  It
proposes the initial genomes first, never the same configuration twice, and
nothing once the space is exhausted.  It may be asked for the next batch before all
results are in, and takes results as they come: a slow evaluation delays no other.

Guarantee: proposals depend on the seed and on the order of calls only, so a search
is repeated by repeating its calls.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tuner.search.novelty import Novelty
from tuner.space import Genome, Space


@dataclass(frozen=True)
class Told:
    """How one genome fared.

    Raises:
        ValueError: an objective or the violation is not a finite number, the
            violation is negative, or a failure violates nothing.
    """

    genome: Genome
    """As it was asked."""
    objectives: tuple[float, ...] | None
    """Minimised; None when the trial failed."""
    violation: float
    """Sum of relative constraint violations: 0.0 when feasible, above when not."""
    bounded: tuple[int, ...] = ()
    """Which objectives are bounds from below, not measured; it is dominated all the same."""
    noise: tuple[float, ...] = ()
    """Standard deviation of the logarithm of each objective, by which another trial of the same
    genome would differ: the best of many were lucky.  Empty where it would not."""
    excess: tuple[float, ...] = ()
    """Logarithm of each constrained value over its limit, negative where that holds: how near a
    constraint is, the violation does not say.  Empty where it is not known."""

    def __post_init__(self) -> None:
        """Keep NaN out: libraries take it for an optimum."""
        numbers = (*(self.objectives or ()), self.violation, *self.noise, *self.excess)
        if not all(map(math.isfinite, numbers)):
            raise ValueError(f"objectives, violation, noise, excess must be finite: {self}")
        if self.violation < 0.0 or (self.objectives is None and self.violation <= 0.0):
            raise ValueError(f"the violation does not fit the outcome: {self}")


class Strategy(Protocol):
    """What a campaign sees of a search."""

    name: str
    """As it is written in campaign files."""

    def ask(self) -> list[Genome]:
        """Return the next batch: canonical, never asked before; empty when exhausted."""
        ...

    def tell(self, results: Sequence[Told]) -> None:
        """Learn how some genomes fared.

        Args:
            results: of genomes that were asked, each told once; any number, in any order.

        Raises:
            ValueError: a genome was not asked or was told before, or a result has
                another number of objectives.
        """
        ...


class BatchStrategy(ABC):
    """A strategy with the results checked and novelty kept.

    Subclasses propose and learn; everything the contract demands of every
    strategy is done here.
    """

    name = ""

    def __init__(self, space: Space, n_objectives: int, initial: Sequence[Genome]) -> None:
        """Remember the space; `initial` is made canonical and unique."""
        self._space = space
        self._n_objectives = n_objectives
        self._novelty = Novelty(space)
        self._initial = self._novelty.only_new(map(space.canonical, initial))
        self._outstanding: set[Genome] = set()

    def ask(self) -> list[Genome]:
        """See `Strategy.ask`."""
        asked = self._propose()
        for genome in asked:
            self._novelty.add(genome)
        self._outstanding.update(asked)
        return asked

    def tell(self, results: Sequence[Told]) -> None:
        """See `Strategy.tell`."""
        told = {result.genome for result in results}
        if len(told) < len(results) or not told <= self._outstanding:
            raise ValueError("a result is of a genome that was not asked, or that was told before")
        for result in results:
            if result.objectives is not None and len(result.objectives) != self._n_objectives:
                raise ValueError(
                    f"{len(result.objectives)} objectives, {self._n_objectives} expected"
                )
        self._outstanding -= told
        if results:
            self._learn(results)

    @abstractmethod
    def _propose(self) -> list[Genome]:
        """Return the next batch of canonical genomes that are new to `self._novelty`.

        Results of earlier batches may be missing, at first all of them.
        """

    @abstractmethod
    def _learn(self, results: Sequence[Told]) -> None:
        """Take in results, at least one."""
