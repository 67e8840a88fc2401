"""Would another calibration have chosen otherwise: fronts and picks with other prices.

What was counted stays; only what faults, pages and system calls cost is replaced.  The search
would have proposed other trials under other prices; that cannot be known from those there are.

Layer: beside `picks`; pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tuner.emulation import Calibration
from tuner.front.bounds import default_trials
from tuner.front.dominance import front_points
from tuner.front.picks import standard_picks
from tuner.front.whole import campaign_whole
from tuner.metrics import COST
from tuner.objectives import parse_constraint, violation
from tuner.records import Measurement, Outcome, Trial
from tuner.store import CampaignRecord


def reprice(record: CampaignRecord, trials: Iterable[Trial], prices: Calibration) -> list[Trial]:
    """Return the trials as they would be with other prices: costs, and limits on them.

    Over several workloads, whose figures are means, costs are scaled by what the prices make of
    the means.

    Args:
        record: the campaign; its calibration is what the costs were computed with.
        trials: of it, any status.
        prices: to compute them with instead.
    """
    known = record.prices
    changed = [
        replace(trial, outcome=Outcome.succeeded(_with_cost(trial.measurement, known, prices)))
        if trial.measurement
        else trial
        for trial in trials
    ]
    constraints = [parse_constraint(text) for text in record.constraints]
    if all(constraint.objective != COST for constraint in constraints):
        return changed
    defaults = {name: trial.measurement for name, trial in default_trials(changed).items()}
    baseline = defaults.get(record.baseline)
    return [
        replace(
            trial,
            violation=violation(
                constraints,
                trial.measurement,
                baseline,
                defaults.get(trial.configuration.allocator),
            ),
        )
        if trial.measurement
        else trial
        for trial in changed
    ]


def _with_cost(found: Measurement, known: Calibration, prices: Calibration) -> Measurement:
    cost = found[COST]
    if cost is None:
        return found
    counted = known.cost_of(found) or 0.0
    of_pages = max(0.0, cost - counted)
    new = prices.cost_of(found) or 0.0
    new += of_pages * (prices.c_page / known.c_page if known.c_page else 1.0)
    before = counted + of_pages
    return found.with_values(**{COST: cost * new / before}) if before else found


def price_note(
    record: CampaignRecord, trials: Sequence[Trial], names: Sequence[str] | None = None
) -> str | None:
    """Say whether the front or a pick changes within the spread of the campaign's prices.

    Args:
        record: the campaign.
        trials: all of it.
        names: objectives of the front; None for the campaign's, which picks are of.

    Returns:
        A sentence; None when nothing changes, when cost is no objective, or when the campaign
        does not have the spread.
    """
    names = names or record.objectives
    if COST not in names or record.prices.c_fault_interval is None:
        return None
    if record.baseline not in default_trials(trials):
        return None
    prices = record.prices
    here, picks = _members(trials, names), _picks(record, trials)
    lost: set[frozenset[int]] = set()
    won: set[frozenset[int]] = set()
    moved: dict[str, None] = {}
    for end in prices.ends():
        other = reprice(record, trials, end)
        there = _members(other, names)
        lost |= _apart(here, there)
        won |= _apart(there, here)
        chosen = _picks(record, other)
        moved |= dict.fromkeys(n for n in {**picks, **chosen} if picks.get(n) != chosen.get(n))
    return _sentence(prices, (len(here), len(lost), len(won)), list(moved))


def _members(trials: Sequence[Trial], names: Sequence[str]) -> set[frozenset[int]]:
    """Return the points of the front, each as the numbers of its trials, which are equal."""
    points = front_points(trials, names)
    return {frozenset((point.trial.number, *point.equals)) for point in points}


def _apart(points: set[frozenset[int]], others: set[frozenset[int]]) -> set[frozenset[int]]:
    """Return the points of which no trial is among those of the others."""
    members = frozenset[int]().union(*others)
    return {point for point in points if not point & members}


def _picks(record: CampaignRecord, trials: Sequence[Trial]) -> dict[str, int]:
    whole = campaign_whole(record, trials)
    picks = standard_picks(trials, record.objectives, record.baseline, whole)
    return {pick.name: pick.trial.number for pick in picks}


def _sentence(
    prices: Calibration, counts: tuple[int, int, int], moved: Sequence[str]
) -> str | None:
    """Return the note.

    Args:
        prices: of the campaign.
        counts: points of the front, of those that leave it, of those that come to it.
        moved: names of picks that become another trial, appear or vanish.
    """
    n_front, n_lost, n_won = counts
    changes = []
    if n_lost:
        changes.append(f"{n_lost} of the front's {n_front} points would leave it")
    if n_won:
        others = "another point" if n_won == 1 else f"{n_won} other points"
        changes.append(f"{others} would be on it")
    if moved:
        *most, last = moved
        names = f"picks {', '.join(most)} and {last}" if most else f"pick {last}"
        changes.append(f"{names} would change")
    if not changes or prices.c_fault_interval is None:
        return None
    low, high = prices.c_fault_interval
    return (
        f"Costs depend on what a page fault takes, {low:,.0f} to {high:,.0f} instructions here; "
        f"within that range, {'; '.join(changes)}."
    )
