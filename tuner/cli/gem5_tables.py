"""A validation on gem5 as text: default against tuned per allocator, ranking, simulations."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from tuner.cli.console import print_grid, stdout_console
from tuner.report.gem5 import gem5_grid, out_lines
from tuner.report.grid import ranking_grid
from tuner.runs import Run
from tuner.units import show_percent
from tuner.validate.gem5_summary import Gem5Summary


def print_gem5(run: Run, summaries: Sequence[Gem5Summary]) -> None:
    """Print the summaries of a validation on gem5 to standard output."""
    for summary in summaries:
        print_grid(gem5_grid(summary))
        if summary.rankings:
            print_grid(ranking_grid(summary.rankings, "the real program does"))
    console = stdout_console()
    console.print(_simulations(summaries))
    print_remarks(summaries)
    console.print(
        "Heap: resident anonymous memory of gem5 without simulated memory and without the data "
        "of its binary. Changes: geometric means over the simulations of the ratios to "
        f"{run.campaign.baseline}'s default in the same round, their median over the rounds; in "
        "brackets the 95 % interval over simulations like these, which are resampled for it (of "
        "fewer than six, their range; of one alone, the interval over its rounds). "
        f"{_over_rounds(summaries)}All simulated statistics of what is not out were equal to "
        "the baseline's.",
        style="dim",
    )


def print_remarks(summaries: Sequence[Gem5Summary]) -> None:
    """Print what is out of summaries, and their notes."""
    console = stdout_console()
    for text in (text for summary in summaries for text in out_lines(summary)):
        console.print(text)
    for notice in dict.fromkeys(text for summary in summaries for text in summary.notices):
        console.print(f"note: {notice}")


def _over_rounds(summaries: Sequence[Gem5Summary]) -> str:
    """Say how much less the rounds differ than the simulations."""
    widths = [
        change.ratio.interval.high - change.ratio.interval.low
        for summary in summaries
        for subject in summary.subjects
        for change in subject.changes
        if change.ratio and change.ratio.interval
    ]
    most = show_percent(max(widths, default=0.0))
    return f"Over the rounds alone they are at most {most} wide. " if widths else ""


def _simulations(summaries: Sequence[Gem5Summary]) -> Table:
    table = Table(title="Simulations", box=None, header_style="bold", title_justify="left")
    table.add_column("simulation", no_wrap=True)
    table.add_column("role")
    table.add_column("runs", justify="right")
    table.add_column("failed", justify="right")
    for summary in summaries:
        for simulation in summary.simulations:
            ended = [outcome.reason for _, _, outcome in simulation.samples]
            n_failed = len(ended) - ended.count(None)
            table.add_row(simulation.name, simulation.role, str(len(ended)), str(n_failed))
    return table
