"""What trials are compared with, and the bounds within which one is chosen.

The baseline is the default of one allocator.  Relative bounds (``cost=+1%``) are
relative to it, or to the default of each trial's own allocator: shares of the whole program under
it where that is known, as changes are shown.
"""

import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tuner.errors import SelectionError, SpecError
from tuner.metrics import METRICS
from tuner.objectives import Constraint, parse_constraint, violation
from tuner.records import Measurement, Status, Trial
from tuner.runs import REQUEST_FILE, Run

OWN = "own"
"""As a baseline: every allocator is compared with its own default."""

_BOUND = re.compile(r"\s*(?P<metric>\w+)\s*(?:<=|=)\s*(?P<limit>\S.*?)\s*")
_SHARE = re.compile(r"\d+(?:\.\d+)?\s*%")
_CHANGE = re.compile(r"(?P<sign>[+-])\s*(?P<percent>\d+(?:\.\d+)?)\s*%")
_FAR_RATIO = 10.0
"""From here on a value is said as a multiple of its limit."""


@dataclass(frozen=True)
class Baselines:
    """The defaults that trials are compared with."""

    defaults: Mapping[str, Trial]
    """The successful default of every allocator, by allocator."""
    relative_to: str
    """Name of the allocator whose default counts, or `OWN`."""
    wholes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What the whole program has under each of the defaults, by allocator (whole.py)."""

    def of(self, trial: Trial) -> Trial | None:
        """Return the default a trial is compared with; None when it could not be measured."""
        own = trial.configuration.allocator
        return self.defaults.get(own if self.relative_to == OWN else self.relative_to)

    def measurement(self, trial: Trial) -> Measurement | None:
        """Return the measurement of `of`."""
        baseline = self.of(trial)
        return baseline.measurement if baseline else None

    def whole(self, trial: Trial, metric: str) -> float:
        """Return what a change is a share of; 0 where the baseline has none."""
        baseline = self.of(trial)
        if baseline is None or baseline.measurement is None:
            return 0.0
        whole = self.wholes.get(baseline.configuration.allocator, {})
        return whole.get(metric, baseline.measurement.value(metric))

    def amount(self, bound: Constraint, trial: Trial) -> Constraint:
        """Return a bound as an amount, for a trial whose baseline was measured."""
        baseline = self.measurement(trial)
        if bound.anchor is None or baseline is None:
            return bound
        more = round(bound.factor - 1.0, 12) * self.whole(trial, bound.objective)
        most = max(0.0, baseline.value(bound.objective) + more)
        return replace(bound, anchor=None, factor=most)


def default_trials(trials: Iterable[Trial]) -> dict[str, Trial]:
    """Return the successful default of every allocator, by allocator, in trial order."""
    return {
        trial.configuration.allocator: trial
        for trial in trials
        if trial.configuration.is_default and trial.status is Status.OK
    }


def baselines(
    trials: Iterable[Trial],
    relative_to: str,
    wholes: Mapping[str, Mapping[str, float]] | None = None,
) -> Baselines:
    """Return what trials are compared with.

    Args:
        trials: of one campaign.
        relative_to: allocator whose default counts, or `OWN`.
        wholes: see `Baselines`.

    Raises:
        SelectionError: that allocator's default was not measured, or none was.
    """
    defaults = default_trials(trials)
    if relative_to not in defaults and not (relative_to == OWN and defaults):
        measured = ", ".join(defaults) or "none"
        raise SelectionError(
            f"the default of {relative_to} was not measured in this campaign; "
            f"measured defaults: {measured}"
        )
    return Baselines(defaults, relative_to, wholes or {})


def parse_bound(text: str) -> Constraint:
    """Read a bound such as ``cost=+1%``, ``peak_heap=2GiB`` or ``faults<=100000``.

    Raises:
        SpecError: the text is not ``METRIC=LIMIT``, or the metric is unknown.
    """
    match = _BOUND.fullmatch(text)
    if not match:
        raise SpecError(f"--max {text!r}: write METRIC=LIMIT, such as cost=+1% or peak_heap=2GiB")
    if _SHARE.fullmatch(match["limit"]):
        write = f"{match['metric']}=+{match['limit']}"
        raise SpecError(
            f"--max {text!r}: a share is of the baseline; write {write} for so much above it"
        )
    change = _CHANGE.fullmatch(match["limit"])
    limit = f"default {change['sign']} {change['percent']} %" if change else match["limit"]
    return replace(parse_constraint(f"{match['metric']} <= {limit}"), text=text.strip())


def bound_words(bound: Constraint, relative_to: str) -> str:
    """Return a bound in words.

    Example:
        >>> bound_words(parse_bound("cost=+1%"), "glibc")
        'cost at most 1 % above the default of glibc'
        >>> bound_words(parse_bound("peak_heap=2GiB"), "glibc")
        'peak heap at most 2.0 GiB'
    """
    metric = METRICS[bound.objective]
    if bound.anchor is None:
        return f"{metric.label} at most {metric.show(bound.factor)}"
    whose = "its allocator's default" if relative_to == OWN else f"the default of {relative_to}"
    change = 100.0 * (bound.factor - 1.0)
    if not change:
        return f"{metric.label} at most that of {whose}"
    return f"{metric.label} at most {abs(change):g} % {'above' if change > 0 else 'below'} {whose}"


def constraint_words(run: Run) -> tuple[str, ...]:
    """Return the constraints of a campaign as its user knows them.

    In a run folder of `optimize` no user wrote them: what it sets is named.
    """
    texts = run.campaign.constraints
    if not (run.folder / REQUEST_FILE).is_file():
        return texts
    bounds = [parse_constraint(text) for text in texts]
    metrics = [METRICS[bound.objective] for bound in bounds]
    return tuple(
        f"{metric.label} <= {metric.show(bound.factor)}, {GUARD_OF_OPTIMIZE}"
        for metric, bound in zip(metrics, bounds, strict=True)
    )


GUARD_OF_OPTIMIZE = "the guard of peak memory that `optimize` began with"


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
        raise SelectionError("no trial succeeded and holds every constraint of the campaign")
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
        if (reason := _broken(constraint, nearest, trials[0].measured, own)) is not None
    ]
    folder = shlex.quote(str(run))
    raise SelectionError(
        f"no trial holds every constraint; the nearest is trial {nearest.number} "
        f"({nearest.configuration}): {'; '.join(reasons)}; relax the constraint in a new run "
        f"(-o NEW-RUN), or search longer (--evaluations); `malloc-tuner front {folder} --all` "
        "shows every trial"
    )


def _broken(
    constraint: Constraint, trial: Trial, baseline: Measurement, own: Trial | None
) -> str | None:
    """Say by how much a trial breaks a constraint; None when it holds."""
    limit = constraint.limit(baseline, own.measured if own else None)
    value = trial.measured.value(constraint.objective)
    if limit is None or value <= limit:
        return None
    shown = METRICS[constraint.objective].show(value)
    most = METRICS[constraint.objective].show(limit)
    over = "more than"
    if limit:
        ratio = value / limit
        is_far = ratio >= _FAR_RATIO
        over = f"{ratio:,.0f} times what" if is_far else f"{ratio - 1.0:.2%} more than"
    return f"its {constraint.objective} is {shown}, {over} {constraint.text!r} allows ({most})"


def _excess(trial: Trial, bounds: Sequence[Constraint], compared: Baselines) -> float:
    baseline = compared.measurement(trial)
    if baseline is None and any(bound.anchor for bound in bounds):
        return math.inf  # what it must not exceed was not measured
    amounts = [compared.amount(bound, trial) for bound in bounds]
    return violation(amounts, trial.measured, None, None)


def _nothing_fits(nearest: Trial, bounds: Sequence[Constraint], compared: Baselines) -> str:
    reasons = []
    for bound in bounds:
        if not _excess(nearest, (bound,), compared):
            continue
        value = nearest.measured.value(bound.objective)
        shown = METRICS[bound.objective].show(value)
        reason = f"--max {bound.text} excludes it: its {bound.objective} is {shown}"
        baseline = compared.measurement(nearest)
        reference = baseline.value(bound.objective) if baseline else 0.0
        if reference:
            shown = METRICS[bound.objective].show(reference)
            more, whole = value - reference, compared.whole(nearest, bound.objective)
            reason += f", {more / reference:+.2%} against the baseline's {shown}"
            if bound.anchor and whole != reference:
                reason += f" ({more / whole:+.2%} of the whole program, which is what counts)"
        reasons.append(reason)
    return (
        f"nothing fits; the nearest is trial {nearest.number} ({nearest.configuration}), and "
        f"{'; '.join(reasons)}; relax that bound"
    )


def baseline_trial(trials: Iterable[Trial], baseline: str) -> Trial:
    """Return the default that changes are relative to.

    Raises:
        SelectionError: it was not measured.
    """
    return baselines(trials, baseline).defaults[baseline]


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
