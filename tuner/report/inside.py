"""Runs inside simulated machines in a report: the tables, as texts."""

from __future__ import annotations

from typing import Any

from tuner.metrics import find_objective
from tuner.report.columns import MISSING, show_change
from tuner.stats import Concordance
from tuner.validate.inside_counts import INSIDE_OBJECTIVES, InsideObjective
from tuner.validate.inside_summary import InsideSummary, InsideTable, failures

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


def show_concordance(found: Concordance | None) -> str:
    """Write how many pairs two rankings order alike."""
    return "none differ" if found is None else f"{found.share:.0%} of {found.n_pairs}"


def inside_context(summary: InsideSummary) -> dict[str, Any]:
    """Return heads and cells of the tables of a page."""
    return {
        "note": NOTE,
        "tables": [_table_context(table) for table in summary.tables],
        "failures": list(failures(summary)),
        "best": [mean.label for mean in summary.means if mean.is_on_front],
        "chosen": [INSIDE_OBJECTIVES[name].label for name in summary.chosen],
        "rankings": [
            {
                "emulated": find_objective(ranking.emulated).label,
                "inside": INSIDE_OBJECTIVES[ranking.inside].label.removeprefix("k "),
                "n": ranking.n,
                "tau": "all ties" if ranking.tau is None else f"{ranking.tau:.2f}",
                "concordance": show_concordance(ranking.concordance),
            }
            for ranking in summary.rankings
        ],
    }


def _table_context(table: InsideTable) -> dict[str, Any]:
    shown = shown_objectives(table)
    base = table.cells[0].label
    return {
        "title": table.title,
        "heads": [objective.label for objective in shown],
        "rows": [
            {
                "label": cell.label,
                "cells": [
                    {
                        "value": objective.show(cell.counts) if cell.counts else MISSING,
                        "change": show_change(table.ratio(cell.label, objective.name))
                        if cell.counts and cell.label != base
                        else "",
                    }
                    for objective in shown
                ],
            }
            for cell in table.cells
        ],
    }
