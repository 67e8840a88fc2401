"""The hypervolume over the campaign, against the defaults, under the frozen reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner import objectives
from tuner.records import Trial
from tuner.runs import Run


@dataclass(frozen=True)
class HypervolumeHistory:
    """Hypervolume when the defaults are in, after each growth, and at the end."""

    evaluations: tuple[int, ...]
    """1-based number of evaluations, ascending."""
    values: tuple[float, ...]
    """Hypervolume; relative to that of the defaults when `is_relative`."""
    defaults: float | None
    """Hypervolume of the defaults: 1.0 when relative; None when none is feasible."""
    n_defaults: int
    """Number of evaluations after which all defaults had been measured."""
    is_relative: bool
    reference: tuple[float, ...]
    """The reference point, in objective units."""


def hypervolume_history(run: Run) -> HypervolumeHistory | None:
    """Compute the history of a run.

    Returns:
        None when the reference was never frozen, because no default succeeded, or
        when nothing was evaluated beside the defaults.
    """
    reference = run.campaign.reference
    if reference is None or all(trial.configuration.is_default for trial in run.trials):
        return None
    base = _defaults(run.trials, reference)
    unit = base or 1.0
    n_defaults = 1 + max(
        (i for i, trial in enumerate(run.trials) if trial.configuration.is_default), default=-1
    )
    evaluations, values = _since(n_defaults, *_growth(run.trials, reference))
    return HypervolumeHistory(
        evaluations,
        tuple(value / unit for value in values),
        1.0 if base else None,
        n_defaults,
        base > 0.0,
        reference,
    )


def _defaults(trials: Sequence[Trial], reference: Sequence[float]) -> float:
    defaults = [trial for trial in trials if trial.is_feasible and trial.configuration.is_default]
    return objectives.hypervolume(objectives.points_of(defaults), reference)


def _growth(
    trials: Sequence[Trial], reference: Sequence[float]
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Keep the front only: a dominated newcomer cannot change the volume."""
    front: list[Trial] = []
    steps: list[tuple[int, float]] = []
    for evaluation, trial in enumerate(trials, start=1):
        is_last = evaluation == len(trials)
        if trial.is_feasible and not any(_covers(member, trial) for member in front):
            front = objectives.front([*front, trial])
            value = objectives.hypervolume(objectives.points_of(front), reference)
            steps.append((evaluation, value))
        elif is_last:
            steps.append((evaluation, steps[-1][1] if steps else 0.0))
    return tuple(step[0] for step in steps), tuple(step[1] for step in steps)


def _since(
    first: int, evaluations: tuple[int, ...], values: tuple[float, ...]
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Start a staircase at an evaluation, with the value it has there."""
    before = [value for n, value in zip(evaluations, values, strict=True) if n <= first]
    later = [(n, value) for n, value in zip(evaluations, values, strict=True) if n > first]
    steps = [(first, before[-1] if before else 0.0), *later]
    return tuple(step[0] for step in steps), tuple(step[1] for step in steps)


def _covers(member: Trial, trial: Trial) -> bool:
    pairs = zip(member.objectives or (), trial.objectives or (), strict=True)
    return all(mine <= other for mine, other in pairs)
