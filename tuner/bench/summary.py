"""What the samples of a comparison say: medians with intervals, ratios, geometric means.

Pure arithmetic on samples; `tuner.cli.bench_tables` and `tuner.report.bench_figures` show it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Final

from tuner.bench.journal import Comparison
from tuner.bench.plan import WORKLOADS, Task
from tuner.compare.values import Values
from tuner.measure.driver import DriverResult
from tuner.stats import Estimate

_NS_PER_S: Final = 1e9


@dataclass(frozen=True)
class DriverMetric:
    """One quantity of a run."""

    name: str
    unit: str
    """Unit of `value`."""
    value: Callable[[DriverResult], float | None]
    """None where a run has none."""
    more_is_better: bool = False
    scatter: Callable[[DriverResult], float] = lambda _: 0.0
    """By how much `value` may be too great, for what measures it."""

    def least(self, result: DriverResult) -> float | None:
        """Return what is left of a run's value without the scatter, at least 0."""
        found = self.value(result)
        return None if found is None else max(0.0, found - self.scatter(result))


def _rate(per: Callable[[DriverResult], int]) -> Callable[[DriverResult], float | None]:
    def value(result: DriverResult) -> float | None:
        return result.operations / per(result) * _NS_PER_S if per(result) else None

    return value


def _call(kind: str, field: str) -> Callable[[DriverResult], float | None]:
    def value(result: DriverResult) -> float | None:
        times = getattr(result.latency, kind, None)
        return None if times is None else float(getattr(times, field))

    return value


def _clock(field: str) -> Callable[[DriverResult], float]:
    """Return the same percentile of an empty section; where that is unknown, the clock's cost."""

    def scatter(result: DriverResult) -> float:
        if result.latency is None:
            return 0.0
        empty = result.latency.empty
        return result.latency.clock_overhead_ns if empty is None else float(getattr(empty, field))

    return scatter


THROUGHPUT: Final = DriverMetric(
    "throughput", "1/s", _rate(lambda r: r.wall_ns), more_is_better=True
)
PEAK_RSS: Final = DriverMetric("peak RSS", "B", lambda r: float(r.peak_rss_bytes))
END_RSS: Final = DriverMetric("RSS after freeing", "B", lambda r: float(r.end_rss_bytes))
PERCENTILES: Final = {"P50": "p50_ns", "P99": "p99_ns", "P99.9": "p999_ns", "max": "max_ns"}
CALLS: Final = {
    (kind, name): DriverMetric(f"{kind} {name}", "ns", _call(kind, field), scatter=_clock(field))
    for kind in ("malloc", "free")
    for name, field in PERCENTILES.items()
}
"""(malloc or free, name of the percentile) -> quantity."""
USABLE_RATIO: Final = DriverMetric("usable/requested", "", lambda r: _share(r.usable_bytes, r.size))
RESIDENT_RATIO: Final = DriverMetric(
    "resident/requested", "", lambda r: _share(r.resident_bytes, r.size)
)


def _share(part: int | None, whole: int | None) -> float | None:
    return part / whole if part and whole else None


Estimates = Mapping[Task, Mapping[str, Estimate]]
"""Task -> label -> median with its interval; subjects without a result are absent."""


def estimates(comparison: Comparison, quantity: DriverMetric, tasks: Iterable[Task]) -> Estimates:
    """Return the medians of a quantity over the rounds.

    Args:
        comparison: the samples.
        quantity: which one.
        tasks: of these; those without any value are left out.
    """
    values = Values.collect(comparison.samples.items(), quantity.value)
    found = {}
    for task in tasks:
        medians = {label: values.median(task, label) for label in comparison.labels}
        row = {label: estimate for label, estimate in medians.items() if estimate is not None}
        if row:
            found[task] = row
    return found


def tasks_of(comparison: Comparison, *workloads: str) -> list[Task]:
    """Return the tasks there are samples of: by workload, threads and size."""
    found = {task for _, task, _ in comparison.samples}
    if workloads:
        found = {task for task in found if task.workload in workloads}
    return sorted(found, key=lambda t: (WORKLOADS.index(t.workload), t.threads, t.size or 0))


@dataclass(frozen=True)
class Means:
    """Geometric means over the tasks that every subject has."""

    ratios: Mapping[str, float]
    """Label -> mean ratio of the medians to the baseline's; empty where there is no such task."""
    n_left_out: int
    """Tasks that one of them lacks."""


def geometric_means(rows: Estimates, labels: Sequence[str], baseline: str) -> Means:
    """Return the geometric means of the subjects' medians relative to a baseline's.

    Means over different tasks cannot be compared, so only those count in which all that have any
    value at all have a positive one.

    Args:
        rows: medians.
        labels: of the subjects, the baseline included.
        baseline: one of the labels.
    """
    known = [label for label in labels if any(label in row for row in rows.values())]
    common = [
        row
        for row in rows.values()
        if all(label in row and row[label].median > 0 for label in known)
    ]
    if baseline not in known or not common:
        return Means({}, len(rows))
    ratios = {
        label: geometric_mean([row[label].median / row[baseline].median for row in common])
        for label in known
    }
    return Means(ratios, len(rows) - len(common))


def failures(comparison: Comparison) -> list[str]:
    """Return one line for every run without a result."""
    return [
        f"{label}: {task}: {sample.reason}"
        for (_, task, label), sample in comparison.samples.items()
        if sample.values is None
    ]
