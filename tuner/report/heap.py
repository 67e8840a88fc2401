"""Heap over time: the defaults, the picks and the live bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tuner.drawing.figure import WIDTH, Figure, Spec, end_names, layer, quantity
from tuner.drawing.style import LIVE, MUTED, look
from tuner.front.bounds import default_trials
from tuner.front.picks import Pick
from tuner.metrics import Kind
from tuner.records import CurvePoint, Trial
from tuner.report.columns import Scale, scale_for
from tuner.runs import Run


@dataclass(frozen=True)
class Curve:
    """The heap of one configuration."""

    title: str
    """``jemalloc default``, or the names of the pick."""
    allocator: str
    is_default: bool
    xs: tuple[float, ...]
    """Trace time in nanoseconds, or events when the trace has no time; ascending."""
    heap_bytes: tuple[int, ...]


@dataclass(frozen=True)
class HeapPlot:
    """Heap curves over one common axis."""

    x_title: str
    """``trace time (s)`` or ``events (million)``."""
    x_scale: Scale
    y_scale: Scale
    greatest: int
    """Bytes: what is drawn at the top."""
    curves: tuple[Curve, ...]
    """Defaults first."""
    live_xs: tuple[float, ...]
    live_bytes: tuple[int, ...]
    """Bytes the program asked for and had not freed; a heap has fewer where some are untouched."""


def heap_plot(run: Run, picks: Sequence[Pick]) -> HeapPlot | None:
    """Compute the plot.

    Returns:
        None when no curve was recorded.
    """
    shown = _shown(run, picks)
    with_curve = [
        (trial, title) for trial, title in shown if trial.measurement and trial.measurement.curve
    ]
    if not with_curve:
        return None
    is_timed = all(_points(trial)[-1].time_ns > 0 for trial, _ in with_curve)
    curves = tuple(_curve(trial, title, is_timed) for trial, title in with_curve)
    live = _points(with_curve[0][0])
    live_bytes = tuple(point.live_bytes for point in live)
    greatest = max(*live_bytes, *(max(curve.heap_bytes) for curve in curves))
    kind = Kind.NANOSECONDS if is_timed else Kind.COUNT
    x_scale = scale_for(kind, [max(curve.xs[-1] for curve in curves)])
    name = "trace time" if is_timed else "events"
    return HeapPlot(
        f"{name} ({x_scale.unit})" if x_scale.unit else name,
        x_scale,
        scale_for(Kind.BYTES, [float(greatest)]),
        greatest,
        curves,
        tuple(_x(point, is_timed) for point in live),
        live_bytes,
    )


def _shown(run: Run, picks: Sequence[Pick]) -> list[tuple[Trial, str]]:
    """Return the defaults, then every picked trial once, each with its title."""
    titles: dict[int, list[str]] = {}
    for pick in picks:
        titles.setdefault(pick.trial.number, []).append(pick.name)
    defaults = default_trials(run.trials)
    found = []
    for allocator, trial in defaults.items():
        names = [f"{allocator} default", *titles.pop(trial.number, ())]
        found.append((trial, ", ".join(names)))
    found.extend((run.trial(number), ", ".join(names)) for number, names in titles.items())
    return found


def _points(trial: Trial) -> tuple[CurvePoint, ...]:
    return trial.measurement.curve if trial.measurement else ()


def _x(point: CurvePoint, is_timed: bool) -> float:  # noqa: FBT001 - chooses a field
    return float(point.time_ns if is_timed else point.event)


def _curve(trial: Trial, title: str, is_timed: bool) -> Curve:  # noqa: FBT001 - chooses a field
    points = _points(trial)
    return Curve(
        title,
        trial.configuration.allocator,
        trial.configuration.is_default,
        tuple(_x(point, is_timed) for point in points),
        tuple(point.heap_bytes for point in points),
    )


# Drawing

_HEIGHT: Final = 300
_DASHES: Final = ([1, 0], [7, 3], [7, 2, 2, 2], [12, 4])
"""Of the picks of one allocator, in turn."""
_DOTTED: Final = [2, 2]


def heap_figure(plot: HeapPlot) -> Figure:
    """Draw the curves, each named at its right end."""
    end_x = max(curve.xs[-1] for curve in plot.curves) / plot.x_scale.divisor
    top = plot.greatest / plot.y_scale.divisor * 1.03
    y_title = f"heap ({plot.y_scale.unit})"
    position = {
        "x": quantity("x", plot.x_title, scale={"domain": [0, end_x], "nice": False}),
        "y": quantity("y", y_title, stack=None, scale={"domain": [0, top], "nice": False}),
    }
    live = _rows(plot, plot.live_xs, plot.live_bytes)
    area = layer(live, {"type": "area", "color": LIVE}, **position)
    curves = [
        layer(
            _rows(plot, curve.xs, curve.heap_bytes),
            {"type": "line", "color": look(curve.allocator).colour, **_stroke(curve, index)},
            **position,
            tooltip={"value": curve.title},
        )
        for curve, index in _numbered(plot)
    ]
    spec: Spec = {
        "width": WIDTH - 80,
        "height": _HEIGHT,
        "layer": [area, *curves, *end_names(_ends(plot, end_x), position, (0.0, top), _HEIGHT)],
    }
    return Figure("heap", "Heap over time", spec)


def _rows(plot: HeapPlot, xs: Sequence[float], heights: Sequence[int]) -> list[dict[str, float]]:
    return [
        {"x": x / plot.x_scale.divisor, "y": height / plot.y_scale.divisor}
        for x, height in zip(xs, heights, strict=True)
    ]


def _numbered(plot: HeapPlot) -> list[tuple[Curve, int]]:
    """Count the picks of each allocator from 0 on, for their dashes; defaults have -1."""
    used: dict[str, int] = {}
    found = []
    for curve in plot.curves:
        if not curve.is_default:
            used[curve.allocator] = used.get(curve.allocator, -1) + 1
        found.append((curve, -1 if curve.is_default else used[curve.allocator]))
    return found


def _stroke(curve: Curve, index: int) -> Spec:
    if curve.is_default:
        return {"strokeWidth": 1.4, "strokeDash": _DOTTED}
    return {"strokeWidth": 2.0, "strokeDash": _DASHES[index % len(_DASHES)]}


def _ends(plot: HeapPlot, end_x: float) -> list[dict[str, Any]]:
    ends = [(c.title, c.heap_bytes[-1], look(c.allocator).colour) for c in plot.curves]
    ends.append(("live bytes", plot.live_bytes[-1], MUTED))
    return [
        {"x": end_x, "y": n_bytes / plot.y_scale.divisor, "text": text, "colour": colour}
        for text, n_bytes, colour in ends
    ]
