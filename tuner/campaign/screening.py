"""Screen what a strategy proposes on a shrunk workload, and measure only the best in full.

A proposal is measured on the shrunk workload first.  Its values are carried over to the whole
one by what the default of its allocator has on both, and it is worth a trial when few are
better: proposals are ranked together with all trials so far by non-dominated sorting.
The strategy learns the estimates of those left out, which the ranking made dominated or
nearly so.  Trials, front and picks are of the whole workload only.

Limits: an estimate is as good as the shrunk workload ranks; see the verdict of a profile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuner.front.dominance import points_of
from tuner.metrics import METRICS, Metric
from tuner.moocore import load_moocore
from tuner.objectives import FAILED_VIOLATION, Constraint, trial_values, violation
from tuner.records import Configuration, Measurement, Outcome, Trial
from tuner.search import Told
from tuner.space import Genome
from tuner.store import CampaignRecord


@dataclass(frozen=True)
class Expected:
    """What a proposal is expected to have on the whole workload."""

    objectives: tuple[float, ...] | None
    """In campaign order; None when it failed on the shrunk workload."""
    violation: float

    def told(self, genome: Genome) -> Told:
        """Return it as a strategy takes it."""
        return Told(genome, self.objectives, self.violation)


def carried_over(
    low: Measurement, low_default: Measurement, full_default: Measurement
) -> Measurement:
    """Return a measurement on the shrunk workload, scaled to the whole one.

    Args:
        low: of the configuration, on the shrunk workload.
        low_default: of its allocator's default there.
        full_default: of its allocator's default on the whole workload.
    """

    def scaled(metric: Metric) -> float | None:
        value, base, full = (metric.value(m) for m in (low, low_default, full_default))
        if value is None or full is None:
            return None
        found = value * full / base if base else value
        return round(found) if metric.is_whole else found

    return replace(low, values={metric.name: scaled(metric) for metric in METRICS.values()})


class Estimator:
    """Turns screenings into estimates."""

    def __init__(
        self,
        record: CampaignRecord,
        constraints: Sequence[Constraint],
        full: Mapping[str, Measurement],
        low: Mapping[str, Measurement],
    ) -> None:
        """Prepare.

        Args:
            record: the campaign.
            constraints: its constraints.
            full: allocator -> its default on the whole workload.
            low: the same on the shrunk one.
        """
        self._record = record
        self._constraints = constraints
        self._full = full
        self._low = low

    def can_estimate(self, configuration: Configuration) -> bool:
        """Return whether the default of its allocator is known on both workloads."""
        name = configuration.allocator
        return name in self._full and name in self._low

    def estimate(self, configuration: Configuration, screened: Outcome[Measurement]) -> Expected:
        """Return what is expected of a configuration that `can_estimate` is true for.

        Args:
            configuration: the proposal.
            screened: how it fared on the shrunk workload.
        """
        if screened.good is None:
            return Expected(None, FAILED_VIOLATION)
        name = configuration.allocator
        expected = carried_over(screened.good, self._low[name], self._full[name])
        record = self._record
        values = trial_values(expected, record.objectives, record.resolution)
        baseline = self._full.get(record.baseline)
        return Expected(values, violation(self._constraints, expected, baseline, self._full[name]))


def most_promising(
    estimates: Sequence[Expected], trials: Sequence[Trial], keep: float
) -> list[int]:
    """Return which proposals are worth a trial, in the order they were proposed.

    Args:
        estimates: one for each proposal.
        trials: all so far.
        keep: share of the proposals, above 0; at least one is kept.
    """
    n = min(len(estimates), max(1, math.ceil(keep * len(estimates))))
    good = [i for i, e in enumerate(estimates) if e.objectives is not None and e.violation <= 0.0]
    known = points_of([trial for trial in trials if trial.is_feasible])
    rank = dict.fromkeys(range(len(estimates)), math.inf)
    if good:
        points = np.array([estimates[i].objectives for i in good], np.float64)
        both = np.concatenate([points, known]) if len(known) else points
        rank |= dict(zip(good, load_moocore().pareto_rank(both)[: len(good)].tolist(), strict=True))
    order = sorted(rank, key=lambda i: (estimates[i].violation, rank[i], i))
    return sorted(order[:n])
