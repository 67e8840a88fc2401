"""Searches that are compared and not offered: libraries as they come.

`StockPymoo` is the NSGA-II of pymoo's guide for mixed variables with its own sampling, operators
and rates: no defaults, no conditions.  `OptunaNsga2` knows conditions only as far as Optuna does.
`Smac` is SMAC3's facade for hyperparameters (a random forest, ParEGO for several objectives); it
is installed by hand (``pip install smac``), and left out where it is not.

What was proposed before costs no evaluation, as in a campaign: it is answered at once.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import optuna
from pymoo.algorithms.moo.nsga2 import NSGA2, RankAndCrowdingSurvival
from pymoo.core.evaluator import Evaluator
from pymoo.core.mixed import (
    MixedVariableDuplicateElimination,
    MixedVariableMating,
    MixedVariableSampling,
)
from pymoo.core.problem import Problem
from pymoo.core.termination import NoTermination
from pymoo.core.variable import Choice, Integer
from pymoo.problems.static import StaticProblem

from tuner.search import Told
from tuner.search.base import BatchStrategy
from tuner.search.optuna_search import OptunaTpe
from tuner.space import Genome, Space

_IN_VAIN: Final = 200
"""Batches, or proposals, that are all known before a search ends."""


class OptunaNsga2(OptunaTpe):
    """Optuna's NSGA-II with its own population of 50."""

    name = "optuna-nsga2"

    def _make_sampler(self, seed: int) -> optuna.samplers.BaseSampler:
        return optuna.samplers.NSGAIISampler(seed=seed)


class StockPymoo(BatchStrategy):
    """One batch is what is new in one generation."""

    name = "stock-pymoo"

    def __init__(
        self, space: Space, n_objectives: int, population: int, seed: int, initial: Sequence[Genome]
    ) -> None:
        """See `tuner.search.making.make_strategy`; `initial` is left out."""
        del initial
        super().__init__(space, n_objectives, ())
        variables = {
            str(place): Integer(bounds=(0, n - 1)) if gene.ordered else Choice(options=[*range(n)])
            for place, (gene, n) in enumerate(zip(space.parameters, space.n_levels, strict=True))
        }
        self._problem = Problem(vars=variables, n_obj=n_objectives, n_ieq_constr=1)
        same = MixedVariableDuplicateElimination()
        self._algorithm = NSGA2(
            pop_size=population,
            sampling=MixedVariableSampling(),
            mating=MixedVariableMating(eliminate_duplicates=same),
            survival=RankAndCrowdingSurvival(),
            eliminate_duplicates=same,
        )
        self._algorithm.setup(self._problem, termination=NoTermination(), seed=seed)
        self._known: dict[Genome, Told] = {}
        self._generation: Any = None

    def _propose(self) -> list[Genome]:
        for _ in range(_IN_VAIN):
            self._generation = self._algorithm.ask()
            if self._generation is None:
                return []
            new = self._novelty.only_new(self._genomes())
            if new:
                return new
            self._tell_generation()
        return []

    def _genomes(self) -> list[Genome]:
        n = len(self._space.parameters)
        rows = ([int(one.X[str(place)]) for place in range(n)] for one in self._generation)
        return [self._space.canonical(tuple(row)) for row in rows]

    def _learn(self, results: Sequence[Told]) -> None:
        for result in results:
            self._known[result.genome] = result
        self._tell_generation()

    def _tell_generation(self) -> None:
        found = [self._of(genome) for genome in self._genomes()]
        zeros = (0.0,) * self._n_objectives
        values = np.array([one.objectives or zeros for one in found])
        excess = np.array([[one.violation] for one in found])
        Evaluator().eval(StaticProblem(self._problem, F=values, G=excess), self._generation)
        self._algorithm.tell(infills=self._generation)

    def _of(self, genome: Genome) -> Told:
        if genome in self._known:
            return self._known[genome]
        wanted = self._space.decode(genome)  # another genome of the same configuration
        return next(t for g, t in self._known.items() if self._space.decode(g) == wanted)


class Smac(BatchStrategy):
    """One batch is one proposal."""

    name = "smac"

    def __init__(
        self, space: Space, n_objectives: int, population: int, seed: int, initial: Sequence[Genome]
    ) -> None:
        """See `tuner.search.making.make_strategy`; `population` means nothing."""
        del population
        import smac  # noqa: PLC0415 - where it is compared only

        super().__init__(space, n_objectives, initial)
        logging.getLogger("smac").setLevel(logging.ERROR)
        self._folder = tempfile.TemporaryDirectory(prefix="smac-")
        objectives = [f"objective{number}" for number in range(n_objectives)]
        configurations = _configurations_of(space)
        configurations.seed(seed)
        scenario = smac.Scenario(
            configurations, objectives=objectives, deterministic=True, n_trials=10_000,
            seed=seed, output_directory=Path(self._folder.name),
        )  # fmt: skip
        facade = smac.HyperparameterOptimizationFacade
        self._smac = facade(
            scenario, lambda _config, seed=0: dict.fromkeys(objectives, float(seed)),
            multi_objective_algorithm=facade.get_multi_objective_algorithm(scenario),
            initial_design=facade.get_initial_design(scenario, n_configs=20),
            logging_level=logging.ERROR, overwrite=True,
        )  # fmt: skip
        self._asked: dict[Genome, Any] = {}
        self._known: dict[Genome, Told] = {}
        self._waiting = list(self._initial)

    def _propose(self) -> list[Genome]:
        if self._waiting:
            first, self._waiting = self._waiting, []
            return first
        for _ in range(_IN_VAIN):
            trial = self._smac.ask()
            genome = self._genome(dict(trial.config))
            self._asked[genome] = trial
            if self._novelty.only_new([genome]):
                return [genome]
            if genome in self._known:
                self._learn([self._known[genome]])
        return []

    def _genome(self, chosen: dict[str, Any]) -> Genome:
        levels = [int(chosen.get(gene.name, gene.resting)) for gene in self._space.parameters]
        return self._space.canonical(tuple(levels))

    def _learn(self, results: Sequence[Told]) -> None:
        from smac.runhistory.dataclasses import TrialInfo, TrialValue  # noqa: PLC0415 - as above
        from smac.runhistory.enumerations import StatusType  # noqa: PLC0415 - as above

        for result in results:
            self._known[result.genome] = result
            trial = self._asked.get(result.genome) or TrialInfo(
                self._configuration(result.genome), seed=0
            )
            is_good = result.objectives is not None and result.violation <= 0.0
            cost = [float(np.log1p(v)) for v in result.objectives or [50.0] * self._n_objectives]
            status = StatusType.SUCCESS if is_good else StatusType.CRASHED
            self._smac.tell(trial, TrialValue(cost=cost, status=status), save=False)

    def _configuration(self, genome: Genome) -> Any:  # noqa: ANN401 - of a library without types
        from ConfigSpace import Configuration  # noqa: PLC0415 - as above

        space = self._smac.scenario.configspace
        active = zip(self._space.parameters, genome, self._space.active(genome), strict=True)
        values = {gene.name: level for gene, level, on in active if on and gene.n_levels > 1}
        return Configuration(space, values=values)


def _configurations_of(space: Space) -> Any:  # noqa: ANN401 - ConfigSpace has no types
    """Return a space as ConfigSpace has it: a level of each gene, and the same conditions.

    Genes of one level are left out: SMAC3 fails on conditions on constants.
    """
    import ConfigSpace  # noqa: PLC0415 - not ours

    made: dict[str, Any] = {}
    found = ConfigSpace.ConfigurationSpace()
    for parameter in (one for one in space.parameters if one.n_levels > 1):
        name, n = parameter.name, parameter.n_levels
        made[name] = (
            ConfigSpace.UniformIntegerHyperparameter(name, 0, n - 1)
            if parameter.ordered
            else ConfigSpace.CategoricalHyperparameter(name, list(range(n)))
        )
    found.add(list(made.values()))
    levels = {parameter.name: parameter.levels for parameter in space.parameters}
    for parameter in space.parameters:
        gate = parameter.condition
        if gate is not None and {parameter.name, gate.parameter} <= made.keys():
            wanted = [i for i, v in enumerate(levels[gate.parameter]) if v in gate.values]
            found.add(ConfigSpace.InCondition(made[parameter.name], made[gate.parameter], wanted))
    return found
