"""What allocators.py holds exgen to: the limits, and what its figures say of them.

A ratio of a subject is below 1 where it needs less than what it is compared with.  What was run in
rounds is judged by the ratios of each round: a target is reached or missed where the interval of
their median says so, and else not to be told apart, see `rounds.judged`.
"""

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, Final

from benchmarks.allocator_programs import PAIRS
from benchmarks.harness import Target
from benchmarks.results import Parts
from benchmarks.rounds import (
    Medians,
    Row,
    failed_target,
    judged,
    known,
    medians,
    n_failed,
    values_of,
)
from tuner.bench.journal import Comparison, read_sample
from tuner.bench.summary import CALLS, PEAK_RSS, THROUGHPUT, DriverMetric, estimates, tasks_of
from tuner.compare.plan import TaskT
from tuner.compare.values import Values
from tuner.stats import Interval, median_estimate, ratio_estimate

VARIANTS: Final = frozenset({"floor", "share", "memory", "candidates", "safety", "prices"})
"""Parts of allocators.py with subjects of their own."""
OURS: Final = ("exgen", "exgen-st")
SHORT_S: Final = 0.015
"""Programs below this median CPU time have no time worth comparing; their memory has."""
TIME_TARGET: Final = 0.97
"""Geometric mean of time, relative to the best peer's."""
WORST_TARGET: Final = 1.02
"""Time of any program, relative to the best peer on it."""
RSS_TARGETS: Final = {"mimalloc": 0.65, "glibc": 1.0}
"""Geometric mean of peak resident memory, relative to these."""
GEM5_TARGETS: Final = {"cpu_s": 0.87, "mean_anon_bytes": 0.96}
"""Medians on gem5, relative to glibc."""
TIMED: Final = "exgen-timer"
"""Subject: exgen with a thread that looks where all others rest."""
MEMORY_TARGETS: Final = {
    ("refill", "jemalloc"): 1.0,
    ("drift", "jemalloc"): 1.0,
    ("drift", "glibc"): 1.05,
    ("resting", "rpmalloc"): 1.2,
    ("resting-with-blocks", "rpmalloc"): 1.2,
    ("ended", "jemalloc"): 1.0,
    ("ended-mapped", "glibc"): 1.2,
    ("limited", "jemalloc"): 1.05,
    ("limited-data", "jemalloc"): 1.05,
    ("locked", "jemalloc"): 1.05,
    ("locked-counted", "jemalloc"): 1.05,
}
"""Bytes of a program of the part memory, relative to an allocator's, at most."""
CHECK_TARGET: Final = 2.0
"""Instructions of pairs of malloc and free with `check`, relative to those without."""
FLAT_TARGET: Final = 1.05
"""RSS over live bytes in the last quarter of churn, relative to the second quarter."""

THREADS_METRICS: Final = (THROUGHPUT, CALLS["malloc", "P99"], CALLS["malloc", "P99.9"], PEAK_RSS)
"""What is judged of the threaded tasks: peak RSS against glibc's, the others against the best."""


Pick = Callable[..., Any]
"""min or max."""


def best_of(others: Sized) -> str:
    """Return the words for the best of those something was compared with: how many there are."""
    return f"best of the {len(others)} compared"


def best_on(
    values: Values[TaskT], task: TaskT, peers: Iterable[str], pick: Pick = min
) -> str | None:
    """Return the peer with the best median on a task; None: none has one above 0."""
    found = {peer: estimate.median for peer in peers if (estimate := values.median(task, peer))}
    above = {peer: value for peer, value in found.items() if value > 0.0}
    return str(pick(above, key=above.__getitem__)) if above else None


def long_ones(times: Medians) -> Medians:
    """Return the programs that run long enough for their time to be compared."""
    return {
        program: row
        for program, row in times.items()
        if min(estimate.median for estimate in row.values()) >= SHORT_S
    }


def common(rows: Medians, subjects: Sequence[str]) -> Medians:
    """Return the programs on which all of some subjects have a value."""
    return {program: row for program, row in rows.items() if set(subjects) <= set(row)}


def geometric(rows: Medians, subject: str) -> float | None:
    """Return the geometric mean of a subject's medians; None unless it has all of them."""
    values = [row[subject].median for row in rows.values() if subject in row]
    from scipy.stats import gmean  # noqa: PLC0415 - slow to import, rarely needed

    return float(gmean(values)) if values and len(values) == len(rows) else None


def complete_peers(rows: Medians, subjects: Sequence[str]) -> list[str]:
    """Return the peers that ran every program; only these can be the best of a mean."""
    return [s for s in subjects if s not in OURS and all(s in row for row in rows.values())]


def judge_programs(samples: Sequence[Row], subjects: Sequence[str]) -> Iterator[Target]:
    """Yield the figures of the single-threaded programs."""
    times, peaks = values_of(samples, "cpu_s"), values_of(samples, "peak_rss_bytes")
    rows = long_ones(medians(samples, "cpu_s"))
    for ours in OURS:
        if ours not in subjects:
            continue
        mine = common(rows, [ours])
        yield from _mean_of(times, mine, ours, f"{ours}: time", TIME_TARGET)
        yield from _worst(times, mine, ours)
        for other, target in RSS_TARGETS.items():
            both = list(common(medians(samples, "peak_rss_bytes"), [ours, other]))
            what = f"{ours}: peak RSS, geometric mean / {other}'s"
            yield from judged(what, peaks.change(both, ours, other), target)


def _mean_of(
    values: Values[str], rows: Medians, ours: str, what: str, limit: float
) -> Iterator[Target]:
    """Yield a geometric mean over programs against that of the best peer that ran them all."""
    peers = [*dict.fromkeys(s for row in rows.values() for s in row if s not in OURS)]
    means = {p: mean for p in complete_peers(rows, peers) if (mean := geometric(rows, p))}
    if means:
        best = min(means, key=means.__getitem__)
        what = f"{what}, geometric mean / {best_of(means)}"
        yield from judged(
            what, values.change(list(rows), ours, best), limit, note=f"best is {best}"
        )


def _worst(values: Values[str], rows: Medians, ours: str) -> Iterator[Target]:
    """Yield the program on which a subject is farthest behind the best peer."""
    behind = {}
    for program, row in rows.items():
        best = best_on(values, program, [peer for peer in row if peer not in OURS])
        ratio = values.ratio(program, ours, best) if best else None
        if ratio is not None:
            behind[program] = (ratio, best)
    if behind:
        program = max(behind, key=lambda name: behind[name][0].median)
        ratio, best = behind[program]
        what = f"{ours}: time, worst program / best of the others"
        yield from judged(what, ratio, WORST_TARGET, note=f"{program}, best is {best}")


def judge_cache(samples: Sequence[Row]) -> Iterator[Target]:
    """Yield the cache misses, as such and per thousand instructions, against the best peer's.

    Those per thousand flatter an allocator that executes more instructions.
    """
    per = "misses per thousand instructions"
    for field, words in (
        *(("l1_mpki", f"L1 {per}"), ("l2_mpki", f"L2 {per}")),
        *(("l1_misses", "L1 misses"), ("l2_misses", "L2 misses")),
    ):
        for program, row in medians(samples, field).items():
            others = {s: e.median for s, e in row.items() if s not in OURS}
            for ours in OURS:
                if ours in row and others:
                    best = min(others, key=lambda peer: others[peer])
                    what = f"{ours}: {program}, {words} / {best_of(others)}"
                    ratio = row[ours].median / others[best]
                    yield Target(what, ratio, 1.0, note=f"best is {best}")


def comparison_of(part: Mapping[str, Any]) -> Comparison:
    """Return the comparison of the threaded workloads, or of churn, from the kept results."""
    samples = dict(map(read_sample, part["samples"]))
    return Comparison(tuple(part["subjects"]), samples, float(part["header"]["seconds"]))


def judge_threads(comparison: Comparison) -> Iterator[Target]:
    """Yield throughput, percentiles and memory of exgen on every task."""
    for metric in THREADS_METRICS:
        yield from judge_metric(comparison, metric, OURS[0])


def judge_metric(comparison: Comparison, metric: DriverMetric, ours: str) -> Iterator[Target]:
    """Yield a quantity of a subject on every task, against the best of the others."""
    values, least = (
        Values.collect(comparison.samples.items(), extract)
        for extract in (metric.value, metric.least)
    )
    peers = ["glibc"] if metric is PEAK_RSS else comparison.labels
    for task in tasks_of(comparison):
        pick = max if metric.more_is_better else min
        best = best_on(values, task, [peer for peer in peers if peer != ours], pick)
        if best is None:
            continue
        (mine, base), (mine_least, base_least) = (
            v.pairs(task, ours, best) for v in (values, least)
        )
        low = known(ratio_estimate(mine_least, base)).low
        high = known(ratio_estimate(mine, base_least)).high
        yield from judged(
            f"{task}: {metric.name} / {best}'s",
            ratio_estimate(mine, base),
            1.0,
            interval=Interval(low, high),
            at_least=metric.more_is_better,
        )


CPU: Final = DriverMetric(
    "CPU time", "ns", lambda r: r.cpu_ns / r.operations if r.operations else None
)
"""Of an operation."""
CLASS_TARGET: Final = 1.5
"""CPU time of an operation of each range of sizes, relative to the best peer's."""
GROWN: Final = frozenset({"grow-step", "grow-half", "aligned"})
"""Not compared with glibc, whose single block at the end of the heap grows for nothing."""


def judge_classes(comparison: Comparison) -> Iterator[Target]:
    """Yield CPU time against the best peer's on every range of sizes, and over all of them."""
    table = Values.collect(comparison.samples.items(), CPU.value).table
    values = Values({(task.workload, subject): row for (task, subject), row in table.items()})
    rows, ours = class_rows(comparison), OURS[0]
    for name, row in rows.items():
        others = [s for s in row if s != ours and not (s == "glibc" and name in GROWN)]
        best = best_on(values, name, others)
        if best:
            what, ratio = f"{name}: CPU time / {best_of(others)}", values.ratio(name, ours, best)
            yield from judged(what, ratio, CLASS_TARGET, note=f"best is {best}")
    if all(ours in row for row in rows.values()):
        yield from _mean_of(values, rows, ours, "classes: CPU time", 1.0)


def class_rows(comparison: Comparison) -> Medians:
    """Return the CPU time of an operation of every range of sizes."""
    rows = estimates(comparison, CPU, tasks_of(comparison))
    return {task.workload: dict(row) for task, row in rows.items()}


def judge_churn(comparison: Comparison) -> Iterator[Target]:
    """Yield how much RSS over live bytes grew from the second to the last quarter."""
    growths: dict[str, list[float]] = {}
    for (_, _, label), sample in comparison.samples.items():
        if sample.values is None or sample.values.curve is None or label not in OURS:
            continue
        growth = flatness(sample.values.curve.live_bytes, sample.values.curve.rss_bytes)
        if growth is not None:
            growths.setdefault(label, []).append(growth)
    for label, found in growths.items():
        what = f"{label}: churn, RSS/live of the last quarter / second quarter's"
        yield from judged(what, median_estimate(found), FLAT_TARGET)


def flatness(live_bytes: Sequence[int], rss_bytes: Sequence[int]) -> float | None:
    """Return the median RSS over live bytes of the last quarter over that of the second.

    The first quarter is left out: the heap is still growing to its size.

    Args:
        live_bytes: at each moment.
        rss_bytes: at the same moments.

    Returns:
        None for fewer than 8 moments.
    """
    ratios = [rss / live for rss, live in zip(rss_bytes, live_bytes, strict=True) if live > 0]
    quarter = len(ratios) // 4
    if quarter < 2:
        return None
    return statistics.median(ratios[-quarter:]) / statistics.median(ratios[quarter : 2 * quarter])


def judge_memory(samples: Sequence[Row]) -> Iterator[Target]:
    """Yield the bytes of the programs that are hard on memory, against those of some peers."""
    values = values_of(samples, "bytes")
    for (task, peer), target in MEMORY_TARGETS.items():
        what = f"{OURS[0]}: memory, {task} / {peer}'s"
        yield from judged(what, values.ratio(task, OURS[0], peer), target)


def judge_prices(samples: Sequence[Row]) -> Iterator[Target]:
    """Yield what `check` costs a pair of malloc and free."""
    for task, row in medians(samples, "instructions").items():
        if task.startswith(PAIRS) and {"exgen", "exgen-check"} <= set(row):
            ratio = row["exgen-check"].median / row["exgen"].median
            yield Target(f"exgen-check: instructions, {task} / exgen's", ratio, CHECK_TARGET)


def judge_gem5(samples: Sequence[Row]) -> Iterator[Target]:
    """Yield CPU time and mean heap of gem5 against glibc's and every peer's."""
    for field, target in GEM5_TARGETS.items():
        values = values_of(samples, field)
        for task, row in medians(samples, field).items():
            others = [subject for subject in row if subject not in OURS]
            best = best_on(values, task, others)
            for ours in OURS:
                what = f"{ours}: gem5, {field} / glibc's"
                yield from judged(what, values.ratio(task, ours, "glibc"), target)
                if best:
                    what, ratio = (
                        f"{ours}: gem5, {field} / {best_of(others)}",
                        values.ratio(task, ours, best),
                    )
                    yield from judged(what, ratio, 1.0, note=f"best is {best}")


def subjects_of(parts: Parts) -> list[str]:
    """Return the subjects of all parts but those that have subjects of their own."""
    found = (label for n, part in parts.items() if n not in VARIANTS for label in part["subjects"])
    return list(dict.fromkeys(found))


def targets(parts: Parts) -> Iterator[Target]:
    """Yield every figure of the kept parts against its target."""
    subjects = subjects_of(parts)
    if "programs" in parts:
        yield from judge_programs(parts["programs"]["rows"], subjects)
    if "cache" in parts:
        yield from judge_cache(parts["cache"]["rows"])
    if "threads" in parts:
        yield from judge_threads(comparison_of(parts["threads"]))
    if "classes" in parts:
        yield from judge_classes(comparison_of(parts["classes"]))
    if "churn" in parts:
        yield from judge_churn(comparison_of(parts["churn"]))
    if "memory" in parts:
        yield from judge_memory(parts["memory"]["rows"])
    if "prices" in parts:
        yield from judge_prices(parts["prices"]["rows"])
    if "gem5" in parts:
        yield from judge_gem5(parts["gem5"]["rows"])
    rows = (row for part in parts.values() for row in part.get("rows", part.get("samples")))
    yield from failed_target(n_failed(row for row in rows if row["subject"] == OURS[0]), OURS[0])
