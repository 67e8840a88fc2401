"""The Pareto chart of the page.  Nothing is computed here but where labels go."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

from tuner.report.chart_base import Chart, chart_layout
from tuner.report.columns import show_change
from tuner.report.labels import place_labels
from tuner.report.parallel import show_value
from tuner.report.pareto import ParetoPlot, PlotAxis, Point, Role
from tuner.report.style import GOOD, GRID, INK, look

_PLOT_PX = (900.0, 400.0)
_NARROW_PX = (270.0, 400.0)
"""Sizes of the plotting area that labels are placed for, on a desk and on a phone."""
_CHAR_PX = 6.6
"""Width of a character of a label."""


def pareto_chart(plot: ParetoPlot) -> Chart:
    """Draw trials in the plane of two objectives."""
    data: list[dict[str, Any]] = []
    allocators = list(dict.fromkeys(p.trial.configuration.allocator for p in plot.points))
    data.extend(_cloud(plot, Role.INFEASIBLE, allocators))
    data.extend(_cloud(plot, Role.DOMINATED, allocators))
    data.extend(_front_line(plot, allocator, line) for allocator, line in plot.fronts)
    if plot.overall:
        data.append(_overall_line(plot))
    data.extend(_front_points(plot, allocator) for allocator in allocators)
    data.extend(_default_points(plot))
    layout = chart_layout(
        560,
        xaxis=_axis(plot.x),
        yaxis=_axis(plot.y),
        shapes=_better_region(plot),
        annotations=_annotations(plot, _PLOT_PX),
    )
    chart = {"data": data, "layout": layout, "narrow": _annotations(plot, _NARROW_PX)}
    if plot.n_outside:
        layout["updatemenus"] = [_view_buttons(plot)]
        layout["margin"] = {**layout["margin"], "t": 44}
    return chart


def _axis(axis: PlotAxis) -> dict[str, Any]:
    low, high = axis.scaled(axis.low), axis.scaled(axis.high)
    layout: dict[str, Any] = {"title": {"text": axis.title, "standoff": 10}, "range": [low, high]}
    if axis.is_log:
        layout["type"] = "log"
        layout["range"] = [math.log10(low), math.log10(high)]
        layout["dtick"] = "D2" if high / low < _DECADES_ONLY else 1
        layout["tickformat"] = ",~r"
        layout["minor"] = {"dtick": "D1", "ticks": "outside", "ticklen": 3}
    return layout


_DECADES_ONLY = 3000.0
"""Greatest / least value from which a logarithmic axis names powers of ten only."""


def _cloud(plot: ParetoPlot, role: Role, allocators: Sequence[str]) -> list[dict[str, Any]]:
    is_faded = role is Role.DOMINATED
    traces = []
    for allocator in allocators:
        points = _of(plot, allocator, role)
        if points:
            marker = {
                "color": look(allocator).colour,
                "symbol": look(allocator).symbol if is_faded else "x-thin-open",
                "size": 6 if is_faded else 7,
                "opacity": 0.28 if is_faded else 0.6,
            }
            traces.append(
                {**_markers(plot, points, marker), "legendgroup": allocator, "showlegend": False}
            )
    return traces


def _front_points(plot: ParetoPlot, allocator: str) -> dict[str, Any]:
    points = _of(plot, allocator, Role.FRONT)
    marker = {
        "color": look(allocator).colour,
        "symbol": look(allocator).symbol,
        "size": 11,
        "line": {"color": "#ffffff", "width": 1},
    }
    # An allocator without a point on the front keeps its entry in the legend.
    trace = (
        _markers(plot, points, marker) if points else {"x": [None], "y": [None], "mode": "markers"}
    )
    return {
        **trace,
        "type": "scatter",
        "marker": marker,
        "name": allocator,
        "legendgroup": allocator,
        "error_x": _errors([(p.x, p.x_span) for p in points], plot.x, allocator),
        "error_y": _errors([(p.y, p.y_span) for p in points], plot.y, allocator),
    }


def _default_points(plot: ParetoPlot) -> list[dict[str, Any]]:
    traces = []
    for point in plot.points:
        if point.is_default:
            allocator = point.trial.configuration.allocator
            marker = {
                "color": look(allocator).colour,
                "symbol": f"{look(allocator).symbol}-open",
                "size": 17,
                "line": {"width": 2.5},
            }
            traces.append(
                {
                    **_markers(plot, [point], marker),
                    "legendgroup": allocator,
                    "showlegend": False,
                }
            )
    return traces


def _markers(plot: ParetoPlot, points: Sequence[Point], marker: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [plot.x.scaled(point.x) for point in points],
        "y": [plot.y.scaled(point.y) for point in points],
        "marker": marker,
        "text": [_hover(plot, point) for point in points],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _hover(plot: ParetoPlot, point: Point) -> str:
    configuration = point.trial.configuration
    settings = [
        html.escape(f"{name} = {show_value(value)}") for name, value in configuration.settings
    ]
    base = plot.baseline
    rows = [
        f"{axis.column.label}: {axis.scale.show_with_unit(value)}"
        + (f" ({show_change(value / reference)})" if reference else "")
        for axis, value, reference in (
            (plot.x, point.x, base.x if base else None),
            (plot.y, point.y, base.y if base else None),
        )
    ]
    state = "" if point.role is Role.FRONT else f", {point.role.value}"
    title = f"<b>{html.escape(configuration.allocator)}</b>, trial {point.trial.number}{state}"
    return "<br>".join([title, *(settings or ["default"]), *rows])


def _errors(
    values: Sequence[tuple[float, tuple[float, float] | None]], axis: PlotAxis, allocator: str
) -> dict[str, Any]:
    return {
        "type": "data",
        "symmetric": False,
        "array": [axis.scaled(span[1] - value) if span else 0.0 for value, span in values],
        "arrayminus": [axis.scaled(value - span[0]) if span else 0.0 for value, span in values],
        "thickness": 1.2,
        "width": 3,
        "color": look(allocator).colour,
    }


def _front_line(
    plot: ParetoPlot, allocator: str, line: Sequence[tuple[float, float]]
) -> dict[str, Any]:
    return {
        **_stairs(plot, line),
        "line": {"shape": "hv", "color": look(allocator).colour, "width": 1.2},
        "opacity": 0.55,
        "legendgroup": allocator,
        "showlegend": False,
    }


def _overall_line(plot: ParetoPlot) -> dict[str, Any]:
    return {
        **_stairs(plot, plot.overall),
        "line": {"shape": "hv", "color": INK, "width": 2, "dash": "dot"},
        "name": "front of all",
    }


def _stairs(plot: ParetoPlot, line: Sequence[tuple[float, float]]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [plot.x.scaled(x) for x, _ in line],
        "y": [plot.y.scaled(y) for _, y in line],
        "hoverinfo": "skip",
    }


def _better_region(plot: ParetoPlot) -> list[dict[str, Any]]:
    """Shade what is better than the baseline in both objectives."""
    if plot.baseline is None:
        return []
    return [
        {
            "type": "rect",
            "layer": "below",
            "x0": plot.x.scaled(plot.x.low),
            "x1": plot.x.scaled(plot.baseline.x),
            "y0": plot.y.scaled(plot.y.low),
            "y1": plot.y.scaled(plot.baseline.y),
            "fillcolor": GOOD,
            "line": {"width": 0},
        }
    ]


def _annotations(plot: ParetoPlot, size: tuple[float, float]) -> list[dict[str, Any]]:
    def pixel(x: float, y: float) -> tuple[float, float]:
        return (
            plot.x.share(x) * size[0],
            plot.y.share(y) * size[1],
        )

    anchors = [pixel(label.x, label.y) for label in plot.labels]
    texts = [_wrapped(label.text) for label in plot.labels]
    sizes = [(_CHAR_PX * max(map(len, lines)) + 6.0, 16.0 * len(lines) + 2.0) for lines in texts]
    obstacles = [pixel(p.x, p.y) for p in plot.points]
    places = place_labels(anchors, sizes, obstacles, size)
    return [
        {
            "x": _coordinate(plot.x, label.x),
            "y": _coordinate(plot.y, label.y),
            "ax": place.dx,
            "ay": -place.dy,
            "text": "<br>".join(html.escape(line) for line in lines),
            "font": {"size": 12, "color": look(label.allocator).colour},
            "bgcolor": "rgba(255,255,255,0.8)",
            "borderpad": 1,
            "arrowhead": 0,
            "arrowwidth": 1,
            "arrowcolor": look(label.allocator).colour,
            "standoff": 7,
        }
        for label, lines, place in zip(plot.labels, texts, places, strict=True)
    ]


def _wrapped(text: str) -> list[str]:
    """Put each name of a point on a line of its own."""
    return text.split(", ")


def _coordinate(axis: PlotAxis, value: float) -> float:
    """Annotations on a logarithmic axis are placed by exponent."""
    return math.log10(axis.scaled(value)) if axis.is_log else axis.scaled(value)


def _view_buttons(plot: ParetoPlot) -> dict[str, Any]:
    views = {
        "xaxis.range": _axis(plot.x)["range"],
        "yaxis.range": _axis(plot.y)["range"],
    }
    everything = {"xaxis.autorange": True, "yaxis.autorange": True}
    return {
        "type": "buttons",
        "direction": "right",
        "x": 0,
        "xanchor": "left",
        "y": 1.0,
        "yanchor": "bottom",
        "pad": {"b": 6},
        "font": {"size": 12},
        "bgcolor": "#ffffff",
        "bordercolor": GRID,
        "buttons": [
            {"label": "Front", "method": "relayout", "args": [views]},
            {"label": "All points", "method": "relayout", "args": [everything]},
        ],
    }


def _of(plot: ParetoPlot, allocator: str, role: Role) -> list[Point]:
    return [
        p for p in plot.points if p.role is role and p.trial.configuration.allocator == allocator
    ]
