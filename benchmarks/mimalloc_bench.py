"""exgen and others on the programs of mimalloc-bench, whose sources are not shipped.

Its programs must have been built: --programs names the folder of the binaries, --sources its
folder bench/, for inputs.  They run as they are; one that is missing is left out by name.

    benchmarks/mimalloc_bench.py --programs out/bench --sources bench

Time is CPU time where the work is fixed, and time for a fixed amount of work, computed from what
the program prints, where the time is fixed ("rate"); peak RSS is the kernel's high-water mark.
Geometric means are over the programs that both have done.

Source of the arguments: bench.sh of mimalloc-bench, with the times of the long ones shortened.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.allocator_programs import Command
from benchmarks.allocator_runs import run_program
from benchmarks.allocator_tables import figure_table
from benchmarks.allocator_targets import common, geometric
from benchmarks.harness import (
    ALLOCATORS,
    SINGLE_THREADED,
    Benchmark,
    Call,
    allocator_options,
    chosen_subjects,
    identities,
    table,
)
from benchmarks.results import Parts, rounds_in_words
from benchmarks.rounds import Figures, Medians, failed, failures, medians, n_rounds, run_rounds
from benchmarks.sources import EXGEN
from tuner.measure.program import padded

PART: Final = "programs"
OURS: Final = "exgen"


@dataclass(frozen=True)
class Program:
    """One program of the collection with its arguments."""

    name: str
    words: tuple[str, ...]
    n_threads: int = 1
    input: str | None = None
    """File on standard input, below the sources."""
    rate: str | None = None
    """Pattern of the figure a program of fixed time prints; None: the work is fixed."""
    work: float | None = None
    """Time is work / figure; None: the figure is a time."""


PROGRAMS: Final = (
    Program("cfrac", ("cfrac", "17545186520507317056371138836327483792789528")),
    Program("espresso", ("espresso", "{sources}/espresso/largest.espresso")),
    Program("barnes", ("barnes",), input="barnes/input"),
    Program("alloc-test1", ("alloc-test", "1")),
    Program("cache-thrash1", ("cache-thrash", "1", "1000", "1", "2000000", "2")),
    Program("cache-scratch1", ("cache-scratch", "1", "1000", "1", "2000000", "2")),
    Program("glibc-simple", ("glibc-simple",)),
    Program("malloc-large", ("malloc-large",)),
    Program("alloc-testN", ("alloc-test", "2"), 2),
    Program("cache-thrashN", ("cache-thrash", "2", "1000", "1", "2000000", "2"), 2),
    Program("cache-scratchN", ("cache-scratch", "2", "1000", "1", "2000000", "2"), 2),
    Program("mstressN", ("mstress", "2", "50", "25"), 2),
    Program("mstress16", ("mstress", "16", "50", "5"), 16),
    Program("mleak10", ("mleak", "5"), 2),
    Program("mleak100", ("mleak", "50"), 2),
    Program("sh6benchN", ("sh6bench", "4"), 4),
    Program("sh8benchN", ("sh8bench", "4"), 4),
    Program("larsonN", ("larson", "2", "8", "1000", "5000", "100", "4141", "2"), 2,
            rate=r" time: ([0-9.]+)"),
    Program("larsonN-sized", ("larson-sized", "2", "8", "1000", "5000", "100", "4141", "2"), 2,
            rate=r" time: ([0-9.]+)"),
    Program("xmalloc-testN", ("xmalloc-test", "-w", "2", "-t", "2", "-s", "64"), 2,
            rate=r"rtime: ([0-9.]+)"),
    Program("rptestN", ("rptest", "2", "0", "1", "2", "500", "1000", "100", "8", "16000"), 2,
            rate=r"\.\.\.([0-9]+) memory ops", work=2e6),
    Program("glibc-thread", ("glibc-thread", "2"), 2, rate=r"([0-9.]+)", work=1e9),
)  # fmt: skip

SMOKE: Final = Program(
    "python3", (sys.executable, "-S", "-c", "print(len([[i] for i in range(9)]))")
)


# Running


def measure(call: Call) -> None:
    """Run every program that was built."""
    if not call.choose([PART], [PART]):
        return
    programs = {program.name: program for program in _programs(call)}
    if not programs:
        call.leave_out(PART, "--programs DIR names no built programs")
        return
    names = ("glibc", OURS) if call.is_smoke else ALLOCATORS
    subjects = {subject.label: subject for subject in chosen_subjects(call, names)}
    padded_environments = padded([subject.environment for subject in subjects.values()])
    environments = dict(zip(subjects, padded_environments, strict=True))

    def run(task: str, label: str) -> Figures:
        program = programs[task]
        if program.n_threads > 1 and label in SINGLE_THREADED:
            return failed("serves one thread")
        output = call.scratch / "output"
        command = _command(program, call.options, output)
        found = run_program(command, subjects[label], environments[label], program.n_threads)
        return _timed(program, found, output)

    known = identities(subjects.values())
    rows = run_rounds(call, PART, list(programs), list(subjects), run, same=known, shown="time_s")
    part = {"subjects": list(subjects), "rows": rows}
    call.keep(PART, part, allocators=known, rounds=n_rounds(rows))


def _programs(call: Call) -> list[Program]:
    """Return the programs that are there."""
    if call.is_smoke:
        return [SMOKE]
    found = []
    for program in PROGRAMS if call.options.programs else ():
        needs_sources = program.input is not None or any("{sources}" in w for w in program.words)
        if not shutil.which(str(call.options.programs / program.words[0])):
            print(f"mimalloc_bench: {program.name} left out: not built", file=sys.stderr)
        elif needs_sources and call.options.sources is None:
            print(f"mimalloc_bench: {program.name} left out: needs --sources", file=sys.stderr)
        else:
            found.append(program)
    return found


def _command(program: Program, options: argparse.Namespace, output: Path) -> Command:
    """Return the call of a program with its input, its output in a file."""
    words = list(program.words)
    if options.programs:
        words[0] = str((options.programs / words[0]).resolve())
    sources = options.sources.resolve() if options.sources else Path()
    words = [word.replace("{sources}", str(sources)) for word in words]
    source = str(sources / program.input) if program.input else os.devnull
    redirect = 'from=$1 to=$2; shift 2; exec "$@" < "$from" > "$to"'
    shell = ("/bin/sh", "-c", redirect, "sh", source, str(output))
    return Command(program.name, (*shell, *words), folder=output.parent)  # some leave files


def _timed(program: Program, found: Figures, output: Path) -> Figures:
    """Add the time that counts: CPU time, or what the program printed."""
    if found.values is None:
        return found
    if program.rate is None:
        return Figures.succeeded({**found.values, "time_s": found.values["cpu_s"]})
    printed = re.search(program.rate, output.read_text(errors="replace"))
    if printed is None or float(printed[1]) == 0:
        return failed("the program printed no figure")
    figure = float(printed[1])
    time_s = program.work / figure if program.work else figure
    return Figures.succeeded({**found.values, "time_s": time_s})


# Showing


def lines(parts: Parts) -> Iterator[str]:
    """Yield time and peak memory, then the means relative to exgen."""
    part = parts[PART]
    times, peaks = medians(part["rows"], "time_s"), medians(part["rows"], "peak_rss_bytes")
    shown = rounds_in_words(n_rounds(part["rows"]))
    rated = {program.name for program in PROGRAMS if program.rate}
    marked = {f"{name}, rate" if name in rated else name: row for name, row in times.items()}
    yield from figure_table(f"time, ms, {shown}", marked, part["subjects"], 1e-3, 1)
    yield from figure_table(f"peak RSS, MB, {shown}", peaks, part["subjects"], 1e6, 1)
    single = {program.name for program in (*PROGRAMS, SMOKE) if program.n_threads == 1}
    for title, names in (("one thread", single), ("threads", set(times) - single)):
        some = [{name: row[name] for name in row if name in names} for row in (times, peaks)]
        yield ""
        yield from _means(title, part["subjects"], *some)
    yield from failures(part["rows"])


def _means(title: str, labels: Sequence[str], times: Medians, peaks: Medians) -> Iterator[str]:
    rows = []
    for label in labels:
        both = common(times, [label, OURS])
        if label != OURS and both:
            ratios = shared_ratios(times, peaks, label)
            rows.append([label, *(f"{ratio:.3f}" for ratio in ratios), str(len(both))])
    yield from table([f"{title}: geometric mean / {OURS}'s", "time", "peak RSS", "programs"], rows)


def shared_ratios(times: Medians, peaks: Medians, label: str) -> tuple[float, float]:
    """Return a subject's time and peak memory over exgen's, on the programs both have done."""
    both = common(times, [label, OURS])
    time, peak = (_ratio({n: rows[n] for n in both}, label) for rows in (times, peaks))
    return time, peak


def _ratio(rows: Medians, label: str) -> float:
    theirs, ours = geometric(rows, label), geometric(rows, OURS)
    return theirs / ours if theirs and ours else float("nan")


def outcome(parts: Parts, _verdict: str) -> str:
    """Return how many allocators need less than exgen."""
    part = parts[PART]
    times, peaks = medians(part["rows"], "time_s"), medians(part["rows"], "peak_rss_bytes")
    shared = [shared_ratios(times, peaks, x) for x in part["subjects"] if x != OURS]
    faster, leaner = (sum(pair[n] < 1 for pair in shared) for n in (0, 1))
    return (
        f"{rounds_in_words(n_rounds(part['rows']))}: of {len(shared)} allocators {faster} need "
        f"less time than exgen and {leaner} less memory, as geometric means"
    )


def _options(parser: argparse.ArgumentParser) -> None:
    allocator_options(parser)
    parser.add_argument("--programs", type=Path, metavar="DIR", help="where they were built")
    parser.add_argument("--sources", type=Path, metavar="DIR", help="bench/ of mimalloc-bench")


BENCHMARK: Final = Benchmark(
    name="mimalloc_bench",
    about=__doc__,
    claim="exgen and others on the programs of mimalloc-bench, which is not shipped: time and peak "
    "memory.",
    depends_on=(*EXGEN, "rand_malloc/supervise", "benchmarks/mimalloc_bench.py"),
    measure=measure,
    needs=(PART,),
    lines=lines,
    outcome=outcome,
    options=_options,
    rounds=5,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
