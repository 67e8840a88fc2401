"""Is the mean heap of the emulation that of the program?  Small programs of known curve.

Each mode of benchmarks/heap_curves.c runs under the default of every allocator and is recorded,
in rounds; its traces are emulated under the same.  What counts is the error of the emulated mean
heap against the real one, medians over rounds:

    real mean heap = mean RssAnon less LazyFree, from exec to exit, of the program
                     less the same of the program that allocates nothing (under glibc)

so what an allocator takes at its start is heap on both sides, and stacks, data and loader are
on neither.  Huge pages are as the machine has them, on both sides.  Programs run at real-time
priority where that is permitted: they mostly sleep, and should wake up in time on a busy machine.

    benchmarks/heap_curves.py              all programs, 5 rounds
    benchmarks/heap_curves.py NAME...      only these
    benchmarks/heap_curves.py --rounds 9   more rounds
    benchmarks/heap_curves.py --print      print the last results
    benchmarks/heap_curves.py --smoke      a quick look that it still runs

Raw figures go to benchmarks/results/heap_curves.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.provenance import (
    installed,
    make_stamp,
    merge_stamps,
    provenance_lines,
    write_results,
)
from tuner.allocators import get_allocator
from tuner.fidelity import measure_panel
from tuner.fidelity.panel import Located
from tuner.fidelity.program import measure_program
from tuner.measure.calibration import load_calibration
from tuner.measure.emulator import EmulationOptions
from tuner.measure.program import ProgramRunner, Surroundings
from tuner.measure.warm import warm_memory
from tuner.recording import record
from tuner.records import Configuration

ROOT: Final = Path(__file__).resolve().parent.parent
SCHEMA: Final = "malloc-tuner.heap-curves"
RESULTS: Final = ROOT / "benchmarks" / "results" / "heap_curves.json"
ALLOCATORS: Final = ("glibc", "tcmalloc", "jemalloc", "mimalloc", "exgen")
MOST_MEDIAN: Final = 0.05
MOST_ERROR: Final = 0.15
"""Targets: of the absolute errors the median and the greatest."""
TIMEOUT_S: Final = 60.0
_SURROUNDINGS: Final = Surroundings(timeout_s=TIMEOUT_S, sample_ms=1, thp="keep")


@contextlib.contextmanager
def _on_time() -> Iterator[None]:
    """Give this process and what it starts real-time priority, if it may."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


def compile_program(folder: Path) -> Path:
    """Compile the program of all modes into a folder."""
    program = folder / "heap_curves"
    source = Path(__file__).with_suffix(".c")
    subprocess.run(["cc", "-O1", "-pthread", source, "-o", program], check=True)
    return program


def modes(program: Path) -> list[str]:
    """Return the names of all modes."""
    listed = subprocess.run([program, "list"], check=True, capture_output=True, text=True)
    return listed.stdout.split()


def measure(
    program: Path, mode: str, located: Located, folder: Path, rounds: int
) -> dict[str, Any]:
    """Return the raw figures of one mode, in bytes, one a round: means, and memory beside."""
    panel = [Configuration(name) for name in located]
    options = EmulationOptions(instrument="none", thp="keep", timeout_s=TIMEOUT_S)
    emulated: list[list[int]] = [[] for _ in panel]
    runs: dict[tuple[str, ...], list[list[int]]] = {(): [[] for _ in panel], ("without",): [[]]}
    for number in range(rounds):
        print(f"{mode}: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        trace = folder / f"{mode}.trace"
        with _on_time():
            record([str(program), mode], trace, force=True)
        row = measure_panel(trace, panel, located, load_calibration(), options, reads_back=False)
        for means, one in zip(emulated, row, strict=True):
            means.extend([round(one.value("mean_heap"))] if one else [])
        for words, each in runs.items():
            with _on_time():
                found = measure_program(
                    [str(program), mode, *words], panel[: len(each)], located, rounds=1,
                    runner=ProgramRunner(), surroundings=_SURROUNDINGS, tell=lambda _: None,
                ).runs  # fmt: skip
            for means, real in zip(each, found, strict=True):
                means.extend(round(run.mean_anon_bytes) for run in real or ())
    return {
        "allocators": list(located),
        "emulated": emulated,
        "program": runs[()],
        "beside": runs["without",][0],
    }


def real_means(known: Mapping[str, Any]) -> list[float | None]:
    """Return the real mean heap for each allocator; None where the program did not run."""
    beside = float(np.median(known["beside"]))
    return [float(np.median(runs)) - beside if runs else None for runs in known["program"]]


def errors(known: Mapping[str, Any]) -> list[float | None]:
    """Return the relative error of the emulated mean for each allocator; None: not measured."""
    pairs = zip(known["emulated"], real_means(known), strict=True)
    return [float(np.median(means)) / real - 1 if means and real else None for means, real in pairs]


def lines(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table of errors and whether the targets are reached."""
    names = list(dict.fromkeys(n for k in results["programs"].values() for n in k["allocators"]))
    yield "| program | real mean under glibc | " + " | ".join(names) + " |"
    yield "|---|---:|" + "---:|" * len(names)
    for mode, known in results["programs"].items():
        found = dict(zip(known["allocators"], errors(known), strict=True))
        shown = [found.get(name) for name in names]
        real = real_means(known)[0] or 0
        cells = ["-" if error is None else f"{100 * error:+.1f} %" for error in shown]
        yield f"| {mode} | {real / 1024:.0f} KiB | " + " | ".join(cells) + " |"
    yield ""
    for name, value, most in judgements(results["programs"].values()):
        outcome = "reached" if value <= most else "MISSED"
        yield f"- {outcome}: {name} error {value:.1%} (target: {most:.0%} at most)"


def judgements(programs: Iterable[Mapping[str, Any]]) -> list[tuple[str, float, float]]:
    """Return median and greatest absolute error over programs and allocators, with targets."""
    found = [abs(error) for known in programs for error in errors(known) if error is not None]
    return [
        ("median", float(np.median(found)), MOST_MEDIAN),
        ("greatest", max(found), MOST_ERROR),
    ]


def _locate(names: Sequence[str]) -> Located:
    return {name: (get_allocator(name), get_allocator(name).locate()) for name in names}


def _run(options: argparse.Namespace, results: dict[str, Any]) -> None:
    names = ("glibc",) if options.smoke else ALLOCATORS
    located = _locate(names)
    rounds = 1 if options.smoke else options.rounds
    with tempfile.TemporaryDirectory(prefix="heap-curves-") as folder:
        program = compile_program(Path(folder))
        for mode in ["idle-both"] if options.smoke else options.names or modes(program):
            results["programs"][mode] = measure(program, mode, located, Path(folder), rounds)
            stamp = make_stamp(
                "heap_curves", sys.argv, of=[mode], allocators=installed(names), rounds=rounds
            )
            results["provenance"] = merge_stamps(results["provenance"], stamp)
            if not options.smoke:
                write_results(RESULTS, results)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--print", action="store_true", dest="only_prints")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    results: dict[str, Any] = {"schema": SCHEMA, "version": 1, "provenance": [], "programs": {}}
    if RESULTS.exists() and not options.smoke:
        results = json.loads(RESULTS.read_text())
    if not options.only_prints:
        warm_memory()
        _run(options, results)
    print("\n".join([*provenance_lines(results["provenance"]), *lines(results)]))


if __name__ == "__main__":
    main()
