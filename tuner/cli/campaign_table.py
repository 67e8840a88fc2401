"""What `malloc-tuner tune` prints at the end: defaults and picks, and what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tuner.cli.console import stdout_console

if TYPE_CHECKING:
    from rich.table import Table

    from tuner.campaign.summary import Summary
    from tuner.store import CampaignRecord


def print_outcome(record: CampaignRecord, summary: Summary, run: Path) -> None:
    """Print a finished campaign to standard output.

    Args:
        record: the campaign.
        summary: what it found.
        run: its folder, for the commands that may come next.
    """
    table = _table(record, summary)
    console = stdout_console(table)
    console.print(table)
    if summary.price_note:
        console.print(summary.price_note, style="dim", markup=False, soft_wrap=True)
    console.print()
    trials = {line.trial.number: line.trial for line in summary.lines}
    for number in sorted(
        number for number, trial in trials.items() if not trial.configuration.is_default
    ):
        console.print(
            f"  trial {number}: {trials[number].configuration}", markup=False, soft_wrap=True
        )
    gain = f", hypervolume {summary.gain:.2f} x that of the defaults" if summary.gain else ""
    console.print(
        f"\n{summary.n_trials} configurations, {summary.n_failed} failed, "
        f"{summary.n_infeasible} break a constraint, {summary.n_front} on the front{gain}",
        soft_wrap=True,
    )
    if summary.n_unchecked:
        console.print(
            f"{summary.n_unchecked} re-measurements failed and prove nothing; run the same command "
            "again to repeat them",
            soft_wrap=True,
        )
    console.print(f"run folder: {run}", markup=False, soft_wrap=True)
    if not summary.n_front:
        return
    console.print(
        "\nnext:\n"
        f"  malloc-tuner front {run}\n"
        f"  malloc-tuner pick {run} {_rule(record, summary)}\n"
        f"  malloc-tuner validate {run} -- PROGRAM ARGUMENTS\n"
        f"  malloc-tuner report {run}",
        markup=False,
        soft_wrap=True,
    )


def _rule(record: CampaignRecord, summary: Summary) -> str:
    """Return the option of `pick` that suits this campaign."""
    if len(record.objectives) == 1:
        return f"--best {record.objectives[0]}"
    return "--knee" if summary.has_knee else "--balanced"


def _table(record: CampaignRecord, summary: Summary) -> Table:
    """Return a row per allocator and pick; changes are against the baseline's default."""
    from rich.table import Table

    from tuner.metrics import METRICS

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("trial", justify="right")
    for name in record.objectives:
        table.add_column(name, justify="right", no_wrap=True)
        table.add_column("change", justify="right", style="cyan", no_wrap=True)
    for line in summary.lines:
        cells = []
        for name, value, change in zip(
            record.objectives, line.trial.objectives or (), line.changes, strict=True
        ):
            cells += [METRICS[name].show(value), "" if change is None else f"{change:+.1%}"]
        mark = " *" if line.on_front else ""
        table.add_row(line.title + mark, str(line.trial.number), *cells)
    table.caption = f"* on the front; changes from the default of {record.baseline}"
    table.caption_justify = "left"
    return table
