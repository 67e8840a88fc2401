"""What `malloc-tuner tune` prints at the end: what was measured, the picks, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.cli.console import folded

if TYPE_CHECKING:
    from tuner.campaign.summary import Picked, Summary
    from tuner.store import CampaignRecord


def outcome_lines(record: CampaignRecord, summary: Summary, run: Path) -> Iterator[str]:
    """Yield what is said of a finished campaign, folded to a page: five with two objectives.

    The last one is made of commands, each on a line of its own.

    Args:
        record: the campaign.
        summary: what it found.
        run: its folder, for the commands that may come next.
    """
    yield folded(_measured(record, summary, run), 2)
    for picked in summary.picked:
        yield folded(f"  {_pick(record, picked)}", 4)
    if summary.n_unchecked:
        text = f"{summary.n_unchecked} re-measurements failed and prove nothing"
        yield folded(f"{text}; run the same command again to repeat them", 2)
    if summary.price_note:
        yield folded(summary.price_note, 2)
    if summary.picked:
        word = shlex.quote(str(run))
        yield (
            f"next: malloc-tuner front {word}\n"
            f"      malloc-tuner validate {word} -- PROGRAM ARGUMENTS\n"
            f"      malloc-tuner report {word}"
        )


def _measured(record: CampaignRecord, summary: Summary, run: Path) -> str:
    from tuner.front.bounds import GUARD_OF_OPTIMIZE
    from tuner.runs import REQUEST_FILE

    counts = [f"{summary.n_trials} configurations measured"]
    if summary.n_uncounted:
        counts.append(f"{summary.n_uncounted} of them dominated before they were counted")
    if summary.n_failed:
        counts.append(f"{summary.n_failed} failed")
    if summary.n_infeasible:
        broken = GUARD_OF_OPTIMIZE if (run / REQUEST_FILE).is_file() else "a constraint"
        counts.append(f"{summary.n_infeasible} break {broken}")
    points = "point" if summary.n_front == 1 else "points"
    gain = f", hypervolume {summary.gain:.2f} x that of the defaults" if summary.gain else ""
    found = f"{summary.n_front} {points} on the front{gain}"
    whose = "expected of the whole program" if record.workload.program else "of the allocator alone"
    against = ""
    if summary.picked:
        against = f"; changes are those {whose}, against the default of {record.baseline}"
    return f"{record.name}: {', '.join(counts)}; {found}{against}"


def _pick(record: CampaignRecord, picked: Picked) -> str:
    from tuner.metrics import METRICS
    from tuner.report.columns import show_change

    values = zip(record.objectives, picked.trial.objectives or (), picked.ratios, strict=True)
    shown = [
        f"{METRICS[name].label} {METRICS[name].show(value)}"
        + ("" if ratio is None else f" ({show_change(ratio)})")
        for name, value, ratio in values
    ]
    trial = f"trial {picked.trial.number}, {picked.trial.configuration}"
    return f"{', '.join(picked.names)}: {', '.join(shown)}; {trial}"
