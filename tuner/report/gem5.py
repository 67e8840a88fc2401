"""A validation on gem5 in a report: the table, and the figure of every simulation's changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tuner.metrics import REAL
from tuner.report.columns import MISSING, scale_for, show_change
from tuner.report.style import FAINT, MUTED, look
from tuner.stats import Estimate
from tuner.validate.gem5_summary import METRIC_NAMES, Gem5Subject, Gem5Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLOTTED = ("mean_heap", "instructions", "cpu")
"""Metrics with a panel each, where they were measured."""

_ROW_IN = 0.28
_FRAME_IN = 1.0
"""Height of a subject and of what surrounds them, in inches."""


@dataclass(frozen=True)
class Gem5Row:
    """One subject in one panel."""

    allocator: str
    ratio: Estimate | None
    """Over all simulations; None when it failed."""
    by_simulation: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Gem5Plot:
    """Changes of every subject, panel by panel."""

    title: str
    labels: tuple[str, ...]
    """Subjects from top to bottom, the baseline left out."""
    panels: tuple[tuple[str, tuple[Gem5Row, ...]], ...]
    """Label of the metric, and a row per subject."""


def gem5_plot(summary: Gem5Summary) -> Gem5Plot | None:
    """Compute the figure of a group of simulations; None when there is nothing to compare."""
    subjects = [s for s in by_allocator(summary) if not s.is_baseline]
    panels = []
    for name in PLOTTED:
        if any(subject.change(name) for subject in subjects):
            rows = tuple(_row(subject, name) for subject in subjects)
            panels.append((REAL[name].label, rows))
    labels = tuple(subject.subject.label for subject in subjects)
    return Gem5Plot(summary.title, labels, tuple(panels)) if panels else None


def draw_gem5(plot: Gem5Plot, width_in: float) -> Figure:
    """Draw the figure: a faint mark per simulation, the mean with its interval over them."""
    from matplotlib.figure import Figure as Canvas  # noqa: PLC0415 - as in figures.py
    from matplotlib.ticker import FuncFormatter  # noqa: PLC0415 - likewise

    height_in = _FRAME_IN + _ROW_IN * len(plot.labels)
    figure = Canvas(figsize=(width_in, height_in), layout="constrained")
    all_axes = figure.subplots(1, len(plot.panels), sharey=True, squeeze=False)[0]
    for axes, (label, rows) in zip(all_axes, plot.panels, strict=True):
        axes.axvline(0.0, color=MUTED, linewidth=0.8)
        for place, row in enumerate(rows):
            dots = [percent(ratio) for _, ratio in row.by_simulation]
            axes.plot(dots, [place] * len(dots), "o", color=FAINT, markersize=3.0)
            if row.ratio is not None:
                seen = look(row.allocator)
                middle = percent(row.ratio.median)
                if row.ratio.interval:
                    ends = [percent(row.ratio.interval.low), percent(row.ratio.interval.high)]
                    axes.plot(ends, [place, place], color=seen.colour, linewidth=1.6)
                axes.plot([middle], [place], seen.marker, color=seen.colour, markersize=6.0)
        axes.set_xlabel(f"change in {label}")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+g} %"))
        axes.set_yticks(range(len(plot.labels)), plot.labels)
    all_axes[0].invert_yaxis()
    figure.suptitle(f"gem5, {plot.title}", fontsize=10)
    return figure


def percent(ratio: float) -> float:
    """Return a ratio as a change in percent."""
    return (ratio - 1.0) * 100.0


def by_allocator(summary: Gem5Summary) -> list[Gem5Subject]:
    """Return the subjects allocator by allocator, each default first."""
    names = list(dict.fromkeys(s.subject.configuration.allocator for s in summary.subjects))
    return sorted(summary.subjects, key=lambda s: names.index(s.subject.configuration.allocator))


def gem5_context(summary: Gem5Summary) -> dict[str, Any]:
    """Return heads and cells of the table of a group of simulations."""
    shown = [REAL[name] for name in METRIC_NAMES if any(s.change(name) for s in summary.subjects)]
    scales = {
        metric.name: scale_for(
            metric.kind, [c.value for s in summary.subjects if (c := s.change(metric.name))]
        )
        for metric in shown
    }
    notices = list(summary.notices)
    notices += [f"{s.name} is out: {s.reason}" for s in summary.simulations if s.reason is not None]
    notices += [
        f"{row.subject.label} is out of {name}: {reason}"
        for row in summary.subjects
        for name, reason in row.failures
    ]
    return {
        "title": summary.title,
        "n_rounds": summary.n_rounds,
        "simulations": [simulation.name for simulation in summary.simulations],
        "notices": notices,
        "heads": [f"{m.label} ({scales[m.name].unit})".replace(" ()", "") for m in shown],
        "rows": [
            {
                "allocator": row.subject.configuration.allocator,
                "setting": "default" if row.is_default else row.subject.label,
                "cells": [
                    {
                        "value": scales[metric.name].show(found.value) if found else MISSING,
                        "change": show_interval(found.shown) if found and found.ratio else "",
                    }
                    for metric in shown
                    for found in [row.change(metric.name)]
                ],
            }
            for row in by_allocator(summary)
        ],
    }


def show_interval(estimate: Estimate | None) -> str:
    """Write a ratio as a change with its interval."""
    if estimate is None or estimate.interval is None:
        return show_change(estimate.median if estimate else None)
    low, high = show_change(estimate.interval.low), show_change(estimate.interval.high)
    return f"{show_change(estimate.median)} [{low.removesuffix(' %')}, {high.removesuffix(' %')}]"


def _row(subject: Gem5Subject, name: str) -> Gem5Row:
    allocator = subject.subject.configuration.allocator
    found = subject.change(name)
    return Gem5Row(allocator, found.shown if found else None, found.by_simulation if found else ())
