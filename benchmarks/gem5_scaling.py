"""How allocators scale to 16 cores: simulated machines with coherent caches.

Of two kinds of cores: those of `coherent` execute in order and wait for each access, so that every
instruction counts; those of `coherent-o3` execute out of order, as servers do, and wait only for
what the next step needs; these run crews of 1 and 8 only.

Crews of 1 to 16 threads, a core for each, do work that shares nothing (private), that hands blocks
from thread to thread (larson, xmalloc) or that suffers where blocks of two threads are in one cache
line (thrash, scratch), in gem5's system-call emulation under every allocator as shipped.  Each
member's work is the same whatever their number, so that cycles stay the same where nothing is in
the way; starts are subtracted.  Lines moved are those that one core's caches sent to another's.

A snooping bus with a filter in a simulator shows how often lines are fought for, and orders
allocators by it.  It does not show what a mesh of sockets adds to each line, nor the price of
system calls, which take no time in system-call emulation.

A simulation repeats itself to the last count, so each is run once, and the load of this computer
does not matter.  Needs GEM5, or --gem5.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from statistics import geometric_mean
from typing import Final

from benchmarks.allocator_targets import best_of
from benchmarks.gem5_inside import (
    PART,
    alone_of,
    gem5_options,
    simulate,
    summaries_of,
    without_result,
    words_of,
)
from benchmarks.harness import ALLOCATORS, Benchmark, Call, Target, table
from benchmarks.results import Parts
from benchmarks.sources import EXGEN, GEM5
from tuner.config.gem5_inside import load_inside
from tuner.config.gem5_suite import ALL
from tuner.report.gem5 import out_lines
from tuner.resources import gem5_dir
from tuner.validate.gem5_summary import Gem5Summary

FILE: Final = "scaling.toml"
OURS: Final = "exgen"
SHARES_NOTHING: Final = "private"
FALSE_SHARING: Final = ("thrash", "scratch")
JUDGED_CORES: Final = (8, 16)
SLOW: Final = "coherent-o3"
SLOW_CORES: Final = (1, 8)
"""Of a machine whose simulations take ten times as long."""
MOST_SLOWER: Final = 1.1
"""Cycles with 16 threads over those with one, where nothing is shared."""
MOST_LINES: Final = 0.01
"""Lines moved for each small block that is written to: none but by chance."""
_SMOKE_PROGRAM: Final = "thrash-2"

Cells = Mapping[tuple[str, str, int], Mapping[str, float]]
"""By machine, guest and number of threads: allocator -> a count."""


def measure(call: Call) -> None:
    """Run what is missing."""
    inside = load_inside(gem5_dir() / FILE)
    words = [_SMOKE_PROGRAM] if call.is_smoke else words_of(call, [ALL])
    names = ("glibc", OURS) if call.is_smoke else ALLOCATORS
    chosen = [(p, m) for p, m in inside.choose(words) if m.stem != SLOW or p.cores in SLOW_CORES]
    shown = ("cycles", "lines_moved")
    simulate(call, inside, chosen, names, shown, counts=(*shown, "instructions"))


def _cells(summaries: Sequence[Gem5Summary], name: str) -> Cells:
    """Return a count of every guest, number of threads and allocator that has one."""
    programs = {program.name: program for program in load_inside(gem5_dir() / FILE).programs}
    found: dict[tuple[str, str, int], dict[str, float]] = {}
    for summary in alone_of(summaries):
        simulation = summary.simulations[0]
        program = programs[simulation.program]
        changes = {row.subject.label: row.change(name) for row in summary.subjects}
        place = simulation.machine, str(program.guest), program.cores
        found[place] = {n: c.value for n, c in changes.items() if c}
    return found


def lines(parts: Parts) -> Iterator[str]:
    """Yield cycles and lines moved, a table for each guest."""
    summaries = summaries_of(parts)
    labels = [row.subject.label for row in summaries[-1].subjects]
    cycles, moved = _cells(summaries, "cycles"), _cells(summaries, "lines_moved")
    for crew in sorted({place[:2] for place in cycles}):
        yield f"**{crew[1]} on {crew[0]}**: thousand cycles (lines moved)"
        yield ""
        rows = [
            [str(place[2]), *(_shown(cycles[place].get(n), moved[place].get(n)) for n in labels)]
            for place in cycles
            if place[:2] == crew
        ]
        yield from table(["threads", *labels], rows)
        yield ""
    for line in out_lines(summaries[-1]):
        yield f"- no result: {line}"


def _shown(cycles: float | None, moved: float | None) -> str:
    if cycles is None:
        return "-"
    return f"{cycles / 1000:,.0f}" + ("" if moved is None else f" ({moved:,.0f})")


def targets(parts: Parts) -> Iterator[Target]:
    """Yield what exgen is held to."""
    summaries = summaries_of(parts)
    cycles, moved = _cells(summaries, "cycles"), _cells(summaries, "lines_moved")
    steps = {p.name: int(p.arguments[0]) * p.cores for p in load_inside(gem5_dir() / FILE).programs}
    for machine in sorted({machine for machine, _, _ in cycles}):
        one, most = (cycles.get((machine, SHARES_NOTHING, n), {}).get(OURS) for n in (1, 16))
        if one and most:
            what = f"{machine}: {SHARES_NOTHING}: cycles with 16 threads / with one"
            yield Target(what, most / one, MOST_SLOWER)
        for guest in FALSE_SHARING:
            lines_moved = moved.get((machine, guest, 16), {}).get(OURS)
            if lines_moved is not None:
                what = f"{machine}: {guest}: lines moved a block with 16 threads"
                yield Target(what, lines_moved / steps[f"{guest}-16"], MOST_LINES)
        for threads in JUDGED_CORES:
            yield from _against_peers(cycles, machine, threads)
    yield from without_result(summaries)


def _against_peers(cycles: Cells, machine: str, threads: int) -> Iterator[Target]:
    """Yield exgen's cycles over the best peer's, as geometric means over guests."""
    rows: Sequence[Mapping[str, float]] = [
        row for (where, _, n), row in cycles.items() if (where, n) == (machine, threads)
    ]
    complete = set.intersection(*map(set, rows)) if rows else set()
    means = {name: geometric_mean(row[name] for row in rows) for name in complete}
    others = {name: value for name, value in means.items() if name != OURS}
    if OURS in means and others:
        best = min(others, key=lambda name: others[name])
        what = f"{machine}: cycles with {threads} threads, geometric mean / {best_of(others)}"
        yield Target(what, means[OURS] / others[best], 1.0, note=f"best is {best}")


def _options(parser: argparse.ArgumentParser) -> None:
    gem5_options(parser, [ALL], FILE)


BENCHMARK: Final = Benchmark(
    name="gem5_scaling",
    about=__doc__,
    claim="exgen scales to 16 simulated cores, without false sharing, ahead of its peers.",
    depends_on=(*EXGEN, *GEM5, f"gem5-validate/{FILE}", "tuner/measure/gem5_inside.py"),
    measure=measure,
    needs=(PART,),
    lines=lines,
    targets=targets,
    options=_options,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
