"""One configuration on several workloads: every figure is its geometric mean over them.

A setting for a program that is used in many ways should suit them all.  The geometric mean of
a figure ranks configurations exactly as the geometric mean of their ratios to any baseline
does, so no baseline has to be chosen, and a large workload counts no more than a small one.

Guarantee: a configuration that fails on one workload fails, and is not measured on the rest.
Limits: the curve is that of the first workload; a limit on a figure bounds the mean.

Source: P. J. Fleming, J. J. Wallace, How not to lie with statistics: the correct way to
summarize benchmark results, Communications of the ACM 29(3), 1986.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tuner.measure.emulator import EmulatorEvaluator
from tuner.measure.evaluation import Evaluation
from tuner.metrics import METRICS, Metric
from tuner.records import Configuration, Measurement, Outcome

_ELAPSED: Final = "wall"
"""What is summed: an evaluation takes as long as all its replays."""


class SeveralWorkloads:
    """Evaluates configurations on several workloads; safe to call from several threads."""

    def __init__(self, evaluators: Sequence[EmulatorEvaluator]) -> None:
        """Prepare.

        Args:
            evaluators: one per workload, at least one; only the first needs to read
                settings back.
        """
        self._evaluators = tuple(evaluators)

    def evaluate(self, configuration: Configuration, cpu: int | None = None) -> Evaluation:
        """Measure the configuration on every workload, one after the other.

        Raises:
            TunerError: as `EmulatorEvaluator.evaluate`.
        """
        found: list[Measurement] = []
        incidents: tuple[str, ...] = ()
        for evaluator in self._evaluators:
            evaluation = evaluator.evaluate(configuration, cpu)
            if evaluation.good is None:
                return evaluation
            found.append(evaluation.good)
            incidents += evaluation.incidents
        return Outcome.succeeded(mean_measurement(found), incidents)

    def stop(self) -> None:
        """End the replays that are running; for Ctrl-C."""
        for evaluator in self._evaluators:
            evaluator.stop()


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
