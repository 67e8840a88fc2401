"""Drop the settings that measurably change nothing.

A setting may be left out only when the store holds a trial without it whose
numbers are exactly the same: equal, not merely close, and not merely untested.
Elapsed time and latency are no evidence, they vary by themselves; where a campaign minimises
latency, nothing is left out.

Limit: equal on this trace.  The export says what was left out, so that a user
whose program differs can put it back.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tuner.metrics import METRICS
from tuner.records import Configuration, Measurement, Trial, Value


@dataclass(frozen=True)
class Reduction:
    """A configuration with as few settings as the store can justify."""

    configuration: Configuration
    """What is left."""
    dropped: tuple[tuple[str, Value], ...]
    """Settings that were left out, sorted by name."""
    witness: int | None
    """Number of the trial that measured the same without them; None when nothing is dropped."""


def reduce_configuration(
    trial: Trial, trials: Iterable[Trial], objectives: Iterable[str]
) -> Reduction:
    """Return the configuration with the fewest settings that measured exactly the same.

    Args:
        trial: a successful trial.
        trials: of the same campaign; only subsets of the trial's settings count.
        objectives: of the campaign; where one does not repeat, every setting stays.
    """
    wanted = set(trial.configuration.settings)
    repeats = all(METRICS[name].is_repeatable for name in objectives)
    evidence = _evidence(trial.measurement) if repeats else None
    candidates = [
        other
        for other in trials
        if other.configuration.allocator == trial.configuration.allocator
        and set(other.configuration.settings) < wanted
        and evidence is not None
        and _evidence(other.measurement) == evidence
        and other.violation <= trial.violation
    ]
    if not candidates:
        return Reduction(trial.configuration, (), None)
    least = min(candidates, key=lambda other: (len(other.configuration.settings), other.number))
    dropped = tuple(sorted(wanted - set(least.configuration.settings), key=lambda pair: pair[0]))
    return Reduction(least.configuration, dropped, least.number)


def _evidence(measurement: Measurement | None) -> tuple[object, ...] | None:
    """Return the numbers that repeat exactly; None when there are none."""
    if measurement is None:
        return None
    return tuple(metric.value(measurement) for metric in METRICS.values() if metric.is_repeatable)
