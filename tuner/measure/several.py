"""One configuration on several workloads: every figure is its mean over them, or its worst.

A setting for a program that is used in many ways should suit them all.  The geometric mean of
a figure ranks configurations exactly as the geometric mean of their ratios to any baseline
does, so no baseline has to be chosen, and a large workload counts no more than a small one.

The worst is the greatest ratio to the baseline's default on the same workload, times the geometric
mean of those defaults, so that it has the unit of the figure.

Guarantee: a configuration that fails on one workload fails, and is not measured on the rest.
Limits: the curve is that of the first workload; a limit on a figure bounds the mean.

Source: P. J. Fleming, J. J. Wallace, How not to lie with statistics: the correct way to
summarize benchmark results, Communications of the ACM 29(3), 1986.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tuner.errors import ProgramError
from tuner.measure.emulator import Emulation, EmulatorEvaluator, MemoryRun
from tuner.measure.evaluation import Evaluation, Gate, uncounted
from tuner.metrics import METRICS, Metric
from tuner.records import Configuration, Measurement, Outcome, baseline_of

_ELAPSED: Final = "wall"
"""What is summed: an evaluation takes as long as all its replays."""


class SeveralWorkloads:
    """Evaluates configurations on several workloads; safe to call from several threads."""

    def __init__(
        self, evaluators: Sequence[EmulatorEvaluator], worst_against: Configuration | None = None
    ) -> None:
        """Prepare.

        Args:
            evaluators: one per workload, at least one; only the first needs to read
                settings back.
            worst_against: the default that a worst case is relative to; None: figures are means.
        """
        self._evaluators = tuple(evaluators)
        self._worst_against = worst_against
        self._bases: Sequence[Measurement] = ()
        self._lock = threading.Lock()

    def evaluate(self, configuration: Configuration, cpu: int | None = None) -> Evaluation:
        """Measure the configuration on every workload, one after the other.

        Raises:
            ProgramError: the default that a worst case is relative to failed.
            TunerError: as `EmulatorEvaluator.evaluate`.
        """
        found = self._measured(configuration, cpu)
        if found.values is None:
            return Outcome(found.status, found.reason, None)
        if self._worst_against is None:
            return Outcome.succeeded(mean_measurement(found.values), found.incidents)
        incidents = found.incidents
        with self._lock:
            if not self._bases and configuration == self._worst_against:
                self._bases = found.values
            if not self._bases:
                base = self._measured(self._worst_against, cpu)
                if base.values is None:
                    words = base.status.value.replace("_", " ")
                    raise ProgramError(
                        f"the default of {self._worst_against.allocator}, which worst cases are "
                        f"relative to, {words}: {base.reason}"
                    )
                self._bases = base.values
                incidents += base.incidents
        return Outcome.succeeded(worst_measurement(found.values, self._bases), incidents)

    def _measured(
        self, configuration: Configuration, cpu: int | None
    ) -> Outcome[Sequence[Measurement]]:
        """Return what each workload gave, in their order."""
        found: list[Measurement] = []
        incidents: tuple[str, ...] = ()
        for evaluator in self._evaluators:
            evaluation = evaluator.evaluate(configuration, cpu)
            if evaluation.good is None:
                return Outcome(evaluation.status, evaluation.reason, None)
            found.append(evaluation.good)
            incidents += evaluation.incidents
        return Outcome.succeeded(found, incidents)

    def evaluate_gated(
        self, configuration: Configuration, cpu: int | None, gate: Gate
    ) -> Evaluation:
        """Measure memory on every workload, then count on every one unless the gate refuses.

        The mean of sums is at least the sum of the means, so a bound of the mean instructions and
        the mean of the other costs bound the mean cost (Minkowski's inequality).  Of a worst case
        there is no such bound; all is counted.

        Raises:
            TunerError: as `EmulatorEvaluator.evaluate`.
        """
        if self._worst_against is not None:
            return self.evaluate(configuration, cpu)
        runs: list[MemoryRun] = []
        incidents: tuple[str, ...] = ()
        for evaluator in self._evaluators:
            ran = evaluator.measure_memory(configuration, cpu)
            if ran.good is None:
                return Outcome(ran.status, ran.reason, None)
            runs.append(ran.good)
            incidents += ran.incidents
        known = mean_measurement([run.measurement for run in runs])
        refusal = gate.refusal(configuration, known, _kernel_cost(runs))
        if refusal is not None:
            return uncounted(known, refusal, incidents)
        counted: list[Measurement] = []
        for evaluator, run in zip(self._evaluators, runs, strict=True):
            evaluation = evaluator.count(configuration, cpu, run)
            if evaluation.good is None:
                return evaluation
            counted.append(evaluation.good)
        return Outcome.succeeded(mean_measurement(counted), incidents)

    def stop(self) -> None:
        """End the replays that are running; for Ctrl-C."""
        for evaluator in self._evaluators:
            evaluator.stop()


def several_workloads(
    evaluators: Sequence[EmulatorEvaluator], emulation: Emulation
) -> EmulatorEvaluator | SeveralWorkloads:
    """Return what evaluates on some workloads as the options of an emulation say.

    Args:
        evaluators: one per workload, at least one.
        emulation: of any of them.
    """
    if len(evaluators) == 1:
        return evaluators[0]
    baseline = Configuration(baseline_of(emulation.allocators))
    is_worst = emulation.options.combine == "worst"
    return SeveralWorkloads(evaluators, baseline if is_worst else None)


def worst_measurement(
    measurements: Sequence[Measurement], bases: Sequence[Measurement]
) -> Measurement:
    """Return the worst of all figures; None where a workload lacks one.

    Args:
        measurements: of one configuration, one per workload, at least one.
        bases: of the default they are relative to, likewise.
    """
    means, defaults = mean_measurement(measurements), mean_measurement(bases)
    found = {**means.values}
    for metric in METRICS.values():
        pairs = [(m[metric.name], b[metric.name]) for m, b in zip(measurements, bases, strict=True)]
        ratios = [(m + 1.0) / (b + 1.0) for m, b in pairs if m is not None and b is not None]
        default = defaults[metric.name]
        if metric.name == _ELAPSED or default is None or len(ratios) < len(pairs):
            continue
        worst = (default + 1.0) * max(ratios) - 1.0
        found[metric.name] = round(worst) if metric.is_whole else worst
    return replace(measurements[0], values=found)


def _kernel_cost(runs: Sequence[MemoryRun]) -> float | None:
    """Return the geometric mean; None where a workload lacks it."""
    found = [run.kernel_cost for run in runs if run.kernel_cost is not None]
    return geometric_mean_from_zero(found) if len(found) == len(runs) else None


def mean_measurement(measurements: Sequence[Measurement]) -> Measurement:
    """Return the geometric means of all figures; None where a workload lacks one.

    Args:
        measurements: of one configuration, one per workload, at least one.
    """
    found = {metric.name: _joined(metric, measurements) for metric in METRICS.values()}
    return replace(measurements[0], values=found)


def _joined(metric: Metric, measurements: Sequence[Measurement]) -> float | None:
    values = [value for one in measurements if (value := one[metric.name]) is not None]
    if len(values) < len(measurements):
        return None
    if metric.name == _ELAPSED:
        return sum(values)
    mean = geometric_mean_from_zero(values)
    return round(mean) if metric.is_whole else mean


def geometric_mean_from_zero(values: Sequence[float]) -> float:
    """Return the geometric mean of values + 1, less 1, so that a 0 among them does not decide.

    Example:
        >>> geometric_mean_from_zero([0, 3])
        1.0
    """
    return math.expm1(math.fsum(map(math.log1p, values)) / len(values))
