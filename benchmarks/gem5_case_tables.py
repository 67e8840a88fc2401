"""What the results of gem5_case.py show: changes, ranks and judgements, as values and as text.

A change is the geometric mean over the simulations of the ratios to glibc's default in the same
round, the median over the rounds, with the bootstrap interval of that median.

The setting of an allocator is picked by what gem5 did on the simulations that were tuned on: the
least product of mean heap and CPU time, each over glibc's default.  What is claimed is claimed
over the simulations that are held out.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tuner import stats
from tuner.stats import Estimate
from tuner.validate.gem5_summary import geometric_mean

BASELINE: Final = "glibc default"
METRICS: Final = {
    "mean_heap": "mean heap",
    "peak_heap": "peak heap",
    "cpu_ns": "CPU time",
    "faults": "page faults",
}
RANKED: Final = {"peak_heap": "peak_heap", "mean_heap": "mean_heap", "cost": "cpu_ns"}
"""What the emulator ranks points by, and what that stands for on gem5."""

SAME: Final = 0.002
"""Points whose emulated values differ by less are taken to do the same."""

SPREAD: Final = 0.01
"""Allocators whose points differ by less on gem5 need no ranking."""

PREDICTOR: Final = "loop-predictor"
"""Part with the simulations of cores that have a loop predictor."""

BLIND: Final = ("sort-server", "chase-o3", "matrix-minor")
"""Simulations that were added after the rule of picking was fixed."""

TARGET_TAU: Final = 0.9
TARGET_CHEAPER: Final = 100.0

GROUPS: Final[Mapping[str, Sequence[str]]] = {"held out": (), "never seen before": BLIND}
"""Simulations that a claim is over, all of those held out where none is named."""

Results = Mapping[str, Any]


@dataclass(frozen=True)
class Judgement:
    """One figure against what it should be."""

    claim: str
    found: str
    is_met: bool
    reason: str = ""
    """What was measured that explains a miss."""


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
    names = {r["simulation"] for r in rows_of(results, part=part, label=BASELINE)}
    if only:
        names &= set(only)
    tables = [_by_round(results, part, name, label, metric) for name in sorted(names)]
    bases = [_by_round(results, part, name, BASELINE, metric) for name in sorted(names)]
    failed = [r for r in results["rows"] if r["part"] == part and r["label"] == label]
    if not tables or any(r["status"] != "ok" and r["simulation"] in names for r in failed):
        return None
    shared = set.intersection(*(t.keys() & b.keys() for t, b in zip(tables, bases, strict=True)))
    means = [
        geometric_mean([t[n] / b[n] for t, b in zip(tables, bases, strict=True)])
        for n in sorted(shared)
    ]
    return stats.median_estimate(means)


def level(
    results: Results, part: str, label: str, metric: str, only: Sequence[str] = ()
) -> float | None:
    """Return the mean over the simulations of the medians over the rounds."""
    names = sorted({r["simulation"] for r in rows_of(results, part=part, label=label)})
    names = [name for name in names if not only or name in only]
    tables = [_by_round(results, part, name, label, metric) for name in names]
    return statistics.fmean(statistics.median(t.values()) for t in tables) if tables else None


def _by_round(
    results: Results, part: str, simulation: str, label: str, metric: str
) -> dict[int, float]:
    rows = rows_of(results, part=part, simulation=simulation, label=label)
    return {r["round"]: float(r[metric]) for r in rows}


def ranked(results: Results, candidates: Iterable[str]) -> list[str]:
    """Return points by the product of mean heap and CPU time where they were tuned, least first."""
    products = {}
    for label in candidates:
        found = [change(results, "tune", label, metric) for metric in ("mean_heap", "cpu_ns")]
        known = [estimate.median for estimate in found if estimate]
        if len(known) == len(found):
            products[label] = known[0] * known[1]
    return sorted(products, key=lambda label: products[label])


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
        tables = [_by_round(results, part, name, label, metric) for name in sorted(names)]
        if tables and all(tables):
            return geometric_mean([statistics.median(table.values()) for table in tables])
    return None


def judgements(results: Results) -> list[Judgement]:
    """Return every figure that was aimed at, and whether it was reached."""
    found = []
    chosen = picks(results)
    best = best_of_all(results)
    for where, only in GROUPS.items():
        if "glibc" in chosen:
            found.append(_judge_glibc(results, chosen["glibc"], where, only))
        if best:
            found.append(_judge_best(results, best, where, only))
    for ranking in rankings(results):
        if ranking.spread > SPREAD:
            tau = ranking.tau if ranking.tau is not None else 0.0
            claim = f"ranks of {ranking.allocator} by {METRICS[ranking.metric]}: tau >= 0.9"
            text = f"{tau:.2f} over {ranking.n} points that differ by {ranking.spread:.1%}"
            reason = _why_not_ranked(results, ranking)
            found.append(Judgement(claim, text, tau >= TARGET_TAU, reason))
    for row in results["speed"]:
        times = row["gem5_cpu_s"] / row["evaluation_cpu_s"]
        claim = f"an evaluation of {row['trace']} is 100 times cheaper than its simulation"
        text = f"{times:.0f} times: {row['evaluation_cpu_s']:.2f} s for {row['gem5_cpu_s']:.1f} s"
        reason = "an evaluation costs the same however long the simulation of its trace is"
        found.append(Judgement(claim, text, times >= TARGET_CHEAPER, reason))
    return found


def _judge_glibc(results: Results, label: str, where: str, only: Sequence[str]) -> Judgement:
    claim = (
        f"glibc tuned, {where}: mean heap -5 % at no more instructions, "
        "or CPU time -9 % at mean heap <= +2 %"
    )
    heap, cpu = (_median(results, label, metric, only) for metric in ("mean_heap", "cpu_ns"))
    n = instructions(results, label)
    is_lean = heap is not None and n is not None and heap <= 0.95 and n <= 1.0
    is_fast = heap is not None and cpu is not None and cpu <= 0.91 and heap <= 1.02
    text = f"{label}: mean heap {_percent(heap)}, CPU time {_percent(cpu)}"
    return Judgement(claim, text, is_lean or is_fast, _why_not_lighter(results, label))


def _judge_best(results: Results, label: str, where: str, only: Sequence[str]) -> Judgement:
    heap, cpu = (_median(results, label, metric, only) for metric in ("mean_heap", "cpu_ns"))
    is_met = heap is not None and cpu is not None and heap <= 0.95 and cpu <= 0.87
    text = f"{label}: mean heap {_percent(heap)}, CPU time {_percent(cpu)}"
    claim = f"best over all, {where}: mean heap -5 % and CPU time -13 % at once"
    reasons = [*_most_time_spared(results, only), _why_not_lighter(results, label)]
    return Judgement(claim, text, is_met, "; ".join(reasons))


def _most_time_spared(results: Results, only: Sequence[str]) -> list[str]:
    """Return which default or pick spares most CPU time there, whatever it holds."""
    every = [label for name in allocators(results) for label in labels(results, name)]
    spared = {label: _median(results, label, "cpu_ns", only) for label in every}
    known = {label: ratio for label, ratio in spared.items() if ratio is not None}
    if not known:
        return []
    label = min(known, key=lambda name: known[name])
    return [f"no default or pick spares more CPU time than {label}: {_percent(known[label])}"]


def _why_not_ranked(results: Results, ranking: Ranking) -> str:
    """Return how well the metric repeats on gem5, and how many clear pairs are ordered alike."""
    share = "none" if ranking.share is None else f"{ranking.share:.0%}"
    reasons = [f"of the pairs that differ by more than 1 % {share} are ordered alike"]
    if ranking.metric != "cpu_ns":
        reasons += _farthest_off(results, ranking)
        reasons += _without_split_pages(results, ranking)
    noise = repeatability(results, ranking.metric)
    if noise is not None:
        reasons.append(f"points that do the same in emulation differ by up to {noise:.1%} on gem5")
    return "; ".join(reasons)


def _pairs(results: Results, ranking: Ranking) -> dict[str, tuple[float, float]]:
    """Return what a metric of heap is in emulation and on gem5, over glibc's default, by label."""
    base, found = results["points"][BASELINE]["emulated"], {}
    real_base = over_tuned(results, BASELINE, ranking.metric)
    for label, point in results["points"].items():
        real = over_tuned(results, label, ranking.metric)
        if label.startswith(f"{ranking.allocator} ") and point["emulated"] and real and real_base:
            emulated = point["emulated"][ranking.metric] / base[ranking.metric]
            found[label] = (emulated, real / real_base)
    return found


def _farthest_off(results: Results, ranking: Ranking) -> list[str]:
    pairs = _pairs(results, ranking)
    if not pairs:
        return []
    label = max(pairs, key=lambda name: abs(pairs[name][0] - pairs[name][1]))
    emulated, real = map(_percent, pairs[label])
    return [f"farthest off is {label}: {emulated} in emulation, {real} on gem5"]


_GIVES_PARTS_BACK: Final = "purge_how=free"
"""Settings under which huge pages are split, and pages of zeros vanish."""


def _without_split_pages(results: Results, ranking: Ranking) -> list[str]:
    every = _pairs(results, ranking)
    settings = results["points"]
    kept = [p for n, p in every.items() if _GIVES_PARTS_BACK not in settings[n]["settings"]]
    n_left_out = len(every) - len(kept)
    if not n_left_out or len(kept) <= 2:
        return []
    tau = stats.kendall_tau([p[0] for p in kept], [p[1] for p in kept])
    text = "none" if tau is None else f"{tau:.2f}"
    return [f"without the {n_left_out} points that give parts of huge pages back tau is {text}"]


def repeatability(results: Results, metric: str) -> float | None:
    """Return by how much points that do the same differ on gem5 at most; None without any."""
    alike: list[float] = []
    points = [
        (label.partition(" ")[0], point["emulated"], value)
        for label, point in results["points"].items()
        if point["emulated"] and (value := over_tuned(results, label, metric)) is not None
    ]
    for (name, emulated, value), (other, theirs, another) in itertools.combinations(points, 2):
        pairs = [(emulated[key], theirs[key]) for key in RANKED]
        if name == other and all(abs(a - b) <= SAME * max(a, b) for a, b in pairs):
            alike.append(max(value, another) / min(value, another) - 1.0)
    return max(alike, default=None)


def _why_not_lighter(results: Results, label: str) -> str:
    """Return what bounds a point: the least heap on the trace, the instructions it spares."""
    reasons = []
    floor = results.get("floor")
    if floor:
        least = _percent(floor["aligned"] / floor["glibc"])
        text = f"in emulation, where every byte is written, no malloc can hold less than {least}"
        reasons.append(text)
    noise = repeatability(results, "cpu_ns")
    if noise is not None:
        reasons.append(f"CPU times of points that do the same differ by up to {noise:.0%}")
    n = instructions(results, label)
    if n is not None:
        reasons.append(f"{label} executes {_percent(n)} instructions")
    return "; ".join(reasons)


def _median(results: Results, label: str, metric: str, only: Sequence[str]) -> float | None:
    estimate = change(results, "held-out", label, metric, only)
    return estimate.median if estimate else None


def _percent(ratio: float | None) -> str:
    return "unknown" if ratio is None else f"{ratio - 1.0:+.1%}"


def _cell(estimate: Estimate | None) -> str:
    if estimate is None:
        return "out"
    text = _percent(estimate.median)
    if estimate.interval is None:
        return text
    low, high = estimate.interval.low - 1.0, estimate.interval.high - 1.0
    return f"{text} [{low:+.1%}, {high:+.1%}]"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]


def greenmalloc_table(results: Results, part: str, only: Sequence[str] = ()) -> list[str]:
    """Return mean and peak heap and instructions, default against tuned, per allocator."""

    def cell(label: str, metric: str) -> str:
        return _cell(change(results, part, label, metric, only))

    rows = []
    chosen = picks(results)
    for name in allocators(results):
        for label in dict.fromkeys([f"{name} default", chosen.get(name, "")]):
            mean = level(results, part, label, "mean_heap", only)
            peak = level(results, part, label, "peak_heap", only)
            if mean is None or peak is None:
                continue
            n = instructions(results, label)
            row = [label, f"{mean / 1e6:.1f}", cell(label, "mean_heap")]
            row += [f"{peak / 1e6:.1f}", cell(label, "peak_heap")]
            row += ["" if n is None else _percent(n), cell(label, "cpu_ns"), cell(label, "faults")]
            rows.append(row)
    head = ["setting", "mean heap, MB", "change", "peak heap, MB", "change", "instructions"]
    return _table([*head, "CPU time", "page faults"], rows)


def all_points_table(results: Results, part: str) -> list[str]:
    """Return every default and pick with its changes."""
    rows = []
    for name in allocators(results):
        for label in labels(results, name):
            if not any(r["label"] == label for r in results["rows"] if r["part"] == part):
                continue
            settings = results["points"][label]["settings"]
            cells = [_cell(change(results, part, label, metric)) for metric in METRICS]
            rows.append([label, *cells, f"`{settings}`"])
    return _table(["setting", *METRICS.values(), "what is set"], rows)


def rankings_table(results: Results) -> list[str]:
    """Return how the emulator ranks."""
    rows = [
        [
            METRICS[r.metric],
            r.allocator,
            str(r.n),
            f"{r.spread:.1%}",
            "-" if r.tau is None else f"{r.tau:.2f}",
            "-" if r.share is None else f"{r.share:.0%}",
        ]
        for r in rankings(results)
    ]
    head = ["on gem5", "allocator", "points", "they differ by", "Kendall's tau"]
    return _table([*head, "pairs beyond 1 % ordered alike"], rows)


def simulations_table(results: Results) -> list[str]:
    """Return each simulation with what gem5 took under glibc's default."""
    rows = []
    for name, simulation in results["suite"].items():
        found = rows_of(results, simulation=name, label=BASELINE, part=simulation["role"])
        if found:
            cells = [f"{statistics.median(r['cpu_ns'] for r in found) / 1e9:.1f}"]
            cells += [f"{statistics.median(r[m] for r in found) / 1e6:.1f}" for m in _SHOWN]
            rows.append([name, simulation["role"], simulation["what"], *cells])
    head = ["simulation", "role", "what", "CPU time, s", "mean heap, MB", "peak heap, MB"]
    return _table([*head, "Python and binary, MB"], rows)


_SHOWN: Final = ("mean_heap", "peak_heap", "not_heap")


def floor_lines(results: Results) -> list[str]:
    """Return what no allocator can go below, on the trace."""
    floor = results.get("floor")
    if not floor:
        return []
    live, aligned, glibc = floor["live"], floor["aligned"], floor["glibc"]
    text = (
        f"On the trace glibc's default holds {glibc / 1e6:.2f} MB on average. The program asked "
        f"for {live / 1e6:.2f} MB ({_percent(live / glibc)}), and for {aligned / 1e6:.2f} MB "
        f"({_percent(aligned / glibc)}) where every block takes a multiple of 16 bytes, as "
        "alignment demands."
    )
    return [text, ""]


def zeros_lines(results: Results) -> list[str]:
    """Return how many pages of gem5's heap hold only zeros, and what became of them."""
    rows = rows_of(results, part="zeros")
    if not rows:
        return []
    cells = [
        [
            r["label"],
            f"{r['resident']:,}",
            f"{r['zero'] / r['resident']:.1%}",
            f"{r['anonymous_bytes'] / 1e6:.1f}",
            str(r["split"]),
        ]
        for r in rows
    ]
    head = ["setting", "pages without a file", "only zeros", "resident anonymous, MB"]
    simulation = rows[0]["simulation"]
    title = f"### Pages that hold only zeros, at the end of {simulation}"
    return [title, "", *_table([*head, "huge pages split meanwhile"], cells)]


def predictor_lines(results: Results) -> list[str]:
    """Return which points simulated something else where gem5 has a loop predictor."""
    rows = [r for r in results["rows"] if r["part"] == PREDICTOR]
    if not rows:
        return []
    other = sorted({r["label"] for r in rows if r["status"] != "ok"})
    same = sorted({r["label"] for r in rows} - set(other))
    names = ", ".join(sorted({r["simulation"] for r in rows}))
    text = (
        f"With a loop predictor in the simulated core ({names}) statistics differ from glibc's "
        f"default under {', '.join(other)}, and are equal under {', '.join(same)}."
    )
    return ["### Where gem5 depends on its allocator", "", text, ""]


def document(results: Results) -> str:
    """Return all tables and judgements as Markdown."""
    lines = [f"gem5 {results['gem5']}; {results['machine']}.", ""]
    lines += ["### Default against tuned, simulations held out", ""]
    lines += greenmalloc_table(results, "held-out")
    if rows_of(results, part="held-out", simulation=BLIND[0]):
        lines += [f"### The same on those never seen before: {', '.join(BLIND)}", ""]
        lines += greenmalloc_table(results, "held-out", BLIND)
    lines += ["### The same on the simulations tuned on", "", *greenmalloc_table(results, "tune")]
    lines += ["### What is set, simulations held out", ""]
    lines += all_points_table(results, "held-out")
    lines += ["### Every default and pick, simulations tuned on", ""]
    lines += all_points_table(results, "tune")
    lines += ["### The emulator's ranking, simulations tuned on", "", *rankings_table(results)]
    lines += ["### How low a heap can be", "", *floor_lines(results)]
    lines += ["### Simulations", "", *simulations_table(results)]
    lines += ["### Against what was aimed at", ""]
    rows = [
        [j.claim, j.found, "ok" if j.is_met else "MISSED", "" if j.is_met else j.reason]
        for j in judgements(results)
    ]
    lines += _table(["figure", "found", "", "why"], rows)
    failed = [r for r in results["rows"] if r["status"] != "ok" and r["part"] != PREDICTOR]
    lines += [f"{r['label']} is out of {r['simulation']}: {r.get('reason')}" for r in failed]
    lines += zeros_lines(results)
    lines += predictor_lines(results)
    return "\n".join(lines).rstrip() + "\n"
