"""Which number of a real program a claim of the emulator is checked with.

Cost has no direct counterpart in one run of a real program; it is a price in
instructions for instructions, faults and system calls together, and stands
against the CPU time, which pays for the same three.
"""

from __future__ import annotations

from collections.abc import Iterable

from tuner.metrics import METRICS, REAL, Metric
from tuner.store import RealMeasurement


def is_checked(objective: str) -> bool:
    """Return whether a real program gives a number to check an objective with."""
    return bool(METRICS[objective].real)


def counterpart(objective: str, runs: Iterable[RealMeasurement]) -> Metric | None:
    """Return the metric a claim about an objective is checked with.

    Returns:
        The best one that every run measured, else the best one that any did; None when a real
        program gives none.
    """
    measured = list(runs)
    for enough in (all, any):
        for name in METRICS[objective].real:
            if measured and enough(run[name] is not None for run in measured):
                return REAL[name]
    return None
