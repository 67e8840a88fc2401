"""Parallel coordinates of the front as plain values: one plot per allocator.

Axes are the settings in use on the allocator's front, then the objectives.  A
setting's axis has one tick per value that occurs, unset lowest, numbers in
order, then names.  Lines that would coincide on a tick are fanned out around it,
in the order of the first objective, so that each can be followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner import selection
from tuner.metrics import find_metric
from tuner.records import Trial, Value, value_text
from tuner.report.columns import Scale, axis_title, scale_of
from tuner.runs import Run

UNSET = "unset"
"""Tick of a setting that is left alone."""

_FAN = 0.32
"""Half height of the fan around a tick, in ticks."""
_BAND_MARGIN = 0.06
"""What a tick's band adds to its fan, in ticks."""


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
        front = [point.trial for point in selection.front(own, run.campaign.objectives)]
        names = sorted({name for trial in front for name, _ in trial.configuration.settings})
        if len(front) > 1 and names:
            plots.append(_plot(allocator, front, names, run.campaign.objectives))
    return plots


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
    return tuple((0.04 + 0.92 * s, scale.show(low + s * (high - low))) for s in shares)


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
