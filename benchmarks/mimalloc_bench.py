"""The programs of mimalloc-bench under exgen and its peers, when somebody has built them.

mimalloc-bench (github.com/daanx/mimalloc-bench) is not shipped and not built here; the programs
are taken as they are, and one that is missing is left out by name.

    benchmarks/mimalloc_bench.py --programs out/bench --sources bench
    benchmarks/mimalloc_bench.py ... --peer snmalloc=/opt/snmalloc.so@0.7.1     repeatable
    benchmarks/mimalloc_bench.py ... --only cfrac,espresso --rounds 9
    benchmarks/mimalloc_bench.py --print         tables of the last results, nothing is run
    benchmarks/mimalloc_bench.py --smoke         a program of this machine, to see that it runs

Subjects are run side by side in interleaved rounds, in an order drawn anew for every program and
round.  Time is CPU time where the work is fixed, and time for a fixed amount of work,
computed from what the program prints, where the time is fixed (marked "rate"); peak RSS is
the kernel's high-water mark.  A program that fails under a subject has no figure there, and its
reason is kept and printed; geometric means are over the programs that both have done.
Raw samples go to ``benchmarks/results/mimalloc_bench.json``.

Source of the arguments: bench.sh of mimalloc-bench, with the times of the long ones shortened.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.allocator_tables import Medians, geometric, medians
from benchmarks.peers import peer_subject
from benchmarks.provenance import (
    identities_of,
    make_stamp,
    n_rounds,
    provenance_lines,
    rounds_in_words,
    write_results,
)
from tuner.bench.subjects import Subject, named_subject
from tuner.errors import MissingToolError, TunerError
from tuner.measure.process import tool_environment
from tuner.measure.program import ProgramRunner, Surroundings, padded
from tuner.measure.warm import warm_memory

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "benchmarks" / "results" / "mimalloc_bench.json"
SCHEMA: Final = "malloc-tuner.benchmark.mimalloc-bench"
PEERS: Final = ("glibc", "mimalloc", "jemalloc", "tcmalloc")
OURS: Final = "exgen"
_SINGLE_THREADED: Final = frozenset({"exgen-st", "dlmalloc"})
_LIMIT_S: Final = 180.0
_NS: Final = 1e9


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


def main() -> int:
    """Run what was asked for, print the tables, return the exit status."""
    options = _parse(sys.argv[1:])
    try:
        if options.print:
            _print(json.loads(RESULTS.read_text()))
            return 0
        warm_memory()
        document = _measure(options)
    except TunerError as error:
        sys.exit(f"mimalloc_bench.py: {error}")
    except FileNotFoundError as error:
        sys.exit(f"mimalloc_bench.py: {error.filename}: no results yet; run with --programs")
    if not options.smoke:
        write_results(RESULTS, document)
    _print(document)
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--programs", type=Path, metavar="DIR", help="where they were built")
    parser.add_argument("--sources", type=Path, metavar="DIR", help="bench/ of mimalloc-bench")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PATH@VERSION")
    parser.add_argument("--exgen", metavar="PATH", help="libexgen.so to use; default: ours")
    parser.add_argument("--only", metavar="NAME,...", help="only these programs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--print", action="store_true", help="print the last results only")
    parser.add_argument("--smoke", action="store_true", help="a quick look that it still runs")
    options = parser.parse_args(arguments)
    if not (options.programs or options.print or options.smoke):
        print("mimalloc_bench.py: nothing to run: --programs DIR names built programs",
              file=sys.stderr)  # fmt: skip
        sys.exit(0)
    return options


# Running


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    subjects = _subjects(options)
    programs = [SMOKE] if options.smoke else _programs(options)
    environments = padded([{**subject.environment} for subject in subjects])
    samples: list[dict[str, Any]] = []
    out: set[tuple[str, str]] = set()
    with tempfile.TemporaryDirectory(prefix="mimalloc-bench-") as name:
        for number in range(1 if options.smoke else options.rounds):
            for program in programs:
                order = list(zip(subjects, environments, strict=True))
                random.Random(f"{number} {program.name}").shuffle(order)
                for subject, environment in order:
                    key = (program.name, subject.label)
                    if key in out or (program.n_threads > 1 and subject.label in _SINGLE_THREADED):
                        continue
                    words = _command(program, options, Path(name))
                    figures = _run(program, words, environment, Path(name))
                    if figures["status"] != "ok":
                        out.add(key)
                    keys = {"program": program.name, "subject": subject.label, "round": number}
                    samples.append({**keys, **figures})
                    _tell(samples[-1])
    return {
        "schema": SCHEMA,
        "version": 2,
        "provenance": [
            make_stamp(
                "mimalloc_bench",
                sys.argv,
                of=["programs"],
                allocators=identities_of(subject.identity() for subject in subjects),
                rounds=1 if options.smoke else options.rounds,
            )
        ],
        "subjects": [subject.identity() for subject in subjects],
        "samples": samples,
    }


def _subjects(options: argparse.Namespace) -> tuple[Subject, ...]:
    """Return the allocators of this machine and those by path."""
    names = ("glibc", OURS) if options.smoke else (*PEERS, OURS)
    found = []
    for name in names:
        path = options.exgen if name == OURS else None
        try:
            found.append(named_subject(f"{name}:{path}" if path else name))
        except MissingToolError as error:
            print(f"mimalloc_bench.py: left out: {error}", file=sys.stderr)
    return (*found, *(peer_subject(text) for text in options.peer))


def _programs(options: argparse.Namespace) -> list[Program]:
    """Return the programs that were asked for and are there."""
    wanted = set(options.only.split(",")) if options.only else {p.name for p in PROGRAMS}
    if unknown := wanted - {program.name for program in PROGRAMS}:
        sys.exit(f"mimalloc_bench.py: --only {unknown.pop()}: there is no such program")
    found = []
    for program in PROGRAMS:
        needs_sources = program.input is not None or any("{sources}" in w for w in program.words)
        if program.name not in wanted:
            continue
        if not shutil.which(str(options.programs / program.words[0])):
            print(f"mimalloc_bench.py: {program.name} left out: not built", file=sys.stderr)
        elif needs_sources and options.sources is None:
            print(f"mimalloc_bench.py: {program.name} left out: needs --sources", file=sys.stderr)
        else:
            found.append(program)
    return found


def _command(program: Program, options: argparse.Namespace, scratch: Path) -> list[str]:
    """Return the words that run a program with its input, its output in a file."""
    words = list(program.words)
    if options.programs:
        words[0] = str((options.programs / words[0]).resolve())
    sources = options.sources.resolve() if options.sources else Path()
    words = [word.replace("{sources}", str(sources)) for word in words]
    source = str(sources / program.input) if program.input else os.devnull
    redirect = 'from=$1 to=$2; shift 2; exec "$@" < "$from" > "$to"'
    return ["/bin/sh", "-c", redirect, "sh", source, str(scratch / "output"), *words]


def _run(
    program: Program, words: Sequence[str], environment: Mapping[str, str], scratch: Path
) -> dict[str, Any]:
    """Run a program once; with one thread on one core."""
    cpu = max(os.sched_getaffinity(0)) if program.n_threads == 1 else None
    surroundings = Surroundings(cpu=cpu, timeout_s=_LIMIT_S, sample_ms=100)
    variables = {**tool_environment(os.environ), **environment}
    run = ProgramRunner().run(words, variables, surroundings, scratch)  # some leave files
    if run.exit_status != 0 or run.preload_mapped is False:
        reason = run.ending if run.exit_status != 0 else "the library was not loaded"
        last = (run.stderr_tail.strip().splitlines() or [""])[-1]
        return {"status": "failed", "reason": f"{reason}: {last}" if last else reason}
    figures = {
        "status": "ok",
        "reason": None,
        "cpu_s": run.cpu_ns / _NS,
        "user_s": run.user_ns / _NS,
        "system_s": (run.cpu_ns - run.user_ns) / _NS,
        "wall_s": run.wall_ns / _NS,
        "peak_rss_bytes": run.peak_rss_bytes,
        "faults": run.faults,
    }
    if program.rate is None:
        return {**figures, "time_s": figures["cpu_s"]}
    found = re.search(program.rate, (scratch / "output").read_text(errors="replace"))
    if found is None or float(found[1]) == 0:
        return {"status": "failed", "reason": "the program printed no figure"}
    figure = float(found[1])
    return {**figures, "time_s": figure if program.work is None else program.work / figure}


def _tell(sample: Mapping[str, Any]) -> None:
    figure = f"{sample['time_s']:.3f} s" if "time_s" in sample else sample["reason"]
    text = f"round {sample['round']} {sample['program']} {sample['subject']}: {figure}"
    print(text, file=sys.stderr)


# Printing


def _print(document: Mapping[str, Any]) -> None:
    """Print time and peak memory, medians of the rounds, then the means relative to exgen."""
    print("\n".join(provenance_lines(document["provenance"])))
    subjects = [subject["label"] for subject in document["subjects"]]
    samples = document["samples"]
    times, peaks = medians(samples, "time_s"), medians(samples, "peak_rss_bytes")
    told = rounds_in_words(n_rounds(samples))
    _print_table(f"time, ms, {told}", subjects, times, 1e3)
    _print_table(f"peak RSS, MB, {told}", subjects, peaks, 1e-6)
    single = {program.name for program in (*PROGRAMS, SMOKE) if program.n_threads == 1}
    for title, names in (("one thread", single), ("threads", set(times) - single)):
        if set(times) & names:
            _print_means(title, subjects, _only(times, names), _only(peaks, names))
    for sample in samples:
        if sample["status"] != "ok":
            print(f"failed: {sample['program']} under {sample['subject']}: {sample['reason']}")


def _only(rows: Medians, names: set[str]) -> Medians:
    return {name: row for name, row in rows.items() if name in names}


def _print_table(title: str, subjects: Sequence[str], rows: Medians, scale: float) -> None:
    print(f"\n{title}")
    print(f"{'':16}" + "".join(f"{label[:11]:>12}" for label in subjects))
    rated = {program.name for program in PROGRAMS if program.rate}
    for name, row in rows.items():
        cells = [f"{row[s].median * scale:12.1f}" if s in row else f"{'-':>12}" for s in subjects]
        print(f"{name:16}" + "".join(cells) + ("  rate" if name in rated and scale > 1 else ""))


def _print_means(title: str, subjects: Sequence[str], times: Medians, peaks: Medians) -> None:
    """Print every subject's geometric means over exgen's, on the programs both have done."""
    print(f"\n{title}: geometric mean over {OURS}'s (above 1: needs more than {OURS})")
    for label in subjects:
        both = _shared(times, label)
        if label == OURS or not both:
            continue
        time_ratio, peak_ratio = shared_ratios(times, peaks, label)
        print(
            f"{label:16} time {time_ratio:.3f}  peak RSS {peak_ratio:.3f}  ({len(both)} programs)"
        )


def shared_ratios(times: Medians, peaks: Medians, label: str) -> tuple[float, float]:
    """Return a subject's time and peak memory over exgen's, on the programs both have done."""
    both = _shared(times, label)
    return _mean_ratio(_only(times, both), label), _mean_ratio(_only(peaks, both), label)


def _shared(times: Medians, label: str) -> set[str]:
    return {name for name, row in times.items() if label in row and OURS in row}


def _mean_ratio(rows: Medians, label: str) -> float:
    theirs, ours = geometric(rows, label), geometric(rows, OURS)
    return theirs / ours if theirs and ours else float("nan")


if __name__ == "__main__":
    sys.exit(main())
