"""Runs inside simulated machines as text: misses and cycles per allocator, means, ranking."""

from __future__ import annotations

from tuner.cli.console import print_grid, stdout_console
from tuner.report.inside import NOTE, best_sentence, inside_grids
from tuner.validate.inside_summary import InsideSummary, failures


def print_inside(summary: InsideSummary) -> None:
    """Print a summary to standard output."""
    for grid in inside_grids(summary):
        print_grid(grid)
    console = stdout_console()
    for line in failures(summary):
        console.print(line, markup=False)
    console.print(best_sentence(summary), markup=False)
    console.print(NOTE, style="dim")
