"""Dominance, fronts and hypervolume, all of which come from moocore and from nowhere else.

Values that are not finite are refused before they reach it, because it would
return a plausible wrong number for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tuner.metrics import find_objective
from tuner.moocore import load_moocore
from tuner.objectives import parse_constraint, trial_values
from tuner.records import Outcome, Status, Trial

Points = npt.NDArray[np.float64]
"""(n_points, n_objectives) float64, minimised, in objective units."""


@dataclass(frozen=True)
class FrontPoint:
    """One point of a Pareto front."""

    trial: Trial
    """The first trial that has these values."""
    values: tuple[float, ...]
    """Values of the objectives asked for, minimised, in their order."""
    equals: tuple[int, ...] = ()
    """Numbers of the other feasible trials with exactly these values, ascending."""


def non_dominated(points: Points) -> list[int]:
    """Return the indices of the points that no other dominates, ascending.

    Of equal points only the first is kept.

    Raises:
        ValueError: a value is not finite.
    """
    if len(points) == 0:
        return []
    keep = load_moocore().is_nondominated(_finite(points))
    return [int(index) for index in np.flatnonzero(keep)]


def front(trials: Iterable[Trial]) -> list[Trial]:
    """Return the feasible trials that no other feasible trial dominates, by number.

    Of trials with equal objectives the first is kept, so a default stands for
    all settings that change nothing.
    """
    feasible = sorted((t for t in trials if t.is_feasible), key=lambda trial: trial.number)
    return [feasible[index] for index in non_dominated(points_of(feasible))]


def points_of(trials: Sequence[Trial]) -> Points:
    """Return the objectives of succeeded trials as an array."""
    rows = [trial.objectives for trial in trials]
    n_objectives = len(rows[0]) if rows and rows[0] is not None else 0
    return np.array(rows, dtype=np.float64).reshape(len(rows), n_objectives)


def reference_point(defaults: Sequence[Trial]) -> tuple[float, ...] | None:
    """Return the reference point of a campaign: the nadir of its defaults, plus a tenth.

    It is computed once, when the defaults have been measured, and frozen in the
    campaign's record, because hypervolumes with different references cannot be
    compared.  An objective that is 0 for every default gets 1.

    Args:
        defaults: the default trials, infeasible ones included, failed ones skipped.

    Returns:
        One value per objective, in objective units; None when no default succeeded.

    Source: `benchmarks/search.py` scores searches with the same factor, 1.1, in
        logarithmic objectives.
    """
    measured = [trial for trial in defaults if trial.objectives is not None]
    if not measured:
        return None
    nadir = points_of(measured).max(axis=0)
    return tuple(float(value) for value in np.maximum(nadir * 1.1, nadir + 1.0))


def hypervolume(points: Points, reference: Sequence[float]) -> float:
    """Return the volume that the points dominate, in logarithmic objectives.

    Objectives are mapped by log(1 + x), which is the logarithm for bytes and
    instructions and stays finite at 0.  Points beyond the reference add nothing.

    Args:
        points: need not be mutually non-dominated; may be empty.
        reference: from `reference_point`.

    Returns:
        At least 0.0; comparable only under the same reference.

    Raises:
        ValueError: a value is not finite.
    """
    if len(points) == 0:
        return 0.0
    return float(load_moocore().hypervolume(np.log1p(_finite(points)), ref=np.log1p(reference)))


def relative_hypervolume(trials: Sequence[Trial], reference: Sequence[float]) -> float | None:
    """Return the hypervolume of all feasible trials over that of the defaults among them.

    Returns:
        1.0 when the search found nothing better; None when no default is feasible.
    """
    feasible = [trial for trial in trials if trial.is_feasible]
    defaults = [trial for trial in feasible if trial.configuration.is_default]
    base = hypervolume(points_of(defaults), reference)
    return hypervolume(points_of(feasible), reference) / base if base > 0.0 else None


def _finite(points: Points) -> Points:
    if not np.isfinite(points).all():
        message = "objectives must be finite numbers"
        raise ValueError(message)
    return points


def front_points(trials: Iterable[Trial], names: Sequence[str]) -> list[FrontPoint]:
    """Return the non-dominated feasible trials, ordered by their values.

    Args:
        trials: of one campaign, any status.
        names: the objectives to minimise; need not be those of the campaign.

    Raises:
        SpecError: an objective is unknown.
        MissingToolError: an objective was not measured.
    """
    originals = {trial.number: trial for trial in trials}
    candidates = project(originals.values(), names)
    groups: dict[tuple[float, ...], list[int]] = {}
    for trial in candidates:
        groups.setdefault(trial.objectives or (), []).append(trial.number)
    points = []
    for trial in front(candidates):
        values = trial.objectives or ()
        equals = tuple(number for number in sorted(groups[values]) if number != trial.number)
        points.append(FrontPoint(originals[trial.number], values, equals))
    return sorted(points, key=lambda point: point.values)


def project(trials: Iterable[Trial], names: Sequence[str]) -> list[Trial]:
    """Return the feasible trials with the named metrics as their objectives.

    Raises:
        SpecError: an objective is unknown.
        MissingToolError: an objective was not measured.
    """
    return [
        replace(trial, objectives=trial_values(trial.measured, names, trial.resolution))
        for trial in trials
        if trial.is_feasible
    ]


def as_measured(
    trials: Iterable[Trial], names: Sequence[str], constraints: Iterable[str]
) -> list[Trial]:
    """Return the trials, uncounted ones as succeeded where nothing that is asked takes a count.

    What their memory run measured is as good as that of the others.  Where an objective or a
    constraint takes a count, they stay as they are: whether they hold it is not known.

    Args:
        trials: of one campaign, any status.
        names: the objectives to minimise.
        constraints: of the campaign, as they were written.

    Raises:
        SpecError: an objective is unknown.
    """
    bounded = [parse_constraint(text).objective for text in constraints]
    asked = [find_objective(name) for name in (*names, *bounded)]
    if any(metric.is_counted for metric in asked):
        return list(trials)
    return [
        replace(trial, outcome=Outcome.succeeded(trial.known))
        if trial.status is Status.UNCOUNTED and trial.known
        else trial
        for trial in trials
    ]
