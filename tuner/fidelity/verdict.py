"""The verdict on a profile: errors, ranks, regret and noise, from measurements alone.

Errors are relative to the trace's value.  A family is the configurations of one
allocator.  Ranks within a family are judged by Kendall's tau-b with differences below
0.5 % as ties, and by tau over the pairs alone that truly differ by more than 1 %, where
a pair the model leaves equal counts against it; regret is what the model's pick loses on
the trace.  The model's value is the median over seeds; what the seeds differ by is its
noise.

Source of the measures: Kendall (see `tuner.stats`); the choice of them follows
Zorn and Grunwald, TOMACS 4(1), 1994, who judged models by what an allocator makes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.metrics import METRICS, objective_names
from tuner.profile.fidelity import (
    FamilyFidelity,
    Fidelity,
    MetricFidelity,
    ShrunkFidelity,
    ShrunkMetric,
)
from tuner.profile.trust import weaknesses
from tuner.records import Configuration, CurvePoint, Measurement
from tuner.stats import concordance, kendall_tau
from tuner.trace.info import LiveCurve, TraceInfo

_CURVE_POINTS = 400

_LEAST_LIVE = 0.05
"""Share of the greatest live bytes below which heap over live bytes says nothing."""

_CONFIDENT = 1.96
"""Standard deviations that 95 % of a normal distribution lie within."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Panel:
    """The same configurations on the trace, and on the profile with several seeds."""

    configurations: Sequence[Configuration]
    trace: Sequence[Measurement | None]
    """One for each configuration; None where it failed."""
    profile: Mapping[int, Sequence[Measurement | None]]
    """Seed -> one for each configuration."""


def judge(panel: Panel, trace: TraceInfo, profile: TraceInfo) -> Fidelity:
    """Return the verdict.

    Args:
        panel: what was measured; configurations that failed anywhere are left out.
        trace: description of the trace.
        profile: the same of the profile, with the first seed.
    """
    good = [
        index
        for index in range(len(panel.configurations))
        if panel.trace[index] is not None
        and all(measured[index] is not None for measured in panel.profile.values())
    ]
    families = by_family(panel.configurations[index].allocator for index in good)
    return Fidelity(
        configurations=len(good),
        left_out=left_out(panel, good),
        seeds=tuple(panel.profile),
        live_curve_distance=curve_distance(trace.curve, profile.curve),
        size_distance=size_distance(trace, profile),
        heap_curve_distance=_median_distance(panel, good, _heap_distance),
        fragmentation_curve_distance=_median_distance(panel, good, _fragmentation_distance),
        metrics={name: _judge_metric(panel, good, families, name) for name in judged_metrics()},
    )


def judge_shrunk(
    configurations: Sequence[Configuration],
    whole: Sequence[Measurement | None],
    shrunk: Sequence[Measurement | None],
    fidelity: float,
) -> ShrunkFidelity:
    """Return how a shrunk profile ranks configurations beside the whole one.

    Args:
        configurations: the panel.
        whole: on the whole profile, with the first seed.
        shrunk: on the shrunk one, with the same seed.
        fidelity: allocations of the shrunk profile over those of the whole.
    """
    pairs = [
        (c.allocator, a, b)
        for c, a, b in zip(configurations, whole, shrunk, strict=True)
        if a is not None and b is not None
    ]
    spent = sum(a.value("wall") for _, a, _ in pairs)
    families = by_family(allocator for allocator, _, _ in pairs)
    metrics: dict[str, ShrunkMetric | None] = {}
    for name in judged_metrics():
        truth = [whole_one[name] or 0.0 for _, whole_one, _ in pairs]
        model = [shrunk_one[name] for _, _, shrunk_one in pairs]
        if None in model or min(truth, default=0.0) <= 0.0:
            metrics[name] = None
            continue
        found = judge_values(np.array(truth, np.float64), np.array([model], np.float64), families)
        taus = {name: family.tau_differing for name, family in found.families.items()}
        metrics[name] = ShrunkMetric(found.tau, found.regret, taus)
    share = sum(b.value("wall") for _, _, b in pairs) / spent if spent else None
    return ShrunkFidelity(fidelity, len(pairs), share, metrics)


def by_family(allocators: Iterable[str]) -> dict[str, list[int]]:
    """Return the places of each allocator."""
    families: dict[str, list[int]] = {}
    for place, allocator in enumerate(allocators):
        families.setdefault(allocator, []).append(place)
    return families


def left_out(panel: Panel, good: Sequence[int]) -> tuple[str, ...]:
    """Return the configurations of a panel whose place is not among the good ones."""
    return tuple(str(c) for i, c in enumerate(panel.configurations) if i not in set(good))


def curve_distance(first: LiveCurve, second: LiveCurve) -> float | None:
    """Return the mean distance of two live curves over their events, by the first's mean."""
    one = _resample(first.event, first.live_bytes)
    other = _resample(second.event, second.live_bytes)
    return _relative(np.abs(one - other).mean(), one.mean())


def size_distance(first: TraceInfo, second: TraceInfo) -> float | None:
    """Return half the sum of differences of two histograms of sizes: 0 equal, 1 disjoint."""
    n_first, n_second = int(first.size.blocks.sum()), int(second.size.blocks.sum())
    if n_first == 0 or n_second == 0:
        return None
    difference = first.size.blocks / n_first - second.size.blocks / n_second
    return float(np.abs(difference).sum() / 2)


def _resample(at: Sequence[int] | npt.NDArray[Any], values: Any) -> Floats:  # noqa: ANN401
    """Return the values at even places of the range, shape (_CURVE_POINTS,)."""
    places = np.asarray(at, np.float64)
    even = np.linspace(places[0], places[-1], _CURVE_POINTS)
    return np.interp(even, places, np.asarray(values, np.float64))


def _relative(difference: float, reference: float) -> float | None:
    return float(difference / reference) if reference > 0 else None


def _median_distance(
    panel: Panel,
    good: Sequence[int],
    distance_of: Callable[[Sequence[CurvePoint], Sequence[CurvePoint]], float | None],
) -> float | None:
    """Return the median over configurations of the distance of two of their curves."""
    measured = next(iter(panel.profile.values()))
    pairs = [(panel.trace[index], measured[index]) for index in good]
    curves = [(a.curve, b.curve) for a, b in pairs if a and b and a.curve and b.curve]
    found = [distance for curve in curves if (distance := distance_of(*curve)) is not None]
    return float(np.median(found)) if found else None


def _heap_distance(first: Sequence[CurvePoint], second: Sequence[CurvePoint]) -> float | None:
    one, other = (_heap_and_live(curve)[0] for curve in (first, second))
    return _relative(np.abs(one - other).mean(), one.mean())


def _fragmentation_distance(
    first: Sequence[CurvePoint], second: Sequence[CurvePoint]
) -> float | None:
    """Return the mean distance of heap over live bytes, where not nearly all is freed."""
    (heap, live), (other_heap, other_live) = _heap_and_live(first), _heap_and_live(second)
    is_used = np.minimum(live, other_live) > _LEAST_LIVE * live.max()
    if not is_used.any():
        return None
    one, other = heap[is_used] / live[is_used], other_heap[is_used] / other_live[is_used]
    return _relative(np.abs(one - other).mean(), one.mean())


def _heap_and_live(curve: Sequence[CurvePoint]) -> tuple[Floats, Floats]:
    at = [point.event for point in curve]
    return (
        _resample(at, [point.heap_bytes for point in curve]),
        _resample(at, [point.live_bytes for point in curve]),
    )


def _judge_metric(
    panel: Panel, good: Sequence[int], families: Mapping[str, Sequence[int]], name: str
) -> MetricFidelity | None:
    """Return the figures of one metric; None if it was not measured or is 0 on the trace."""
    rows = (panel.trace, *panel.profile.values())
    values = numbers(rows, good, name)
    if values is None:
        return None
    truth, seeds = np.array(values[0], np.float64), np.array(values[1:], np.float64)
    return judge_values(truth, seeds, families) if (truth > 0).all() else None


def verdict_sentence(verdict: Fidelity) -> str:
    """Say whether the profile is good enough to tune with, and for what it is not."""
    judged = {name: found for name, found in verdict.metrics.items() if found}
    allocators = sorted({family for found in judged.values() for family in found.families})
    reasons = {name: "; ".join(weaknesses(verdict, allocators, [name])) for name in judged}
    good = [name for name, why in reasons.items() if not why]
    bad = ", and ".join(why for why in reasons.values() if why)
    if not judged:
        return "verdict: nothing could be judged"
    if not good:
        return f"verdict: not good enough to tune with: {bad}"
    words = f"verdict: good enough to tune {', '.join(good)} with"
    return f"{words}; not for the rest: {bad}" if bad else words


def judged_metrics() -> list[str]:
    """Return the names of the metrics that are judged: objectives that repeat."""
    return [name for name in objective_names() if METRICS[name].is_repeatable]


def numbers(
    rows: Iterable[Sequence[Measurement | None]], good: Sequence[int], name: str
) -> list[list[float]] | None:
    """Return one metric of the good places of every row; None when one was not measured."""
    found = [[one[name] for i in good if (one := row[i]) is not None] for row in rows]
    known = [[value for value in row if value is not None] for row in found]
    return known if good and known == found else None


def judge_values(
    truth: Floats, seeds: Floats, families: Mapping[str, Sequence[int]]
) -> MetricFidelity:
    """Return the figures of one metric.

    Args:
        truth: the metric on the trace, above 0; shape (n_configurations,).
        seeds: the same on the profile; shape (n_seeds, n_configurations).
        families: allocator -> its places among the configurations.
    """
    model = np.median(seeds, axis=0)
    errors = (model - truth) / truth
    spread = (seeds.max(axis=0) - seeds.min(axis=0)) / truth
    return MetricFidelity(
        median_error=float(np.median(np.abs(errors))),
        p90_error=float(np.percentile(np.abs(errors), 90)),
        worst_error=float(np.abs(errors).max()),
        bias=float(errors.mean()),
        resolution=resolution(seeds),
        seed_spread=float(np.median(spread)),
        worst_seed_spread=float(spread.max()),
        tau=kendall_tau(model.tolist(), truth.tolist()),
        regret=_regret(truth, model),
        families={
            name: _judge_family(truth[list(places)], model[list(places)])
            for name, places in families.items()
        },
    )


def resolution(seeds: Floats) -> float | None:
    """Return the least relative difference of two configurations that is not the model's noise.

    What a seed does to all configurations alike makes no difference between them, so the
    noise is what is left of the logarithms behind the means of seeds and configurations; two
    values differ with 95 % confidence when they are 1.96 sqrt(2) of its deviations apart.

    Args:
        seeds: values of the model, shape (n_seeds, n_configurations).

    Returns:
        0.0 when every seed orders and spaces the configurations alike; None with one seed or
        one configuration, which show no noise, and where a value is 0.

    Source: the repeatability limit of ISO 5725-6, with the residual of a two-way table
        without replication (Tukey, Biometrics 5(3), 1949).
    """
    n_seeds, n_configurations = seeds.shape
    if min(n_seeds, n_configurations) < 2 or (seeds <= 0).any():  # noqa: PLR2004 - it takes two
        return None
    logs = np.log(seeds)
    left = logs - logs.mean(axis=1, keepdims=True) - logs.mean(axis=0) + logs.mean()
    deviation = np.sqrt((left**2).sum() / ((n_seeds - 1) * (n_configurations - 1)))
    return float(np.expm1(_CONFIDENT * np.sqrt(2.0) * deviation))


def _judge_family(truth: Floats, model: Floats) -> FamilyFidelity:
    ordered = concordance(model.tolist(), truth.tolist())
    return FamilyFidelity(
        configurations=len(truth),
        true_spread=float(truth.max() / truth.min() - 1),
        tau=kendall_tau(model.tolist(), truth.tolist()),
        tau_differing=2 * ordered.share - 1 if ordered else None,
        pairs=ordered.n_pairs if ordered else 0,
        regret=_regret(truth, model),
    )


def _regret(truth: Floats, model: Floats) -> float:
    return float(truth[int(model.argmin())] / truth.min() - 1)
