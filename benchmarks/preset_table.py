"""What was measured of exgen on every workload, and how far it is from each workload's own best.

Losses are weighted logarithms, so that a distance is a ratio whatever the units are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tuner.allocators import get_allocator
from tuner.measure.calibration import load_calibration
from tuner.measure.emulator import Emulation, EmulationOptions, EmulatorEvaluator
from tuner.measure.instruments import best_instrument
from tuner.records import Configuration, Measurement, Trial, Value

ALLOCATOR: Final = "exgen"
BASELINE: Final = "glibc"


@dataclass(frozen=True)
class Aim:
    """What a configuration is chosen for."""

    name: str
    memory: float
    """Weight of memory, from 0 to 1; cost has the rest."""
    is_worst_case: bool
    """True: the greatest distance counts; False: the mean over the workloads."""
    purpose: str
    beyond_emulation: Mapping[str, Value] = field(default_factory=dict)
    """Settings of the preset that emulation does not see, chosen by what it is for."""


@dataclass(frozen=True)
class Numbers:
    """One configuration on one workload."""

    mean_heap: float
    peak_heap: float
    cost: float

    def loss(self, memory: float) -> float:
        """Return the weighted logarithm of memory and cost."""
        heap = (math.log(self.mean_heap) + math.log(self.peak_heap)) / 2
        return memory * heap + (1.0 - memory) * math.log(self.cost)


class Table:
    """Everything that was measured: workload, configuration -> numbers, None for a failure."""

    def __init__(self, traces: Mapping[str, Path]) -> None:
        """Prepare an evaluator for every workload."""
        names = (ALLOCATOR, BASELINE)
        located = {name: (get_allocator(name), get_allocator(name).locate()) for name in names}
        instrument = best_instrument() or "auto"
        options = EmulationOptions(instrument=instrument)
        self._evaluators = {
            workload: EmulatorEvaluator(Emulation(trace, located, load_calibration(), options))
            for workload, trace in traces.items()
        }
        self.rows: dict[str, dict[Configuration, Numbers | None]] = {w: {} for w in traces}
        self.n_measured = 0
        self.instrument = instrument

    @property
    def workloads(self) -> tuple[str, ...]:
        """Names, in the order of measuring."""
        return tuple(self.rows)

    def take(self, workload: str, trials: Iterable[Trial]) -> None:
        """Take over what a campaign has measured."""
        for trial in trials:
            self.rows[workload][trial.configuration] = _numbers(trial.measurement)

    def measure(self, workload: str, configuration: Configuration) -> Numbers | None:
        """Return the numbers of a configuration, measured once."""
        row = self.rows[workload]
        if configuration not in row:
            found = self._evaluators[workload].evaluate(configuration)
            row[configuration] = _numbers(found.measurement)
            self.n_measured += 1
        return row[configuration]

    def best_loss(self, workload: str, memory: float) -> float:
        """Return the least loss of exgen on a workload."""
        found = self.rows[workload].items()
        return min(n.loss(memory) for c, n in found if n and c.allocator == ALLOCATOR)

    def distances(self, configuration: Configuration, aim: Aim) -> dict[str, float]:
        """Return the distance from each workload's own best; infinite for a failure."""
        return {w: self._distance(w, configuration, aim) for w in self.workloads}

    def score(self, configuration: Configuration, aim: Aim, limit: float = math.inf) -> float:
        """Return what an aim minimises; measuring ends as soon as it is above a limit."""
        total = 0.0
        for workload in self.workloads:
            distance = self._distance(workload, configuration, aim)
            share = distance / len(self.workloads)
            total = max(total, distance) if aim.is_worst_case else total + share
            if total > limit:
                break
        return total

    def _distance(self, workload: str, configuration: Configuration, aim: Aim) -> float:
        numbers = self.measure(workload, configuration)
        if numbers is None:
            return math.inf
        return max(0.0, numbers.loss(aim.memory) - self.best_loss(workload, aim.memory))


def _numbers(measurement: Measurement | None) -> Numbers | None:
    if measurement is None or measurement["cost"] is None:
        return None
    heap = measurement.value("mean_heap"), measurement.value("peak_heap")
    return Numbers(*heap, measurement.value("cost")) if min(heap) > 0 else None
