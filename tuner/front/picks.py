"""The picks: which trials of a campaign are chosen, by which rule.

All functions are pure and work on records.  Trials that failed, or that break a
constraint of the campaign, are never chosen.  Changes are relative to the baseline's
default: -8 % mean_heap and +2 % cost add up to -6 %.  Where it is known what the whole program
has of an objective, changes are shares of that (whole.py).

* *balanced*: the least sum of the changes.
* *knee*: the balanced pick, if its sum is more than 0.5 % of the baseline below
  those of the trials with the least of each objective; else the front has none.
* *no-regret*: balanced, among the trials that are worse than the baseline in no
  objective, nor by more than 0.5 % in peak heap, and better in one objective by more
  than that.
* *best-X*: of the trials within 0.5 % of the least X, the least sum of the
  changes in the other objectives.

One rule for all of them: where a rule decides by less than 0.5 %, the baseline's
default is taken, then the trial with the fewest settings, and only then the least.

Guarantee: to leave the balanced pick, a trial gives up at least as many per cent
of the baseline as it gains, but for the 0.5 %.  No pick depends on the units of an
objective, on the order of the trials, or on how far the front extends.

Source: a least weighted sum lies on the convex hull of the front, so a concave
front has its least at an end: Das and Dennis, "A closer look at drawbacks of
minimizing weighted sums of objectives", Structural Optimization 14, 1997.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tuner.errors import SelectionError
from tuner.front.bounds import baseline_trial
from tuner.front.dominance import project
from tuner.front.whole import Whole
from tuner.metrics import METRICS
from tuner.objectives import trial_values
from tuner.page import series
from tuner.records import Trial
from tuner.stats import TIE
from tuner.units import show_percent

_LEAST_SHOWN: Final = 0.0005
"""A share that is less would be shown as 0.0 %."""

BALANCED = "balanced"
"""Name of the pick with the least sum of changes."""

KNEE = "knee"
"""Name of the balanced pick where the front has a knee."""

NO_REGRET = "no-regret"
"""Name of the balanced pick among those that are worse than the baseline nowhere."""

NO_WORSE = "in emulation worse than"
"""Begins the rule of no-regret; the default of the baseline follows."""

KNEE_RULE = "knee of the front: balanced, and clearly better than its ends"
"""The rule of the knee in words."""

NO_KNEE = "the front has no knee: none of its points is clearly better balanced than its ends"
"""What is said where `find_knee` finds none."""

NO_GAIN = (
    f"no measured configuration gains more than {100 * TIE:g} % in one objective without losing "
    "in another, or in peak heap"
)
"""What is said where there is no no-regret pick."""

_WHY_ABSENT: Final = {KNEE: NO_KNEE, NO_REGRET: NO_GAIN}
"""Picks that a campaign of several objectives may lack, and what is said then."""

_GUARDED: Final = "peak_heap"
"""What no-regret keeps even where it is no objective."""

_NOTHING: Final[Whole] = MappingProxyType({})
"""Nothing is known of the whole program."""

Projected = Sequence[Trial]
"""Feasible trials with the names asked for as their objectives."""


@dataclass(frozen=True)
class Pick:
    """A trial chosen from a campaign, with the rule that chose it."""

    name: str
    """File name without suffix: ``balanced``, ``best-mean_heap``, or the user's own."""
    trial: Trial
    """What was chosen."""
    rule: str
    """In words; see `balanced_rule` and `best_pick`."""


def select_balanced(
    trials: Iterable[Trial], names: Sequence[str], baseline: Trial, whole: Whole = _NOTHING
) -> Trial:
    """Return the trial with the least sum of the changes against the baseline.

    Args:
        trials: of one campaign, any status.
        names: the objectives to minimise.
        baseline: a trial that succeeded, feasible or not.
        whole: what the whole program has under the baseline; changes are shares of that.

    Raises:
        SelectionError: no trial is feasible.
        MissingToolError: an objective was not measured.
    """
    trials = list(trials)
    units = _units(baseline, names, whole)
    return _original(
        trials, _simplest(project(trials, names), lambda t: _total(t, units), baseline)
    )


def best_pick(
    trials: Iterable[Trial],
    metric: str,
    others: Sequence[str],
    baseline: Trial,
    whole: Whole = _NOTHING,
) -> Pick:
    """Return a trial with next to the least value of one metric that is best in the others.

    Args:
        trials: of one campaign, any status.
        metric: what to minimise.
        others: further metrics; `metric` itself among them is left out.
        baseline: a trial that succeeded, feasible or not.
        whole: as for `select_balanced`.

    Returns:
        The pick; its rule says how far it is above the least, and why.

    Raises:
        SelectionError: no trial is feasible.
        MissingToolError: a metric was not measured.
    """
    trials = list(trials)
    names = (metric, *(name for name in others if name != metric))
    units = (0.0, *_units(baseline, names, whole)[1:])
    candidates = project(trials, names)
    least = min(candidates, key=lambda one: (_values(one), one.number), default=None)
    limit = _values(least)[0] * (1.0 + TIE) if least else 0.0
    near = [one for one in candidates if _values(one)[0] <= limit]
    chosen = _simplest(near, lambda one: _total(one, units), baseline)
    rule = f"least {METRICS[metric].label}"
    if least and chosen and (above := _above(chosen, least, names)):
        rule = f"{rule}, {above}"
    return Pick(best_name(metric), _original(trials, chosen), rule)


def find_knee(
    trials: Iterable[Trial], names: Sequence[str], baseline: Trial, whole: Whole = _NOTHING
) -> Trial | None:
    """Return the balanced trial if the front has a knee there.

    It has one if to go on to the least of any objective gives up more than it
    gains by over `TIE` of the baseline.  A straight or concave front has none,
    nor has one objective alone.  Arguments and errors are those of `select_balanced`.

    Returns:
        None when there is no knee.
    """
    trials = list(trials)
    balanced = select_balanced(trials, names, baseline, whole)
    units = _units(baseline, names, whole)
    points = [(_values(one), _total(one, units)) for one in project(trials, names)]
    ends = (min((values[k], total) for values, total in points)[1] for k in range(len(names)))
    return balanced if min(total for _, total in points) < min(ends) - TIE else None


def standard_picks(
    trials: Sequence[Trial], names: Sequence[str], baseline: str, whole: Whole = _NOTHING
) -> list[Pick]:
    """Return the picks every campaign has, in the order of reports.

    With two or more objectives: balanced, the knee if there is one, no-regret if
    a trial gains without a loss; always: the best of each objective.  One trial may
    be picked several times; the list is empty when no trial is feasible.

    Args:
        trials: of one campaign, any status.
        names: the campaign's objectives.
        baseline: allocator whose default is the baseline; it was measured.
        whole: as for `select_balanced`.
    """
    if not any(trial.is_feasible for trial in trials):
        return []
    picks = []
    default = baseline_trial(trials, baseline)
    if len(names) > 1:
        rule = balanced_rule(names, baseline)
        picks.append(Pick(BALANCED, select_balanced(trials, names, default, whole), rule))
        knee = find_knee(trials, names, default, whole)
        if knee is not None:
            picks.append(Pick(KNEE, knee, KNEE_RULE))
        better = _no_worse(trials, names, default, whole)
        if better:
            rule = f"{NO_WORSE} the default of {baseline} in nothing, better in something; {rule}"
            picks.append(Pick(NO_REGRET, select_balanced(better, names, default, whole), rule))
    return picks + [best_pick(trials, name, names, default, whole) for name in names]


def first_pick(picks: Sequence[Pick]) -> Pick | None:
    """Return the pick that is meant when none is named: the best compromise that costs nothing.

    That is no-regret, else balanced, or with one objective its best.

    Args:
        picks: as `standard_picks` returns them.

    Returns:
        None when there are none.
    """
    return next((pick for pick in picks if pick.name == NO_REGRET), picks[0] if picks else None)


def why_absent(pick: str, names: Sequence[str]) -> str | None:
    """Say why a campaign has no standard pick of a name; None where no campaign has.

    Args:
        pick: its name.
        names: the campaign's objectives.

    Example:
        >>> why_absent("no-regret", ("mean_heap",))
        'with one objective there is only best-mean_heap'
    """
    if len(names) == 1 and pick in {BALANCED, *_WHY_ABSENT}:
        return f"with one objective there is only {best_name(names[0])}"
    return _WHY_ABSENT.get(pick)


def balanced_rule(names: Sequence[str], baseline: str) -> str:
    """Return the rule of the balanced pick in words.

    Example:
        >>> balanced_rule(("mean_heap", "cost"), "glibc")
        'least sum of the changes in mean heap and cost against the default of glibc'
    """
    labels = series(METRICS[name].label for name in names)
    return f"least sum of the changes in {labels} against the default of {baseline}"


def rule_words(rule: str, *, costs: bool) -> str:
    """Return a rule; where the program `costs` more, without that it is worse in nothing."""
    parts = dict.fromkeys(rule.split("; "))
    return "; ".join(one for one in parts if not (costs and one.startswith(NO_WORSE)))


def best_name(metric: str) -> str:
    """Return the name of the pick with the least value of a metric."""
    return f"best-{metric}"


def _simplest(
    candidates: Projected, score: Callable[[Trial], float], baseline: Trial
) -> Trial | None:
    """Return the least score, or what is simpler and at most `TIE` above it.

    Simpler is the baseline's default, then fewer settings; of equals the least score,
    then the least values, then the first.
    """
    least = min(map(score, candidates), default=0.0)

    def rank(one: Trial) -> tuple[bool, int, float, tuple[float, ...], int]:
        settings = len(one.configuration.settings)
        return one.number != baseline.number, settings, score(one), _values(one), one.number

    near = (one for one in candidates if score(one) <= least + TIE)
    return min(near, key=rank, default=None)


def _above(chosen: Trial, least: Trial, names: Sequence[str]) -> str:
    """Say how far a pick is above the least of the first name, and why; empty at the least."""
    (value, *others), (lowest, *theirs) = _values(chosen), _values(least)
    if value <= lowest:
        return ""
    pairs = zip(names[1:], others, theirs, strict=True)
    fewer = [METRICS[name].label for name, mine, other in pairs if mine < other]
    why = "as the simpler setting" if not fewer else f"for less {' and '.join(fewer)}"
    excess = value / lowest - 1.0 if lowest else 0.0
    share = f"{show_percent(excess)} above it" if excess >= _LEAST_SHOWN else "next to it"
    return f"or {share} {why}"


def _no_worse(
    trials: Sequence[Trial], names: Sequence[str], default: Trial, whole: Whole
) -> list[Trial]:
    """Return the feasible trials that gain over a default somewhere and lose nowhere.

    Nor do they lose peak heap beyond `TIE` where that is no objective: a container dies of it.
    """
    limits = trial_values(default.measured, names, default.resolution)
    units = _units(default, names, whole)
    (peak_unit,) = _units(default, (_GUARDED,), whole)
    most = default.measured.value(_GUARDED) + TIE * peak_unit
    return [
        trial
        for trial in project(trials, names)
        if trial.measured.value(_GUARDED) <= most
        and all(value <= limit for value, limit in zip(_values(trial), limits, strict=True))
        and any(
            value < limit - TIE * unit
            for value, limit, unit in zip(_values(trial), limits, units, strict=True)
        )
    ]


def _units(baseline: Trial, names: Sequence[str], whole: Whole) -> tuple[float, ...]:
    """Return what a change of 1 (100 %) is in each objective.

    That is what the whole program has of it, if that is known, else the baseline's value, 1 for 0.
    """
    values = trial_values(baseline.measured, names, baseline.resolution)
    return tuple(whole.get(name) or value or 1.0 for name, value in zip(names, values, strict=True))


def _total(projected: Trial, units: Sequence[float]) -> float:
    """Return the sum of the values in those units; an objective of unit 0 is left out.

    It is rounded, so that sums stay equal in other units of measure.
    """
    pairs = zip(_values(projected), units, strict=True)
    return round(math.fsum(value / unit for value, unit in pairs if unit), 12)


def _values(projected: Trial) -> tuple[float, ...]:
    return projected.objectives or ()


def _original(trials: Iterable[Trial], projected: Trial | None) -> Trial:
    """Return the campaign's own record of a trial with projected objectives."""
    if projected is None:
        raise SelectionError("no trial succeeded and holds every constraint of the campaign")
    return next(trial for trial in trials if trial.number == projected.number)
