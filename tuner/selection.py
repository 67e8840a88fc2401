"""Choose among the measured trials: the front of any objectives, the knee, the best under bounds.

All functions are pure and work on records; dominance and the knee themselves
come from `tuner.objectives`.  Trials that failed, or that break a constraint of
the campaign, are never chosen.

The baseline is the default of one allocator.  Relative bounds (``cost=+1%``) are
relative to it, or to the default of each trial's own allocator.

Layer: above `objectives`, below `validate`, `report` and `export`, which share it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tuner import objectives
from tuner.errors import SelectionError, SpecError
from tuner.objectives import Constraint
from tuner.records import Measurement, Status, Trial

KNEE = "knee"
"""Name of the pick that balances the objectives."""

NO_REGRET = "no-regret"
"""Name of the pick that balances the gains without being worse than the baseline anywhere."""

OWN = "own"
"""As a baseline: every allocator is compared with its own default."""

_BOUND = re.compile(r"\s*(?P<metric>\w+)\s*(?:<=|=)\s*(?P<limit>\S.*?)\s*")
_CHANGE = re.compile(r"(?P<sign>[+-])\s*(?P<percent>\d+(?:\.\d+)?)\s*%")


@dataclass(frozen=True)
class FrontPoint:
    """One point of a Pareto front."""

    trial: Trial
    """The first trial that has these values."""
    values: tuple[float, ...]
    """Values of the objectives asked for, minimised, in their order."""
    equals: tuple[int, ...] = ()
    """Numbers of the other feasible trials with exactly these values, ascending."""


@dataclass(frozen=True)
class Baselines:
    """The defaults that trials are compared with."""

    defaults: Mapping[str, Trial]
    """The successful default of every allocator, by allocator."""
    relative_to: str
    """Name of the allocator whose default counts, or `OWN`."""

    def of(self, trial: Trial) -> Trial | None:
        """Return the default a trial is compared with; None when it could not be measured."""
        own = trial.configuration.allocator
        return self.defaults.get(own if self.relative_to == OWN else self.relative_to)

    def measurement(self, trial: Trial) -> Measurement | None:
        """Return the measurement of `of`."""
        baseline = self.of(trial)
        return baseline.measurement if baseline else None


@dataclass(frozen=True)
class Pick:
    """A trial chosen from a campaign, with the rule that chose it."""

    name: str
    """File name without suffix: ``knee``, ``best-mean_heap``, or the user's own."""
    trial: Trial
    """What was chosen."""
    rule: str
    """In words: ``least mean_heap, cost=+1%``."""


# Baselines and bounds


def default_trials(trials: Iterable[Trial]) -> dict[str, Trial]:
    """Return the successful default of every allocator, by allocator, in trial order."""
    return {
        trial.configuration.allocator: trial
        for trial in trials
        if trial.configuration.is_default and trial.status is Status.OK
    }


def baselines(trials: Iterable[Trial], relative_to: str) -> Baselines:
    """Return what trials are compared with.

    Args:
        trials: of one campaign.
        relative_to: allocator whose default counts, or `OWN`.

    Raises:
        SelectionError: that allocator's default was not measured, or none was.
    """
    defaults = default_trials(trials)
    if relative_to not in defaults and not (relative_to == OWN and defaults):
        measured = ", ".join(defaults) or "none"
        message = (
            f"the default of {relative_to} was not measured in this campaign; "
            f"measured defaults: {measured}"
        )
        raise SelectionError(message)
    return Baselines(defaults, relative_to)


def parse_bound(text: str) -> Constraint:
    """Read a bound such as ``cost=+1%``, ``peak_heap=2GiB`` or ``faults<=100000``.

    Raises:
        SpecError: the text is not ``METRIC=LIMIT``, or the metric is unknown.
    """
    match = _BOUND.fullmatch(text)
    if not match:
        message = f"--max {text!r}: write METRIC=LIMIT, such as cost=+1% or peak_heap=2GiB"
        raise SpecError(message)
    change = _CHANGE.fullmatch(match["limit"])
    limit = f"default {change['sign']} {change['percent']} %" if change else match["limit"]
    return replace(objectives.parse_constraint(f"{match['metric']} <= {limit}"), text=text.strip())


def within(
    trials: Sequence[Trial], bounds: Sequence[Constraint], compared: Baselines
) -> list[Trial]:
    """Return the feasible trials that hold every bound.

    Raises:
        SelectionError: none does; the message names the nearest trial and the
            bounds that exclude it.
        MissingToolError: a bounded metric was not measured.
    """
    candidates = [trial for trial in trials if trial.is_feasible]
    if not candidates:
        message = "no trial succeeded and holds every constraint of the campaign"
        raise SelectionError(message)
    excess = {trial.number: _excess(trial, bounds, compared) for trial in candidates}
    fitting = [trial for trial in candidates if excess[trial.number] == 0.0]
    if not fitting:
        nearest = min(candidates, key=lambda trial: (excess[trial.number], trial.number))
        raise SelectionError(_nothing_fits(nearest, bounds, compared))
    return fitting


def _excess(trial: Trial, bounds: Sequence[Constraint], compared: Baselines) -> float:
    baseline = compared.measurement(trial)
    return objectives.violation(bounds, measured(trial), baseline, baseline)


def _nothing_fits(nearest: Trial, bounds: Sequence[Constraint], compared: Baselines) -> str:
    reasons = []
    for bound in bounds:
        if not _excess(nearest, (bound,), compared):
            continue
        value = objectives.objective_value(measured(nearest), bound.objective)
        shown = objectives.show_value(bound.objective, value)
        reason = f"--max {bound.text} excludes it: its {bound.objective} is {shown}"
        baseline = compared.measurement(nearest)
        reference = objectives.objective_value(baseline, bound.objective) if baseline else 0.0
        if reference:
            shown = objectives.show_value(bound.objective, reference)
            reason += f", {value / reference - 1.0:+.2%} against the baseline's {shown}"
        reasons.append(reason)
    return (
        f"nothing fits; the nearest is trial {nearest.number} ({nearest.configuration}), and "
        f"{'; '.join(reasons)}; relax that bound"
    )


# Fronts and picks


def front(trials: Iterable[Trial], names: Sequence[str]) -> list[FrontPoint]:
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
    for trial in objectives.front(candidates):
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
        replace(trial, objectives=objectives.trial_values(measured(trial), names, trial.resolution))
        for trial in trials
        if trial.is_feasible
    ]


def select_knee(trials: Iterable[Trial], names: Sequence[str]) -> Trial:
    """Return the knee of the front of the named objectives.

    Raises:
        SelectionError: no trial is feasible.
        MissingToolError: an objective was not measured.
    """
    trials = list(trials)
    return _chosen(trials, objectives.knee(project(trials, names)))


def select_best(trials: Iterable[Trial], metric: str, ties: Sequence[str] = ()) -> Trial:
    """Return the feasible trial with the least value of one metric.

    Args:
        trials: of one campaign, any status.
        metric: what to minimise.
        ties: further metrics, in order, that decide between equal values; after
            them the first trial.

    Raises:
        SelectionError: no trial is feasible.
        MissingToolError: a metric was not measured.
    """
    names = (metric, *(name for name in ties if name != metric))
    trials = list(trials)
    return _chosen(trials, objectives.best(project(trials, names), 0))


def _chosen(trials: Iterable[Trial], projected: Trial | None) -> Trial:
    """Return the campaign's own record of a trial with projected objectives."""
    if projected is None:
        message = "no trial succeeded and holds every constraint of the campaign"
        raise SelectionError(message)
    return next(trial for trial in trials if trial.number == projected.number)


def standard_picks(trials: Sequence[Trial], names: Sequence[str], baseline: str) -> list[Pick]:
    """Return the picks every campaign has, in the order of reports.

    The knee of the front (of two or more objectives), the knee of those trials
    that are no worse than the baseline in any objective, and the best of each
    objective.  One trial may be picked several times; the list is empty when no
    trial is feasible.

    Args:
        trials: of one campaign, any status.
        names: the campaign's objectives.
        baseline: allocator whose default is the baseline.
    """
    if not any(trial.is_feasible for trial in trials):
        return []
    picks = []
    if len(names) > 1:
        rule = f"knee of {' and '.join(names)}"
        picks.append(Pick(KNEE, select_knee(trials, names), rule))
        better = _no_worse(trials, names, baseline)
        if better:
            rule += f", none above the default of {baseline}"
            picks.append(Pick(NO_REGRET, select_knee(better, names), rule))
    picks.extend(
        Pick(best_name(name), select_best(trials, name, names), f"least {name}") for name in names
    )
    return picks


def _no_worse(trials: Sequence[Trial], names: Sequence[str], baseline: str) -> list[Trial]:
    """Return the feasible trials that are better than a default somewhere and worse nowhere."""
    default = default_trials(trials).get(baseline)
    if default is None:
        return []
    limits = objectives.trial_values(measured(default), names, default.resolution)
    return [
        trial
        for trial in project(trials, names)
        if (values := trial.objectives) is not None
        and values != limits
        and all(value <= limit for value, limit in zip(values, limits, strict=True))
    ]


def best_name(metric: str) -> str:
    """Return the name of the pick with the least value of a metric."""
    return f"best-{metric}"


def count_failures(trials: Iterable[Trial]) -> dict[str, int]:
    """Count the trials that cannot be chosen, by why; kinds without a trial are absent.

    Keys are the values of `Status` except ``ok``, and ``infeasible`` for trials
    that succeeded but break a constraint.
    """
    counts: dict[str, int] = {}
    for trial in trials:
        if not trial.is_feasible:
            kind = "infeasible" if trial.status is Status.OK else trial.status.value
            counts[kind] = counts.get(kind, 0) + 1
    return counts


def measured(trial: Trial) -> Measurement:
    """Return the measurement of a trial that must have one.

    Raises:
        SelectionError: the trial did not succeed.
    """
    if trial.measurement is None:
        message = f"trial {trial.number} has no numbers: {trial.reason}"
        raise SelectionError(message)
    return trial.measurement
