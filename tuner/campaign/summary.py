"""The table at the end of a campaign: what each allocator can do, and what to type next.

`summarise` computes, `tuner.cli.tune` prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuner.campaign.recheck import n_missing
from tuner.objectives import front, relative_hypervolume
from tuner.records import Trial
from tuner.repricing import price_note
from tuner.selection import BALANCED, find_knee, select_balanced, select_best
from tuner.store import CampaignRecord, Recheck


@dataclass(frozen=True)
class Line:
    """One row: a trial with its place in the campaign."""

    title: str
    """``jemalloc default``, ``jemalloc balanced``, ``jemalloc best cost``."""
    trial: Trial
    on_front: bool
    """True when no trial of any allocator dominates it."""
    changes: tuple[float | None, ...]
    """Relative change of each objective from the baseline's default; None where that is 0."""


@dataclass(frozen=True)
class Summary:
    """What a campaign found."""

    lines: tuple[Line, ...]
    """Allocator by allocator: default, balanced, best of each objective."""
    n_trials: int
    n_failed: int
    """Trials that did not succeed."""
    n_infeasible: int
    """Trials that succeeded and break a constraint."""
    n_front: int
    """Trials that no other dominates."""
    n_unchecked: int
    """Re-measurements of the front that have no numbers yet."""
    has_knee: bool
    """True when the front of all allocators has a knee."""
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
    members = {trial.number for trial in front(trials)}
    default = trials[0]
    baseline = default.objectives
    lines = [
        Line(title, trial, trial.number in members, _changes(trial, baseline))
        for allocator in record.allocators
        for title, trial in _picks(allocator, record.objectives, trials, default)
    ]
    succeeded = [trial for trial in trials if trial.objectives is not None]
    return Summary(
        lines=tuple(lines),
        n_trials=len(trials),
        n_failed=len(trials) - len(succeeded),
        n_infeasible=sum(not trial.is_feasible for trial in succeeded),
        n_front=len(members),
        n_unchecked=n_missing(record, trials, rechecks),
        has_knee=bool(members) and find_knee(trials, record.objectives, default) is not None,
        price_note=price_note(record, trials),
        gain=relative_hypervolume(trials, record.reference) if record.reference else None,
    )


def _picks(
    allocator: str, names: Sequence[str], trials: Sequence[Trial], baseline: Trial
) -> list[tuple[str, Trial]]:
    own = [trial for trial in trials if trial.configuration.allocator == allocator]
    found = [
        ("default", trial)
        for trial in own
        if trial.configuration.is_default and trial.objectives is not None
    ]
    if any(trial.is_feasible for trial in own):
        if len(names) > 1:
            found.append((BALANCED, select_balanced(own, names, baseline)))
        found += [(f"best {name}", select_best(own, name, names, baseline)) for name in names]
    return [(f"{allocator} {title}", trial) for title, trial in found]


def _changes(trial: Trial, baseline: Sequence[float] | None) -> tuple[float | None, ...]:
    pairs = zip(trial.objectives or (), baseline or (), strict=False)
    return tuple(value / base - 1.0 if base > 0.0 else None for value, base in pairs)
