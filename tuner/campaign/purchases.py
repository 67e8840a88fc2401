"""Which evaluations are worth their counted run, which takes longer than all else of them.

The memory run comes first.  What is left to know is how many instructions the allocator spends,
and a Gaussian process over all that were counted so far expects at least so many.  Where a point
of the front is as good even then, in every objective and to a fifth of a percent, the
configuration can add nothing to the front; it becomes an uncounted trial.  The strategy learns
what was measured, and the bound.

Guarantee: what is decided depends on the trials of earlier batches only, not on the order in which
evaluations end.
Limits: a bound is an expectation less two standard deviations, not a proof.

Source: the model is that of `tuner.search.surrogate`; deviations and tolerance were chosen by what
they leave out of recorded campaigns, see docs/decisions/search.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tuner.front.dominance import front
from tuner.measure.evaluation import Refusal
from tuner.metrics import COST, METRICS
from tuner.objectives import trial_values
from tuner.records import Configuration, Measurement, Trial
from tuner.search import Told
from tuner.search.surrogate import Surrogate, features_of, on_one_core
from tuner.space import Genome, Space
from tuner.store import CampaignRecord

_COUNTED: Final = "instructions"
_DEVIATIONS: Final = 2.0
"""Below what is expected of the instructions."""
_TOLERANCE: Final = 0.002
"""Relative difference of two values that are as good as equal."""
_FEWEST: Final = 16
"""Counted trials before any is left out."""
_MOST: Final = 160
"""Counted trials that the model is fitted to, the newest."""
_STEPS: Final = 16
"""Of the model's variances, which are fitted anew for each batch: with fewer, deviations are too
large and less is left out."""
_DIGITS: Final = 6
"""Of expectations, which are logarithms: libraries of linear algebra differ in the last ones."""


@dataclass(frozen=True)
class FrontGate:
    """Refuses what the front dominates however few instructions it takes."""

    objectives: tuple[str, ...]
    resolution: tuple[tuple[str, float], ...]
    """See `Trial.resolution`."""
    front: tuple[tuple[int, tuple[float, ...]], ...]
    """Number and objectives of its trials."""
    least: Mapping[Configuration, float]
    """Instructions that a configuration is expected to take at least."""

    def refusal(
        self, configuration: Configuration, known: Measurement, kernel_cost: float | None
    ) -> Refusal | None:
        """See `tuner.measure.evaluation.Gate`."""
        least = self.least.get(configuration)
        if least is None:
            return None
        bound: dict[str, float] = {_COUNTED: math.floor(least)}
        if kernel_cost is not None:
            bound[COST] = least + kernel_cost
        values = trial_values(known.with_values(**bound), self.objectives, self.resolution)
        for number, point in self.front:
            if all(p <= v * (1.0 + _TOLERANCE) for p, v in zip(point, values, strict=True)):
                shown = METRICS[_COUNTED].show(least)
                reason = f"trial {number} is as good even if it takes {shown} instructions only"
                return Refusal(reason, bound)
        return None


def gate_for(
    record: CampaignRecord, space: Space, proposed: Sequence[Configuration], known: Sequence[Trial]
) -> FrontGate | None:
    """Return the gate of a batch; None where everything is to be counted.

    Args:
        record: the campaign.
        space: in which the batch was proposed.
        proposed: the whole batch; what is expected of one depends on the others.
        known: all trials of earlier batches.
    """
    if record.emulation.count != "needed":
        return None
    counted: list[tuple[Genome, float]] = []
    for trial in known:
        instructions = trial.measurement and trial.measurement[_COUNTED]
        genome = space.genome_of(trial.configuration)
        if instructions and genome is not None:
            counted.append((genome, instructions))
    if len(counted) < _FEWEST or not proposed:
        return None
    best = tuple((trial.number, trial.objectives or ()) for trial in front(known))
    least = _least_instructions(space, proposed, counted[-_MOST:])
    return FrontGate(record.objectives, record.resolution, best, least)


def told_of(record: CampaignRecord, genome: Genome, trial: Trial) -> Told:
    """Return what a strategy learns of a trial."""
    if trial.bound is None:
        return Told(genome, trial.objectives, trial.violation)
    bounded = (METRICS[name].is_counted for name in record.objectives)
    places = tuple(place for place, is_bound in enumerate(bounded) if is_bound)
    return Told(genome, trial.bound, trial.violation, places)


def _least_instructions(
    space: Space, proposed: Sequence[Configuration], counted: Sequence[tuple[Genome, float]]
) -> dict[Configuration, float]:
    features = features_of(space)
    model = Surrogate(features.gene, len(space.parameters))
    with on_one_core():
        genomes = [genome for genome, _ in counted]
        values = np.log([instructions for _, instructions in counted])
        model.fit(*features.of(genomes), values, n_steps=_STEPS)
        means, deviations = model.predict(*features.of([space.encode(one) for one in proposed]))
    low = np.exp(np.round(means - _DEVIATIONS * deviations, _DIGITS))
    return dict(zip(proposed, low.tolist(), strict=True))
