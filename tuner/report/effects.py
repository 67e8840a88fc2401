"""What each setting of a picked configuration does, from measured trials only.

A trial that equals the pick without one setting shows what that setting does:
one-at-a-time ablation, for which nothing is run.  Settings without such a trial
stay unexplained: absent is not zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.objectives import objective_values
from tuner.records import Configuration, Trial, Value
from tuner.report.columns import ratio


@dataclass(frozen=True)
class Effect:
    """What one setting changes when everything else stays."""

    setting: str
    value: Value
    without: Trial
    """The trial that lacks this setting."""
    ratios: tuple[float | None, ...]
    """With / without, one per objective."""


def effects_of(trial: Trial, trials: Sequence[Trial], names: Sequence[str]) -> list[Effect]:
    """Return the effects that were measured, by setting.

    Args:
        trial: a successful trial.
        trials: of the same campaign.
        names: objectives to compare.
    """
    if trial.measurement is None:
        return []
    known = by_configuration(trials)
    mine = objective_values(trial.measurement, names)
    found = []
    for setting, value in trial.configuration.settings:
        without = known.get(drop(trial.configuration, setting))
        if without is not None and without.measurement is not None:
            theirs = objective_values(without.measurement, names)
            ratios = tuple(ratio(a, b) for a, b in zip(mine, theirs, strict=True))
            found.append(Effect(setting, value, without, ratios))
    return found


def by_configuration(trials: Sequence[Trial]) -> Mapping[Configuration, Trial]:
    """Return the successful trials by configuration."""
    return {trial.configuration: trial for trial in trials if trial.measurement is not None}


def drop(configuration: Configuration, setting: str) -> Configuration:
    """Return a configuration without one of its settings."""
    pairs = tuple(pair for pair in configuration.settings if pair[0] != setting)
    return Configuration(configuration.allocator, pairs)
