"""Which configurations run on the real program.

The baseline and every allocator's default are always there.  Dominated points
are there so that the ranking as a whole can be checked: a validation of
winners only cannot show that losers would have lost.  All choices are
deterministic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from tuner.errors import ComparisonError
from tuner.front.dominance import front_points
from tuner.front.kept import RECOMMENDED, all_picks, deployed_subject, named_point
from tuner.front.picks import Pick
from tuner.limits import check_words
from tuner.records import Configuration, Trial
from tuner.runs import Run
from tuner.store.subject import DEFAULT, DOMINATED, FRONT, Subject

_T = TypeVar("_T")

PICKS = "picks"
BEST = "best"
"""Words for several points at once, beside `FRONT`."""


def choose_subjects(
    run: Run, points: Sequence[str], n_front: int, n_dominated: int
) -> tuple[Subject, ...]:
    """Return the subjects, the baseline first, then defaults, points and dominated points.

    Args:
        run: a campaign with at least one trial.
        points: names of picks, numbers of trials, or the words ``picks``,
            ``best`` (every ``best-...`` pick) and ``front``; what `optimize` deploys is a pick.
        n_front: greatest number of points for ``front``, spread over the front.
        n_dominated: greatest number of dominated points, spread over the ranking.

    Raises:
        SpecError: the points are one text.
        SelectionError: a name is no pick, a number no trial, or a trial has no numbers.
    """
    check_words("points", points)
    chosen: dict[Configuration, list[str]] = {}
    for allocator in _baseline_first(run):
        chosen[Configuration(allocator)] = [DEFAULT]
    numbers = {trial.configuration: trial.number for trial in run.trials}
    deployed = deployed_subject(run)
    if deployed is not None and {PICKS, RECOMMENDED} & set(points):
        chosen.setdefault(deployed.configuration, []).append(RECOMMENDED)
        if deployed.trial is not None:
            numbers.setdefault(deployed.configuration, deployed.trial)
        points = [word for word in points if word != RECOMMENDED]
    for pick in _points(run, points, n_front):
        roles = chosen.setdefault(pick.trial.configuration, [])
        if pick.name not in roles:
            roles.append(pick.name)
    for trial in _dominated(run, n_dominated, chosen):
        chosen[trial.configuration] = [DOMINATED]
    return tuple(
        Subject(
            _label(configuration, roles, numbers),
            configuration,
            numbers.get(configuration),
            tuple(roles),
            deployed.expected if deployed and deployed.configuration == configuration else (),
        )
        for configuration, roles in chosen.items()
    )


def check_subjects(run: Run, subjects: Sequence[Subject]) -> None:
    """Refuse a comparison of the baseline with nothing, before it is measured.

    Raises:
        ComparisonError: there is one subject; the message says why.
    """
    if len(subjects) > 1:
        return
    if any(trial.is_feasible for trial in run.trials):
        reason = "every point asked for is that default"
    else:
        reason = "no trial succeeded and holds every constraint"
    raise ComparisonError(
        f"nothing to compare with {run.campaign.baseline}'s default: {reason}; "
        "name others with --points, such as the number of a trial"
    )


def spread(items: Sequence[_T], n: int) -> list[_T]:
    """Return at most n items, evenly spread, both ends included when n is 2 or more.

    Example:
        >>> spread([0, 1, 2, 3, 4, 5, 6], 3), spread([0, 1, 2], 1), spread([0], 5)
        ([0, 3, 6], [1], [0])
    """
    if n >= len(items):
        return list(items)
    if n == 1:
        return [items[(len(items) - 1) // 2]]
    return [items[round(index * (len(items) - 1) / (n - 1))] for index in range(n)]


def _baseline_first(run: Run) -> list[str]:
    baseline = run.campaign.baseline
    return [baseline, *(name for name in run.campaign.allocators if name != baseline)]


def _points(run: Run, points: Sequence[str], n_front: int) -> Iterable[Pick]:
    for word in points:
        if word == PICKS:
            yield from all_picks(run)
        elif word == BEST:
            yield from (pick for pick in all_picks(run) if pick.name.startswith("best-"))
        elif word == FRONT:
            front = front_points(run.trials, run.campaign.objectives)
            for point in spread(front, n_front):
                yield Pick(FRONT, point.trial, "point of the front")
        else:
            yield named_point(run, word)


def _dominated(run: Run, n: int, chosen: Mapping[Configuration, object]) -> list[Trial]:
    """Return feasible trials off the front, spread from good to bad by their mean rank."""
    points = front_points(run.trials, run.campaign.objectives)
    front = {number for point in points for number in (point.trial.number, *point.equals)}
    candidates = [
        trial
        for trial in run.trials
        if trial.is_feasible and trial.number not in front and trial.configuration not in chosen
    ]
    ranks: dict[int, float] = dict.fromkeys((trial.number for trial in candidates), 0.0)
    for position in range(len(run.campaign.objectives)):
        values = sorted({_value(trial, position) for trial in candidates})
        rank_of = {value: rank for rank, value in enumerate(values)}
        for trial in candidates:
            ranks[trial.number] += rank_of[_value(trial, position)] / len(values)
    candidates.sort(key=lambda trial: (ranks[trial.number], trial.number))
    return spread(candidates, n)


def _value(trial: Trial, position: int) -> float:
    return trial.objectives[position] if trial.objectives else math.inf


def _label(
    configuration: Configuration, roles: Sequence[str], numbers: Mapping[Configuration, int]
) -> str:
    if configuration.is_default:
        return f"{configuration.allocator}-default"
    if roles[0] in (FRONT, DOMINATED):
        return f"trial-{numbers[configuration]}"
    return roles[0]
