"""Tree-structured Parzen estimators of Optuna, asked gene by gene as conditions activate them.

Optuna proposes levels: whole numbers for scales, choices for categories, and for a gene that is
inactive nothing.  What it proposes again, and it does so for a fifth of the time, is replaced by a
neighbour; it learns of that, of defaults and seeds as of proposals of its own.

Source: Watanabe, "Tree-Structured Parzen Estimator: Understanding Its Algorithm Components and
Their Roles for Better Empirical Performance", arXiv 2304.11127, 2023.
Akiba et al., "Optuna: A Next-generation Hyperparameter Optimization Framework", KDD 2019.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import optuna

from tuner.search.base import BatchStrategy, Told
from tuner.search.operators import mutate
from tuner.space import Genome, Space

_MOST_MUTATIONS = 8
"""Of a proposal that is known already, before chance takes over."""

_FAILED = "violation"
"""Name of the constraint."""


class OptunaTpe(BatchStrategy):
    """One batch is as many proposals as a population, each made with the others under way."""

    name = "tpe"

    def __init__(
        self, space: Space, n_objectives: int, population: int, seed: int, initial: Sequence[Genome]
    ) -> None:
        """See `tuner.search.making.make_strategy`."""
        super().__init__(space, n_objectives, initial)
        self._population = population
        self._rng = np.random.default_rng([seed, 1])
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(
            directions=["minimize"] * n_objectives, sampler=self._make_sampler(seed)
        )
        self._trials: dict[Genome, optuna.Trial] = {}
        self._is_first = True

    def _make_sampler(self, seed: int) -> optuna.samplers.BaseSampler:
        """Return what proposes."""
        return optuna.samplers.TPESampler(seed=seed % (1 << 32))  # what it takes

    def _propose(self) -> list[Genome]:
        asked = [self._fixed(genome) for genome in self._initial] if self._is_first else []
        self._is_first = False
        while len(asked) < self._population:
            trial = self._study.ask()
            genome = self._suggested(trial)
            if self._novelty.only_new([genome], asked):
                self._trials[genome] = trial
                asked.append(genome)
                continue
            self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
            other = self._new_beside(genome, asked)
            if other is None:
                break
            asked.append(self._fixed(other))
        return asked

    def _new_beside(self, genome: Genome, besides: Sequence[Genome]) -> Genome | None:
        """Return a new genome a few mutations away; any other if there is none; None: no more."""
        for _ in range(_MOST_MUTATIONS):
            genome = mutate(self._space, genome, self._rng)
            if self._novelty.only_new([genome], besides):
                return genome
        return next(iter(self._novelty.draw(self._rng, 1, besides)), None)

    def _fixed(self, genome: Genome) -> Genome:
        """Make a trial of Optuna's of a genome that is none of its proposals."""
        active = self._space.active(genome)
        levels = {
            parameter.name: level
            for parameter, level, is_active in zip(
                self._space.parameters, genome, active, strict=True
            )
            if is_active
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self._study.enqueue_trial(levels)
        trial = self._study.ask()
        self._suggested(trial)
        self._trials[genome] = trial
        return genome

    def _suggested(self, trial: optuna.Trial) -> Genome:
        """Return the genome that a trial asks for."""
        genome = [0] * len(self._space.parameters)
        values: dict[str, Any] = {}
        for place, parameter in enumerate(self._space.parameters):
            condition = parameter.condition
            if condition is not None and (
                condition.parameter not in values
                or values[condition.parameter] not in condition.values
            ):
                continue
            n = parameter.n_levels
            if parameter.ordered:
                level = trial.suggest_int(parameter.name, 0, n - 1)
            else:
                level = trial.suggest_categorical(parameter.name, list(range(n)))
            genome[place] = level
            values[parameter.name] = parameter.levels[level]
        return self._space.canonical(tuple(genome))

    def _learn(self, results: Sequence[Told]) -> None:
        for result in results:
            trial = self._trials.pop(result.genome)
            if result.objectives is None:
                self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                trial.set_constraint(_FAILED, result.violation)
            self._study.tell(trial, list(result.objectives))
