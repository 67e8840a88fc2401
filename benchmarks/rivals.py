"""Searches directly on a program, to compare with: Optuna's TPE and SMAC3, both multi-objective.

Each proposes one setting after the other, the program runs once under it, and what it measured
goes back: mean memory and CPU time.  Both begin with every allocator's default, and what they
would report is what they saw undominated, without more peak memory than `optimize` allows.  SMAC3
is no dependency of malloc-tuner; without ``pip install '.[rivals]'`` it is left out.

Sources: Watanabe, "Tree-Structured Parzen Estimator", arXiv 2304.11127, 2023.  Lindauer and
others, "SMAC3: A versatile Bayesian optimization package for hyperparameter optimization", JMLR
23, 2022; with several objectives it uses ParEGO (Knowles, IEEE Transactions on Evolutionary
Computation 10, 2006).
"""

from __future__ import annotations

import importlib.util
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import moocore
import numpy as np

from tuner.compare.plan import Step
from tuner.optimize.judgement import Rules
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.optimize.tuned import Reference, Tuned
from tuner.records import Configuration
from tuner.search import Told, make_strategy
from tuner.space import Genome, Space

TPE, SMAC = "TPE", "SMAC3"
GOALS: Final = (MEAN, CPU)
_FAILED: Final = 4.0
"""Times what the program as it is uses: a failed run, for a rival that needs a number."""

_SUBJECT: Final = "tried"


class Asks(Protocol):
    """Proposes settings one by one."""

    def ask(self) -> Genome:
        """Return the next one."""
        ...

    def tell(self, genome: Genome, values: Sequence[float] | None) -> None:
        """Take what a run under it measured, as ratios; None where it failed."""
        ...


class OptunaTpe:
    """TPE as campaigns use it, one proposal at a time."""

    def __init__(self, space: Space, seed: int) -> None:
        """Prepare."""
        self._strategy = make_strategy(
            "tpe", space, len(GOALS), population=1, seed=seed, initial=list(space.defaults())
        )
        self._asked: list[Genome] = []
        self._told: list[Told] = []

    def ask(self) -> Genome:
        """Return the next one; a batch is told when all of it ran."""
        if not self._asked:
            if self._told:
                self._strategy.tell(self._told)
                self._told = []
            self._asked = list(self._strategy.ask())
        return self._asked.pop(0)

    def tell(self, genome: Genome, values: Sequence[float] | None) -> None:
        """Take what was measured."""
        self._told.append(Told(genome, tuple(values) if values else None, 0.0 if values else 1.0))


class Smac:
    """SMAC3's facade for hyperparameters with ParEGO."""

    def __init__(self, space: Space, seed: int, folder: Path) -> None:
        """Prepare; it writes its log into a folder."""
        from smac import HyperparameterOptimizationFacade as Facade  # noqa: PLC0415 - not ours
        from smac import Scenario  # noqa: PLC0415 - likewise

        self._space = space
        self._configurations = configurations_of(space)
        scenario = Scenario(
            self._configurations,
            objectives=["memory", "time"],
            n_trials=100_000,
            seed=seed,
            deterministic=True,
            output_directory=folder,
        )
        first = [self._encoded(genome) for genome in space.defaults()]
        self._smac = Facade(
            scenario,
            lambda config, seed=0: {"memory": 1.0, "time": 1.0},  # noqa: ARG005 - asked, not run
            initial_design=Facade.get_initial_design(scenario, additional_configs=first),
            multi_objective_algorithm=Facade.get_multi_objective_algorithm(scenario),
            overwrite=True,
            logging_level=False,
        )
        self._infos: dict[Genome, Any] = {}

    def ask(self) -> Genome:
        """Return the next one."""
        info = self._smac.ask()
        genome = self._decoded(info.config)
        self._infos[genome] = info
        return genome

    def tell(self, genome: Genome, values: Sequence[float] | None) -> None:
        """Take what was measured."""
        from smac.runhistory.dataclasses import TrialValue  # noqa: PLC0415 - not ours

        cost = list(values or [_FAILED] * len(GOALS))
        self._smac.tell(self._infos.pop(genome), TrialValue(cost=cost), save=False)

    def _decoded(self, config: Any) -> Genome:  # noqa: ANN401 - SMAC has no types
        known = dict(config)
        genome = [int(known.get(p.name, p.resting)) for p in self._space.parameters]
        return self._space.canonical(tuple(genome))

    def _encoded(self, genome: Genome) -> Any:  # noqa: ANN401 - likewise
        import ConfigSpace  # noqa: PLC0415 - not ours

        active = self._space.active(genome)
        values = {
            parameter.name: level
            for parameter, level, is_active in zip(
                self._space.parameters, genome, active, strict=True
            )
            if is_active and parameter.n_levels > 1
        }
        return ConfigSpace.Configuration(self._configurations, values=values)


def configurations_of(space: Space) -> Any:  # noqa: ANN401 - ConfigSpace has no types
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


def is_there(rival: str) -> bool:
    """Return whether the library of a rival is installed; say so where it is not."""
    library = "optuna" if rival == TPE else "smac"
    if importlib.util.find_spec(library) is not None:
        return True
    print(f"{rival}: left out; pip install {library}", file=sys.stderr)
    return False


def searched(
    rival: Asks,
    tuned: Tuned,
    reference: Reference,
    space: Space,
    seconds: float,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> list[Configuration]:
    """Search until the time is up, and return what was seen undominated, the least memory first.

    Args:
        rival: proposes.
        tuned: what runs.
        reference: it, as it is.
        space: of the proposals.
        seconds: for all runs and proposals.
        clock: in seconds; only differences count.
    """
    seen: dict[Configuration, tuple[float, ...]] = {}
    end_s = clock() + seconds
    number = 0
    while clock() + reference.wall_s < end_s:
        genome = rival.ask()
        configuration = space.decode(genome)
        ratios = _run(tuned, reference, configuration, number)
        values = [ratios[goal] for goal in GOALS] if ratios else None
        rival.tell(genome, values)
        if ratios and values and math.log(ratios[PEAK]) <= Rules().margin(PEAK):
            seen[configuration] = tuple(values)
        number += 1
    return undominated(seen)


def _run(
    tuned: Tuned, reference: Reference, configuration: Configuration, number: int
) -> dict[str, float] | None:
    if tuned.refusal(configuration) is not None:
        return None
    found = tuned.runner({_SUBJECT: configuration}, reference)(Step(number, 0, None, _SUBJECT))
    if found.good is None:
        return None
    return {name: found.good[name] / reference.values[name] for name in (*GOALS, PEAK)}


def undominated(seen: Mapping[Configuration, Sequence[float]]) -> list[Configuration]:
    """Return the settings that no other dominates, by their first value."""
    if not seen:
        return []
    points = np.array(list(seen.values()), dtype=np.float64)
    kept = moocore.is_nondominated(points)
    front = [(seen[one][0], one) for one, is_kept in zip(seen, kept, strict=True) if is_kept]
    return [one for _, one in sorted(front, key=lambda pair: (pair[0], pair[1].key))]
