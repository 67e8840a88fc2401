"""From samples of a service and the moments of its phases to the metrics of `SERVICE`."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tuner.service.guard import Use
from tuner.service.output import LoadReport

_FLOOR_SHARE = 0.2
"""Of the idle phase, at its end, over which the floor is the mean."""

_FEWEST_FOR_GROWTH = 4
LEAST_WINDOW_FOR_GROWTH_S = 10.0
"""A slope of less says what starting costs, many times over."""

_NS_PER_S = 1e9
_NS_PER_MIN = 60e9


@dataclass(frozen=True)
class Phases:
    """Samples at the ends of the phases."""

    begin: Use
    """When the load that counts began."""
    end: Use
    """When it ended."""
    idle_end: Use
    """After the idle phase."""

    @property
    def window_s(self) -> float:
        """Time under load."""
        return (self.end.time_ns - self.begin.time_ns) / 1e9

    def requests(self, load: LoadReport) -> float:
        """Return how many requests were made; 1 where the load does not say."""
        return load.requests or (load.rate or 0.0) * self.window_s or 1.0


def figures(uses: Sequence[Use], phases: Phases, load: LoadReport) -> dict[str, float]:
    """Return the metrics of a run; what cannot be known is left out.

    Args:
        uses: all samples, in order.
        phases: when the load and the idle phase began and ended.
        load: what the load generator said.
    """
    window = [one for one in uses if phases.begin.time_ns <= one.time_ns <= phases.end.time_ns]
    idle_ns = phases.idle_end.time_ns - phases.end.time_ns
    late_ns = phases.idle_end.time_ns - _FLOOR_SHARE * idle_ns
    late = [one for one in uses if late_ns <= one.time_ns <= phases.idle_end.time_ns]
    found = {
        "mean": mean_bytes(window),
        "peak": float(max(one.anon_bytes for one in window)),
        "floor": mean_bytes(late),
    }
    growth = growth_per_minute(window)
    if growth is not None:
        found["growth"] = growth
    if load.rate or load.requests:
        requests = phases.requests(load)
        found["cpu"] = (phases.end.cpu_ns - phases.begin.cpu_ns) / requests
        found["rate"] = load.rate or requests / phases.window_s
    return {**found, **load.latencies}


def mean_bytes(uses: Sequence[Use]) -> float:
    """Return the mean over time of memory, of at least one sample; straight lines between them."""
    span_ns = uses[-1].time_ns - uses[0].time_ns
    if span_ns <= 0:
        return float(uses[-1].anon_bytes)
    area = sum(
        (a.anon_bytes + b.anon_bytes) / 2.0 * (b.time_ns - a.time_ns) for a, b in pairwise(uses)
    )
    return area / span_ns


def growth_per_minute(window: Sequence[Use]) -> float | None:
    """Return bytes per minute over the last half of a window: the slope of the least squares.

    Returns:
        None where there are too few samples, or the window is too short.
    """
    if window[-1].time_ns - window[0].time_ns < LEAST_WINDOW_FOR_GROWTH_S * _NS_PER_S:
        return None
    middle_ns = (window[0].time_ns + window[-1].time_ns) / 2.0
    late = [one for one in window if one.time_ns >= middle_ns]
    if len(late) < _FEWEST_FOR_GROWTH:
        return None
    minutes = np.array([(one.time_ns - middle_ns) / _NS_PER_MIN for one in late])
    return float(np.polyfit(minutes, [one.anon_bytes for one in late], 1)[0])
