"""Parallel coordinates of the front: one plot per allocator.

Axes are the settings that most of the allocator's front sets, then the objectives.  A
setting's axis has one tick per value that occurs, unset lowest, numbers in
order, then names.  Lines that would coincide on a tick are fanned out around it,
in the order of the first objective, so that each can be followed.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tuner.drawing.figure import WIDTH, Figure, Spec, label_layers, layer, quantity
from tuner.drawing.style import INK, LIVE, MUTED
from tuner.front.dominance import front_points
from tuner.metrics import find_metric
from tuner.records import Trial, Value, value_text
from tuner.report.columns import Scale, axis_title, scale_of
from tuner.runs import Run

UNSET = "unset"
"""Tick of a setting that is left alone."""

_MOST_SETTINGS = 10
"""Axes of settings in a plot, so that it is no wider than a page."""
_FAN = 0.32
"""Half height of the fan around a tick, in ticks."""
_BAND_MARGIN = 0.06
"""What a tick's band adds to its fan, in ticks."""

_MORE_DECIMALS = 5
"""That an axis may take, one less, to tell its ticks apart."""


@dataclass(frozen=True)
class Axis:
    """One vertical axis; positions are 0.0 (bottom) .. 1.0 (top)."""

    title: str
    """Name of the setting, or of the objective with its unit."""
    ticks: tuple[tuple[float, str], ...]
    """Position and text of every tick, ascending."""
    is_objective: bool
    bands: tuple[tuple[float, float], ...] = ()
    """Least and greatest position of the lines on each tick of a setting."""


@dataclass(frozen=True)
class Line:
    """One configuration of the front."""

    trial: Trial
    positions: tuple[float, ...]
    """Position on every axis."""
    rank: float
    """Place by the first objective: 0.0 the least, 1.0 the greatest."""


@dataclass(frozen=True)
class ParallelPlot:
    """The front of one allocator."""

    allocator: str
    axes: tuple[Axis, ...]
    lines: tuple[Line, ...]
    """Ordered by the first objective."""


def parallel_plots(run: Run) -> list[ParallelPlot]:
    """Compute one plot per allocator whose own front has two or more points."""
    plots = []
    for allocator in run.campaign.allocators:
        own = [trial for trial in run.trials if trial.configuration.allocator == allocator]
        front = [point.trial for point in front_points(own, run.campaign.objectives)]
        names = _most_set(front)
        if len(front) > 1 and names:
            plots.append(_plot(allocator, front, names, run.campaign.objectives))
    return plots


def _most_set(front: Sequence[Trial]) -> list[str]:
    """Return the settings that most trials set, by name."""
    counts = Counter(name for trial in front for name, _ in trial.configuration.settings)
    return sorted(sorted(counts, key=lambda name: (-counts[name], name))[:_MOST_SETTINGS])


def _plot(
    allocator: str, front: Sequence[Trial], names: Sequence[str], objectives: Sequence[str]
) -> ParallelPlot:
    axes: list[Axis] = []
    positions: list[list[float]] = []
    for name in names:
        axis, places = _setting_axis(
            name, [trial.configuration.as_dict.get(name) for trial in front]
        )
        axes.append(axis)
        positions.append(places)
    for name in objectives:
        axis, places = _objective_axis(name, front)
        axes.append(axis)
        positions.append(places)
    last = len(front) - 1
    lines = tuple(
        Line(trial, tuple(places[index] for places in positions), index / last)
        for index, trial in enumerate(front)
    )
    return ParallelPlot(allocator, tuple(axes), lines)


def _setting_axis(name: str, values: Sequence[Value | None]) -> tuple[Axis, list[float]]:
    levels = sorted(set(values), key=_order)
    step = 1.0 / len(levels)
    ticks = tuple((step * (i + 0.5), show_value(level)) for i, level in enumerate(levels))
    places = [0.0] * len(values)
    for (centre, _), level in zip(ticks, levels, strict=True):
        members = [index for index, value in enumerate(values) if _order(value) == _order(level)]
        for place, index in enumerate(members):
            share = place / (len(members) - 1) - 0.5 if len(members) > 1 else 0.0
            places[index] = centre + 2.0 * share * _FAN * step
    half = _FAN * step + _BAND_MARGIN * step
    bands = tuple((centre - half, centre + half) for centre, _ in ticks)
    return Axis(name, ticks, is_objective=False, bands=bands), places


def _objective_axis(name: str, front: Sequence[Trial]) -> tuple[Axis, list[float]]:
    what = find_metric(name)
    scale = scale_of(what, [trial.measurement for trial in front])
    values = [what.value(trial.measurement) or 0.0 for trial in front]
    low, high = min(values), max(values)
    span = high - low or 1.0
    ticks = _objective_ticks(low, high, scale)
    return (
        Axis(axis_title(what, scale), ticks, is_objective=True),
        [0.04 + 0.92 * (value - low) / span for value in values],
    )


def _objective_ticks(low: float, high: float, scale: Scale) -> tuple[tuple[float, str], ...]:
    if low == high:
        return ((0.04, scale.show(low)),)
    shares = (0.0, 0.5, 1.0)
    values = [low + share * (high - low) for share in shares]
    for decimals in range(scale.decimals, scale.decimals + _MORE_DECIMALS):
        texts = [replace(scale, decimals=decimals).show(value) for value in values]
        if len(set(texts)) == len(texts):
            break
    return tuple((0.04 + 0.92 * share, text) for share, text in zip(shares, texts, strict=True))


def _order(value: Value | None) -> tuple[int, float, str]:
    """Sort unset first, then booleans and numbers by size, then names."""
    if value is None:
        return 0, 0.0, ""
    if isinstance(value, str):
        return 2, 0.0, value
    return 1, float(value), type(value).__name__


def show_value(value: Value | None) -> str:
    """Write a setting's value: ``unset``, ``true``, ``1048576``."""
    return UNSET if value is None else value_text(value)


# Drawing

_AXIS_PX: Final = 96
"""Least width that a setting's name and values need beside each other."""
_HEIGHT: Final = 270
_NAME_CHARS: Final = 13
_SHADES: Final = {"name": "viridis", "extent": [0, 0.75]}
"""Without the light end, which vanishes on white."""
_BAND: Final = 0.04
"""Half width of a band, in axes."""


def parallel_figure(plot: ParallelPlot) -> Figure:
    """Draw one line per configuration, shaded by its rank; each answers for its trial."""
    n = len(plot.axes)
    position = {
        "x": quantity("x", None, axis=None, scale={"domain": [-0.2, n - 0.45], "nice": False}),
        "y": quantity("y", None, axis=None, scale={"domain": [0, 1], "nice": False}),
    }
    bands = [
        {"x": x - _BAND, "right": x + _BAND, "y": low, "top": high}
        for x, axis in enumerate(plot.axes)
        for low, high in axis.bands
    ]
    rules = [
        {"x": x, "y": 0, "top": 1, "width": 1 + axis.is_objective}
        for x, axis in enumerate(plot.axes)
    ]
    top = {"y2": {"field": "top"}}
    rule = {"type": "rule", "color": MUTED, "strokeWidth": {"expr": "datum.width"}}
    layers = [
        layer(bands, {"type": "rect", "color": LIVE}, **position, x2={"field": "right"}, **top),
        layer(rules, rule, **position, **top),
        *_lines(plot, position),
        *_texts(plot, position),
    ]
    spec: Spec = {
        "width": max(WIDTH, _AXIS_PX * n),
        "height": _HEIGHT,
        "params": [{"name": "trial", "value": None}],
        "layer": layers,
    }
    return Figure(f"settings-{plot.allocator}", f"Settings along {plot.allocator}'s front", spec)


def _lines(plot: ParallelPlot, position: Spec) -> list[Spec]:
    rows = [
        {"x": x, "y": place, "trial": line.trial.number, "rank": line.rank, "tip": _tip(line)}
        for line in plot.lines
        for x, place in enumerate(line.positions)
    ]
    chosen = {"test": "trial !== null && datum.trial !== trial", "value": 0.1}
    shared: Spec = {
        "color": quantity("rank", legend=None, scale={"scheme": _SHADES}),
        "opacity": {"condition": chosen, "value": 0.9},
        "tooltip": {"field": "tip"},
        "detail": {"field": "trial"},
    }
    line = {"type": "line", "interpolate": "monotone", "strokeWidth": 1.8}
    point = {"type": "point", "filled": True, "size": 22}
    return [layer(rows, mark, **position, **shared) for mark in (line, point)]


def _tip(line: Line) -> str:
    settings = [f"{n} = {show_value(value)}" for n, value in line.trial.configuration.settings]
    title = f"{line.trial.configuration.allocator}, trial {line.trial.number}"
    return "\n".join([title, *(settings or ["default"])])


def _texts(plot: ParallelPlot, position: Spec) -> list[Spec]:
    """Write the name of every axis above it, and its values beside it."""
    ticks = [
        {"x": x, "y": place, "text": text, "colour": INK}
        for x, axis in enumerate(plot.axes)
        for place, text in axis.ticks
    ]
    names = [
        {"x": x, "y": 1, "text": _broken(axis.title), "colour": INK}
        for x, axis in enumerate(plot.axes)
    ]
    beside = {"align": "left", "baseline": "middle", "dx": 7}
    above = {"baseline": "line-bottom", "dy": {"expr": "-8 - 14 * (length(datum.text) - 1)"}}
    return [*label_layers(ticks, position, beside), *label_layers(names, position, above)]


def _broken(title: str) -> list[str]:
    """Break a long name at underscores and blanks, so that names stand side by side."""
    lines = [""]
    for word in title.replace("_", "_\0").replace(" ", " \0").split("\0"):
        if lines[-1] and len(lines[-1]) + len(word) > _NAME_CHARS:
            lines.append("")
        lines[-1] += word
    return [line.strip() for line in lines]
