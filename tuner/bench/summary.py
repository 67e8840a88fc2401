"""What the samples of a comparison say: medians with intervals, ratios, geometric means.

Pure arithmetic on samples; `tuner.cli.bench_tables` and `tuner.report.bench_figures` show it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Final

from tuner.bench.journal import Comparison, Sample
from tuner.bench.plan import WORKLOADS, Task
from tuner.measure.driver import DriverResult
from tuner.stats import Estimate, median_estimate

_NS_PER_S: Final = 1e9


@dataclass(frozen=True)
class Metric:
    """One figure of a run."""

    name: str
    unit: str
    """Unit of `value`."""
    value: Callable[[DriverResult], float | None]
    """None where a run has no such figure."""
    more_is_better: bool = False


def _rate(per: Callable[[DriverResult], int]) -> Callable[[DriverResult], float | None]:
    def value(result: DriverResult) -> float | None:
        return result.operations / per(result) * _NS_PER_S if per(result) else None

    return value


def _call(kind: str, field: str) -> Callable[[DriverResult], float | None]:
    def value(result: DriverResult) -> float | None:
        times = getattr(result.latency, kind, None)
        return None if times is None else float(getattr(times, field))

    return value


THROUGHPUT: Final = Metric("throughput", "1/s", _rate(lambda r: r.wall_ns), more_is_better=True)
CPU_THROUGHPUT: Final = Metric(
    "throughput per CPU second", "1/s", _rate(lambda r: r.cpu_ns), more_is_better=True
)
PEAK_RSS: Final = Metric("peak RSS", "B", lambda r: float(r.peak_rss_bytes))
END_RSS: Final = Metric("RSS after freeing", "B", lambda r: float(r.end_rss_bytes))
FAULTS: Final = Metric("faults", "", lambda r: float(r.faults))
PERCENTILES: Final = {"P50": "p50_ns", "P99": "p99_ns", "P99.9": "p999_ns", "max": "max_ns"}
CALLS: Final = {
    (kind, name): Metric(f"{kind} {name}", "ns", _call(kind, field))
    for kind in ("malloc", "free")
    for name, field in PERCENTILES.items()
}
"""(malloc or free, name of the percentile) -> metric."""
USABLE_RATIO: Final = Metric("usable/requested", "", lambda r: _share(r.usable_bytes, r.size))
RESIDENT_RATIO: Final = Metric("resident/requested", "", lambda r: _share(r.resident_bytes, r.size))


def _share(part: int | None, whole: int | None) -> float | None:
    return part / whole if part and whole else None


Estimates = Mapping[Task, Mapping[str, Estimate]]
"""Task -> label -> median with its interval; subjects without a result are absent."""


def estimates(comparison: Comparison, metric: Metric, tasks: Iterable[Task]) -> Estimates:
    """Return the medians of a metric over the rounds.

    Args:
        comparison: the samples.
        metric: which figure.
        tasks: of these; those without any value are left out.
    """
    found: dict[Task, dict[str, Estimate]] = {}
    grouped: dict[tuple[Task, str], list[Sample]] = defaultdict(list)
    for sample in comparison.samples:
        grouped[sample.task, sample.subject].append(sample)
    for task in tasks:
        row = {}
        for label in comparison.labels:
            estimate = median_estimate(values(grouped[task, label], metric, task, label))
            if estimate is not None:
                row[label] = estimate
        if row:
            found[task] = row
    return found


def values(samples: Sequence[Sample], metric: Metric, task: Task, label: str) -> list[float]:
    """Return a metric of every successful run of a task on a subject, by round."""
    mine = sorted(
        (s for s in samples if s.task == task and s.subject == label and s.result is not None),
        key=lambda sample: sample.round,
    )
    all_values = [metric.value(sample.result) for sample in mine if sample.result is not None]
    return [value for value in all_values if value is not None]


def tasks_of(comparison: Comparison, *workloads: str) -> list[Task]:
    """Return the tasks there are samples of: by workload, threads and size."""
    found = {s.task for s in comparison.samples if not workloads or s.task.workload in workloads}
    return sorted(found, key=lambda t: (WORKLOADS.index(t.workload), t.threads, t.size or 0))


@dataclass(frozen=True)
class Means:
    """Geometric means over the tasks that every subject has."""

    ratios: Mapping[str, float]
    """Label -> mean ratio of the medians to the baseline's; empty where there is no such task."""
    n_tasks: int
    """Tasks that all subjects have."""
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
        return Means({}, 0, len(rows))
    ratios = {
        label: geometric_mean([row[label].median / row[baseline].median for row in common])
        for label in known
    }
    return Means(ratios, len(common), len(rows) - len(common))


def failures(comparison: Comparison) -> list[str]:
    """Return one line for every run without a result."""
    return [
        f"{sample.subject}: {sample.task}: {sample.reason}"
        for sample in comparison.samples
        if sample.result is None
    ]
