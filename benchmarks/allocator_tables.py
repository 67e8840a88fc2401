"""Figures of allocators.py: ratios, geometric means, targets, and how they are shown.

A ratio of a subject is below 1 where it needs less than what it is compared with.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence, Sized
from typing import Any, Final

from scipy.stats import gmean

from benchmarks.allocator_programs import PAIRS
from benchmarks.harness import Target, table
from benchmarks.results import Parts
from benchmarks.rounds import Medians, Row, failures, medians
from tuner.bench.journal import Comparison, read_sample
from tuner.bench.summary import (
    CALLS,
    PEAK_RSS,
    THROUGHPUT,
    DriverMetric,
    Estimates,
    estimates,
    tasks_of,
)
from tuner.bench.summary import failures as bench_failures
from tuner.stats import Estimate

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


def best_of(others: Sized) -> str:
    """Return the words for the best of those something was compared with: how many there are."""
    return f"best of the {len(others)} compared"


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
    return float(gmean(values)) if values and len(values) == len(rows) else None


def complete_peers(rows: Medians, subjects: Sequence[str]) -> list[str]:
    """Return the peers that ran every program; only these can be the best of a mean."""
    return [s for s in subjects if s not in OURS and all(s in row for row in rows.values())]


def judge_programs(samples: Sequence[Row], subjects: Sequence[str]) -> Iterator[Target]:
    """Yield the figures of the single-threaded programs."""
    times = long_ones(medians(samples, "cpu_s"))
    peaks = medians(samples, "peak_rss_bytes")
    for ours in OURS:
        if ours not in subjects:
            continue
        mine = common(times, [ours])
        peers = complete_peers(mine, subjects)
        means = {peer: geometric(mine, peer) for peer in peers}
        known = {peer: mean for peer, mean in means.items() if mean}
        own = geometric(mine, ours)
        if own and known:
            best = min(known, key=lambda peer: known[peer])
            yield Target(f"{ours}: time, geometric mean / {best_of(known)}", own / known[best],
                            TIME_TARGET, note=f"best is {best}")  # fmt: skip
        yield from _worst(mine, ours)
        yield from _memory(common(peaks, [ours]), ours)


def _worst(times: Medians, ours: str) -> Iterator[Target]:
    """Yield the program on which a subject is farthest behind the best peer."""
    behind = {}
    for program, row in times.items():
        others = {subject: e.median for subject, e in row.items() if subject not in OURS}
        if others:
            best = min(others, key=lambda peer: others[peer])
            behind[program] = (row[ours].median / others[best], best)
    if behind:
        program = max(behind, key=lambda name: behind[name][0])
        ratio, best = behind[program]
        yield Target(f"{ours}: time, worst program / best of the others", ratio, WORST_TARGET,
                        note=f"{program}, best is {best}")  # fmt: skip


def _memory(peaks: Medians, ours: str) -> Iterator[Target]:
    for other, target in RSS_TARGETS.items():
        both = common(peaks, [ours, other])
        own, theirs = geometric(both, ours), geometric(both, other)
        if own and theirs:
            what = f"{ours}: peak RSS, geometric mean / {other}'s"
            yield Target(what, own / theirs, target)


def judge_cache(samples: Sequence[Row]) -> Iterator[Target]:
    """Yield the cache misses per thousand instructions against the best peer's."""
    for field, name in (("l1_mpki", "L1"), ("l2_mpki", "L2")):
        for row in medians(samples, field).values():
            others = {s: e.median for s, e in row.items() if s not in OURS}
            for ours in OURS:
                if ours in row and others:
                    best = min(others, key=lambda peer: others[peer])
                    yield Target(f"{ours}: {name} misses / {best_of(others)}",
                                    row[ours].median / others[best], 1.0,
                                    note=f"best is {best}")  # fmt: skip


def comparison_of(part: Mapping[str, Any]) -> Comparison:
    """Return the comparison of the threaded workloads, or of churn, from the kept results."""
    samples = dict(map(read_sample, part["samples"]))
    return Comparison(tuple(part["subjects"]), samples, float(part["header"]["seconds"]))


def judge_threads(comparison: Comparison) -> Iterator[Target]:
    """Yield throughput, percentiles and memory of exgen on every task."""
    for metric in THREADS_METRICS:
        rows = estimates(comparison, metric, tasks_of(comparison))
        yield from _judge_metric(rows, metric, OURS[0])


def standing_lines(comparison: Comparison) -> Iterator[str]:
    """Yield how often each subject would reach what is asked of exgen on the threaded tasks."""
    tables = [(m, estimates(comparison, m, tasks_of(comparison))) for m in THREADS_METRICS]
    cells = []
    for subject in comparison.labels:
        found = [list(_judge_metric(rows, metric, subject)) for metric, rows in tables]
        met = (sum(target.is_met for target in each) for each in found)
        cells.append(
            [subject, *(f"{n} of {len(e)}" if e else "-" for n, e in zip(met, found, strict=True))]
        )
    yield ""
    yield "Every allocator held to the targets of threads: reached, of the tasks it ran"
    yield ""
    yield from table(["", *(metric.name for metric in THREADS_METRICS)], cells)


def _judge_metric(rows: Estimates, quantity: DriverMetric, ours: str) -> Iterator[Target]:
    pick = max if quantity.more_is_better else min
    for task, row in rows.items():
        others = {s: e.median for s, e in row.items() if s != ours and e.median > 0}
        if quantity is PEAK_RSS:
            others = {s: value for s, value in others.items() if s == "glibc"}
        if ours in row and others:
            best = pick(others, key=lambda peer: others[peer])
            yield Target(
                f"{task}: {quantity.name} / {best}'s",
                row[ours].median / others[best],
                1.0,
                quantity.more_is_better,
                _overlap(row[ours], row[best]),
            )


def _overlap(first: Estimate, second: Estimate) -> str:
    if first.interval is None or second.interval is None:
        return ""
    apart = first.interval.low > second.interval.high or second.interval.low > first.interval.high
    return "" if apart else "intervals overlap"


CPU: Final = DriverMetric(
    "CPU time", "ns", lambda r: r.cpu_ns / r.operations if r.operations else None
)
"""Of an operation."""
CLASS_TARGET: Final = 1.5
"""CPU time of an operation of each range of sizes, relative to the best peer's."""
GROWN: Final = frozenset({"grow-step", "grow-half", "aligned"})
"""Not compared with glibc, whose single block at the end of the heap grows for nothing."""


def _class_rows(comparison: Comparison) -> Medians:
    rows = estimates(comparison, CPU, tasks_of(comparison))
    return {task.workload: dict(row) for task, row in rows.items()}


def judge_classes(comparison: Comparison) -> Iterator[Target]:
    """Yield CPU time against the best peer's on every range of sizes, and over all of them."""
    rows = _class_rows(comparison)
    ours = OURS[0]
    for name, row in rows.items():
        others = {
            s: e.median
            for s, e in row.items()
            if s != ours and not (s == "glibc" and name in GROWN)
        }
        if ours in row and others:
            best = min(others, key=lambda peer: others[peer])
            ratio = row[ours].median / others[best]
            yield Target(f"{name}: CPU time / {best_of(others)}", ratio, CLASS_TARGET,
                            note=f"best is {best}")  # fmt: skip
    means = {peer: geometric(rows, peer) for peer in complete_peers(rows, comparison.labels)}
    known = {peer: mean for peer, mean in means.items() if mean}
    own = geometric(rows, ours)
    if own and known:
        best = min(known, key=lambda peer: known[peer])
        yield Target(f"classes: CPU time, geometric mean / {best_of(known)}", own / known[best],
                        1.0, note=f"best is {best}")  # fmt: skip


def class_lines(parts: Parts) -> Iterator[str]:
    """Yield the CPU time of an operation of every range of sizes."""
    if "classes" in parts:
        comparison = comparison_of(parts["classes"])
        cells = [
            [name, *(_cell(row.get(subject), 1.0, 1) for subject in comparison.labels)]
            for name, row in _class_rows(comparison).items()
        ]
        yield from table(["ns an operation", *comparison.labels], cells)


def judge_churn(comparison: Comparison) -> Iterator[Target]:
    """Yield how much RSS over live bytes grew from the second to the last quarter."""
    for (_, _, label), sample in comparison.samples.items():
        if sample.values is None or sample.values.curve is None or label not in OURS:
            continue
        growth = flatness(sample.values.curve.live_bytes, sample.values.curve.rss_bytes)
        if growth is not None:
            what = f"{label}: churn, RSS/live of the last quarter / second quarter's"
            yield Target(what, growth, FLAT_TARGET)


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
    rows = medians(samples, "bytes")
    for (task, peer), target in MEMORY_TARGETS.items():
        row = rows.get(task, {})
        if OURS[0] in row and peer in row:
            ratio = row[OURS[0]].median / row[peer].median
            yield Target(f"{OURS[0]}: memory, {task} / {peer}'s", ratio, target)


def judge_prices(samples: Sequence[Row]) -> Iterator[Target]:
    """Yield what `check` costs a pair of malloc and free."""
    for task, row in medians(samples, "instructions").items():
        if task.startswith(PAIRS) and {"exgen", "exgen-check"} <= set(row):
            ratio = row["exgen-check"].median / row["exgen"].median
            yield Target(f"exgen-check: instructions, {task} / exgen's", ratio, CHECK_TARGET)


def judge_gem5(samples: Sequence[Row]) -> Iterator[Target]:
    """Yield CPU time and mean heap of gem5 against glibc's and every peer's."""
    for field, target in GEM5_TARGETS.items():
        for row in medians(samples, field).values():
            for ours in OURS:
                if ours in row and "glibc" in row:
                    ratio = row[ours].median / row["glibc"].median
                    yield Target(f"{ours}: gem5, {field} / glibc's", ratio, target)
                others = {s: e.median for s, e in row.items() if s not in OURS}
                if ours in row and others:
                    best = min(others, key=lambda peer: others[peer])
                    ratio = row[ours].median / others[best]
                    yield Target(f"{ours}: gem5, {field} / {best_of(others)}", ratio, 1.0,
                                    note=f"best is {best}")  # fmt: skip


def failure_lines(parts: Parts) -> Iterator[str]:
    """Yield a line for every run that has no result."""
    for name, part in parts.items():
        found = failures(part["rows"]) if "rows" in part else bench_failures(comparison_of(part))
        yield from (f"{name}: {line}" for line in found)


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


def _times_beyond(target: Target) -> float:
    """Return how many times farther than allowed a value is."""
    ratio = target.value / target.limit
    return 1 / ratio if target.at_least else ratio


def missed_lines(parts: Parts) -> Iterator[str]:
    """Yield a table of the targets that are missed, the worst first."""
    found = list(targets(parts))
    missed = sorted((t for t in found if not t.is_met), key=_times_beyond, reverse=True)
    yield f"{len(found) - len(missed)} of {len(found)} targets are reached; missed, worst first:"
    yield ""
    yield from table(
        ["what, relative to what", "found", "limit", "times beyond"],
        [
            [t.what, f"{t.value:{t.form}}", f"{t.limit:{t.form}}", f"{_times_beyond(t):.2f}"]
            for t in missed
        ],
    )


def memory_lines(parts: Parts) -> Iterator[str]:
    """Yield what the programs need that are hard on memory."""
    if "memory" in parts:
        rows = medians(parts["memory"]["rows"], "bytes")
        cells = [[task, *(_cell(row.get(subject), 2.0**20, 1) for subject in
                          parts["memory"]["subjects"])] for task, row in rows.items()]  # fmt: skip
        yield from table(["MiB", *parts["memory"]["subjects"]], cells)


def safety_lines(parts: Parts) -> Iterator[str]:
    """Yield what each safety setting costs the programs, beside glibc and exgen without."""
    if "safety" in parts:
        times = long_ones(medians(parts["safety"]["rows"], "cpu_s"))
        peaks = medians(parts["safety"]["rows"], "peak_rss_bytes")
        cells = [[s, _mean(times, s), _mean(peaks, s)] for s in parts["safety"]["subjects"]]
        yield from table(["geometric mean / glibc's", "CPU time", "peak RSS"], cells)


_LEAST_SPREAD: Final = 0.005
"""Half of the interval, as a share of the median, from which on it is shown."""

_OF_SINGLE: Final = (
    ("CPU time", "programs", "cpu_s"),
    ("peak RSS", "programs", "peak_rss_bytes"),
    ("instructions", "cache", "instructions"),
)


def single_lines(parts: Parts) -> Iterator[str]:
    """Yield what the build for one thread needs of what the other needs."""
    cells = []
    for title, part, what in _OF_SINGLE:
        if part in parts:
            both = common(medians(parts[part]["rows"], what), OURS)
            threaded, single = (geometric(both, subject) for subject in OURS)
            if threaded and single:
                cells.append([title, str(len(both)), f"{single / threaded:.3f}"])
    yield from table(["", "programs", "exgen-st / exgen, geometric mean"], cells)


def floor_lines(parts: Parts) -> Iterator[str]:
    """Yield how far below each subject's peak RSS an allocator that needs nothing would be."""
    if not {"floor", "programs"} <= set(parts):
        return
    floors = medians(parts["floor"]["rows"], "floor_bytes")
    peaks = medians(parts["programs"]["rows"], "peak_rss_bytes")
    cells = []
    for subject in parts["programs"]["subjects"]:
        both = {p: row for p, row in common(peaks, [subject]).items() if p in floors}
        theirs = geometric(both, subject)
        least = geometric({program: floors[program] for program in both}, "glibc")
        if theirs and least:
            cells.append([subject, f"{least / theirs:.3f}"])
    yield ""
    yield from table(["floor / peak RSS", "geometric mean over the programs that have both"], cells)


def figure_table(
    title: str, rows: Medians, subjects: Sequence[str], scale: float, digits: int
) -> Iterator[str]:
    """Yield a table: one program a line, one column per subject, means below.

    Args:
        title: with the unit.
        rows: medians; below them their geometric means relative to glibc's, over the
            programs that the subject and glibc both ran, if glibc is there.
        subjects: columns.
        scale: what a value is divided by.
        digits: after the point.
    """
    cells = [
        [program, *(_cell(row.get(subject), scale, digits) for subject in subjects)]
        for program, row in rows.items()
    ]
    means = [_mean(rows, subject) for subject in subjects]
    if set(means) != {"-"}:
        cells.append(["geometric mean / glibc's", *means])
    yield ""
    yield from table([title, *subjects], cells)


def _mean(rows: Medians, subject: str) -> str:
    both = common(rows, [subject, "glibc"])
    own, base = geometric(both, subject), geometric(both, "glibc")
    mark = "" if len(both) == len(rows) else f" of {len(both)}"
    return f"{own / base:.3f}{mark}" if own and base else "-"


def _cell(estimate: Estimate | None, scale: float, digits: int) -> str:
    if estimate is None:
        return "-"
    text = f"{estimate.median / scale:.{digits}f}"
    if estimate.interval is None or not estimate.median:
        return text
    half = (estimate.interval.high - estimate.interval.low) / 2 / estimate.median
    return f"{text} ±{half:.0%}" if half >= _LEAST_SPREAD else text
