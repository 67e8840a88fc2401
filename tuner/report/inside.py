"""Runs inside simulated machines in a report: a table per program and machine, and over all."""

from __future__ import annotations

from collections.abc import Iterator

from tuner.report.columns import MISSING, show_change
from tuner.report.grid import Grid, Row, ranking_grid
from tuner.validate.inside_counts import INSIDE_OBJECTIVES, InsideObjective
from tuner.validate.inside_summary import InsideCell, InsideSummary, InsideTable

NOTE = (
    "MPKI: lines that demand accesses of the cores asked the next level for, per thousand "
    "instructions. Every count is less that of a start under the same allocator. Changes are "
    "against the baseline; a simulation repeats itself to the last count."
)
"""What a reader must know about the tables."""


def shown_objectives(table: InsideTable) -> list[InsideObjective]:
    """Return the objectives that some subject of a table has, in the order of tables."""
    known = [cell.counts for cell in table.cells if cell.counts is not None]
    return [o for o in INSIDE_OBJECTIVES.values() if any(o.extract(c) is not None for c in known)]


def inside_grids(summary: InsideSummary) -> Iterator[Grid]:
    """Yield every table: programs on machines, over all of them, ranking."""
    for table in summary.tables:
        heads = tuple(objective.label for objective in shown_objectives(table))
        rows = tuple(_row(table, cell) for cell in table.cells)
        yield Grid(f"{table.title} (gem5)", ("subject",), heads, rows)
    if len(summary.tables) > 1:
        yield _means(summary)
    if summary.rankings:
        yield ranking_grid(summary.rankings, "simulated machines do", _short)


def best_sentence(summary: InsideSummary) -> str:
    """Say which subjects no other beats in all chosen objectives."""
    labels = [mean.label for mean in summary.means if mean.is_on_front]
    chosen = ", ".join(INSIDE_OBJECTIVES[name].label for name in summary.chosen)
    return f"Best in {chosen}, none better in all: {', '.join(labels) or 'none'}."


def _row(table: InsideTable, cell: InsideCell) -> Row:
    shown = shown_objectives(table)
    if cell.counts is None:
        return Row((cell.label,), (MISSING,) * len(shown), is_out=True)
    values = tuple(objective.show(cell.counts) for objective in shown)
    if cell.label == table.cells[0].label:
        return Row((cell.label,), values)
    ratios = (table.ratio(cell.label, objective.name) for objective in shown)
    return Row((cell.label,), values, tuple(map(show_change, ratios)))


def _means(summary: InsideSummary) -> Grid:
    names = [n for n in INSIDE_OBJECTIVES if any(mean.ratios[n] for mean in summary.means)]
    rows = tuple(
        Row((mean.label,), tuple(show_change(mean.ratios[name]) for name in names))
        for mean in summary.means[1:]
    )
    title = f"Over all {len(summary.tables)}: geometric means of the changes"
    return Grid(title, ("subject",), tuple(map(_short, names)), rows)


def _short(name: str) -> str:
    return INSIDE_OBJECTIVES[name].label.removeprefix("k ")
