"""What a campaign found, as it is printed in the end: counts, and its picks.

`summarise` computes, `tuner.cli.outcome` writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuner.campaign.recheck import n_missing
from tuner.front.bounds import default_trials
from tuner.front.dominance import front, relative_hypervolume
from tuner.front.picks import standard_picks
from tuner.front.repricing import price_note
from tuner.front.whole import campaign_whole, seen_ratio
from tuner.metrics import find_metrics
from tuner.records import Trial
from tuner.store import CampaignRecord, Recheck


@dataclass(frozen=True)
class Picked:
    """A trial that was picked, by one rule or by several."""

    names: tuple[str, ...]
    """Names of the picks: ``balanced``, ``best-cost``."""
    trial: Trial
    ratios: tuple[float | None, ...]
    """Of each objective to the baseline's default, see `seen_ratio`."""


@dataclass(frozen=True)
class Summary:
    """What a campaign found."""

    picked: tuple[Picked, ...]
    """In the order of picks; empty when no trial is feasible."""
    n_trials: int
    n_failed: int
    """Trials that did not succeed."""
    n_uncounted: int
    """Trials whose instructions were not worth counting."""
    n_infeasible: int
    """Trials that succeeded and break a constraint."""
    n_front: int
    """Points that no trial dominates."""
    n_unchecked: int
    """Re-measurements of the front that have no numbers yet."""
    price_note: str | None
    """What would change within the spread of the prices; None when nothing would."""
    gain: float | None
    """Hypervolume over that of the defaults; None when no default is feasible."""


def summarise(
    record: CampaignRecord, trials: Sequence[Trial], rechecks: Iterable[Recheck] = ()
) -> Summary:
    """Summarise the trials of a campaign.

    Args:
        record: the campaign.
        trials: all its trials, by number; the first is the baseline's default.
        rechecks: all its re-measurements.
    """
    succeeded = [trial for trial in trials if trial.objectives is not None]
    n_failed = sum(trial.has_failed for trial in trials)
    return Summary(
        picked=_picked(record, trials),
        n_trials=len(trials),
        n_failed=n_failed,
        n_uncounted=len(trials) - len(succeeded) - n_failed,
        n_infeasible=sum(not trial.is_feasible for trial in succeeded),
        n_front=len(front(trials)),
        n_unchecked=n_missing(record, trials, rechecks),
        price_note=price_note(record, trials),
        gain=relative_hypervolume(trials, record.reference) if record.reference else None,
    )


def _picked(record: CampaignRecord, trials: Sequence[Trial]) -> tuple[Picked, ...]:
    baseline = default_trials(trials).get(record.baseline)
    if baseline is None:
        return ()
    metrics = find_metrics(record.objectives)
    names: dict[int, list[str]] = {}
    chosen: dict[int, Trial] = {}
    whole = campaign_whole(record, trials)
    for pick in standard_picks(trials, record.objectives, record.baseline, whole):
        names.setdefault(pick.trial.number, []).append(pick.name)
        chosen[pick.trial.number] = pick.trial
    return tuple(
        Picked(
            tuple(names[number]),
            trial,
            tuple(seen_ratio(metric, trial, baseline, whole) for metric in metrics),
        )
        for number, trial in chosen.items()
    )
