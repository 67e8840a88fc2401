"""The figure of the Pareto front.  Nothing is computed here but where labels go."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tuner.drawing.figure import (
    WIDTH,
    Figure,
    Spec,
    colours,
    label_layers,
    layer,
    log_axis,
    quantity,
    shapes,
)
from tuner.drawing.labels import place_labels
from tuner.drawing.style import CROSSED, GOOD, INK, MUTED, look
from tuner.report.columns import show_change
from tuner.report.parallel import show_value
from tuner.report.pareto import ParetoPlot, PlotAxis, Point, PointRole

_HEIGHT: Final = 400
_CHAR_PX: Final = 6.3
"""Width of a character of a label."""
_LINE_PX: Final = 14.0
_CHOSEN: Final = "trial === null || datum.trial === trial"
"""Holds where no trial is chosen on the page, or this one."""

_Row = dict[str, Any]


def pareto_figure(plot: ParetoPlot, name: str) -> Figure:
    """Draw trials, fronts, defaults and picks in the plane of two objectives."""
    names = list(dict.fromkeys(p.trial.configuration.allocator for p in plot.points))
    layers = [
        *_better_region(plot),
        _dots(plot, PointRole.INFEASIBLE, names, {"shape": CROSSED, "size": 30, "opacity": 0.5}),
        _dots(plot, PointRole.DOMINATED, names, {"size": 24, "opacity": 0.28}),
        _staircases(plot, names),
        _staircase_of_all(plot),
        *_spans(plot, names),
        _front(plot, names),
        _defaults(plot, names),
        *_labels(plot),
    ]
    spec: Spec = {
        "width": WIDTH,
        "height": _HEIGHT,
        "params": [{"name": "trial", "value": None}, *_view(plot)],
        "layer": layers,
    }
    return Figure(name, f"{plot.y.column.label} against {plot.x.column.label}", spec)


# Position


def _view(plot: ParetoPlot) -> list[Spec]:
    if not plot.n_outside:
        return []
    choice = {"input": "radio", "options": ["front", "all points"], "name": "show "}
    return [{"name": "view", "value": "front", "bind": choice}]


def _axis(plot: ParetoPlot, axis: PlotAxis, values: Sequence[float]) -> Spec:
    near = (axis.scaled(axis.low), axis.scaled(axis.high))
    far = (axis.scaled(min(axis.low, *values)), axis.scaled(max(axis.high, *values)))
    domain: list[Any] = [
        {"expr": f"view === 'front' ? {a!r} : {b!r}"} if plot.n_outside else a
        for a, b in zip(near, far, strict=True)
    ]
    shown: Spec = log_axis(*far) if axis.is_log else {"scale": {}, "axis": {"format": ",~r"}}
    shown["scale"].update(domain=domain, nice=False, zero=False)
    return quantity("x", axis.title, **shown)


def _xy(plot: ParetoPlot) -> Spec:
    return {
        "x": _axis(plot, plot.x, [p.x for p in plot.points]),
        "y": {**_axis(plot, plot.y, [p.y for p in plot.points]), "field": "y"},
    }


def _place(plot: ParetoPlot, x: float, y: float) -> _Row:
    return {"x": plot.x.scaled(x), "y": plot.y.scaled(y)}


# Layers


def _better_region(plot: ParetoPlot) -> list[Spec]:
    """Shade what is better than the baseline in both objectives."""
    if plot.baseline is None:
        return []
    row = _place(plot, plot.baseline.x, plot.baseline.y)
    mark = {"type": "rect", "color": GOOD, "clip": True}
    edge: Spec = {"x2": {"value": 0}, "y2": {"value": _HEIGHT}}
    return [layer([row], mark, **_xy(plot), **edge)]


def _rows(plot: ParetoPlot, points: Sequence[Point]) -> list[_Row]:
    return [
        {
            **_place(plot, point.x, point.y),
            "allocator": point.trial.configuration.allocator,
            "trial": point.trial.number,
            "tip": _tip(plot, point),
        }
        for point in points
    ]


def _dots(plot: ParetoPlot, role: PointRole, names: Sequence[str], mark: Spec) -> Spec:
    rows = _rows(plot, [p for p in plot.points if p.role is role and not p.is_default])
    looks: Spec = {"color": colours("allocator", names)}
    if "shape" not in mark:
        looks["shape"] = shapes("allocator", names)
    elif role is PointRole.INFEASIBLE:
        mark = {**mark, "filled": False}
    return layer(
        rows,
        {"type": "point", "filled": True, "clip": True, **mark},
        **_xy(plot),
        **looks,
        opacity=_when_chosen(mark["opacity"]),
        tooltip={"field": "tip"},
    )


def _when_chosen(opacity: float) -> Spec:
    chosen = {"test": "trial !== null && datum.trial === trial", "value": 1}
    other = {"test": "trial !== null", "value": opacity / 3}
    return {"condition": [chosen, other], "value": opacity}


def _staircases(plot: ParetoPlot, names: Sequence[str]) -> Spec:
    rows = [
        {**_place(plot, x, y), "allocator": allocator, "order": index}
        for allocator, line in plot.fronts
        for index, (x, y) in enumerate(line)
    ]
    mark = {
        "type": "line",
        "interpolate": "step-after",
        "strokeWidth": 1.1,
        "opacity": 0.5,
        "clip": True,
    }
    order = {"field": "order"}
    return layer(rows, mark, **_xy(plot), color=colours("allocator", names), order=order)


def _staircase_of_all(plot: ParetoPlot) -> Spec:
    rows = [{**_place(plot, x, y), "order": i} for i, (x, y) in enumerate(plot.overall)]
    mark = {
        "type": "line",
        "interpolate": "step-after",
        "color": INK,
        "strokeWidth": 1.8,
        "strokeDash": [2, 3],
        "clip": True,
    }
    return layer(rows, mark, **_xy(plot), order={"field": "order"})


def _spans(plot: ParetoPlot, names: Sequence[str]) -> Iterator[Spec]:
    """Draw what the re-measurements of the front span."""
    for channel, axis in (("x", plot.x), ("y", plot.y)):
        rows = [
            {**row, "low": axis.scaled(span[0]), "high": axis.scaled(span[1])}
            for point in plot.points
            if (span := point.x_span if channel == "x" else point.y_span)
            and point.role is PointRole.FRONT
            for row in _rows(plot, [point])
        ]
        position = _xy(plot)
        position[channel] = {**position[channel], "field": "low"}
        position[f"{channel}2"] = {"field": "high"}
        yield layer(
            rows,
            {"type": "rule", "strokeWidth": 1.2, "clip": True},
            **position,
            color=colours("allocator", names),
        )


def _front(plot: ParetoPlot, names: Sequence[str]) -> Spec:
    rows = _rows(plot, [p for p in plot.points if p.role is PointRole.FRONT])
    mark = {
        "type": "point",
        "filled": True,
        "stroke": "#ffffff",
        "strokeWidth": 0.8,
        "size": 90,
        "clip": True,
    }
    looks = {"color": colours("allocator", names), "shape": shapes("allocator", names)}
    opacity = {"condition": {"test": _CHOSEN, "value": 1}, "value": 0.15}
    return layer(
        rows,
        {**mark, "opacity": 1},
        **_xy(plot),
        **looks,
        opacity=opacity,
        tooltip={"field": "tip"},
    )


def _defaults(plot: ParetoPlot, names: Sequence[str]) -> Spec:
    rows = _rows(plot, [p for p in plot.points if p.is_default])
    mark = {"type": "point", "filled": False, "strokeWidth": 2.2, "size": 260, "clip": True}
    looks = {"color": colours("allocator", names), "shape": shapes("allocator", names)}
    opacity = {"condition": {"test": _CHOSEN, "value": 1}, "value": 0.15}
    return layer(rows, mark, **_xy(plot), **looks, opacity=opacity, tooltip={"field": "tip"})


def _tip(plot: ParetoPlot, point: Point) -> str:
    configuration = point.trial.configuration
    settings = [f"{name} = {show_value(value)}" for name, value in configuration.settings]
    base = plot.baseline
    values = [
        f"{axis.column.label}: {axis.scale.show_with_unit(value)}"
        + (f" ({show_change(value / reference)})" if reference else "")
        for axis, value, reference in (
            (plot.x, point.x, base.x if base else None),
            (plot.y, point.y, base.y if base else None),
        )
    ]
    state = "" if point.role is PointRole.FRONT else f", {point.role.value}"
    title = f"{configuration.allocator}, trial {point.trial.number}{state}"
    return "\n".join([title, *(settings or ["default"]), *values])


# Labels


def _labels(plot: ParetoPlot) -> list[Spec]:
    rows = list(_label_rows(plot))
    here = _xy(plot)
    leader = {
        "type": "rule",
        "color": MUTED,
        "strokeWidth": 0.8,
        "clip": True,
        "x2Offset": {"expr": "datum.dx"},
        "y2Offset": {"expr": "datum.dy"},
    }
    there: Spec = {"x2": {"field": "x"}, "y2": {"field": "y"}}
    mark = {
        "dx": {"expr": "datum.dx"},
        "dy": {"expr": "datum.dy - (isArray(datum.text) ? length(datum.text) - 1 : 0) * 7"},
        "baseline": "middle",
        "lineHeight": _LINE_PX,
        "clip": True,
    }
    return [layer(rows, leader, **here, **there), *label_layers(rows, here, mark)]


def _label_rows(plot: ParetoPlot) -> Iterator[Mapping[str, Any]]:
    def pixel(x: float, y: float) -> tuple[float, float]:
        return plot.x.share(x) * WIDTH, plot.y.share(y) * _HEIGHT

    texts = [label.text.split(", ") for label in plot.labels]
    sizes = [
        (_CHAR_PX * max(map(len, lines)) + 6.0, _LINE_PX * len(lines) + 2.0) for lines in texts
    ]
    anchors = [pixel(label.x, label.y) for label in plot.labels]
    obstacles = [pixel(p.x, p.y) for p in plot.points]
    places = place_labels(anchors, sizes, obstacles, (float(WIDTH), float(_HEIGHT)))
    for label, text, place in zip(plot.labels, texts, places, strict=True):
        yield {
            **_place(plot, label.x, label.y),
            "text": text,
            "colour": look(label.allocator).colour,
            "dx": place.dx,
            "dy": -place.dy,
        }
