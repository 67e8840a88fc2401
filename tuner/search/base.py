"""The contract of a search strategy, and the bookkeeping all strategies share.

A strategy proposes batches of genomes and learns how each of them fared.  It
proposes the initial genomes first, never the same configuration twice, and
nothing once the space is exhausted.  The caller may evaluate a batch in
any order, but reports it whole and in the order of the proposals.
"""

from __future__ import annotations

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

    def __post_init__(self) -> None:
        """Keep NaN out: libraries take it for an optimum."""
        if not all(map(math.isfinite, (*(self.objectives or ()), self.violation))):
            message = f"objectives and violation must be finite numbers: {self}"
            raise ValueError(message)
        if self.violation < 0.0 or (self.objectives is None and self.violation <= 0.0):
            message = f"the violation does not fit the outcome: {self}"
            raise ValueError(message)


class Strategy(Protocol):
    """What a campaign sees of a search."""

    name: str
    """As it is written in campaign files."""

    def ask(self) -> list[Genome]:
        """Return the next batch: canonical, never asked before; empty when exhausted.

        Raises:
            RuntimeError: the results of the last batch are missing.
        """
        ...

    def tell(self, results: Sequence[Told]) -> None:
        """Learn how the last batch fared.

        Args:
            results: one for each genome of the last batch, in the order asked.

        Raises:
            ValueError: these are not the genomes of the last batch, or a result
                has another number of objectives.
            RuntimeError: nothing was asked.
        """
        ...


class BatchStrategy(ABC):
    """A strategy with the order of calls checked and novelty kept.

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
        self._asked: list[Genome] | None = None

    def ask(self) -> list[Genome]:
        """See `Strategy.ask`."""
        if self._asked is not None:
            message = "the results of the last batch are missing"
            raise RuntimeError(message)
        self._asked = self._propose()
        for genome in self._asked:
            self._novelty.add(genome)
        return list(self._asked)

    def tell(self, results: Sequence[Told]) -> None:
        """See `Strategy.tell`."""
        if self._asked is None:
            message = "nothing was asked"
            raise RuntimeError(message)
        if [result.genome for result in results] != self._asked:
            message = "the results are not those of the last batch, in the order asked"
            raise ValueError(message)
        for result in results:
            if result.objectives is not None and len(result.objectives) != self._n_objectives:
                message = f"{len(result.objectives)} objectives, {self._n_objectives} expected"
                raise ValueError(message)
        self._asked = None
        if results:
            self._learn(results)

    @abstractmethod
    def _propose(self) -> list[Genome]:
        """Return the next batch of canonical genomes that are new to `self._novelty`."""

    @abstractmethod
    def _learn(self, results: Sequence[Told]) -> None:
        """Take in the results of the last batch, which is not empty."""
