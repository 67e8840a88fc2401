"""What all runs of a search together say of settings: a Gaussian process for each quantity."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from tuner.optimize.choosing.correction import Floats
from tuner.optimize.choosing.direct_plan import Tried
from tuner.optimize.choosing.priors import Priors
from tuner.optimize.choosing.proposals import WORTH, worthwhile
from tuner.optimize.proof.judgement import OF_EXACT, Rules
from tuner.optimize.quantities import TABLE
from tuner.records import Configuration
from tuner.search.surrogate import FITTING_STEPS, Surrogate, features_of
from tuner.space import Genome, Space

Lost: TypeAlias = Mapping[str, float]
"""Quantity -> a difference of logs."""


class Smoothed:
    """What all runs together say of settings: a Gaussian process for each quantity."""

    def __init__(
        self,
        space: Space,
        tried: Mapping[str, Tried],
        as_is: Configuration | None,
        exact: Collection[str] = (),
        priors: Priors | None = None,
    ) -> None:
        """Fit to what ran.

        Args:
            space: what can be set.
            tried: what ran, by label, at least one.
            as_is: what the program runs under, which changes nothing; None: a setting of its own.
            exact: quantities of which no run is lucky.
            priors: what emulation expects; None where there was none.
        """
        self._space = space
        self._as_is = as_is
        self._features = features_of(space)
        self._models: dict[str, Surrogate] = {}
        plain = space.genome_of(as_is) if as_is else None
        zeros = [] if plain is None else [plain]
        seen = self._features.of([*(one.genome for one in tried.values()), *zeros])
        is_single = np.array([one.n_runs == 1 for one in tried.values()] + [False] * len(zeros))
        for name in next(iter(tried.values())).logs:
            prior = (priors or {}).get(name)
            model = Surrogate(self._features.gene, len(space.parameters), prior)
            values = [*(one.logs[name] for one in tried.values()), *(0.0 for _ in zeros)]
            may_be_lucky = None if name in exact else is_single
            model.fit(*seen, np.array(values), is_single=may_be_lucky, n_steps=FITTING_STEPS)
            self._models[name] = model

    def of(self, genomes: Sequence[Genome]) -> dict[str, tuple[Floats, Floats]]:
        """Return quantity -> expected logs and their standard deviations, as the genomes are."""
        asked = self._features.of(genomes)
        return {name: model.predict(*asked) for name, model in self._models.items()}

    def smallest(self, configuration: Configuration, rules: Rules) -> Configuration:
        """Return a configuration without the settings of which nothing is expected.

        What counts of a loss is beyond the standard deviation of what is expected: of what is not
        told apart, the smallest (reduced.py).
        """
        least = math.log1p(rules.least)

        def loss(lost: Lost, wanted: Lost, doubts: Lost, n_fewer: int) -> float:
            del wanted, n_fewer
            return max(lost[name] - doubt for name, doubt in doubts.items())

        return self._fewer(configuration, rules, loss, WORTH * least, least)

    def fewest(self, configuration: Configuration, rules: Rules) -> Configuration:
        """Return a configuration without the settings that may go once it wins (reduced.py)."""
        least = math.log1p(rules.least)

        def share(lost: Lost, wanted: Lost, doubts: Lost, n_fewer: int) -> float:
            del doubts
            return max(
                lost[name] / max(least, rules.may_cost(n_fewer, -log))
                for name, log in wanted.items()
            )

        return self._fewer(configuration, rules, share, 1.0, 1.0)

    def _fewer(
        self,
        configuration: Configuration,
        rules: Rules,
        loss_of: Callable[[Lost, Lost, Lost, int], float],
        worth: float,
        most: float,
    ) -> Configuration:
        """Return a configuration without the settings that gain too little, see `worthwhile`.

        Memory, which varies little, stays within `OF_EXACT` of its limit or what it was: else what
        is left is turned down.

        Args:
            configuration: it.
            rules: what counts.
            loss_of: from what is lost, what was expected with all settings, its standard
                deviations and the number of settings that went to the loss that counts.
            worth: greatest loss that a setting fewer is worth.
            most: greatest loss in all.
        """
        genome = self._space.genome_of(configuration)
        if genome is None:
            return configuration
        found = self.of([genome])
        wanted = {name: float(logs[0]) for name, (logs, _) in found.items()}
        doubts = {name: float(both[0]) for name, (_, both) in found.items()}
        memory = [what for what in rules.guards if TABLE[what].is_memory]
        limits = {what: max(wanted[what], OF_EXACT * rules.margin(what)) for what in memory}

        def loss(fewer: Configuration) -> float:
            asked = self._space.genome_of(fewer)
            if asked is None or fewer == self._as_is:
                return math.inf
            logs = {name: float(both[0]) for name, (both, _) in self.of([asked]).items()}
            if any(logs[what] > limit for what, limit in limits.items()):
                return math.inf
            lost = {name: logs[name] - log for name, log in wanted.items()}
            n_fewer = len(configuration.settings) - len(fewer.settings)
            return loss_of(lost, wanted, doubts, n_fewer)

        return worthwhile(configuration, loss, worth, most)
