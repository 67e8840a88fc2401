"""Every configuration of a small space once, in an order that chance makes.

For spaces that were narrowed to a few settings: what it found at the end is the whole truth.
Up to there it is random search, uniform over configurations instead of genes.

Limits: a space of more than `MOST` combinations of levels is refused, though some may be the same
configuration, as with a mode none of whose settings is set.
"""

from collections.abc import Sequence
from itertools import islice

import numpy as np

from tuner.errors import SpecError
from tuner.search.base import BatchStrategy, Told
from tuner.search.novelty import every_genome
from tuner.space import Genome, Space

MOST = 100_000
"""Combinations of levels of a space that can be walked; see `every_genome`."""


class Exhaustive(BatchStrategy):
    """Proposes the initial genomes, then all others; learns nothing."""

    name = "exhaustive"

    def __init__(
        self, space: Space, n_objectives: int, population: int, seed: int, initial: Sequence[Genome]
    ) -> None:
        """See `tuner.search.making.make_strategy`; `population` is the size of a batch.

        Raises:
            SpecError: the space is too large.
        """
        super().__init__(space, n_objectives, initial)
        self._population = population
        found = list(islice(every_genome(space), MOST + 1))
        if len(found) > MOST:
            raise SpecError(
                f"strategy exhaustive: the space has more than {MOST:,} combinations of levels; "
                "narrow it under [space.ALLOCATOR], or choose another strategy"
            )
        order = np.random.default_rng(seed).permutation(len(found))
        self._left = iter([space.canonical(found[index]) for index in order.tolist()])
        self._waiting = list(self._initial)

    def _propose(self) -> list[Genome]:
        batch, self._waiting = self._waiting, []
        for genome in self._left if len(batch) < self._population else ():
            batch += self._novelty.only_new([genome], batch)
            if len(batch) >= self._population:
                break
        return batch

    def _learn(self, results: Sequence[Told]) -> None:
        pass
