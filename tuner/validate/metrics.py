"""What is compared on the real program, and which claim of the emulator stands against it.

Cost has no direct counterpart in one run of a real program; it is a price in
instructions for instructions, faults and system calls together, and stands
against the CPU time, which pays for the same three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tuner.store import ValidationSample


@dataclass(frozen=True)
class Metric:
    """One number of a run of the real program."""

    name: str
    unit: str
    """``bytes``, ``count`` or ``ns``."""
    label: str
    """For axes and table heads."""
    extract: Callable[[ValidationSample], float | None]
    """The value in a sample; None when it was not measured."""


METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("peak_heap", "bytes", "peak heap", lambda s: s.peak_heap_bytes),
        Metric("mean_heap", "bytes", "mean heap", lambda s: s.mean_heap_bytes),
        Metric("peak_rss", "bytes", "peak RSS", lambda s: s.peak_rss_bytes),
        Metric("faults", "count", "page faults", lambda s: s.faults),
        Metric("instructions", "count", "instructions", lambda s: s.instructions),
        Metric("cpu", "ns", "CPU time", lambda s: s.cpu_ns),
        Metric("wall", "ns", "elapsed time", lambda s: s.wall_ns),
    )
}
"""Every metric by name, in the order of tables."""

_COUNTERPARTS = {
    "peak_heap": ("peak_heap",),
    "mean_heap": ("mean_heap",),
    "faults": ("faults",),
    "instructions": ("instructions", "cpu"),
    "cost": ("cpu",),
    "syscalls": (),
    "p99_latency": (),
}
"""Objective -> metrics that can confirm it, the best first."""


def is_checked(objective: str) -> bool:
    """Tell whether a real program gives a number to check an objective with."""
    return bool(_COUNTERPARTS[objective])


def counterpart(objective: str, samples: Iterable[ValidationSample]) -> Metric | None:
    """Return the metric a claim about an objective is checked with.

    Returns:
        The best one that was measured; None when a real program gives none.
    """
    measured = list(samples)
    for name in _COUNTERPARTS[objective]:
        metric = METRICS[name]
        if any(metric.extract(sample) is not None for sample in measured):
            return metric
    return None
