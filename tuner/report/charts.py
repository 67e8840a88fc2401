"""The charts of the page beside the Pareto chart.  Nothing is computed here."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from tuner.metrics import REAL, find_metric
from tuner.report.chart_base import Chart, chart_layout
from tuner.report.heap import HeapPlot, pick_indices
from tuner.report.history import HypervolumeHistory
from tuner.report.parallel import ParallelPlot
from tuner.report.style import FAINT, INK, LIVE, MUTED, look, shade
from tuner.validate.summary import ValidationSummary
from tuner.validate.verdicts import Claim

# Hypervolume


def history_chart(history: HypervolumeHistory) -> Chart:
    """Draw the hypervolume over the evaluations as a staircase."""
    what = "hypervolume (defaults = 1)" if history.is_relative else "hypervolume"
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": list(history.evaluations),
            "y": list(history.values),
            "line": {"shape": "hv", "color": "#0072b2", "width": 2.2},
            "name": "campaign",
            "hovertemplate": "after %{x} evaluations: %{y:.4f}<extra></extra>",
        }
    ]
    if history.defaults is not None:
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": [1, history.evaluations[-1]],
                "y": [history.defaults, history.defaults],
                "line": {"color": MUTED, "width": 1.5, "dash": "dash"},
                "name": "defaults alone",
                "hoverinfo": "skip",
            }
        )
    layout = chart_layout(
        320,
        xaxis={"title": {"text": "evaluated configurations", "standoff": 10}},
        yaxis={"title": {"text": what, "standoff": 10}, "rangemode": "normal"},
    )
    return {"data": data, "layout": layout}


# Heap over time


def heap_chart(plot: HeapPlot) -> Chart:
    """Draw heap curves over the live bytes."""
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [x / plot.x_scale.divisor for x in plot.live_xs],
            "y": [value / plot.y_scale.divisor for value in plot.live_bytes],
            "line": {"color": LIVE, "width": 1},
            "fill": "tozeroy",
            "fillcolor": LIVE,
            "name": "live bytes",
            "hoverinfo": "skip",
        }
    ]
    for curve, index in zip(plot.curves, pick_indices(plot), strict=True):
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": [x / plot.x_scale.divisor for x in curve.xs],
                "y": [value / plot.y_scale.divisor for value in curve.heap_bytes],
                "line": {
                    "color": look(curve.allocator).colour,
                    "width": 1.6 if curve.is_default else 2.4,
                    "dash": "dot" if index is None else PICK_DASHES[index % len(PICK_DASHES)],
                },
                "name": html.escape(curve.title),
                "hovertemplate": f"{html.escape(curve.title)}: %{{y:.1f}} {plot.y_scale.unit}"
                "<extra></extra>",
            }
        )
    layout = chart_layout(
        420,
        xaxis={"title": {"text": plot.x_title, "standoff": 10}},
        yaxis={"title": {"text": f"heap ({plot.y_scale.unit})"}, "rangemode": "tozero"},
    )
    return {"data": data, "layout": layout}


PICK_DASHES = ("solid", "dash", "dashdot", "longdash")
"""Dashes of the picks of one allocator, in plotly's words."""


# Parallel coordinates


def parallel_chart(plot: ParallelPlot) -> Chart:
    """Draw one line per configuration of an allocator's front, shaded by its rank."""
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "x": list(range(len(plot.axes))),
            "y": list(line.positions),
            "line": {
                "color": shade(line.rank),
                "width": 2,
                "shape": "spline",
                "smoothing": 0.5,
            },
            "marker": {"size": 5, "color": shade(line.rank)},
            "opacity": 0.9,
            "showlegend": False,
            "hovertemplate": html.escape(f"trial {line.trial.number}: {line.trial.configuration}")
            + "<extra></extra>",
        }
        for line in plot.lines
    ]
    layout = chart_layout(
        360,
        xaxis={
            "tickvals": list(range(len(plot.axes))),
            "ticktext": [_broken(axis.title) for axis in plot.axes],
            "showgrid": False,
            "range": [-0.35, len(plot.axes) - 0.35],
            "side": "top",
            "fixedrange": True,
            "tickangle": 0,
            "ticks": "",
            "linecolor": "#ffffff",
        },
        yaxis={"visible": False, "range": [-0.03, 1.03], "fixedrange": True},
        margin={"l": 12, "r": 12, "t": 60, "b": 8},
        annotations=_parallel_ticks(plot),
        shapes=[
            *_level_bands(plot),
            *(
                {
                    "type": "line",
                    "x0": index,
                    "x1": index,
                    "y0": 0,
                    "y1": 1,
                    "layer": "below",
                    "line": {"color": MUTED, "width": 1.2 if axis.is_objective else 0.8},
                }
                for index, axis in enumerate(plot.axes)
            ),
        ],
    )
    return {"data": data, "layout": layout, "columns": len(plot.axes)}


def _level_bands(plot: ParallelPlot) -> list[dict[str, Any]]:
    """Show which places of an axis belong to the same value."""
    return [
        {
            "type": "rect",
            "x0": index - 0.035,
            "x1": index + 0.035,
            "y0": low,
            "y1": high,
            "layer": "below",
            "fillcolor": LIVE,
            "line": {"width": 0},
        }
        for index, axis in enumerate(plot.axes)
        for low, high in axis.bands
    ]


def _parallel_ticks(plot: ParallelPlot) -> list[dict[str, Any]]:
    return [
        {
            "x": index,
            "y": position,
            "text": html.escape(text),
            "showarrow": False,
            "xanchor": "left",
            "xshift": 7,
            "font": {"size": 11, "color": INK},
            "bgcolor": "rgba(255,255,255,0.75)",
            "borderpad": 1,
        }
        for index, axis in enumerate(plot.axes)
        for position, text in axis.ticks
    ]


def _broken(title: str) -> str:
    """Break a long name at underscores and blanks, so that titles stand side by side."""
    lines = [""]
    for word in title.replace("_", "_\0").replace(" ", " \0").split("\0"):
        if len(lines[-1]) + len(word) > _TITLE_CHARS and lines[-1]:
            lines.append("")
        lines[-1] += word
    return "<br>".join(html.escape(line.strip()) for line in lines)


_TITLE_CHARS = 13


# Claimed and validated


def claims_charts(summary: ValidationSummary) -> list[tuple[str, Chart]]:
    """Draw, for each objective that was checked, the claimed and the real change.

    Returns:
        Title and chart, in the order of the objectives.
    """
    rows: dict[str, list[_ClaimRow]] = {}
    titles: dict[str, str] = {}
    for subject in reversed(summary.subjects):
        for claim in subject.claims:
            if claim.real_ratio is not None:
                entry = subject.subject
                found = (entry.label, entry.configuration.allocator, claim)
                rows.setdefault(claim.objective, []).append(found)
                titles[claim.objective] = claim_title(claim)
    return [(titles[name], _claims_chart(found)) for name, found in rows.items()]


def claim_title(claim: Claim) -> str:
    """Name an objective and the metric it was checked with."""
    emulated, real = find_metric(claim.objective).label, REAL[claim.metric].label
    return emulated if emulated == real else f"{real}, claimed as {emulated}"


_ClaimRow = tuple[str, str, Claim]
"""Label of the subject, its allocator, and the claim."""


def _claims_chart(rows: Sequence[_ClaimRow]) -> Chart:
    layout = chart_layout(
        150 + 34 * len(rows),
        xaxis={"title": {"text": "change against the baseline (%)"}, "zeroline": True,
               "zerolinecolor": INK, "zerolinewidth": 1.2},
        yaxis={"type": "category", "ticks": "", "range": [-0.7, len(rows) - 0.3]},
        margin={"t": 8, "b": 100},
    )  # fmt: skip
    claimed = [(label, claim.claimed_ratio) for label, _, claim in rows]
    expected = [(label, claim.expected_ratio) for label, _, claim in rows]
    data = [
        _mark_trace("claimed, of the heap or cost alone", claimed, FAINT),
        _mark_trace("expected of the program", expected, INK),
        _validated_trace(rows),
    ]
    return {"data": data, "layout": layout}


def _mark_trace(
    name: str, values: Sequence[tuple[str, float | None]], colour: str
) -> dict[str, Any]:
    """Draw one upright mark per row that has a ratio."""
    known = [(label, ratio) for label, ratio in values if ratio is not None]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [percent(ratio) for _, ratio in known],
        "y": [html.escape(label) for label, _ in known],
        "marker": {
            "symbol": "line-ns-open",
            "size": 18,
            "color": colour,
            "line": {"width": 2.5, "color": colour},
        },
        "hovertemplate": f"{name} %{{x:.2f}} %<extra></extra>",
    }


def _validated_trace(rows: Sequence[_ClaimRow]) -> dict[str, Any]:
    estimates = [claim.real_ratio for _, _, claim in rows if claim.real_ratio]
    middles = [percent(estimate.median) for estimate in estimates]
    spans = [
        (percent(estimate.interval.low), percent(estimate.interval.high))
        if estimate.interval
        else (middle, middle)
        for estimate, middle in zip(estimates, middles, strict=True)
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "real program, with interval",
        "x": middles,
        "y": [html.escape(label) for label, _, _ in rows],
        "marker": {
            "size": 11,
            "color": [look(allocator).colour for _, allocator, _ in rows],
            "symbol": [look(allocator).symbol for _, allocator, _ in rows],
        },
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [span[1] - x for span, x in zip(spans, middles, strict=True)],
            "arrayminus": [x - span[0] for span, x in zip(spans, middles, strict=True)],
            "color": MUTED,
            "thickness": 1.6,
            "width": 5,
        },
        "hovertemplate": "real %{x:.2f} %<extra></extra>",
    }


def percent(ratio: float) -> float:
    """Return the change in percent that a ratio stands for."""
    return (ratio - 1.0) * 100.0
