"""When a campaign ends before its evaluations are spent: rules that combine, whichever comes first.

The plateau is one of the hypervolume with the reference that was frozen when the defaults had been
measured, so that gains early and late are the same number.

Limits: rules are looked at after each batch of evaluations.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tuner.front.dominance import front, hypervolume, points_of
from tuner.objectives import Constraint, violation
from tuner.page import series
from tuner.records import Measurement, Trial
from tuner.units import format_duration

LEAST_GAIN: Final = 0.001
"""Relative gain in hypervolume below which there is none."""


@dataclass(frozen=True)
class StopRules:
    """What ends a campaign; None and nothing: no such rule."""

    time_ns: int | None = None
    """Elapsed time of one call; it lasts at least until something new is evaluated."""
    plateau: int | None = None
    """Evaluations in a row that gain nothing."""
    target: tuple[Constraint, ...] = ()
    """Limits that one trial holds."""
    failures: float = 0.8
    """Share of trials that fail above which the campaign is broken."""


NO_RULES: Final = StopRules()
"""Only what is wrong with the set-up ends a campaign early."""


class Stopping:
    """The rules of one call, and since when it runs."""

    def __init__(self, rules: StopRules, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin to count the time."""
        self._rules = rules
        self._clock = clock
        self._begun_s = clock()

    def reason(
        self,
        trials: Sequence[Trial],
        reference: Sequence[float] | None,
        defaults: dict[str, Measurement],
        baseline: str,
        *,
        is_further: bool = True,
    ) -> str | None:
        """Return why to stop; None to go on.

        Args:
            trials: all so far, by number.
            reference: of the hypervolume; None while it is not known.
            defaults: allocator -> what its default measured, for relative limits.
            baseline: the allocator whose default everything is compared with.
            is_further: whether this call got further than the store was: however long the
                replay of stored trials takes, a campaign comes to its end.
        """
        rules = self._rules
        if rules.target:
            for trial in trials:
                if trial.is_feasible and self._reaches(trial, defaults, baseline):
                    limits = series(constraint.text for constraint in rules.target)
                    return f"the target is reached: trial {trial.number} has {limits}"
        if rules.plateau is not None and reference is not None and self._is_flat(trials, reference):
            return (
                f"the last {rules.plateau} evaluations gained less than {LEAST_GAIN:.1%} of "
                "hypervolume"
            )
        limit_ns = rules.time_ns if is_further else None
        if limit_ns is not None and self._clock() - self._begun_s >= limit_ns / 1e9:
            return f"the time is over ({format_duration(limit_ns)})"
        return None

    def _reaches(self, trial: Trial, defaults: dict[str, Measurement], baseline: str) -> bool:
        base, own = defaults.get(baseline), defaults.get(trial.configuration.allocator)
        target = self._rules.target
        if any(constraint.limit(base, own) is None for constraint in target):
            return False  # it hangs on a default that failed
        return violation(target, trial.measured, base, own) <= 0.0

    def _is_flat(self, trials: Sequence[Trial], reference: Sequence[float]) -> bool:
        n_before = len(trials) - (self._rules.plateau or 0)
        if n_before <= len({trial.configuration.allocator for trial in trials}):
            return False  # defaults and little more
        before, now = (
            hypervolume(points_of(front(some)), reference) for some in (trials[:n_before], trials)
        )
        return now <= before * (1.0 + LEAST_GAIN)
