"""A point of a run with one setting put back at a time: what each of its settings does there.

In the manner of Magpie: https://github.com/bloa/magpie validates a patch by ablation and
minimises it.  Numbers come from recorded trials where there are some; the others are asked of an
evaluator, if one is given.  Settings whose absence makes no objective worse by more than 0.5 % are
taken away together in the end, because each alone may stand in for another.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tuner.front.kept import (
    RECOMMENDED,
    answered_pick,
    deployed_pick,
    find_pick,
    first_name,
    named_point,
    pick_of_trial,
)
from tuner.front.picks import Pick
from tuner.measure.evaluation import Evaluation
from tuner.objectives import objective_values
from tuner.records import Configuration, Trial, Value
from tuner.runs import Run
from tuner.stats import TIE

Measure = Callable[[Sequence[Configuration]], Mapping[Configuration, Evaluation]]
"""Evaluates configurations as the campaign did."""


@dataclass(frozen=True)
class Without:
    """The point with some settings left alone."""

    configuration: Configuration
    trial: int | None
    """Number of the recorded trial; None when it was measured for this, or not at all."""
    changes: Mapping[str, float] | None
    """Objective -> its value over that of the point, by `_ratio`; None when it has no numbers."""
    reason: str | None = None
    """Why there are none."""

    @property
    def is_known(self) -> bool:
        """Whether it has numbers, or failed."""
        return self.changes is not None or self.reason is not None

    @property
    def is_needless(self) -> bool:
        """True when no objective becomes worse by more than `TIE`, whatever is gained."""
        return self.changes is not None and all(
            change <= 1.0 + TIE for change in self.changes.values()
        )


@dataclass(frozen=True)
class Ablation:
    """What every setting of a point does."""

    pick: Pick
    settings: tuple[tuple[str, Value, Without], ...]
    """Name and value of each setting, and the point without it."""
    reduced: Without | None
    """The point without all needless settings; None when there are none, or it was not tried."""


def point_of(run: Run, point: str | None = None) -> Pick:
    """Return the point of a run by the name of a pick or the number of a trial.

    Args:
        run: the campaign.
        point: None for what is deployed, else for the trial that has its settings and more, else,
            where none has numbers, for the run's first pick.

    Raises:
        SelectionError: there is no such pick or trial, or it did not succeed.
    """
    is_deployed = point in {None, RECOMMENDED}
    deployed = (answered_pick(run) or deployed_pick(run)) if is_deployed else None
    if deployed is not None and deployed.trial.measurement is not None:
        return deployed
    if point is None:
        return find_pick(run, first_name(run))
    if deployed is not None:
        return pick_of_trial(run, deployed.trial.number)
    return named_point(run, point)


def ablate(run: Run, pick: Pick, measure: Measure | None = None) -> Ablation:
    """Return what each setting of a point does.

    Args:
        run: the campaign.
        pick: a trial that succeeded.
        measure: for what is not recorded; None: that stays unknown.
    """
    point = pick.trial.configuration
    known: dict[Configuration, Evaluation] = {}
    trials = {one.configuration: one for one in run.trials if one.measurement or one.has_failed}
    wanted = {name: point.without(name) for name, _ in point.settings}

    def found(configurations: Sequence[Configuration]) -> list[Without]:
        new = [c for c in dict.fromkeys(configurations) if c not in trials and c not in known]
        if measure is not None and new:
            known.update(measure(new))
        return [_without(run, pick.trial, c, trials.get(c), known.get(c)) for c in configurations]

    singles = found(list(wanted.values()))
    needless = [name for name, one in zip(wanted, singles, strict=True) if one.is_needless]
    reduced = None
    if needless:
        (reduced,) = found([functools.reduce(Configuration.without, needless, point)])
    rows = zip(point.settings, singles, strict=True)
    settings = tuple((name, value, one) for (name, value), one in rows)
    return Ablation(pick, settings, reduced if reduced and reduced.is_known else None)


def _without(
    run: Run,
    point: Trial,
    configuration: Configuration,
    trial: Trial | None,
    outcome: Evaluation | None,
) -> Without:
    number = trial.number if trial else None
    outcome = trial.outcome if trial else outcome
    if outcome is None or outcome.good is None:
        return Without(configuration, number, None, outcome.reason if outcome else None)
    names = run.campaign.objectives
    mine = objective_values(point.measured, names)
    theirs = objective_values(outcome.good, names)
    changes = {n: _ratio(b, a) for n, a, b in zip(names, mine, theirs, strict=True)}
    return Without(configuration, number, changes)


def _ratio(value: float, of: float) -> float:
    """Return a value over that of the point; where that is 0, both with one added."""
    return value / of if of else value + 1.0
