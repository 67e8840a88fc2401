"""Which trials are measured again at the end, and whether they agree.

The front is a selection of the luckiest numbers, so its members are measured
once more.  In baton mode every number is repeatable to the last digit: one
repeat of each proves it, and a difference is a defect that is reported.  In
free-running mode numbers scatter, as latency always does, and the quota is used
up for repeats.

A re-measurement without numbers says nothing about those of the trial.  It is
kept as an incident and measured again when the campaign is continued.

Source: docs/decisions/search.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tuner.front.dominance import front, points_of
from tuner.metrics import METRICS
from tuner.moocore import load_moocore
from tuner.records import Trial
from tuner.store import CampaignRecord, Recheck

MAX_REPEATS = 5
"""Re-measurements of one trial whose numbers scatter."""


def is_repeatable(record: CampaignRecord) -> bool:
    """Return whether the same configuration must give the same numbers again."""
    return record.emulation.threads == "baton"


def plan(record: CampaignRecord, trials: Sequence[Trial]) -> list[tuple[Trial, int]]:
    """Return which trials to measure again, with 1-based repeats.

    The baseline's default comes first, because everything is compared with it,
    then the members of the front by number.  When the quota of the campaign is
    too small for all, those are left out whose loss costs the least hypervolume.

    Args:
        record: the finished search's campaign.
        trials: all its trials.
    """
    quota = int(record.recheck_share * record.budget)
    if quota == 0:
        return []
    members = [t for t in trials if t.is_feasible and _is_default_of(t, record.baseline)]
    members += _most_valuable([t for t in front(trials) if t not in members], quota - len(members))
    scatters = not all(METRICS[name].is_repeatable for name in record.objectives)
    n_repeats = MAX_REPEATS if scatters or not is_repeatable(record) else 1
    planned = [(trial, repeat + 1) for repeat in range(n_repeats) for trial in members]
    return planned[:quota]


def n_missing(record: CampaignRecord, trials: Sequence[Trial], rechecks: Iterable[Recheck]) -> int:
    """Count the re-measurements that are planned and have no numbers yet."""
    done = {(one.trial, one.repeat) for one in rechecks if one.measurement is not None}
    return sum((trial.number, repeat) not in done for trial, repeat in plan(record, trials))


def disagreements(trials: Iterable[Trial], rechecks: Iterable[Recheck]) -> list[str]:
    """Name the repeatable numbers that were not the same again, one line each.

    Args:
        trials: those to judge; re-measurements of others are left out.
        rechecks: of any trials.
    """
    by_number = {trial.number: trial for trial in trials}
    lines = []
    for recheck in rechecks:
        trial = by_number.get(recheck.trial)
        if trial is None:
            continue
        claimed, again = trial.measurement, recheck.measurement
        if claimed is None or again is None:
            lines.append(f"trial {trial.number} ({trial.configuration}): now {recheck.reason}")
            continue
        pairs = (
            (metric.name, metric.value(claimed), metric.value(again))
            for metric in METRICS.values()
            if metric.is_repeatable
        )
        lines += [
            f"trial {trial.number} ({trial.configuration}): {name} was {old:.17g}, is {new:.17g}"
            for name, old, new in pairs
            if old is not None and new is not None and old != new
        ]
    return lines


def _is_default_of(trial: Trial, allocator: str) -> bool:
    return trial.configuration.is_default and trial.configuration.allocator == allocator


def _most_valuable(members: list[Trial], n: int) -> list[Trial]:
    """Return the `n` members with the greatest share of the hypervolume, by number."""
    if n <= 0 or len(members) <= n:
        return members[: max(n, 0)]
    points = np.log1p(points_of(members))
    # Slightly beyond the worst, so that the ends of the front count.
    reference = points.max(axis=0) + 0.1 * np.ptp(points, axis=0) + 1e-9
    shares = load_moocore().hv_contributions(points, ref=reference)
    order = np.argsort(-shares, kind="stable")[:n]
    return [members[index] for index in sorted(order.tolist())]
