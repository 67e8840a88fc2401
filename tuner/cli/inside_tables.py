"""Runs inside simulated machines as text: misses and cycles per allocator, means, ranking."""

from __future__ import annotations

from rich.table import Table

from tuner.cli.console import stdout_console
from tuner.metrics import find_objective
from tuner.report.columns import show_change
from tuner.report.inside import NOTE, show_concordance, shown_objectives
from tuner.validate.inside_counts import INSIDE_OBJECTIVES
from tuner.validate.inside_summary import InsideSummary, InsideTable, failures


def print_inside(summary: InsideSummary) -> None:
    """Print a summary to standard output."""
    tables = [_program(summary, table) for table in summary.tables]
    if len(tables) > 1:
        tables.append(_means(summary))
    if summary.rankings:
        tables.append(_rankings(summary))
    for table in tables:
        console = stdout_console(table)
        console.print(table)
        console.print()
    console = stdout_console()
    for line in failures(summary):
        console.print(line, markup=False)
    console.print(_front_sentence(summary), markup=False)
    console.print(NOTE, style="dim")


def _program(summary: InsideSummary, table: InsideTable) -> Table:
    shown = shown_objectives(table)
    found = _table(f"{table.title} (gem5)", "subject", *(o.label for o in shown))
    for cell in table.cells:
        if cell.counts is None:
            found.add_row(cell.label, "out", style="red")
            continue
        found.add_row(cell.label, *(objective.show(cell.counts) for objective in shown))
        if cell.label != summary.session.labels[0]:
            ratios = (table.ratio(cell.label, objective.name) for objective in shown)
            found.add_row("", *(show_change(ratio) for ratio in ratios), style="cyan")
    return found


def _means(summary: InsideSummary) -> Table:
    names = [n for n in INSIDE_OBJECTIVES if any(mean.ratios[n] for mean in summary.means)]
    heads = (INSIDE_OBJECTIVES[name].label.removeprefix("k ") for name in names)
    title = f"Over all {len(summary.tables)}: geometric means of the changes"
    found = _table(title, "subject", *heads)
    for mean in summary.means[1:]:
        found.add_row(mean.label, *(show_change(mean.ratios[name]) for name in names))
    return found


def _rankings(summary: InsideSummary) -> Table:
    heads = ("simulated", "n", "Kendall tau", "pairs ordered alike")
    found = _table("Does the emulator rank as simulated machines do?", "emulated", *heads)
    for ranking in summary.rankings:
        found.add_row(
            find_objective(ranking.emulated).label,
            INSIDE_OBJECTIVES[ranking.inside].label.removeprefix("k "),
            str(ranking.n),
            "all ties" if ranking.tau is None else f"{ranking.tau:.2f}",
            show_concordance(ranking.concordance),
        )
    return found


def _front_sentence(summary: InsideSummary) -> str:
    labels = [mean.label for mean in summary.means if mean.is_on_front]
    chosen = ", ".join(INSIDE_OBJECTIVES[name].label for name in summary.chosen)
    return f"Best in {chosen}, none better in all: {', '.join(labels) or 'none'}."


def _table(title: str, first: str, *heads: str) -> Table:
    found = Table(title=title, box=None, header_style="bold", title_justify="left")
    found.add_column(first, no_wrap=True)
    for head in heads:
        found.add_column(head, justify="right")
    return found
