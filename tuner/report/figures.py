"""Figures for papers: the report's plots drawn with matplotlib as PNG, SVG and PDF.

Text stays text in SVG and PDF, so that it can be searched and restyled.  The
same report gives the same bytes: no dates, no random identifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.report.figure_base import STYLE, WIDTH_IN, save_figure
from tuner.report.figure_pareto import draw_pareto
from tuner.report.gem5 import draw_gem5, gem5_plot
from tuner.report.heap import HeapPlot, pick_indices
from tuner.report.history import HypervolumeHistory
from tuner.report.parallel import ParallelPlot
from tuner.report.style import LIVE, MUTED, look, shade

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tuner.report.page import Report

_MPL_DASHES = ("-", (0, (5, 2)), (0, (5, 2, 1, 2)), (0, (9, 3)))
"""Dashes of the picks of one allocator."""

_AXIS_IN = 0.7
"""Width that a setting's name and values need beside each other."""


def write_figures(report: Report, folder: Path) -> Iterator[Path]:
    """Draw every figure of a report and yield each file when it is written.

    Raises:
        OutputError: the folder cannot be written.
    """
    import matplotlib as mpl  # noqa: PLC0415 - half a second that other commands need not wait for

    with mpl.rc_context(STYLE):
        for name, draw in _drawings(report):
            yield from save_figure(draw(), folder, name)


def _drawings(report: Report) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """Yield name and drawing function of every figure that has something to show."""
    for plot in report.pareto:
        name = "front"
        if len(report.pareto) > 1:
            name += f"-{plot.x.column.name}-{plot.y.column.name}"
        yield name, partial(_drawn, partial(draw_pareto, plot), 4.2)
    if report.history:
        yield "hypervolume", partial(_drawn, partial(_draw_history, report.history), 2.8)
    if report.heap:
        yield "heap", partial(_drawn, partial(_draw_heap, report.heap), 3.8)
    for index, gem5 in enumerate(plot_ for plot_ in map(gem5_plot, report.gem5) if plot_):
        name = "gem5" if index == 0 else f"gem5-{index + 1}"
        yield name, partial(draw_gem5, gem5, WIDTH_IN)
    for lines in report.parallel:
        width_in = max(WIDTH_IN, _AXIS_IN * len(lines.axes))
        draw = partial(_draw_parallel, lines)
        yield f"settings-{lines.allocator}", partial(_drawn, draw, 3.4, width_in)


def _drawn(draw: Callable[[Axes], None], height_in: float, width_in: float = WIDTH_IN) -> Figure:
    from matplotlib.figure import Figure as Canvas  # noqa: PLC0415 - see write_figures

    figure = Canvas(figsize=(width_in, height_in), layout="constrained")
    draw(figure.subplots())
    return figure


def _draw_history(history: HypervolumeHistory, axes: Axes) -> None:
    axes.step(
        history.evaluations,
        history.values,
        where="post",
        color="#0072b2",
        linewidth=1.6,
        label="campaign",
    )
    if history.defaults is not None:
        axes.axhline(
            history.defaults, color=MUTED, linewidth=1.1, linestyle="--", label="defaults alone"
        )
    axes.set_xlabel("evaluated configurations")
    axes.set_ylabel("hypervolume (defaults = 1)" if history.is_relative else "hypervolume")
    axes.set_xlim(history.evaluations[0], max(history.evaluations[-1], history.evaluations[0] + 1))
    axes.legend(loc="lower right")


def _draw_heap(plot: HeapPlot, axes: Axes) -> None:
    xs = [x / plot.x_scale.divisor for x in plot.live_xs]
    live = [value / plot.y_scale.divisor for value in plot.live_bytes]
    axes.fill_between(xs, live, color=LIVE, linewidth=0.0, label="live bytes")
    for curve, index in zip(plot.curves, pick_indices(plot), strict=True):
        axes.plot(
            [x / plot.x_scale.divisor for x in curve.xs],
            [value / plot.y_scale.divisor for value in curve.heap_bytes],
            color=look(curve.allocator).colour,
            linewidth=1.1 if index is None else 1.7,
            linestyle=":" if index is None else _MPL_DASHES[index % len(_MPL_DASHES)],
            label=curve.title,
        )
    axes.set_xlabel(plot.x_title)
    axes.set_ylabel(f"heap ({plot.y_scale.unit})")
    axes.set_xlim(min(xs), max(xs))
    axes.set_ylim(bottom=0.0)
    # Below the plot: curves may be anywhere inside it.
    figure = axes.figure
    figure.legend(loc="outside lower center", ncols=3, fontsize=8, handlelength=2.6)


def _draw_parallel(plot: ParallelPlot, axes: Axes) -> None:
    for index, axis in enumerate(plot.axes):
        axes.plot([index, index], [0.0, 1.0], color=MUTED, linewidth=0.8, zorder=1)
        for low, high in axis.bands:
            axes.fill_between([index - 0.04, index + 0.04], low, high, color=LIVE, linewidth=0.0)
        for position, text in axis.ticks:
            axes.annotate(
                text,
                (index, position),
                xytext=(5.0, 0.0),
                textcoords="offset points",
                fontsize=6.5,
                va="center",
                zorder=4,
                bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0.0, "pad": 0.6},
            )
    for line in plot.lines:
        axes.plot(
            range(len(plot.axes)),
            line.positions,
            color=shade(line.rank),
            linewidth=1.2,
            marker="o",
            markersize=2.2,
            zorder=3,
        )
    axes.set_xticks(range(len(plot.axes)), [_stacked(axis.title) for axis in plot.axes], fontsize=7)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_yticks([])
    axes.grid(visible=False)
    axes.set_xlim(-0.25, len(plot.axes) - 0.4)
    axes.set_ylim(-0.02, 1.02)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _stacked(title: str) -> str:
    """Break a name at its underscores and blanks, one word a line."""
    return title.replace("_", "_\n").replace(" ", "\n")
