"""Random search: every gene uniform over its levels, no configuration twice.

The baseline.  A strategy that does not beat it within the budget of a campaign
is not worth its code.
"""

from collections.abc import Sequence

import numpy as np

from tuner.search.base import BatchStrategy, Told
from tuner.space import Genome, Space


class RandomSearch(BatchStrategy):
    """Proposes the initial genomes, then random ones; learns nothing."""

    name = "random"

    def __init__(
        self, space: Space, n_objectives: int, population: int, seed: int, initial: Sequence[Genome]
    ) -> None:
        """See `tuner.search.making.make_strategy`; `population` is the size of a batch."""
        super().__init__(space, n_objectives, initial)
        self._population = population
        self._rng = np.random.default_rng(seed)
        self._is_first = True

    def _propose(self) -> list[Genome]:
        first = self._initial if self._is_first else []
        self._is_first = False
        n_missing = max(0, self._population - len(first))
        return first + self._novelty.draw(self._rng, n_missing, first)

    def _learn(self, results: Sequence[Told]) -> None:
        pass
