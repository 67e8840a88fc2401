"""The tables of allocators.py: figures, geometric means, and which targets are missed.

A ratio of a subject is below 1 where it needs less than what it is compared with.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.allocator_targets import (
    OURS,
    THREADS_METRICS,
    class_rows,
    common,
    comparison_of,
    geometric,
    judge_metric,
    long_ones,
    targets,
)
from benchmarks.harness import Target, count_targets, table
from benchmarks.results import Parts
from benchmarks.rounds import Medians, failures, medians
from tuner.bench.journal import Comparison
from tuner.bench.summary import failures as bench_failures
from tuner.stats import Estimate


def standing_lines(comparison: Comparison) -> Iterator[str]:
    """Yield how often each subject would reach what is asked of exgen on the threaded tasks."""
    cells = []
    for subject in comparison.labels:
        found = [list(judge_metric(comparison, metric, subject)) for metric in THREADS_METRICS]
        cells.append([subject, *map(_reached_and_missed, found)])
    yield ""
    yield "Every allocator held to the targets of threads: reached, missed, of the tasks it ran"
    yield ""
    yield from table(["", *(metric.name for metric in THREADS_METRICS)], cells)


def _reached_and_missed(found: Sequence[Target]) -> str:
    met, missed = sum(t.is_met for t in found), sum(t.is_missed for t in found)
    return f"{met}, {missed} of {len(found)}" if found else "-"


def class_lines(parts: Parts) -> Iterator[str]:
    """Yield the CPU time of an operation of every range of sizes."""
    if "classes" in parts:
        comparison = comparison_of(parts["classes"])
        cells = [
            [name, *(_cell(row.get(subject), 1.0, 1) for subject in comparison.labels)]
            for name, row in class_rows(comparison).items()
        ]
        yield from table(["ns an operation", *comparison.labels], cells)


def failure_lines(parts: Parts) -> Iterator[str]:
    """Yield a line for every run that has no result."""
    for name, part in parts.items():
        found = failures(part["rows"]) if "rows" in part else bench_failures(comparison_of(part))
        yield from (f"{name}: {line}" for line in found)


def _times_beyond(target: Target) -> float:
    """Return how many times farther than allowed a value is."""
    ratio = target.value / target.limit if target.limit else math.inf
    return 1 / ratio if target.at_least else ratio


def missed_lines(parts: Parts) -> Iterator[str]:
    """Yield a table of the targets that are missed, the worst first."""
    found = list(targets(parts))
    missed = sorted((t for t in found if t.is_missed), key=_times_beyond, reverse=True)
    yield f"{count_targets(found)}; missed, worst first:"
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
