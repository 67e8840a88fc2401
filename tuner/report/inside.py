"""Runs inside simulated machines in a report: a table per program and machine, and over all."""

from __future__ import annotations

from collections.abc import Iterator

from tuner.metrics import INSIDE, Metric
from tuner.report.columns import scale_for, show_change
from tuner.report.grid import Grid, Row, ranking_grid
from tuner.validate.inside_summary import InsideSummary, InsideTable

NOTE = (
    "MPKI: lines that demand accesses of the cores asked the next level for, per thousand "
    "instructions. Every count is less that of a start under the same allocator. Changes are "
    "against the baseline; a simulation repeats itself to the last count."
)
"""What a reader must know about the tables."""


def inside_grids(summary: InsideSummary) -> Iterator[Grid]:
    """Yield every table: programs on machines, over all of them, ranking."""
    for table in summary.tables:
        yield inside_grid(table)
    if len(summary.tables) > 1:
        yield _means(summary)
    if summary.rankings:
        yield ranking_grid(summary.rankings, "simulated machines do", lambda n: INSIDE[n].label)


def best_sentence(summary: InsideSummary) -> str:
    """Say which subjects no other beats in all chosen objectives."""
    chosen = ", ".join(INSIDE[name].label for name in summary.chosen)
    return f"Best in {chosen}, none better in all: {', '.join(summary.best) or 'none'}."


def inside_grid(table: InsideTable) -> Grid:
    """Return one program on one machine; metrics that no subject has are left out."""
    columns = [_column(table, metric) for metric in INSIDE.values()]
    shown = [(metric, texts) for metric, texts in columns if texts]
    rows = []
    for index, cell in enumerate(table.cells):
        changes = (show_change(table.ratio(cell.label, metric.name)) for metric, _ in shown)
        values = tuple(texts[index + 1] for _, texts in shown)
        rows.append(
            Row((cell.label,), values, tuple(changes) if index else (), is_out=cell.values is None)
        )
    heads = tuple(texts[0] for _, texts in shown)
    return Grid(f"{table.title} (gem5)", ("subject",), heads, tuple(rows))


def _column(table: InsideTable, metric: Metric) -> tuple[Metric, list[str]]:
    """Return head and texts of a metric; none where no subject has it."""
    values = [(cell.values or {}).get(metric.name) for cell in table.cells]
    if all(value is None for value in values):
        return metric, []
    scale = scale_for(metric.kind, values)
    head = f"{metric.label}, {scale.unit}" if scale.unit else metric.label
    return metric, [head, *map(scale.show, values)]


def _means(summary: InsideSummary) -> Grid:
    shown = [m for m in INSIDE.values() if any(r[m.name] for r in summary.ratios.values())]
    rows = tuple(
        Row((label,), tuple(show_change(ratios[metric.name]) for metric in shown))
        for label, ratios in list(summary.ratios.items())[1:]
    )
    title = f"Over all {len(summary.tables)}: geometric means of the changes"
    return Grid(title, ("subject",), tuple(metric.label for metric in shown), rows)
