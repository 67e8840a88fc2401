"""Tables as texts: described once, shown on the page and in the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.metrics import INSIDE, REAL, find_objective
from tuner.units import show_percent
from tuner.validate.ranking import Ranking

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One subject."""

    names: tuple[str, ...]
    values: tuple[str, ...]
    changes: tuple[str, ...] = ()
    """Below the values; none for the baseline."""
    is_out: bool = False
    """True when it has no values."""


@dataclass(frozen=True)
class Grid:
    """A table: names at the left, numbers behind them."""

    title: str
    names: tuple[str, ...]
    """Heads of the names."""
    heads: tuple[str, ...]
    """Of the numbers."""
    rows: tuple[Row, ...]

    def drawn(self, *, is_folded: bool = False) -> Table:
        """Return the table for a terminal; changes stand in a line of their own.

        Args:
            is_folded: True breaks the heads at blanks.
        """
        from rich.table import Table  # noqa: PLC0415 - not needed by --help

        table = Table(
            title=self.title, box=None, header_style="bold", title_justify="left", pad_edge=False
        )
        for name in self.names:
            table.add_column(name, no_wrap=True)
        for head in self.heads:
            lines = head.replace(" ", "\n") if is_folded else head.replace(" (", "\n(")
            table.add_column(lines, justify="right", no_wrap=True)
        for row in self.rows:
            if row.is_out:
                table.add_row(*row.names, "out", style="red")
                continue
            table.add_row(*row.names, *row.values)
            if row.changes:
                changes = (change.replace(" [", "\n[") for change in row.changes)
                table.add_row(*("" for _ in row.names), *changes, style="cyan")
        return table


def ranking_grid(rankings: Iterable[Ranking], what: str) -> Grid:
    """Return rank correlations as a table.

    Args:
        rankings: of any measurement.
        what: ranks, or fails to: ``the real program does``.
    """
    metrics = {**INSIDE, **REAL}
    rows = tuple(
        Row(
            (find_objective(r.objective).label, metrics[r.metric].label, r.allocator or "all"),
            (
                str(r.n),
                "all ties" if r.tau is None else f"{r.tau:.2f}",
                f"{show_percent(r.concordance.share, 0)} of {r.concordance.n_pairs}"
                if r.concordance
                else "none differ",
            ),
        )
        for r in rankings
    )
    heads = ("n", "Kendall's tau", "clear pairs in order")
    title = f"Does the emulator rank as {what}?"
    return Grid(title, ("emulated", "measured", "among"), heads, rows)
