"""The pictures of a comparison of allocators: what `tuner.bench.summary` computes, drawn.

One panel per workload, one line per subject; bars around a point are the interval of
its median.  Panels that nobody has values for are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tuner.bench.journal import Comparison
from tuner.bench.plan import THREADED, Task
from tuner.bench.summary import (
    CALLS,
    PEAK_RSS,
    PERCENTILES,
    RESIDENT_RATIO,
    THROUGHPUT,
    USABLE_RATIO,
    Estimates,
    Metric,
    estimates,
    tasks_of,
)
from tuner.report.figure_base import FORMATS, STYLE, WIDTH_IN, save_figure
from tuner.report.style import LIVE, Look, look
from tuner.stats import Estimate
from tuner.units import show_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS: Final = 2
_PANEL_IN: Final = 1.9
"""Height of a panel in inches."""
_MEGA: Final = 1e6
_MIB: Final = 1 << 20
_KNOWN: Final = ("glibc", "tcmalloc", "jemalloc", "mimalloc", "exgen")
_OTHERS: Final = (
    Look("#7a5c00", "pentagon", "p"),
    Look("#3f7fbf", "hexagon", "h"),
    Look("#8c1d40", "triangle-down", "v"),
    Look("#6a51a3", "cross", "X"),
    Look("#2b2b2b", "x", "P"),
    Look("#c49a00", "triangle-left", "<"),
    Look("#1b7f7a", "triangle-right", ">"),
)
"""For all others, in turn."""

Panel = tuple[str, Callable[["Axes"], None]]
"""Title and how to draw it."""


def write_bench_figures(
    comparison: Comparison, folder: Path, suffixes: Collection[str] = FORMATS
) -> Iterator[Path]:
    """Draw every figure that has something to show and yield each file when it is written.

    Args:
        comparison: the samples.
        folder: where the files go.
        suffixes: formats, out of `FORMATS`.

    Raises:
        OutputError: the folder cannot be written.
    """
    import matplotlib as mpl  # noqa: PLC0415 - half a second that other commands need not wait for

    with mpl.rc_context(STYLE):
        for name, panels in _figures(comparison):
            if panels:
                yield from save_figure(_drawn(panels), folder, name, suffixes)


def looks(labels: Sequence[str]) -> dict[str, Look]:
    """Return a look for every subject, those of known allocators as everywhere."""
    others = [label for label in labels if label not in _KNOWN]
    own = {label: _OTHERS[index % len(_OTHERS)] for index, label in enumerate(others)}
    return {label: own.get(label) or look(label) for label in labels}


def _figures(comparison: Comparison) -> Iterator[tuple[str, list[Panel]]]:
    yield "throughput-threads", _over_threads(comparison, THROUGHPUT, _MEGA, "M operations/s")
    yield "memory-threads", _over_threads(comparison, PEAK_RSS, _MIB, "peak RSS (MiB)")
    yield "throughput-sizes", _over_sizes(comparison)
    yield "latency", _percentiles(comparison)
    yield "overhead", _overhead(comparison)
    yield "memory-time", _memory(comparison)
    yield "churn", _churn(comparison)


def _drawn(panels: Sequence[Panel]) -> Figure:
    from matplotlib.figure import Figure as Canvas  # noqa: PLC0415 - see write_bench_figures

    n_rows = -(-len(panels) // _COLUMNS)
    n_columns = min(_COLUMNS, len(panels))
    height = n_rows * _PANEL_IN * (1.0 if n_columns > 1 else 1.5) + 0.6
    figure = Canvas(figsize=(WIDTH_IN, height), layout="constrained")
    grid = figure.subplots(n_rows, n_columns, squeeze=False).flatten()
    for axes, (title, draw) in zip(grid, panels, strict=False):
        axes.set_title(title, fontsize=9, loc="left")
        draw(axes)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    handles: dict[str, Any] = {}
    for axes in grid[: len(panels)]:
        found, labels = axes.get_legend_handles_labels()
        handles.update(zip(labels, found, strict=True))
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=5, fontsize=8)
    return figure


def _over_threads(
    comparison: Comparison, metric: Metric, divisor: float, title: str
) -> list[Panel]:
    panels: list[Panel] = []
    for workload in THREADED:
        rows = estimates(comparison, metric, tasks_of(comparison, workload))
        points = _lines(rows, comparison.labels, lambda task: task.threads)
        if points:
            styles = looks(comparison.labels)
            panels.append((workload, _log_lines(points, styles, divisor, "threads", title)))
    return panels


def _over_sizes(comparison: Comparison) -> list[Panel]:
    tasks = tasks_of(comparison, "sizes")
    panels: list[Panel] = []
    for threads in sorted({task.threads for task in tasks}):
        mine = [task for task in tasks if task.threads == threads]
        points = _lines(
            estimates(comparison, THROUGHPUT, mine), comparison.labels, lambda task: task.size or 0
        )
        title = f"{threads} thread{'s' if threads > 1 else ''}"
        styles = looks(comparison.labels)
        panels.append((title, _log_lines(points, styles, _MEGA, "block size", "M operations/s")))
    return panels


def _lines(
    rows: Estimates, labels: Sequence[str], x_of: Callable[[Task], int]
) -> dict[str, list[tuple[int, Estimate]]]:
    """Return the points of every subject, by x."""
    found = {
        label: sorted(((x_of(task), row[label]) for task, row in rows.items() if label in row),
                      key=lambda point: point[0])
        for label in labels
    }  # fmt: skip
    return {label: points for label, points in found.items() if points}


def _log_lines(
    lines: Mapping[str, Sequence[tuple[int, Estimate]]],
    styles: Mapping[str, Look],
    divisor: float,
    x_title: str,
    y_title: str,
    *,
    is_linear: bool = False,
) -> Callable[[Axes], None]:
    def draw(axes: Axes) -> None:
        for label, points in lines.items():
            axes.errorbar(
                [x for x, _ in points],
                [estimate.median / divisor for _, estimate in points],
                yerr=_bars([estimate for _, estimate in points], divisor),
                color=styles[label].colour,
                marker=styles[label].marker,
                markersize=3.5,
                linewidth=1.2,
                elinewidth=0.7,
                label=label,
            )
        axes.set_xscale("log", base=2)
        xs = sorted({x for points in lines.values() for x, _ in points})
        axes.set_xticks(*_ticks(xs, is_size=x_title == "block size"))
        axes.set_xlabel(x_title)
        axes.set_ylabel(y_title)
        if not is_linear:
            _make_log(axes)
        axes.minorticks_off()

    return draw


def _ticks(xs: Sequence[int], *, is_size: bool) -> tuple[list[int], list[str]]:
    if is_size:
        xs = [4**power for power in range(2, 16, 2) if xs[0] <= 4**power <= xs[-1]] or xs
    return list(xs), [_short_size(x) if is_size else str(x) for x in xs]


def _make_log(axes: Axes) -> None:
    """Make the y axis logarithmic, with numbers within a decade where it spans few."""
    from matplotlib.ticker import LogLocator  # noqa: PLC0415 - see write_bench_figures

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    few = 100
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < few * low else (1.0,)))
    axes.yaxis.set_major_formatter("{x:g}")


def _short_size(n_bytes: int) -> str:
    """Write a size for an axis: ``32K``."""
    number, unit = show_size(n_bytes).split()
    return f"{float(number):.3g}{unit[0] if unit != 'B' else ''}"


def _bars(points: Sequence[Estimate], divisor: float) -> list[list[float]]:
    """Return lengths below and above each median: shape (2, n)."""
    below, above = [], []
    for estimate in points:
        low = estimate.interval.low if estimate.interval else estimate.median
        high = estimate.interval.high if estimate.interval else estimate.median
        below.append(max(0.0, estimate.median - low) / divisor)
        above.append(max(0.0, high - estimate.median) / divisor)
    return [below, above]


def _percentiles(comparison: Comparison) -> list[Panel]:
    """One panel per threaded workload, at two threads or the fewest above."""
    panels: list[Panel] = []
    for workload in THREADED:
        tasks = tasks_of(comparison, workload)
        task = min(tasks, key=lambda t: (t.threads < 2, t.threads), default=None)  # noqa: PLR2004
        if task is not None:
            title = f"{workload}, {task.threads} thread{'s' if task.threads > 1 else ''}"
            panels.append((title, _percentile_lines(comparison, task)))
    return panels


def _percentile_lines(comparison: Comparison, task: Task) -> Callable[[Axes], None]:
    def draw(axes: Axes) -> None:
        styles = looks(comparison.labels)
        for label in comparison.labels:
            points = []
            for name in PERCENTILES:
                row = estimates(comparison, CALLS["malloc", name], [task]).get(task, {})
                if label in row:
                    points.append(row[label])
            if len(points) == len(PERCENTILES):
                axes.errorbar(
                    range(len(points)),
                    [max(point.median, 1.0) for point in points],
                    yerr=_bars(points, 1.0),
                    color=styles[label].colour,
                    marker=styles[label].marker,
                    markersize=3.5,
                    linewidth=1.2,
                    elinewidth=0.7,
                    label=label,
                )
        axes.set_yscale("log")
        axes.set_xticks(range(len(PERCENTILES)), list(PERCENTILES))
        axes.set_ylabel("malloc (ns)")

    return draw


def _overhead(comparison: Comparison) -> list[Panel]:
    tasks = tasks_of(comparison, "overhead")
    panels: list[Panel] = []
    for metric in (USABLE_RATIO, RESIDENT_RATIO):
        lines = _lines(
            estimates(comparison, metric, tasks), comparison.labels, lambda task: task.size or 0
        )
        if lines:
            draw = _log_lines(
                lines, looks(comparison.labels), 1.0, "block size", metric.name, is_linear=True
            )
            panels.append((metric.name, draw))
    return panels


def _memory(comparison: Comparison) -> list[Panel]:
    curves = _curves(comparison, "memory")
    if not curves:
        return []

    def draw(axes: Axes) -> None:
        styles = looks(comparison.labels)
        longest = max((live for _, live, _ in curves.values()), key=len)
        axes.fill_between(
            range(len(longest)),
            [n_bytes / _MIB for n_bytes in longest],
            color=LIVE,
            linewidth=0.0,
            label="live bytes",
        )
        for label, (_, _, rss) in curves.items():
            axes.plot([n / _MIB for n in rss], color=styles[label].colour, linewidth=1.2,
                      label=label)  # fmt: skip
        axes.set_xlabel("samples: one per MiB of change, one per 20 ms of rest")
        axes.set_ylabel("MiB")
        axes.set_ylim(bottom=0.0)

    return [("resident memory: grow, free half, grow, free most, rest, free all, rest", draw)]


def _churn(comparison: Comparison) -> list[Panel]:
    curves = _curves(comparison, "churn")
    if not curves:
        return []

    def draw(axes: Axes) -> None:
        styles = looks(comparison.labels)
        for label, (times, live, rss) in curves.items():
            axes.plot(
                [time / 1e9 for time in times],
                [r / n if n else float("nan") for r, n in zip(rss, live, strict=True)],
                color=styles[label].colour,
                linewidth=1.2,
                label=label,
            )
        axes.set_xlabel("seconds")
        axes.set_ylabel("RSS / live bytes")

    return [("churn", draw)]


def _curves(
    comparison: Comparison, workload: str
) -> dict[str, tuple[Sequence[int], Sequence[int], Sequence[int]]]:
    """Return times, live and resident bytes of every subject's first run."""
    found: dict[str, tuple[Sequence[int], Sequence[int], Sequence[int]]] = {}
    for label in comparison.labels:
        for sample in comparison.samples:
            is_mine = sample.task.workload == workload and sample.subject == label
            if is_mine and sample.result is not None and sample.result.curve is not None:
                curve = sample.result.curve
                found.setdefault(label, (curve.time_ns, curve.live_bytes, curve.rss_bytes))
    return found
