"""The Pareto plot as plain values: points by role, front lines, spread, what is in view.

Roles are decided in all objectives of the campaign, positions in the two that
are drawn; with three objectives there is one plot per pair.  Few extreme points
must not squeeze the front into a corner: the view covers the front, the defaults
and the picks, and says how many points lie outside it.
"""

import enum
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuner.front.dominance import front_points
from tuner.front.picks import Pick
from tuner.metrics import Metric, find_metric
from tuner.records import Measurement, Trial
from tuner.report.columns import Scale, axis_title, scale_for
from tuner.runs import Run


class PointRole(enum.StrEnum):
    """What a point is; each is drawn in its own way."""

    FRONT = "front"
    DOMINATED = "dominated"
    INFEASIBLE = "infeasible"


Span = tuple[float, float]
"""Least and greatest value, in base units."""


@dataclass(frozen=True)
class Point:
    """One measured trial in the plane of two objectives."""

    trial: Trial
    role: PointRole
    is_default: bool
    x: float
    """In base units, as all numbers here."""
    y: float
    x_span: Span | None
    """Of the measurement and its re-measurements; None when there are none."""
    y_span: Span | None


@dataclass(frozen=True)
class Label:
    """A name beside a point."""

    text: str
    """``balanced``, or several names of the same point: ``balanced, no-regret``."""
    x: float
    y: float
    allocator: str
    is_default: bool


@dataclass(frozen=True)
class PlotAxis:
    """One axis of the plane: a metric with the unit and the range shown."""

    column: Metric
    scale: Scale
    low: float
    """Least value in view, in base units."""
    high: float
    """Greatest value in view."""
    is_log: bool

    @property
    def title(self) -> str:
        """Metric and unit."""
        return axis_title(self.column, self.scale)

    def share(self, value: float) -> float:
        """Return the place of a value on the axis: 0.0 at `low`, 1.0 at `high`."""
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def scaled(self, value: float) -> float:
        """Return a value in the unit of the axis."""
        return value / self.scale.divisor

    def contains(self, value: float) -> bool:
        """Return whether a value is in view."""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class ParetoPlot:
    """All there is to draw."""

    x: PlotAxis
    y: PlotAxis
    points: tuple[Point, ...]
    """By trial number."""
    fronts: tuple[tuple[str, tuple[tuple[float, float], ...]], ...]
    """For each allocator its own front in this plane, ordered by x; empty with three objectives."""
    overall: tuple[tuple[float, float], ...]
    """The front of all allocators, ordered by x; empty with three objectives."""
    baseline: Point | None
    """The default everything is compared with."""
    labels: tuple[Label, ...]
    """Defaults and picks."""
    n_outside: int
    """Number of points outside the view."""
    is_y_objective: bool
    """False when the campaign has one objective and y is only shown beside it."""


_LOG_FROM = 8.0
"""Greatest / least value in view from which an axis is logarithmic."""
_MARGIN = 0.07
"""Share of the view added on each side."""
_COMPANION = {"cost": "mean_heap", "instructions": "mean_heap"}
"""What is drawn against a single objective; mean or peak heap goes with cost."""


def pareto_plots(run: Run, picks: Sequence[Pick]) -> list[ParetoPlot]:
    """Compute one plot for each pair of objectives.

    Args:
        run: with at least one successful trial, else the result is empty.
        picks: whose points are labelled.
    """
    measured = [trial for trial in run.trials if trial.measurement is not None]
    if not measured:
        return []
    roles = _roles(run.trials, run.campaign.objectives)
    return [_plot(run, roles, picks, x, y) for x, y in _pairs(run, measured)]


def _pairs(run: Run, measured: Sequence[Trial]) -> list[tuple[Metric, Metric]]:
    names = run.campaign.objectives
    if len(names) > 1:
        return [(find_metric(x), find_metric(y)) for x, y in itertools.combinations(names, 2)]
    partner = find_metric(_COMPANION.get(names[0], "cost"))
    if any(partner.value(trial.measurement) is None for trial in measured):
        partner = find_metric("faults")
    return [(find_metric(names[0]), partner)]


def _roles(trials: Iterable[Trial], names: Sequence[str]) -> dict[int, PointRole]:
    trials = list(trials)
    on_front = {
        number
        for point in front_points(trials, names)
        for number in (point.trial.number, *point.equals)
    }
    roles = {}
    for trial in trials:
        if trial.measurement is not None:
            role = PointRole.FRONT if trial.number in on_front else PointRole.DOMINATED
            roles[trial.number] = role if trial.is_feasible else PointRole.INFEASIBLE
    return roles


def _plot(
    run: Run, roles: dict[int, PointRole], picks: Sequence[Pick], x: Metric, y: Metric
) -> ParetoPlot:
    remeasured = run.remeasured()
    points = tuple(
        _point(trial, roles[trial.number], remeasured.get(trial.number, ()), x, y)
        for trial in run.trials
        if trial.number in roles
    )
    labels = _labels(points, picks)
    focus = [point for point in points if _is_in_focus(point, labels)]
    x_axis = _axis(x, [point.x for point in focus], min(point.x for point in points))
    y_axis = _axis(y, [point.y for point in focus], min(point.y for point in points))
    names = run.campaign.objectives
    is_plane = len(names) == 2  # noqa: PLR2004 - front lines exist in a plane only
    return ParetoPlot(
        x_axis,
        y_axis,
        points,
        _allocator_fronts(run, names) if is_plane else (),
        _line(run.trials, names) if is_plane else (),
        next((p for p in points if p.is_default and _is_baseline(p, run)), None),
        labels,
        sum(not (x_axis.contains(p.x) and y_axis.contains(p.y)) for p in points),
        len(names) > 1,
    )


def _is_baseline(point: Point, run: Run) -> bool:
    return point.trial.configuration.allocator == run.campaign.baseline


def _point(
    trial: Trial, role: PointRole, again: Sequence[Measurement], x: Metric, y: Metric
) -> Point:
    return Point(
        trial,
        role,
        trial.configuration.is_default,
        x.value(trial.measurement) or 0.0,
        y.value(trial.measurement) or 0.0,
        _span(x, trial, again),
        _span(y, trial, again),
    )


def _span(what: Metric, trial: Trial, again: Sequence[Measurement]) -> Span | None:
    values = [
        value
        for measurement in (trial.measurement, *again)
        if (value := what.value(measurement)) is not None
    ]
    return (min(values), max(values)) if again and values else None


def _labels(points: Sequence[Point], picks: Sequence[Pick]) -> tuple[Label, ...]:
    names: dict[int, list[str]] = {}
    for pick in picks:
        names.setdefault(pick.trial.number, []).append(pick.name)
    labels = []
    for point in points:
        texts = list(names.get(point.trial.number, ()))
        allocator = point.trial.configuration.allocator
        if point.is_default:
            texts.insert(0, f"{allocator} default")
        if texts:
            text = ", ".join(texts)
            labels.append(Label(text, point.x, point.y, allocator, point.is_default))
    return tuple(labels)


def _is_in_focus(point: Point, labels: Sequence[Label]) -> bool:
    return point.role is PointRole.FRONT or any(
        (label.x, label.y) == (point.x, point.y) for label in labels
    )


def _axis(what: Metric, values: Sequence[float], least: float) -> PlotAxis:
    """Return an axis for what is in focus, on which `least`, of all points, has a place too."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if min(low, least) > 0.0 and high / low >= _LOG_FROM:
        factor = (high / low) ** _MARGIN
        scale = scale_for(what.kind, [math.sqrt(low * high)])
        return PlotAxis(what, scale, low / factor, high * factor, is_log=True)
    margin = (high - low) * _MARGIN or abs(high) * _MARGIN or 1.0
    scale = scale_for(what.kind, [high])
    return PlotAxis(what, scale, low - margin, high + margin, is_log=False)


def _line(trials: Iterable[Trial], names: Sequence[str]) -> tuple[tuple[float, float], ...]:
    return tuple((p.values[0], p.values[1]) for p in front_points(trials, names))


def _allocator_fronts(
    run: Run, names: Sequence[str]
) -> tuple[tuple[str, tuple[tuple[float, float], ...]], ...]:
    return tuple(
        (allocator, line)
        for allocator in run.campaign.allocators
        if (line := _line((t for t in run.trials if t.configuration.allocator == allocator), names))
    )
