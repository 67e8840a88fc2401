"""What the results of gem5_case.py show, as Markdown."""

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from benchmarks.gem5_case_figures import (
    BASELINE,
    BLIND,
    METRICS,
    Results,
    allocators,
    change,
    instructions,
    is_by_hand,
    labels,
    level,
    over_simulations,
    percent,
    picks,
    product,
    rankings,
    rows_of,
)
from benchmarks.harness import table
from tuner.stats import Interval

ENOUGH_ROUNDS: Final = 6
"""Fewer are said with the result."""


def _cell(results: Results, part: str, label: str, metric: str, only: Sequence[str] = ()) -> str:
    """Return a change with its interval over simulations."""
    estimate = change(results, part, label, metric, only)
    if estimate is None:
        return "out"
    text = percent(estimate.median)
    if label == BASELINE:
        return text
    interval = over_simulations(results, part, label, metric, only)
    return text if interval is None else f"{text} {_ends(interval)}"


def _ends(interval: Interval) -> str:
    return f"[{percent(interval.low)}, {percent(interval.high)}]"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [*table(head, rows), ""]


def greenmalloc_table(results: Results, part: str, only: Sequence[str] = ()) -> list[str]:
    """Return mean and peak heap and instructions, default against tuned, per allocator."""

    def cell(label: str, metric: str) -> str:
        return _cell(results, part, label, metric, only)

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
            row += ["" if n is None else percent(n), cell(label, "cpu_ns"), cell(label, "faults")]
            rows.append(row)
    head = ["setting", "mean heap, MB", "change", "peak heap, MB", "change", "instructions"]
    return _table([*head, "CPU time", "page faults"], rows)


def all_points_table(results: Results, part: str) -> list[str]:
    """Return every default and pick with its changes: those that are out, then by `product`."""
    known = {r["label"] for r in results["rows"] if r["part"] == part}
    every = [label for name in allocators(results) for label in labels(results, name)]
    products = {label: product(results, part, label) for label in every if label in known}
    rows = []
    for label in sorted(products, key=lambda name: -(products[name] or math.inf)):
        settings = results["points"][label]["settings"]
        cells = [_cell(results, part, label, metric) for metric in METRICS]
        rows.append([label, *cells, f"`{settings}`"])
    return _table(["setting", *METRICS.values(), "what is set"], rows)


def rankings_table(results: Results) -> list[str]:
    """Return how the emulator ranks, worst first."""
    rows = [
        [
            METRICS[r.metric],
            r.allocator,
            str(r.n),
            f"{r.spread:.1%}",
            "-" if r.tau is None else f"{r.tau:.2f}",
            "-" if r.share is None else f"{r.share:.0%}",
        ]
        for r in sorted(rankings(results), key=lambda r: -math.inf if r.tau is None else r.tau)
    ]
    head = ["on gem5", "allocator", "points", "they differ by", "Kendall's tau"]
    return _table([*head, "pairs beyond 1 % ordered alike"], rows)


def simulations_table(results: Results) -> list[str]:
    """Return each simulation with what gem5 took under glibc's default, the longest first."""
    rows: list[tuple[float, list[str]]] = []
    for name, simulation in results["suite"].items():
        found = rows_of(results, simulation=name, label=BASELINE, part=simulation["role"])
        if found:
            cpu_s = statistics.median(r["cpu_ns"] for r in found) / 1e9
            cells = [f"{statistics.median(r[m] for r in found) / 1e6:.1f}" for m in _SHOWN]
            what = [name, simulation["role"], simulation["what"]]
            rows.append((cpu_s, [*what, f"{cpu_s:.1f}", *cells]))
    head = ["simulation", "role", "what", "CPU time, s", "mean heap, MB", "peak heap, MB"]
    longest_first = [row for _, row in sorted(rows, key=lambda r: -r[0])]
    return _table([*head, "Python and binary, MB"], longest_first)


_SHOWN: Final = ("mean_heap", "peak_heap", "not_heap")


def floor_lines(results: Results) -> list[str]:
    """Return what no allocator can go below, on the trace."""
    floor = results.get("floor")
    if not floor:
        return []
    live, aligned, glibc = floor["live"], floor["aligned"], floor["glibc"]
    text = (
        f"On the trace glibc's default holds {glibc / 1e6:.2f} MB on average. The program asked "
        f"for {live / 1e6:.2f} MB ({percent(live / glibc)}), and for {aligned / 1e6:.2f} MB "
        f"({percent(aligned / glibc)}) where every block takes a multiple of 16 bytes, as "
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


def origins(results: Results) -> str:
    """Say which of the picked settings the search found, which a hand wrote, and what they do."""
    chosen = list(picks(results).values())

    def shown(some: Iterable[str]) -> str:
        found = []
        for label in some:
            heap, cpu = (_cell(results, "held-out", label, m) for m in ("mean_heap", "cpu_ns"))
            found.append(f"{label} (mean heap {heap}, CPU time {cpu})")
        return ", ".join(found) or "none"

    by_hand = [label for label in chosen if is_by_hand(label)]
    n_rounds = 1 + max((r["round"] for r in rows_of(results, part="held-out")), default=-1)
    few = f", below the {ENOUGH_ROUNDS} that are wanted" if n_rounds < ENOUGH_ROUNDS else ""
    return (
        f"**The search found** {shown(x for x in chosen if x not in by_hand)}. "
        f"**A hand wrote** {shown(by_hand)}: seeds of the campaign files. "
        "Changes from glibc's default over the simulations held out; in brackets 95 % intervals "
        f"over simulations like these. Rounds kept: {n_rounds}{few}."
    )


def document(results: Results) -> Iterator[str]:
    """Yield all tables as Markdown."""
    yield from (f"gem5 {results['gem5']}.", "")
    yield from ("### Default against tuned, simulations held out", "")
    yield from greenmalloc_table(results, "held-out")
    if rows_of(results, part="held-out", simulation=BLIND[0]):
        yield from (f"### The same on those never seen before: {', '.join(BLIND)}", "")
        yield from greenmalloc_table(results, "held-out", BLIND)
    yield from ("### The same on the simulations tuned on", "")
    yield from greenmalloc_table(results, "tune")
    yield from ("### What is set, simulations held out, worst first", "")
    yield from all_points_table(results, "held-out")
    yield from ("### Every default and pick, simulations tuned on, worst first", "")
    yield from all_points_table(results, "tune")
    yield from ("### The emulator's ranking, simulations tuned on, worst first", "")
    yield from rankings_table(results)
    yield from ("### How low a heap can be", "", *floor_lines(results))
    yield from ("### Simulations, longest first", "", *simulations_table(results))
    failed = [r for r in results["rows"] if r["status"] != "ok"]
    yield from (f"{r['label']} is out of {r['simulation']}: {r.get('reason')}" for r in failed)
    yield from zeros_lines(results)
