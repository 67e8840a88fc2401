"""Runs of gem5 in a report: the tables, and the figure of every simulation's changes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tuner.drawing.figure import WIDTH, Figure, Spec, category, colours, layer, quantity, shapes
from tuner.drawing.style import FAINT
from tuner.metrics import REAL
from tuner.report.claims import percent, zero_line
from tuner.report.columns import scale_for, show_change, show_estimate
from tuner.report.grid import Grid, Row, ranking_grid
from tuner.stats import Estimate
from tuner.validate.gem5_summary import Change, Gem5Subject, Gem5Summary

PLOTTED = ("mean_heap", "instructions", "cpu")
"""Metrics with a panel each, where they were measured."""

INSIDE_NOTE: Final = (
    "MPKI: lines that demand accesses of the cores asked the next level for, per thousand "
    "instructions. Every count is less that of a start under the same allocator. Changes are "
    "against the baseline; a simulation repeats itself to the last count."
)
"""What a reader must know about the tables of programs inside."""

_ROW_PX: Final = 24


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


def gem5_figure(plot: Gem5Plot, name: str) -> Figure:
    """Draw a panel per metric: a faint dot per simulation, the mean with its interval over them."""
    panels = [_panel(plot, *panel, is_first=not i) for i, panel in enumerate(plot.panels)]
    title = {"text": f"gem5, {plot.title}"}
    spec: Spec = {"title": title, "spacing": 12, "hconcat": panels}
    return Figure(name, f"Changes in gem5, {plot.title}", spec)


def _panel(plot: Gem5Plot, label: str, rows: Sequence[Gem5Row], *, is_first: bool) -> Spec:
    named = list(zip(plot.labels, rows, strict=True))
    position = {
        "x": quantity("x", f"change in {label} (%)", axis={"format": "+~r", "tickCount": 5}),
        "y": category("label", title=None, sort=list(plot.labels), axis={"labels": is_first}),
    }
    dots = [
        {"label": text, "x": percent(ratio), "tip": f"{text}, {simulation}: {show_change(ratio)}"}
        for text, row in named
        for simulation, ratio in row.by_simulation
    ]
    known = [(text, row, row.ratio) for text, row in named if row.ratio is not None]
    means = [
        {
            "label": text,
            "allocator": row.allocator,
            "x": percent(ratio.median),
            "low": percent(ratio.interval.low if ratio.interval else ratio.median),
            "high": percent(ratio.interval.high if ratio.interval else ratio.median),
            "tip": f"{text}: {show_estimate(ratio)}",
        }
        for text, row, ratio in known
    ]
    names = list(dict.fromkeys(row.allocator for _, row, _ in known))
    colour = colours("allocator", names, legend=None)
    tip = {"field": "tip"}
    point = {"type": "point", "filled": True, "opacity": 1}
    span = {**position, "x": {**position["x"], "field": "low"}, "x2": {"field": "high"}}
    return {
        "width": (WIDTH - 100) / len(plot.panels) - 20,
        "height": {"step": _ROW_PX},
        "layer": [
            zero_line("x"),
            layer(dots, {**point, "color": FAINT, "size": 20}, **position, tooltip=tip),
            layer(means, {"type": "rule", "strokeWidth": 2}, **span, color=colour),
            layer(means, {**point, "size": 80}, **position, color=colour, tooltip=tip,
                  shape=shapes("allocator", names, legend=None)),
        ],
    }  # fmt: skip


def by_allocator(summary: Gem5Summary) -> list[Gem5Subject]:
    """Return the subjects allocator by allocator, each default first."""
    names = list(dict.fromkeys(s.subject.configuration.allocator for s in summary.subjects))
    return sorted(summary.subjects, key=lambda s: names.index(s.subject.configuration.allocator))


def gem5_grid(summary: Gem5Summary) -> Grid:
    """Return the table of a group of simulations, intervals being over simulations like these."""
    n_good = sum(simulation.reason is None for simulation in summary.simulations)
    title = f"gem5, {summary.title}: {n_good}; rounds: {summary.n_rounds}"
    return _grid(title, summary, lambda change: change.shown)


def inside_grids(summaries: Sequence[Gem5Summary]) -> Iterator[Grid]:
    """Yield the tables of programs inside gem5, without intervals, and the ranking over all."""
    for summary in summaries:
        yield _grid(f"{summary.title} (gem5)", summary, lambda change: change.ratio)
        if summary.rankings:
            yield ranking_grid(summary.rankings, "simulated machines do")


def _grid(title: str, summary: Gem5Summary, ratio: Callable[[Change], Estimate | None]) -> Grid:
    """Return the values and changes of every metric that the baseline has."""
    shown = {c.metric.name: c.metric for c in summary.subjects[0].changes}
    scales = {
        m.name: scale_for(m.kind, [c.value for s in summary.subjects if (c := s.change(m.name))])
        for m in shown.values()
    }
    rows = []
    for row in by_allocator(summary):
        setting = "default" if row.is_default else row.subject.label
        found = [(scale, row.change(name)) for name, scale in scales.items()]
        values = tuple(scale.show(one.value if one else None) for scale, one in found)
        ratios = () if row.is_baseline else (ratio(c) if c else None for _, c in found)
        names = (row.subject.configuration.allocator, setting)
        changes = tuple(map(show_estimate, ratios))
        rows.append(Row(names, values, changes, is_out=bool(row.failures)))
    heads = (f"{m.label} ({scales[name].unit})".replace(" ()", "") for name, m in shown.items())
    return Grid(title, ("allocator", "setting"), tuple(heads), tuple(rows))


def out_lines(summary: Gem5Summary) -> Iterator[str]:
    """Yield what is out of the comparison, and why."""
    for simulation in summary.simulations:
        if simulation.reason is not None:
            yield f"{simulation.name} is out: {simulation.reason}"
    for row in summary.subjects:
        for name, reason in row.failures:
            yield f"{row.subject.label} is out of {name}: {reason}"


def _row(subject: Gem5Subject, name: str) -> Gem5Row:
    allocator = subject.subject.configuration.allocator
    found = subject.change(name)
    return Gem5Row(allocator, found.shown if found else None, found.by_simulation if found else ())
