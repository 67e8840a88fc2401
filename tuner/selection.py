"""Choose among the measured trials: the front of any objectives, the picks, the best under bounds.

All functions are pure and work on records; dominance itself comes from
`tuner.objectives`.  Trials that failed, or that break a constraint of the
campaign, are never chosen.

The baseline is the default of one allocator.  Relative bounds (``cost=+1%``) are
relative to it, or to the default of each trial's own allocator.

The rules of the picks:

* *balanced*: the least sum of the changes against the baseline; -8 % mean_heap
  and +2 % cost are -6 %.
* *knee*: the balanced pick, if its sum is more than 0.5 % of the baseline below
  those of the trials with the least of each objective; else the front has none.
* *no-regret*: balanced, among the trials that are worse than the baseline in no
  objective and better in one.
* *best-X*: of the trials within 0.5 % of the least X, the least sum of the
  changes in the other objectives.

Guarantee: to leave the balanced pick, a trial gives up at least as many per cent
of the baseline as it gains; no trial within 0.5 % of the least X has less of the
others than best-X.  No pick depends on the units of an objective, on the order
of the trials, or on dominated trials, and neither on how far the front extends.

Source: a least weighted sum lies on the convex hull of the front, so a concave
front has its least at an end: Das and Dennis, "A closer look at drawbacks of
minimizing weighted sums of objectives", Structural Optimization 14, 1997.

Layer: above `objectives`, below `validate`, `report` and `export`, which share it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tuner import objectives
from tuner.errors import SelectionError, SpecError
from tuner.metrics import METRICS
from tuner.objectives import Constraint
from tuner.records import Measurement, Status, Trial
from tuner.stats import TIE

BALANCED = "balanced"
"""Name of the pick with the least sum of changes."""

KNEE = "knee"
"""Name of the balanced pick where the front has a knee."""

KNEE_RULE = "knee of the front: balanced, and clearly better than its ends"
"""The rule of the knee in words."""

NO_KNEE = "the front has no knee: none of its points is clearly better balanced than its ends"
"""What is said where `find_knee` finds none."""

NO_REGRET = "no-regret"
"""Name of the balanced pick among those that are worse than the baseline nowhere."""

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
    """File name without suffix: ``balanced``, ``best-mean_heap``, or the user's own."""
    trial: Trial
    """What was chosen."""
    rule: str
    """In words; see `balanced_rule` and `best_rule`."""


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


def check_feasible(trials: Sequence[Trial], constraints: Sequence[Constraint], run: Path) -> None:
    """Raise unless a trial of the campaign may be chosen.

    Args:
        trials: of one campaign, by number; the first is the baseline's default.
        constraints: the campaign's.
        run: its folder, for what may be tried next.

    Raises:
        SelectionError: no trial succeeded and holds every constraint; the message
            names the nearest and what excludes it.
    """
    succeeded = [trial for trial in trials if trial.measurement is not None]
    if not succeeded or any(trial.is_feasible for trial in succeeded):
        return
    nearest = min(succeeded, key=lambda trial: (trial.violation, trial.number))
    defaults = default_trials(trials)
    own = defaults.get(nearest.configuration.allocator)
    reasons = [
        reason
        for constraint in constraints
        if (reason := _broken(constraint, nearest, measured(trials[0]), own)) is not None
    ]
    message = (
        f"no trial holds every constraint; the nearest is trial {nearest.number} "
        f"({nearest.configuration}): {'; '.join(reasons)}; relax the constraint in a new run "
        f"(-o NEW-RUN), or search longer (--evaluations); `malloc-tuner front {run} --all` shows "
        "every trial"
    )
    raise SelectionError(message)


def _broken(
    constraint: Constraint, trial: Trial, baseline: Measurement, own: Trial | None
) -> str | None:
    """Say by how much a trial breaks a constraint; None when it holds."""
    limit = constraint.limit(baseline, measured(own) if own else None)
    value = measured(trial).value(constraint.objective)
    if limit is None or value <= limit:
        return None
    shown = METRICS[constraint.objective].show(value)
    most = METRICS[constraint.objective].show(limit)
    over = f", {value / limit - 1.0:.2%} more" if limit else ""
    return f"its {constraint.objective} is {shown}{over} than {constraint.text!r} allows ({most})"


def _excess(trial: Trial, bounds: Sequence[Constraint], compared: Baselines) -> float:
    baseline = compared.measurement(trial)
    return objectives.violation(bounds, measured(trial), baseline, baseline)


def _nothing_fits(nearest: Trial, bounds: Sequence[Constraint], compared: Baselines) -> str:
    reasons = []
    for bound in bounds:
        if not _excess(nearest, (bound,), compared):
            continue
        value = measured(nearest).value(bound.objective)
        shown = METRICS[bound.objective].show(value)
        reason = f"--max {bound.text} excludes it: its {bound.objective} is {shown}"
        baseline = compared.measurement(nearest)
        reference = baseline.value(bound.objective) if baseline else 0.0
        if reference:
            shown = METRICS[bound.objective].show(reference)
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


def select_balanced(trials: Iterable[Trial], names: Sequence[str], baseline: Trial) -> Trial:
    """Return the trial with the least sum of the changes against the baseline.

    Of equal sums the trial with less of the first objective is taken, then the
    first trial.

    Args:
        trials: of one campaign, any status.
        names: the objectives to minimise.
        baseline: a trial that succeeded, feasible or not.

    Raises:
        SelectionError: no trial is feasible.
        MissingToolError: an objective was not measured.
    """
    trials = list(trials)
    units = _units(baseline, names)

    def rank(candidate: Trial) -> tuple[float, tuple[float, ...], int]:
        return _total(candidate, units), candidate.objectives or (), candidate.number

    return _chosen(trials, min(project(trials, names), key=rank, default=None))


def select_best(
    trials: Iterable[Trial], metric: str, others: Sequence[str], baseline: Trial
) -> Trial:
    """Return a trial with next to the least value of one metric that is best in the others.

    Of the trials within `TIE` of the least value, it is the one with the least
    sum of the others' changes against the baseline; of equal sums the one with
    less of the metric, then of the others in order, then the first.

    Args:
        trials: of one campaign, any status.
        metric: what to minimise.
        others: further metrics; `metric` itself among them is left out.
        baseline: a trial that succeeded, feasible or not.

    Raises:
        SelectionError: no trial is feasible.
        MissingToolError: a metric was not measured.
    """
    trials = list(trials)
    names = (metric, *(name for name in others if name != metric))
    units = (0.0, *_units(baseline, names)[1:])
    candidates = project(trials, names)
    least = min((_values(candidate)[0] for candidate in candidates), default=0.0)

    def rank(candidate: Trial) -> tuple[float, tuple[float, ...], int]:
        return _total(candidate, units), _values(candidate), candidate.number

    near = (one for one in candidates if _values(one)[0] <= least * (1.0 + TIE))
    return _chosen(trials, min(near, key=rank, default=None))


def find_knee(trials: Iterable[Trial], names: Sequence[str], baseline: Trial) -> Trial | None:
    """Return the balanced trial if the front has a knee there.

    It has one if to go on to the least of any objective gives up more than it
    gains by over `TIE` of the baseline.  A straight or concave front has none,
    nor has one objective alone.

    Args:
        trials: of one campaign, any status.
        names: the objectives to minimise.
        baseline: a trial that succeeded, feasible or not.

    Returns:
        None when there is no knee.

    Raises:
        SelectionError: no trial is feasible.
        MissingToolError: an objective was not measured.
    """
    trials = list(trials)
    balanced = select_balanced(trials, names, baseline)
    units = _units(baseline, names)
    points = [(_values(one), _total(one, units)) for one in project(trials, names)]
    ends = (min((values[k], total) for values, total in points)[1] for k in range(len(names)))
    return balanced if min(total for _, total in points) < min(ends) - TIE else None


def _units(baseline: Trial, names: Sequence[str]) -> tuple[float, ...]:
    """Return what a change of 1 (100 %) is in each objective: the baseline's value, 1 for 0."""
    values = objectives.trial_values(measured(baseline), names, baseline.resolution)
    return tuple(value or 1.0 for value in values)


def _total(projected: Trial, units: Sequence[float]) -> float:
    """Return the sum of the values in those units; an objective of unit 0 is left out.

    It is rounded, so that sums stay equal in other units of measure.
    """
    pairs = zip(_values(projected), units, strict=True)
    return round(math.fsum(value / unit for value, unit in pairs if unit), 12)


def _values(projected: Trial) -> tuple[float, ...]:
    return projected.objectives or ()


def _chosen(trials: Iterable[Trial], projected: Trial | None) -> Trial:
    """Return the campaign's own record of a trial with projected objectives."""
    if projected is None:
        message = "no trial succeeded and holds every constraint of the campaign"
        raise SelectionError(message)
    return next(trial for trial in trials if trial.number == projected.number)


def standard_picks(trials: Sequence[Trial], names: Sequence[str], baseline: str) -> list[Pick]:
    """Return the picks every campaign has, in the order of reports.

    With two or more objectives: balanced, the knee if there is one, no-regret if
    a trial is better than the baseline's default; always: the best of each
    objective.  One trial may be picked several times; the list is empty when no
    trial is feasible.

    Args:
        trials: of one campaign, any status.
        names: the campaign's objectives.
        baseline: allocator whose default is the baseline; it was measured.
    """
    if not any(trial.is_feasible for trial in trials):
        return []
    picks = []
    default = baseline_trial(trials, baseline)
    if len(names) > 1:
        rule = balanced_rule(names, baseline)
        picks.append(Pick(BALANCED, select_balanced(trials, names, default), rule))
        knee = find_knee(trials, names, default)
        if knee is not None:
            picks.append(Pick(KNEE, knee, KNEE_RULE))
        better = _no_worse(trials, names, default)
        if better:
            rule += ", nothing above it"
            picks.append(Pick(NO_REGRET, select_balanced(better, names, default), rule))
    picks.extend(
        Pick(best_name(name), select_best(trials, name, names, default), best_rule(name, names))
        for name in names
    )
    return picks


def baseline_trial(trials: Iterable[Trial], baseline: str) -> Trial:
    """Return the default that changes are relative to.

    Raises:
        SelectionError: it was not measured.
    """
    return baselines(trials, baseline).defaults[baseline]


def balanced_rule(names: Sequence[str], baseline: str) -> str:
    """Return the rule of the balanced pick in words.

    Example:
        >>> balanced_rule(("mean_heap", "cost"), "glibc")
        'least sum of the changes in mean_heap and cost against the default of glibc'
    """
    return f"least sum of the changes in {' and '.join(names)} against the default of {baseline}"


def best_rule(metric: str, names: Sequence[str]) -> str:
    """Return the rule of a best pick in words.

    Example:
        >>> best_rule("mean_heap", ("mean_heap", "cost"))
        'least mean_heap (within 0.5 %: least cost)'
        >>> best_rule("cost", ("cost",))
        'least cost'
    """
    others = " and ".join(name for name in names if name != metric)
    ties = f" (within {100 * TIE:g} %: least {others})" if others else ""
    return f"least {metric}{ties}"


def _no_worse(trials: Sequence[Trial], names: Sequence[str], default: Trial) -> list[Trial]:
    """Return the feasible trials that are better than a default somewhere and worse nowhere."""
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
