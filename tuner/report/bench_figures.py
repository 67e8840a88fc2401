"""The figures of a comparison of allocators: what `tuner.bench.summary` computes, drawn.

One panel per workload, one line per subject; bars around a point are the interval of
its median.  Panels without values are left out.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tuner.bench.journal import Comparison
from tuner.bench.plan import THREADED, Task
from tuner.bench.summary import (
    CALLS,
    PEAK_RSS,
    PERCENTILES,
    RESIDENT_RATIO,
    THROUGHPUT,
    USABLE_RATIO,
    DriverMetric,
    Estimates,
    estimates,
    tasks_of,
)
from tuner.drawing.figure import (
    FORMATS,
    WIDTH,
    Figure,
    Spec,
    category,
    colours,
    end_names,
    layer,
    log_axis,
    quantity,
    save_figure,
    shapes,
)
from tuner.drawing.style import LIVE, looks
from tuner.stats import Estimate
from tuner.units import show_size

_COLUMNS: Final = 2
_HEIGHT: Final = 140
_MEGA: Final = 1e6
_MIB: Final = 1 << 20
_RATE: Final = "M operations/s"

_Lines = Mapping[str, Sequence[tuple[Any, Estimate]]]
"""By subject: x and what was measured there."""


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
    for name, title, panels in _figures(comparison):
        if panels:
            width = WIDTH if len(panels) == 1 else WIDTH / _COLUMNS - 40
            sized = [
                {"width": width, "height": _HEIGHT * (1 + (len(panels) == 1)), **panel}
                for panel in panels
            ]
            spec: Spec = {"concat": sized, "columns": _COLUMNS}
            yield from save_figure(Figure(name, title, spec), folder, suffixes)


def _figures(comparison: Comparison) -> Iterator[tuple[str, str, list[Spec]]]:
    throughput = _over_threads(comparison, THROUGHPUT, _MEGA, _RATE)
    yield "throughput-threads", "Throughput over threads", throughput
    memory = _over_threads(comparison, PEAK_RSS, _MIB, "peak RSS (MiB)")
    yield "memory-threads", "Peak resident memory over threads", memory
    yield "throughput-sizes", "Throughput over block sizes", _over_sizes(comparison)
    yield "latency", "Percentiles of the time of malloc", _percentiles(comparison)
    yield "overhead", "Memory per requested byte", _overhead(comparison)
    yield "memory-time", "Resident memory over time", _memory(comparison)
    yield "churn", "Resident memory while blocks come and go", _churn(comparison)


# Medians


def _over_threads(
    comparison: Comparison, quantity: DriverMetric, divisor: float, title: str
) -> list[Spec]:
    panels = []
    for workload in THREADED:
        rows = estimates(comparison, quantity, tasks_of(comparison, workload))
        lines = _lines(rows, comparison.labels, lambda task: task.threads)
        if lines:
            names = comparison.labels
            panels.append(_panel(workload, lines, names, "threads", title, divisor=divisor))
    return panels


def _over_sizes(comparison: Comparison) -> list[Spec]:
    tasks = tasks_of(comparison, "sizes")
    panels = []
    for threads in sorted({task.threads for task in tasks}):
        rows = estimates(comparison, THROUGHPUT, [t for t in tasks if t.threads == threads])
        lines = _lines(rows, comparison.labels, lambda task: task.size or 0)
        if lines:
            title, names = _threads_text(threads), comparison.labels
            panels.append(_panel(title, lines, names, "block size", _RATE, divisor=_MEGA))
    return panels


def _percentiles(comparison: Comparison) -> list[Spec]:
    """One panel per threaded workload, at two threads or the fewest above."""
    panels = []
    for workload in THREADED:
        tasks = tasks_of(comparison, workload)
        task = min(tasks, key=lambda t: (t.threads < 2, t.threads), default=None)  # noqa: PLR2004
        lines = _percentile_lines(comparison, task) if task else {}
        if task and lines:
            title = f"{workload}, {_threads_text(task.threads)}"
            panels.append(
                _panel(title, lines, comparison.labels, "percentile", "malloc (ns)", floor=1.0)
            )
    return panels


def _percentile_lines(comparison: Comparison, task: Task) -> _Lines:
    rows = {name: estimates(comparison, CALLS["malloc", name], [task]) for name in PERCENTILES}
    found = {
        label: [
            (name, row[task][label]) for name, row in rows.items() if label in row.get(task, {})
        ]
        for label in comparison.labels
    }
    return {label: points for label, points in found.items() if len(points) == len(PERCENTILES)}


def _overhead(comparison: Comparison) -> list[Spec]:
    tasks = tasks_of(comparison, "overhead")
    panels = []
    for metric in (USABLE_RATIO, RESIDENT_RATIO):
        rows = estimates(comparison, metric, tasks)
        lines = _lines(rows, comparison.labels, lambda task: task.size or 0)
        if lines:
            name = metric.name
            panels.append(_panel(name, lines, comparison.labels, "block size", name, is_log=False))
    return panels


def _lines(rows: Estimates, labels: Sequence[str], x_of: Callable[[Task], int]) -> _Lines:
    """Return the points of every subject, by x."""
    found = {
        label: sorted(
            ((x_of(task), row[label]) for task, row in rows.items() if label in row),
            key=lambda point: point[0],
        )
        for label in labels
    }
    return {label: points for label, points in found.items() if points}


def _panel(
    title: str,
    lines: _Lines,
    names: Sequence[str],
    x_title: str,
    y_title: str,
    *,
    divisor: float = 1.0,
    floor: float = 0.0,
    is_log: bool = True,
) -> Spec:
    rows = [
        {
            "x": x,
            "order": order,
            **{name: max(value / divisor, floor) for name, value in _bar(estimate).items()},
            "subject": label,
        }
        for label, points in lines.items()
        for order, (x, estimate) in enumerate(points)
    ]
    drawn = [name for name in names if name in lines]
    legend = {"labelExpr": "split(datum.label, ' ')"}  # a line for each setting, as in tables
    colour = colours("subject", drawn, names, legend=legend)
    shape = shapes("subject", drawn, names, legend=legend)
    look = {"color": colour, "tooltip": {"field": "subject"}}
    y = quantity("y", y_title, **_y_axis([row["y"] for row in rows], is_log=is_log))
    position = {"x": _x_encoding(x_title, [row["x"] for row in rows]), "y": y}
    bars: Spec = {"x": position["x"], "y": {**y, "field": "low"}, "y2": {"field": "high"}}
    line = {"type": "line", "strokeWidth": 1.3}
    point = {"type": "point", "filled": True, "size": 28, "opacity": 1}
    return {
        "title": title,
        "layer": [
            layer(rows, line, **position, **look, order={"field": "order"}),
            layer(rows, {"type": "rule", "clip": True}, **bars, **look),
            layer(rows, point, **position, **look, shape=shape),
        ],
    }


def _bar(estimate: Estimate) -> dict[str, float]:
    interval = estimate.interval
    if interval is None:
        return {"y": estimate.median, "low": estimate.median, "high": estimate.median}
    return {"y": estimate.median, "low": interval.low, "high": interval.high}


def _y_axis(values: Sequence[float], *, is_log: bool) -> Spec:
    if is_log and min(values) > 0.0:
        return log_axis(min(values) / _MARGIN, max(values) * _MARGIN)
    return {"scale": {"zero": False}, "axis": {"tickCount": 5}}


_MARGIN: Final = 1.15
"""Factor of the view above and below the medians."""


def _x_encoding(title: str, xs: Sequence[Any]) -> Spec:
    if title == "percentile":
        return category("x", title=title, sort=None, axis={"labelAngle": 0})
    values = sorted(set(xs))
    axis: Spec = {"values": values, "format": "d"}
    if title == "block size":
        shown = [4**power for power in range(2, 16, 2) if values[0] <= 4**power <= values[-1]]
        texts = {str(size): _short_size(size) for size in shown}
        axis = {"values": shown, "labelExpr": f"({texts})[datum.value]"}
    return quantity("x", title, scale={"type": "log", "base": 2, "nice": False}, axis=axis)


def _short_size(n_bytes: int) -> str:
    """Write a size for an axis: ``32K``."""
    number, unit = show_size(n_bytes).split()
    return f"{float(number):.3g}{unit[0] if unit != 'B' else ''}"


def _threads_text(threads: int) -> str:
    return f"{threads} thread{'s' if threads > 1 else ''}"


# Curves


def _memory(comparison: Comparison) -> list[Spec]:
    curves = _curves(comparison, "memory")
    if not curves:
        return []
    longest = max((live for _, live, _ in curves.values()), key=len)
    live = [(float(index), n_bytes / _MIB) for index, n_bytes in enumerate(longest)]
    lines = {
        label: [(float(index), n_bytes / _MIB) for index, n_bytes in enumerate(rss)]
        for label, (_, _, rss) in curves.items()
    }
    x_title = "samples: one per MiB of change, one per 20 ms of rest"
    title = "grow, free half, grow, free most, rest, free all, rest; grey: live bytes"
    panel = _curve_panel(lines, comparison.labels, x_title, "resident memory (MiB)", live)
    return [{"title": title, **panel}]


def _churn(comparison: Comparison) -> list[Spec]:
    lines = {
        label: [(t / 1e9, r / n) for t, n, r in zip(times, live, rss, strict=True) if n]
        for label, (times, live, rss) in _curves(comparison, "churn").items()
    }
    known = {label: points for label, points in lines.items() if points}
    return [_curve_panel(known, comparison.labels, "time (s)", "RSS / live bytes")] if known else []


def _curve_panel(
    lines: Mapping[str, Sequence[tuple[float, float]]],
    names: Sequence[str],
    x_title: str,
    y_title: str,
    ground: Sequence[tuple[float, float]] = (),
) -> Spec:
    """Draw lines, each named at its right end, over an area."""
    rows = [
        {"x": x, "y": y, "subject": label} for label, points in lines.items() for x, y in points
    ]
    heights = [y for points in lines.values() for _, y in points]
    domain = (0.0 if ground else min(heights), max(heights))
    end_x = max(points[-1][0] for points in lines.values())
    position = {
        "x": quantity("x", x_title, scale={"domain": [0, end_x], "nice": False}),
        "y": quantity("y", y_title, stack=None, scale={"domain": list(domain), "nice": False}),
    }
    colour = colours("subject", list(lines), names, legend=None)
    line = {"type": "line", "strokeWidth": 1.3}
    ends = [
        {"x": end_x, "y": points[-1][1], "text": label, "colour": looks(names)[label].colour}
        for label, points in lines.items()
    ]
    below = [{"x": x, "y": y} for x, y in ground]
    return {
        "width": WIDTH - 60,
        "layer": [
            layer(below, {"type": "area", "color": LIVE}, **position),
            layer(rows, line, **position, color=colour, tooltip={"field": "subject"}),
            *end_names(ends, position, domain, 2 * _HEIGHT),
        ],
    }


def _curves(
    comparison: Comparison, workload: str
) -> dict[str, tuple[Sequence[int], Sequence[int], Sequence[int]]]:
    """Return times, live and resident bytes of every subject's first run."""
    found: dict[str, tuple[Sequence[int], Sequence[int], Sequence[int]]] = {}
    for label in comparison.labels:
        for (_, task, subject), sample in comparison.samples.items():
            is_mine = task.workload == workload and subject == label
            if is_mine and sample.values is not None and sample.values.curve is not None:
                curve = sample.values.curve
                found.setdefault(label, (curve.time_ns, curve.live_bytes, curve.rss_bytes))
    return found
