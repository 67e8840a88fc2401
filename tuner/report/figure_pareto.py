"""The Pareto figure for papers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuner.report.labels import place_labels
from tuner.report.pareto import ParetoPlot, PlotAxis, Point, Role
from tuner.report.style import GOOD, INK, MUTED, look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

_PLOT_PT = (390.0, 245.0)
"""Size of the plotting area in points that labels are placed for."""
_CHAR_PT = 4.6
"""Width of a character of a label of 7.5 points."""
_LINE_PT = 10.0


def draw_pareto(plot: ParetoPlot, axes: Axes) -> None:
    """Draw trials, fronts, defaults and picks."""
    _set_up(axes, plot)
    allocators = list(dict.fromkeys(p.trial.configuration.allocator for p in plot.points))
    for allocator in allocators:
        _cloud(axes, plot, allocator)
    for allocator, points in plot.fronts:
        colour = look(allocator).colour
        axes.step(*_line(plot, points), where="post", color=colour, lw=0.8, alpha=0.5, zorder=2)
    if plot.overall:
        line = _line(plot, plot.overall)
        axes.step(*line, where="post", color=INK, lw=1.3, ls=":", zorder=2, label="front of all")
    for allocator in allocators:
        _front_points(axes, plot, allocator)
    for point in plot.points:
        if point.is_default:
            _default_point(axes, plot, point)
    _labels(axes, plot)
    axes.figure.legend(loc="outside lower center", ncols=len(allocators) + 1, fontsize=8)


def _set_up(axes: Axes, plot: ParetoPlot) -> None:
    if plot.x.is_log:
        axes.set_xscale("log")
        _plain_numbers(axes.xaxis)
    if plot.y.is_log:
        axes.set_yscale("log")
        _plain_numbers(axes.yaxis)
    axes.set_xlim(plot.x.scaled(plot.x.low), plot.x.scaled(plot.x.high))
    axes.set_ylim(plot.y.scaled(plot.y.low), plot.y.scaled(plot.y.high))
    axes.set_xlabel(plot.x.title)
    axes.set_ylabel(plot.y.title)
    if plot.baseline is not None:
        axes.fill_between(
            [plot.x.scaled(plot.x.low), plot.x.scaled(plot.baseline.x)],
            plot.y.scaled(plot.y.low),
            plot.y.scaled(plot.baseline.y),
            color=GOOD,
            linewidth=0.0,
            zorder=0.5,
        )


def _plain_numbers(axis: Axis) -> None:
    """Name 1, 2 and 5 of every decade of a logarithmic axis, not powers of ten."""
    from matplotlib.ticker import (  # noqa: PLC0415 - loaded with the figures only
        FuncFormatter,
        LogLocator,
        NullFormatter,
    )

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axis.set_minor_formatter(NullFormatter())


def _cloud(axes: Axes, plot: ParetoPlot, allocator: str) -> None:
    style = look(allocator)
    for role, marker, alpha in ((Role.INFEASIBLE, "x", 0.5), (Role.DOMINATED, style.marker, 0.22)):
        xs, ys = _coordinates(plot, _of(plot, allocator, role))
        if xs:
            width = 0.8 if role is Role.INFEASIBLE else 0.0
            axes.scatter(xs, ys, s=9, marker=marker, color=style.colour, alpha=alpha, lw=width)


def _front_points(axes: Axes, plot: ParetoPlot, allocator: str) -> None:
    points = _of(plot, allocator, Role.FRONT)
    style = look(allocator)
    axes.errorbar(
        *_coordinates(plot, points),
        xerr=_errors([(p.x, p.x_span) for p in points], plot.x),
        yerr=_errors([(p.y, p.y_span) for p in points], plot.y),
        linestyle="none",
        marker=style.marker,
        markersize=5.2,
        markeredgecolor="white",
        markeredgewidth=0.6,
        color=style.colour,
        elinewidth=0.8,
        label=allocator,
        zorder=3,
    )


def _errors(
    values: Sequence[tuple[float, tuple[float, float] | None]], axis: PlotAxis
) -> list[list[float]]:
    """Return the distances to the ends of each span: below, above."""
    spans = [(value, span or (value, value)) for value, span in values]
    return [
        [axis.scaled(value - span[0]) for value, span in spans],
        [axis.scaled(span[1] - value) for value, span in spans],
    ]


def _default_point(axes: Axes, plot: ParetoPlot, point: Point) -> None:
    style = look(point.trial.configuration.allocator)
    axes.plot(
        plot.x.scaled(point.x),
        plot.y.scaled(point.y),
        linestyle="none",
        marker=style.marker,
        markersize=9.0,
        markerfacecolor="none",
        markeredgecolor=style.colour,
        markeredgewidth=1.5,
        zorder=4,
    )


def _line(plot: ParetoPlot, line: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [plot.x.scaled(x) for x, _ in line], [plot.y.scaled(y) for _, y in line]


def _labels(axes: Axes, plot: ParetoPlot) -> None:
    def point_of(x: float, y: float) -> tuple[float, float]:
        return plot.x.share(x) * _PLOT_PT[0], plot.y.share(y) * _PLOT_PT[1]

    texts = [label.text.replace(", ", "\n") for label in plot.labels]
    sizes = [
        (_CHAR_PT * max(map(len, text.split("\n"))) + 3.0, _LINE_PT * (text.count("\n") + 1) + 2.0)
        for text in texts
    ]
    anchors = [point_of(label.x, label.y) for label in plot.labels]
    obstacles = [point_of(p.x, p.y) for p in plot.points]
    places = place_labels(anchors, sizes, obstacles, _PLOT_PT)
    for label, text, place in zip(plot.labels, texts, places, strict=True):
        axes.annotate(
            text,
            (plot.x.scaled(label.x), plot.y.scaled(label.y)),
            xytext=(place.dx, place.dy),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=7.5,
            color=look(label.allocator).colour,
            arrowprops={"arrowstyle": "-", "color": MUTED, "linewidth": 0.6, "shrinkB": 4.0},
            bbox={"facecolor": "white", "alpha": 0.8, "linewidth": 0.0, "pad": 0.8},
            zorder=5,
        )


def _coordinates(plot: ParetoPlot, points: Sequence[Point]) -> tuple[list[float], list[float]]:
    return [plot.x.scaled(p.x) for p in points], [plot.y.scaled(p.y) for p in points]


def _of(plot: ParetoPlot, allocator: str, role: Role) -> list[Point]:
    return [
        p for p in plot.points if p.role is role and p.trial.configuration.allocator == allocator
    ]
