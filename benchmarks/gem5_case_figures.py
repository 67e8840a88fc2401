"""The figures of gem5_case.py, from its results: changes, picks, ranks and targets, as values.

A change is the geometric mean over the simulations of the ratios to glibc's default in the same
round, the median over the rounds.  It has two intervals: over the rounds, and over simulations,
which are resampled for it.  Targets are judged by the interval over the rounds.

The setting of an allocator is picked by what gem5 did on the simulations that were tuned on: the
least product of mean heap and CPU time, each over glibc's default.  What is claimed is claimed
over the simulations that are held out.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from benchmarks.harness import Target
from benchmarks.results import Parts
from benchmarks.rounds import known
from tuner import stats
from tuner.compare.values import Values
from tuner.stats import Estimate, Interval

BASELINE: Final = "glibc default"
METRICS: Final = {
    "mean_heap": "mean heap",
    "peak_heap": "peak heap",
    "cpu_ns": "CPU time",
    "faults": "page faults",
}
RANKED: Final = {"peak_heap": "peak_heap", "mean_heap": "mean_heap", "cost": "cpu_ns"}
"""What the emulator ranks points by, and what that stands for on gem5."""

SPREAD: Final = 0.01
"""Allocators whose points differ by less on gem5 need no ranking."""

BLIND: Final = ("sort-server", "chase-o3", "matrix-minor")
"""Simulations that were added after the rule of picking was fixed."""

GROUPS: Final[Mapping[str, Sequence[str]]] = {"held out": (), "never seen before": BLIND}
"""Simulations that a claim is over, all of those held out where none is named."""

Results = Mapping[str, Any]


@dataclass(frozen=True)
class Ranking:
    """How the emulator ranks the points of one allocator."""

    allocator: str
    metric: str
    n: int
    spread: float
    """Greatest over least value on gem5, less 1."""
    tau: float | None
    share: float | None
    """Of the pairs that differ by more than 1 % on gem5, those ordered alike."""


def view(parts: Parts) -> Results:
    """Return the parts of the results file in one, with every row of every step in ``rows``."""
    rows = [
        {**row, "part": part, "simulation": row["task"], "label": row["subject"]}
        for part, found in parts.items()
        if part != "about"
        for row in found
    ]
    speed = [row for row in rows if row["part"] == "speed"]
    return {**parts.get("about", {}), "speed": speed, "rows": rows}


def rows_of(results: Results, **fields: object) -> list[Mapping[str, Any]]:
    """Return the good rows with these values."""
    return [r for r in results["rows"] if r["status"] == "ok" and fields.items() <= r.items()]


def allocators(results: Results) -> list[str]:
    """Return the names of the allocators, glibc first."""
    return list(results["campaigns"])


def labels(results: Results, allocator: str) -> list[str]:
    """Return the labels of an allocator's default and picks."""
    found = [label for label in results["points"] if label.startswith(f"{allocator} ")]
    return [label for label in found if not label.rpartition(" ")[2].isdecimal()]


def change(
    results: Results, part: str, label: str, metric: str, only: Sequence[str] = ()
) -> Estimate | None:
    """Return a point's change over the simulations of a part, or only some of them.

    Returns:
        None when it failed on one of them, or none was run.
    """
    names = _simulations(results, part, only)
    own = [r for r in results["rows"] if r["part"] == part and r["label"] == label]
    if any(r["status"] != "ok" and r["simulation"] in names for r in own):
        return None
    return _values(results, part, metric).change(names, label, BASELINE)


def over_simulations(
    results: Results, part: str, label: str, metric: str, only: Sequence[str] = ()
) -> Interval | None:
    """Return the interval of a point's change over simulations like those of a part.

    Returns:
        None when `change` has none, or there is but one simulation.
    """
    if change(results, part, label, metric, only) is None:
        return None
    values, names = _values(results, part, metric), _simulations(results, part, only)
    alone = [values.change([name], label, BASELINE) for name in names]
    return stats.geometric_mean_interval([one.median for one in alone if one])


def _simulations(results: Results, part: str, only: Sequence[str]) -> list[str]:
    names = {r["simulation"] for r in rows_of(results, part=part, label=BASELINE)}
    return sorted(names & set(only) if only else names)


def is_by_hand(label: str) -> bool:
    """Return whether a setting is a seed of its campaign file, written by hand; else it was found.

    Example:
        >>> is_by_hand("exgen seed-1"), is_by_hand("exgen lean")
        (True, False)
    """
    return label.partition(" ")[2].startswith("seed-")


def level(
    results: Results, part: str, label: str, metric: str, only: Sequence[str] = ()
) -> float | None:
    """Return the mean over the simulations of the medians over the rounds."""
    names = sorted({r["simulation"] for r in rows_of(results, part=part, label=label)})
    names = [name for name in names if not only or name in only]
    medians = _medians(results, part, metric, names, label)
    return statistics.fmean(medians) if medians else None


def _values(results: Results, part: str, metric: str) -> Values[str]:
    """Return a metric of all good rows of a part, by simulation and label."""
    table: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows_of(results, part=part):
        place = row["simulation"], row["label"]
        table.setdefault(place, {})[row["round"]] = float(row[metric])
    return Values(table)


def _medians(
    results: Results, part: str, metric: str, names: Iterable[str], label: str
) -> list[float]:
    """Return the medians over the rounds on the simulations where a point ran."""
    values = _values(results, part, metric)
    return [found.median for name in names if (found := values.median(name, label))]


def ranked(results: Results, candidates: Iterable[str]) -> list[str]:
    """Return points by the product of mean heap and CPU time where they were tuned, least first."""
    products = {label: product(results, "tune", label) for label in candidates}
    known = {label: value for label, value in products.items() if value is not None}
    return sorted(known, key=lambda label: known[label])


def product(results: Results, part: str, label: str) -> float | None:
    """Return the product of a point's changes of mean heap and CPU time; None: it is out."""
    heap, cpu = (change(results, part, label, metric) for metric in ("mean_heap", "cpu_ns"))
    return heap.median * cpu.median if heap and cpu else None


def finalists(results: Results) -> list[str]:
    """Return what runs on the simulations held out: all defaults, the best points beside them."""
    found = []
    for name in allocators(results):
        own = labels(results, name)
        tuned = [label for label in ranked(results, own) if not label.endswith(" default")]
        defaults = [label for label in own if label.endswith(" default")]
        found += [*defaults, *tuned[:1]]
    return found


def picks(results: Results) -> dict[str, str]:
    """Return the picked setting of each allocator that has one: the best beside its default."""
    found: dict[str, str] = {}
    for name in allocators(results):
        tuned = [x for x in ranked(results, labels(results, name)) if not x.endswith(" default")]
        if tuned:
            found[name] = tuned[0]
    return found


def best_of_all(results: Results) -> str | None:
    """Return the best of all defaults and picks."""
    every = [label for name in allocators(results) for label in labels(results, name)]
    return next(iter(ranked(results, every)), None)


def instructions(results: Results, label: str) -> float | None:
    """Return the instructions of the counted simulation over those under glibc's default."""
    mine = rows_of(results, part="count", label=label)
    base = rows_of(results, part="count", label=BASELINE)
    return mine[0]["instructions"] / base[0]["instructions"] if mine and base else None


def rankings(results: Results) -> list[Ranking]:
    """Return how the emulator ranks each allocator's points, by peak and mean heap and by cost."""
    found = []
    for emulated, metric in RANKED.items():
        for name in allocators(results):
            pairs = [
                (float(point["emulated"][emulated]), real)
                for label, point in results["points"].items()
                if label.startswith(f"{name} ")
                and point["emulated"]
                and (real := over_tuned(results, label, metric)) is not None
            ]
            if len(pairs) > 2:
                claims, reals = [p[0] for p in pairs], [p[1] for p in pairs]
                share = stats.concordance(claims, reals)
                tau = stats.kendall_tau(claims, reals)
                spread = max(reals) / min(reals) - 1.0
                share_value = share.share if share else None
                found.append(Ranking(name, metric, len(pairs), spread, tau, share_value))
    return found


def over_tuned(results: Results, label: str, metric: str) -> float | None:
    """Return the geometric mean of a metric over the simulations tuned on, as the emulator's is.

    Returns:
        None when the point was not run on all of them; CPU times of points that are only ranked
        do not count, since these run whatever else the machine does.
    """
    for part in ("tune",) if metric == "cpu_ns" else ("tune", "rank"):
        names = {r["simulation"] for r in rows_of(results, part=part, label=BASELINE)}
        medians = _medians(results, part, metric, sorted(names), label)
        if names and len(medians) == len(names):
            return statistics.geometric_mean(medians)
    return None


def percent(ratio: float | None) -> str:
    """Return a ratio as the change it is."""
    return "unknown" if ratio is None else f"{ratio - 1.0:+.1%}"


def targets(results: Results) -> Iterator[Target]:
    """Yield every figure that was aimed at.

    Of limits that hold together the value is the greatest figure over its limit.
    """
    chosen, best = picks(results), best_of_all(results)
    for where, only in GROUPS.items():
        if label := chosen.get("glibc"):
            more = instructions(results, label) or math.inf
            what = "mean heap -5 % at no more instructions, or CPU time -9 % at mean heap <= +2 %"
            yield _over_limits(
                f"glibc tuned, {where}: {what}", results, label, only,
                partial(_lean_or_fast, more),
            )  # fmt: skip
        if best:
            what = f"best over all, {where}: mean heap -5 % and CPU time -13 % at once"
            yield _over_limits(
                what, results, best, only, lambda heap, cpu: max(heap / 0.95, cpu / 0.87)
            )
    for found in rankings(results):
        if found.spread > SPREAD:
            what = f"ranks of {found.allocator} by {METRICS[found.metric]}: tau"
            note = f"{found.n} points that differ by {found.spread:.1%}"
            yield Target(what, found.tau or 0.0, 0.9, at_least=True, note=note)
    for row in results["speed"]:
        times = row["gem5_cpu_s"] / row["evaluation_cpu_s"]
        what = f"an evaluation of {row['trace']} is cheaper than its simulation by"
        note = f"{row['evaluation_cpu_s']:.2f} s for {row['gem5_cpu_s']:.1f} s"
        yield Target(what, times, 100.0, at_least=True, note=note, form=".0f")


def _lean_or_fast(instructions: float, heap: float, cpu: float) -> float:
    """Return how far the nearer of two pairs of limits is exceeded; at most 1: it is kept."""
    return min(max(heap / 0.95, instructions), max(cpu / 0.91, heap / 1.02))


def _over_limits(
    what: str,
    results: Results,
    label: str,
    only: Sequence[str],
    over: Callable[[float, float], float],
) -> Target:
    """Return the target of a point where it is held out, with its interval over the rounds.

    Args:
        what: names the target.
        results: all of them.
        label: of the point.
        only: simulations; none: all.
        over: from mean heap and CPU time over the baseline's to what must not exceed 1; it grows
            with both, so that its ends are those of theirs.
    """
    found = [change(results, "held-out", label, name, only) for name in ("mean_heap", "cpu_ns")]
    heap, cpu = (one.median if one else math.inf for one in found)
    lows, highs = zip(*((known(one).low, known(one).high) for one in found), strict=True)
    interval = Interval(over(*lows), over(*highs)) if all(found) else None
    note = f"{label}: mean heap {percent(heap)}, CPU time {percent(cpu)}"
    return Target(what, over(heap, cpu), 1.0, note=note, interval=interval)
