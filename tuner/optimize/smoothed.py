"""What all runs of a search together say of settings: a Gaussian process for each quantity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from tuner.optimize.correction import Floats
from tuner.optimize.direct_plan import Tried
from tuner.optimize.judgement import OF_EXACT, Rules
from tuner.optimize.proposals import WORTH, worthwhile
from tuner.optimize.quantities import TABLE
from tuner.records import Configuration
from tuner.search.surrogate import Surrogate, features_of
from tuner.space import Genome, Space

_FITTING_STEPS: Final = 4
"""Of the process that chooses, which is fitted once: of more than a hundred runs the default takes
the variances of the fit before, and there is none."""


class Smoothed:
    """What all runs together say of settings: a Gaussian process for each quantity."""

    def __init__(
        self, space: Space, tried: Mapping[str, Tried], as_is: Configuration | None
    ) -> None:
        """Fit to what ran, by label, at least one; what the program runs under changes nothing."""
        self._space = space
        self._as_is = as_is
        self._features = features_of(space)
        self._models: dict[str, Surrogate] = {}
        plain = space.genome_of(as_is) if as_is else None
        zeros = [] if plain is None else [plain]
        seen = self._features.of([*(one.genome for one in tried.values()), *zeros])
        for name in next(iter(tried.values())).logs:
            model = Surrogate(self._features.gene, len(space.parameters))
            values = [*(one.logs[name] for one in tried.values()), *(0.0 for _ in zeros)]
            model.fit(*seen, np.array(values, dtype=np.float64), n_steps=_FITTING_STEPS)
            self._models[name] = model

    def of(self, genomes: Sequence[Genome]) -> dict[str, tuple[Floats, Floats]]:
        """Return quantity -> expected logs and their standard deviations, as the genomes are."""
        asked = self._features.of(genomes)
        return {name: model.predict(*asked) for name, model in self._models.items()}

    def smallest(self, configuration: Configuration, rules: Rules) -> Configuration:
        """Return a configuration without the settings of which nothing is expected.

        What counts of a loss is beyond the standard deviation of what is expected: of what is not
        told apart, the smallest (reduced.py).  Memory, which varies little, stays within
        `OF_EXACT` of its limit or what it was: else what is left is turned down.
        """
        genome = self._space.genome_of(configuration)
        if genome is None:
            return configuration
        wanted = self.of([genome])
        memory = [what for what in rules.guards if TABLE[what].is_memory]
        most = {what: max(wanted[what][0][0], OF_EXACT * rules.margin(what)) for what in memory}

        def loss(fewer: Configuration) -> float:
            asked = self._space.genome_of(fewer)
            if asked is None or fewer == self._as_is:
                return math.inf
            found = self.of([asked])
            if any(found[what][0][0] > limit for what, limit in most.items()):
                return math.inf
            return max(
                float(found[n][0][0] - log[0] - doubt[0]) for n, (log, doubt) in wanted.items()
            )

        least = math.log1p(rules.least)
        return worthwhile(configuration, loss, WORTH * least, least)
