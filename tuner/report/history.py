"""The hypervolume over the campaign, against the defaults, under the frozen reference."""

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.drawing.figure import WIDTH, Figure, Spec, label_layers, layer, quantity
from tuner.drawing.style import ACCENT, MUTED
from tuner.front.dominance import front, hypervolume, points_of
from tuner.records import Trial
from tuner.runs import Run


@dataclass(frozen=True)
class HypervolumeHistory:
    """Hypervolume when the defaults are in, after each growth, and at the end."""

    evaluations: tuple[int, ...]
    """1-based number of evaluations, ascending."""
    values: tuple[float, ...]
    """Hypervolume; relative to that of the defaults when `is_relative`."""
    defaults: float | None
    """Hypervolume of the defaults: 1.0 when relative; None when none is feasible."""
    n_defaults: int
    """Number of evaluations after which all defaults had been measured."""
    is_relative: bool
    reference: tuple[float, ...]
    """The reference point, in objective units."""


def hypervolume_history(run: Run) -> HypervolumeHistory | None:
    """Compute the history of a run.

    Returns:
        None when the reference was never frozen, because no default succeeded, or
        when nothing was evaluated beside the defaults.
    """
    reference = run.campaign.reference
    if reference is None or all(trial.configuration.is_default for trial in run.trials):
        return None
    base = _defaults(run.trials, reference)
    unit = base or 1.0
    n_defaults = 1 + max(
        (i for i, trial in enumerate(run.trials) if trial.configuration.is_default), default=-1
    )
    evaluations, values = _since(n_defaults, *_growth(run.trials, reference))
    return HypervolumeHistory(
        evaluations,
        tuple(value / unit for value in values),
        1.0 if base else None,
        n_defaults,
        base > 0.0,
        reference,
    )


def _defaults(trials: Sequence[Trial], reference: Sequence[float]) -> float:
    defaults = [trial for trial in trials if trial.is_feasible and trial.configuration.is_default]
    return hypervolume(points_of(defaults), reference)


def _growth(
    trials: Sequence[Trial], reference: Sequence[float]
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Keep the front only: a dominated newcomer cannot change the volume."""
    members: list[Trial] = []
    steps: list[tuple[int, float]] = []
    for evaluation, trial in enumerate(trials, start=1):
        is_last = evaluation == len(trials)
        if trial.is_feasible and not any(_covers(member, trial) for member in members):
            members = front([*members, trial])
            value = hypervolume(points_of(members), reference)
            steps.append((evaluation, value))
        elif is_last:
            steps.append((evaluation, steps[-1][1] if steps else 0.0))
    return tuple(step[0] for step in steps), tuple(step[1] for step in steps)


def _since(
    first: int, evaluations: tuple[int, ...], values: tuple[float, ...]
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Start a staircase at an evaluation, with the value it has there."""
    before = [value for n, value in zip(evaluations, values, strict=True) if n <= first]
    later = [(n, value) for n, value in zip(evaluations, values, strict=True) if n > first]
    steps = [(first, before[-1] if before else 0.0), *later]
    return tuple(step[0] for step in steps), tuple(step[1] for step in steps)


def _covers(member: Trial, trial: Trial) -> bool:
    pairs = zip(member.objectives or (), trial.objectives or (), strict=True)
    return all(mine <= other for mine, other in pairs)


_MARGIN = 0.05
"""Share of the values' range below them, where the line of the defaults is seen."""


def history_figure(history: HypervolumeHistory) -> Figure:
    """Draw the hypervolume over the evaluations as a staircase."""
    first, last = history.evaluations[0], max(history.evaluations[-1], history.evaluations[0] + 1)
    what = "hypervolume (defaults = 1)" if history.is_relative else "hypervolume"
    low = min(filter(None, (*history.values, history.defaults)), default=0.0)
    lowest = low - _MARGIN * (max(history.values) - low)
    position = {
        "x": quantity("x", "evaluated configurations", scale={"domain": [first, last]}),
        "y": quantity("y", what, scale={"domainMin": lowest, "zero": False}),
    }
    steps = list(zip(history.evaluations, history.values, strict=True))
    rows = [
        {"x": n, "y": value, "tip": f"after {n} evaluations: {value:.4f}"} for n, value in steps
    ]
    rows.append({"x": last, "y": steps[-1][1], "tip": f"at the end: {steps[-1][1]:.4f}"})
    tip = {"field": "tip"}
    stairs = {"type": "line", "interpolate": "step-after", "color": ACCENT, "strokeWidth": 2}
    layers = [
        layer(rows, stairs, **position),
        layer(
            rows[:-1],
            {"type": "point", "filled": True, "color": ACCENT, "size": 14},
            **position,
            tooltip=tip,
        ),
    ]
    if history.defaults is not None:
        ends = [{"x": first, "y": history.defaults}, {"x": last, "y": history.defaults}]
        dashed = {"type": "line", "color": MUTED, "strokeDash": [5, 3], "strokeWidth": 1.4}
        name = [{**ends[1], "text": "defaults alone", "colour": MUTED}]
        mark = {"align": "right", "baseline": "bottom", "dy": -4}
        layers += [layer(ends, dashed, **position), *label_layers(name, position, mark)]
    spec: Spec = {"width": WIDTH, "height": 220, "layer": layers}
    return Figure("hypervolume", "Hypervolume over the search", spec)
