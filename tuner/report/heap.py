"""Heap over time as plain values: the defaults and the picks above the live bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner import selection
from tuner.metrics import Kind
from tuner.records import CurvePoint, Trial
from tuner.report.columns import Scale, scale_for
from tuner.runs import Run
from tuner.selection import Pick


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
    curves: tuple[Curve, ...]
    """Defaults first."""
    live_xs: tuple[float, ...]
    live_bytes: tuple[int, ...]
    """Bytes the program asked for and had not freed: no heap can be smaller for long."""


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
    greatest = max(max(curve.heap_bytes) for curve in curves)
    kind = Kind.NANOSECONDS if is_timed else Kind.COUNT
    x_scale = scale_for(kind, [max(curve.xs[-1] for curve in curves)])
    name = "trace time" if is_timed else "events"
    return HeapPlot(
        f"{name} ({x_scale.unit})" if x_scale.unit else name,
        x_scale,
        scale_for(Kind.BYTES, [float(greatest)]),
        curves,
        tuple(_x(point, is_timed) for point in live),
        tuple(point.live_bytes for point in live),
    )


def pick_indices(plot: HeapPlot) -> list[int | None]:
    """Count the picks of each allocator from 0 on, for their dashes; defaults get None."""
    used: dict[str, int] = {}
    found: list[int | None] = []
    for curve in plot.curves:
        if curve.is_default:
            found.append(None)
        else:
            found.append(used.get(curve.allocator, 0))
            used[curve.allocator] = used.get(curve.allocator, 0) + 1
    return found


def _shown(run: Run, picks: Sequence[Pick]) -> list[tuple[Trial, str]]:
    """Return the defaults, then every picked trial once, each with its title."""
    titles: dict[int, list[str]] = {}
    for pick in picks:
        titles.setdefault(pick.trial.number, []).append(pick.name)
    defaults = selection.default_trials(run.trials)
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
