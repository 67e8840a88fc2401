"""The tables of `malloc-tuner bench`: one row per task, one column per subject."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tuner.bench.summary import (
    CALLS,
    END_RSS,
    PEAK_RSS,
    RESIDENT_RATIO,
    THROUGHPUT,
    USABLE_RATIO,
    DriverMetric,
    estimates,
    geometric_means,
    tasks_of,
)

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from tuner.bench.journal import Comparison
    from tuner.bench.plan import Task
    from tuner.stats import Estimate

_MIB = 1 << 20

_LEAST_CALL_NS = 10
"""Shorter calls take less than what reading the clock varies by, which is taken off."""


def bench_tables(comparison: Comparison) -> Iterator[Table]:
    """Yield a table of every figure that was measured."""
    timed = [t for t in tasks_of(comparison) if t.has_clock]
    memory = [t for t in tasks_of(comparison) if t.workload not in ("overhead", "sizes")]
    overhead = tasks_of(comparison, "overhead")
    rows: tuple[tuple[str, DriverMetric, list[Task], Callable[[float], str]], ...] = (
        ("throughput, million operations a second", THROUGHPUT, timed, lambda x: f"{x / 1e6:.3g}"),
        ("malloc P99, ns", CALLS["malloc", "P99"], timed, call_words),
        ("malloc P99.9, ns", CALLS["malloc", "P99.9"], timed, call_words),
        ("peak RSS, MiB", PEAK_RSS, memory, lambda x: f"{x / _MIB:.1f}"),
        ("RSS after freeing all, MiB", END_RSS, memory, lambda x: f"{x / _MIB:.1f}"),
        ("usable/requested bytes", USABLE_RATIO, overhead, lambda x: f"{x:.2f}"),
        ("resident/requested bytes", RESIDENT_RATIO, overhead, lambda x: f"{x:.2f}"),
    )
    for title, metric, tasks, show in rows:
        if table := _table(comparison, title, metric, tasks, show):
            yield table


def call_words(ns: float) -> str:
    """Return the time of a call, which is never nothing.

    Example:
        >>> call_words(151.4), call_words(0.0)
        ('151', '<10')
    """
    return f"{ns:.0f}" if ns >= _LEAST_CALL_NS else f"<{_LEAST_CALL_NS}"


def _table(
    comparison: Comparison,
    title: str,
    quantity: DriverMetric,
    tasks: list[Task],
    show: Callable[[float], str],
) -> Table | None:
    from rich.table import Table

    found = estimates(comparison, quantity, tasks)
    if not found:
        return None
    labels = comparison.labels
    table = Table(box=None, header_style="bold", title=title, title_justify="left")
    table.add_column("", no_wrap=True)
    for label in labels:
        table.add_column(label.replace(" ", "\n"), justify="right", no_wrap=True)
    for task, row in found.items():
        medians = [estimate.median for estimate in row.values()]
        best = max(medians) if quantity.more_is_better else min(medians)
        cells = [_cell(row.get(label), show, best) for label in labels]
        table.add_row(str(task), *cells)
    means = geometric_means(found, labels, labels[0])
    if len(found) > 1 and len(means.ratios) > 1:
        shown = [f"{means.ratios[label]:.3f}" if label in means.ratios else "-" for label in labels]
        title = f"geometric mean, {labels[0]} = 1"
        if means.n_left_out:
            title += f"; {means.n_left_out} of {len(found)} rows left out"
        table.add_row(title, *shown, style="dim")
    return table


def _cell(estimate: Estimate | None, show: Callable[[float], str], best: float) -> Text:
    from rich.text import Text

    if estimate is None:
        return Text("-", style="red")
    text = show(estimate.median)
    if estimate.interval is not None and estimate.median:
        half = (estimate.interval.high - estimate.interval.low) / 2 / abs(estimate.median)
        text += f" ±{half:.0%}"
    return Text(text, style="green" if estimate.median == best else "")
