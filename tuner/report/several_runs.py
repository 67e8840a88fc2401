"""Several runs on one front: what each found, what the others missed, and how sure a search is.

Runs that differ in their seeds alone are a group: its attainment says which points half of such
searches reach, and which all do.

Guarantee: the reference of the hypervolume is that of all runs' defaults together, so that the
shares can be compared.
Limits: runs of one workload with the same objectives.  What lies within 0.5 % of a point of
another run in every objective was not missed by it.

Source: Grunert da Fonseca, Fonseca, Hall, "Inferential performance assessment of stochastic
optimisers and the attainment function", EMO 2001; computed by moocore.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tuner.campaign.identity import LIBRARY, builds
from tuner.drawing.figure import WIDTH, Figure, Spec, colours, layer, quantity, shapes
from tuner.errors import SelectionError
from tuner.front.bounds import baseline_trial
from tuner.front.dominance import (
    Points,
    front,
    hypervolume,
    non_dominated,
    points_of,
    reference_point,
)
from tuner.metrics import METRICS
from tuner.moocore import load_moocore
from tuner.records import Trial
from tuner.report.columns import show_change
from tuner.runs import Run
from tuner.stats import TIE
from tuner.units import show_percent

SCHEMA: Final = "malloc-tuner.runs"
VERSION: Final = 1
"""Of the JSON; docs/formats.md describes it."""

ATTAINED: Final = (50, 100)
"""Percent of the runs of a group whose attainment is shown: half of them, and all."""

_FEWEST_RUNS: Final = 3
"""Of a group, for its attainment."""
_MOST_FINDS: Final = 5
"""Points that others missed which are shown of a run."""


@dataclass(frozen=True)
class Find:
    """A point of the joint front that another run missed."""

    trial: Trial
    ratios: tuple[float, ...]
    """Objectives over those of the baseline's default in the first run."""
    beyond: float
    """How much farther it is than all other runs together: the share of the one objective that
    they lose most in, at their nearest point."""


@dataclass(frozen=True)
class RunShown:
    """One run beside the others."""

    name: str
    """Its folder."""
    run: Run
    points: Points
    """Its own front, ascending in the first objective."""
    share: float
    """Hypervolume over that of all runs together."""
    n_joint: int
    """Its points on the joint front."""
    finds: tuple[Find, ...]
    """What all others missed, the farthest first."""


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seeds alone."""

    names: tuple[str, ...]
    attained: Mapping[int, Points]
    """Percent of the runs -> the points that so many of them reach."""
    shares: Mapping[int, float]
    """Percent of the runs -> hypervolume of what they reach, over that of all runs together."""


@dataclass(frozen=True)
class SeveralRuns:
    """Runs on one front."""

    objectives: tuple[str, ...]
    baseline: tuple[float, ...]
    """Objectives of the baseline's default in the first run."""
    runs: tuple[RunShown, ...]
    n_joint: int
    """Points of the joint front; of points within 0.5 % of each other all count."""
    groups: tuple[Group, ...]
    notes: tuple[str, ...]
    """What keeps numbers from being comparable to the last digit."""


def join_runs(runs: Sequence[Run]) -> SeveralRuns:
    """Put runs on one front.

    Args:
        runs: two or more.

    Raises:
        SelectionError: fewer than two, or they are of other workloads or objectives; says which.
    """
    _check(runs)
    names = _names(runs)
    fronts = [
        points_of(sorted(front(run.trials), key=lambda t: t.objectives or ())) for run in runs
    ]
    if not all(len(points) for points in fronts):
        raise SelectionError("a run without a feasible trial has no front; leave it out")
    everything = np.concatenate(fronts)
    joint = everything[non_dominated(everything)]
    defaults = [t for run in runs for t in run.trials if t.configuration.is_default]
    reference = reference_point(defaults) or tuple((everything.max(axis=0) * 1.1).tolist())
    whole = hypervolume(everything, reference) or 1.0
    base = baseline_trial(runs[0].trials, runs[0].campaign.baseline).objectives or ()
    shown = []
    for place, (name, run, points) in enumerate(zip(names, runs, fronts, strict=True)):
        others = np.concatenate([p for i, p in enumerate(fronts) if i != place])
        shown.append(
            RunShown(
                name,
                run,
                points,
                hypervolume(points, reference) / whole,
                sum(bool((point == joint).all(axis=1).any()) for point in points),
                _finds(run, others, base),
            )
        )
    return SeveralRuns(
        runs[0].campaign.objectives,
        base,
        tuple(shown),
        len(joint),
        tuple(_groups(shown, reference, whole)),
        tuple(_notes(runs)),
    )


def _check(runs: Sequence[Run]) -> None:
    if len(runs) < 2:  # noqa: PLR2004 - one is compared with nothing
        raise SelectionError("give two or more runs; `malloc-tuner front RUN` shows one")
    folders = Counter(run.folder.resolve() for run in runs)
    for folder in (one for one, n in folders.items() if n > 1):
        raise SelectionError(
            f"{folder}: given {folders[folder]} times; a run is compared with others"
        )
    first = runs[0].campaign
    for run in runs[1:]:
        other = run.campaign
        for what, one, two in (
            ("workloads", first.trace_sha256, other.trace_sha256),
            ("further workloads", _further(runs[0]), _further(run)),
            ("objectives", first.objectives, other.objectives),
            ("constraints", first.constraints, other.constraints),
            ("emulation", first.emulation, other.emulation),
        ):
            if one != two:
                raise SelectionError(
                    f"{runs[0].folder} and {run.folder} have different {what}; their numbers "
                    "cannot be compared"
                )


def _further(run: Run) -> list[str]:
    return [trace.sha256 for trace in run.campaign.workload.further]


def _notes(runs: Sequence[Run]) -> Iterator[str]:
    first = runs[0].campaign
    for run in runs[1:]:
        other = run.campaign
        mine, others = builds(first, other)
        for what, one, two in (
            *((f"builds of {n.removesuffix(LIBRARY)}", mine[n], others[n]) for n in mine),
            ("allocators", dict(first.allocators), dict(other.allocators)),
            ("prices of faults and system calls", first.calibration, other.calibration),
        ):
            if one != two:
                yield f"{runs[0].folder} and {run.folder} have different {what}"


def _names(runs: Sequence[Run]) -> list[str]:
    short = [run.folder.name for run in runs]
    return short if len({*short}) == len(short) else [str(run.folder) for run in runs]


def _finds(run: Run, others: Points, base: Sequence[float]) -> tuple[Find, ...]:
    found = []
    for trial in front(run.trials):
        mine = np.array(trial.objectives)
        # By how much the nearest point of the others loses in the objective it loses most in.
        losses = np.log1p(others) - np.log1p(mine)
        beyond = float(np.expm1(losses.max(axis=1).min()))
        if beyond > TIE:
            pairs = zip(trial.objectives or (), base, strict=True)
            found.append(Find(trial, tuple(a / b if b else 1.0 for a, b in pairs), beyond))
    return tuple(sorted(found, key=lambda one: -one.beyond))


def _groups(shown: Sequence[RunShown], reference: Sequence[float], whole: float) -> Iterator[Group]:
    alike: dict[tuple[object, ...], list[RunShown]] = {}
    for one in shown:
        record = one.run.campaign
        key = (record.strategy, record.population, record.search, record.budget,
               record.seed_configurations, str(record.space), tuple(record.allocators))  # fmt: skip
        alike.setdefault(key, []).append(one)
    for members in alike.values():
        n_seeds = len({one.run.campaign.seed for one in members})
        if n_seeds < len(members) or len(members) < _FEWEST_RUNS:
            continue
        attained = _attained([one.points for one in members])
        shares = {p: hypervolume(found, reference) / whole for p, found in attained.items()}
        yield Group(tuple(one.name for one in members), attained, shares)


def _attained(fronts: Sequence[Points]) -> dict[int, Points]:
    """Return what so many percent of the fronts attain; nothing above three objectives."""
    if not 2 <= fronts[0].shape[1] <= 3:  # noqa: PLR2004 - what the algorithm is made for
        return {}
    sets = np.repeat(np.arange(len(fronts)), [len(points) for points in fronts])
    found = load_moocore().eaf(np.concatenate(fronts), sets, percentiles=list(ATTAINED))
    return {percent: found[found[:, -1] == percent][:, :-1] for percent in ATTAINED}


# Words


def several_text(found: SeveralRuns) -> Iterator[str]:
    """Yield the lines that compare the runs."""
    width = max(len(one.name) for one in found.runs)
    for one in found.runs:
        record = one.run.campaign
        yield (
            f"{one.name:<{width}}  {one.share:6.1%} of the joint hypervolume, "
            f"{one.n_joint} of the {found.n_joint} points of the joint front; "
            f"{len(one.run.trials)} trials, {record.strategy}, seed {record.seed}"
        )
    for one in found.runs:
        yield ""
        if not one.finds:
            yield f"{one.name}: found nothing that the others missed"
            continue
        points = "1 point" if len(one.finds) == 1 else f"{len(one.finds)} points"
        yield f"{one.name}: {points} that the others missed"
        for find in one.finds[:_MOST_FINDS]:
            pairs = zip(found.objectives, find.ratios, strict=True)
            changes = ", ".join(f"{METRICS[n].label} {show_change(r)}" for n, r in pairs)
            beyond = show_change(1.0 - find.beyond / (1.0 + find.beyond))
            yield f"  {beyond:>8}  {changes}; trial {find.trial.number}, {find.trial.configuration}"
        if len(one.finds) > _MOST_FINDS:
            yield f"  and {len(one.finds) - _MOST_FINDS} more: --json"
    if any(one.finds for one in found.runs):
        yield ""
        yield (
            f"First, by how much a point beats what the others found; changes of the emulated "
            f"heap and work against {found.runs[0].run.campaign.baseline}'s default."
        )
    for group in found.groups:
        if group.shares:
            half, every = (group.shares[percent] for percent in ATTAINED)
            yield ""
            yield (
                f"{', '.join(group.names)}: half of these searches reach {show_percent(half)} of "
                f"the joint hypervolume, all of them {show_percent(every)}"
            )
    for note in found.notes:
        yield f"note: {note}"


def several_json(found: SeveralRuns) -> str:
    """Write the comparison as JSON, with a line end."""
    document = {
        "schema": SCHEMA,
        "version": VERSION,
        "objectives": list(found.objectives),
        "baseline": list(found.baseline),
        "n_joint": found.n_joint,
        "runs": [_run_document(one) for one in found.runs],
        "groups": [
            {
                "runs": list(group.names),
                "attained": {str(p): points.tolist() for p, points in group.attained.items()},
                "shares": {str(percent): share for percent, share in group.shares.items()},
            }
            for group in found.groups
        ],
        "notes": list(found.notes),
    }
    return json.dumps(document, indent=2) + "\n"


def _run_document(one: RunShown) -> dict[str, Any]:
    return {
        "name": one.name,
        "campaign": one.run.campaign.name,
        "strategy": one.run.campaign.strategy,
        "seed": one.run.campaign.seed,
        "n_trials": len(one.run.trials),
        "share": one.share,
        "n_joint": one.n_joint,
        "finds": [
            {
                "trial": find.trial.number,
                "allocator": find.trial.configuration.allocator,
                "settings": find.trial.configuration.as_dict,
                "objectives": list(find.trial.objectives or ()),
                "ratios": list(find.ratios),
                "beyond": find.beyond,
            }
            for find in one.finds
        ],
    }


# Drawing

_HEIGHT: Final = 380


def several_figure(found: SeveralRuns) -> Figure:
    """Draw the front of every run, and what half and all of a group attain, as changes.

    A front is a line where there are two objectives, and else points alone.
    """
    names = [one.name for one in found.runs]
    titles = [f"{METRICS[name].label}, change against the default" for name in found.objectives]
    rows = [row for one in found.runs for row in _rows(found, one.points, one.name)]
    position = {
        "x": quantity("x", titles[0], axis={"format": "+%"}, scale={"zero": False}),
        "y": quantity("y", titles[1] if len(titles) > 1 else titles[0], axis={"format": "+%"},
                      scale={"zero": False}),
    }  # fmt: skip
    shared: Spec = {**position, "color": colours("run", names)}
    line = {"type": "line", "interpolate": "step-after", "strokeWidth": 1.6, "opacity": 0.8}
    point = {"type": "point", "filled": True, "size": 36}
    is_plane = len(found.objectives) == 2  # noqa: PLR2004 - as above
    layers = [layer(rows, line, **shared)] * is_plane
    layers.append(
        layer(rows, point, **shared, shape=shapes("run", names), tooltip={"field": "tip"})
    )
    for group in found.groups * is_plane:
        for percent, points in group.attained.items():
            dashed = {"type": "line", "interpolate": "step-after", "color": "#1c2430",
                      "strokeDash": [6, 3] if percent < 100 else [2, 2]}  # fmt: skip  # noqa: PLR2004
            layers.append(layer(list(_rows(found, points, "")), dashed, **position))
    spec: Spec = {"width": WIDTH, "height": _HEIGHT, "layer": layers}
    return Figure("runs", "The fronts of several runs", spec)


def _rows(found: SeveralRuns, points: Points, name: str) -> Iterator[dict[str, Any]]:
    last = 1 if len(found.objectives) > 1 else 0
    for point in points[np.argsort(points[:, 0], kind="stable")].tolist():
        x, y = (point[i] / (found.baseline[i] or 1.0) - 1.0 for i in (0, last))
        yield {"x": x, "y": y, "run": name, "tip": f"{name}: {x:+.1%}, {y:+.1%}"}
