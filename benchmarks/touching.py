"""Does it pay to know what of large blocks a program touched?  Programs beside their emulation.

Each program of configs/workloads whose recording tells it runs under the default of every
allocator, in rounds; its trace is emulated under the same with all pages of a block touched, and
with those that the recording knows.  What counts is how far either is from the program: peak
and mean of the heap, the median over allocators.

A program's anonymous memory is more than its heap: data of libraries and stacks.  That is
read at its end from its memory map, under glibc's allocator, and taken off.  Programs that map
memory of their own (garbage-collected runtimes, simulators with the memory of a machine) are
left out, since nothing tells it from the heap, and so are those with too little heap.

    benchmarks/touching.py                 all programs, 3 rounds
    benchmarks/touching.py NAME...         only these
    benchmarks/touching.py --rounds 5      more rounds
    benchmarks/touching.py --print         print the last results
    benchmarks/touching.py --write-docs    write the table into docs/how-to/profiles.md
    benchmarks/touching.py --smoke         a quick look that it still runs

Raw figures go to benchmarks/results/touching.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from benchmarks.fidelity_tables import write_between
from benchmarks.provenance import (
    installed,
    make_stamp,
    merge_stamps,
    provenance_lines,
    write_results,
)
from benchmarks.workload_profiles import GEM5, TRACES, Program, find_programs
from tuner.allocators import get_allocator
from tuner.fidelity import measure_panel
from tuner.fidelity.panel import Located
from tuner.fidelity.program import measure_program
from tuner.measure.calibration import load_calibration
from tuner.measure.emulator import EmulationOptions
from tuner.measure.program import PRELOAD, ProgramRunner, Surroundings, clean_environment
from tuner.measure.warm import warm_memory
from tuner.records import Configuration
from tuner.trace.file import Trace
from tuner.trace.info import TraceInfo, describe
from tuner.units import show_size

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "benchmarks" / "results" / "touching.json"
SCHEMA: Final = "malloc-tuner.benchmark.touching"
ALLOCATORS: Final = ("glibc", "tcmalloc", "jemalloc", "mimalloc", "exgen")
TOUCHES: Final[tuple[Literal["all", "recorded"], ...]] = ("all", "recorded")
LEFT_OUT: Final = ("java-compile", "node-json", "ruby-records")
"""They map memory of their own."""
LEAST_HEAP: Final = 1 << 20
"""Bytes; below, stacks and tables weigh as much as the heap."""
MOST_BESIDE: Final = 2
"""Least heap over what is no heap: that comes while a program is loaded, which of a short run
is a good part."""
FIGURES: Final = {"peak": "peak_heap_bytes", "mean": "mean_heap_bytes"}
TIMEOUT_S: Final = 300.0
_STACK_BYTES: Final = 8 << 20
_MAPPING: Final = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ (\d+) *(.*)")


def chosen_programs(names: Sequence[str]) -> dict[str, Path]:
    """Return the programs that can be compared, with their traces."""
    found = {}
    for name, program in find_programs().items():
        trace = program.trace(TRACES)
        is_fit = name not in LEFT_OUT and name != GEM5
        if (name in names or not names) and is_fit and trace is not None and trace.exists():
            found[name] = trace
    return found


def beside_heap(smaps: str) -> int:
    """Return the bytes of anonymous memory in mappings that no malloc made.

    These are those of files, what follows them directly (their zeroed data), the main stack
    and others of their size behind a guard, and what the kernel names.
    """
    n_bytes, end, is_file, is_guard, is_heap = 0, 0, False, False, False
    for line in smaps.splitlines():
        if found := _MAPPING.match(line):
            begin, is_next = int(found[1], 16), int(found[1], 16) == end
            end = int(found[2], 16)
            name, is_named = found[5], found[4] != "0" or found[5].startswith("[")
            is_stack = is_guard and is_next and end - begin == _STACK_BYTES
            is_data = is_file and is_next and not name
            is_heap = name == "[heap]" or not (is_named or is_stack or is_data)
            is_file, is_guard = found[4] != "0", found[3] == "---p" and not name
        elif line.startswith("Anonymous:") and not is_heap:
            n_bytes += 1024 * int(line.split()[1])
    return n_bytes


def measure_beside(program: Program, helper: Path) -> int:
    """Run a program once under glibc's allocator; return what is no heap of its memory."""
    with tempfile.TemporaryDirectory(prefix="touching-") as folder:
        environment = {**clean_environment(os.environ), PRELOAD: str(helper)}
        process = subprocess.Popen(
            [program.folder / "run.sh"],
            env={**environment, "MAPS_AT_EXIT": folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
        process.wait(timeout=TIMEOUT_S)
        # What run.sh starts leaves a map too; the program is what run.sh becomes.
        return beside_heap((Path(folder) / str(process.pid)).read_text())


def measure(
    program: Program, trace: Path, located: Located, helper: Path, rounds: int
) -> dict[str, Any]:
    """Return the figures of one program: its own, and of its emulation in both ways."""
    panel = [Configuration(name) for name in located]
    emulated = {}
    for touch in TOUCHES:
        options = EmulationOptions(instrument="none", touch=touch, timeout_s=TIMEOUT_S)
        row = measure_panel(trace, panel, located, load_calibration(), options, reads_back=False)
        emulated[touch] = {
            figure: [round(getattr(one, field)) if one else None for one in row]
            for figure, field in FIGURES.items()
        }
    real = measure_program(
        [str(program.folder / "run.sh")], panel, located, rounds=rounds, runner=ProgramRunner(),
        surroundings=Surroundings(timeout_s=TIMEOUT_S, sample_ms=1),
        tell=lambda text: print(f"{program.name}: {text}", file=sys.stderr, flush=True),
    )  # fmt: skip
    with Trace(trace) as opened:
        info = describe(opened)
    return {
        "touching": asdict(info.touching),
        "beside_heap_bytes": measure_beside(program, helper),
        "allocators": list(located),
        "emulated": emulated,
        "program": {
            "peak": [[run.peak_anon_bytes for run in runs or ()] for runs in real.runs],
            "mean": [[round(run.mean_anon_bytes) for run in runs or ()] for runs in real.runs],
        },
    }


def errors(known: Mapping[str, Any], figure: str, touch: str) -> list[float]:
    """Return the relative error of a figure of the heap for each allocator that ran."""
    found = []
    pairs = zip(known["emulated"][touch][figure], known["program"][figure], strict=True)
    for emulated, runs in pairs:
        if emulated is not None and runs:
            real = float(np.median(runs)) - known["beside_heap_bytes"]
            found.append(emulated / real - 1)
    return found


def heap(known: Mapping[str, Any]) -> float:
    """Return the peak of a program's heap, the median over allocators, in bytes."""
    runs = [float(np.median(runs)) for runs in known["program"]["peak"] if runs]
    return float(np.median(runs) - known["beside_heap_bytes"])


def is_comparable(known: Mapping[str, Any]) -> bool:
    """Tell whether a program's heap is large enough, and most of its memory."""
    return bool(heap(known) >= max(LEAST_HEAP, MOST_BESIDE * known["beside_heap_bytes"]))


def lines(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table, its programs by what touching all pages adds, and a verdict."""
    columns = [(figure, touch) for figure in FIGURES for touch in TOUCHES]
    names = [f"{figure}: {touch}" for figure, touch in columns]
    yield "| program | large blocks known | touched | heap | " + " | ".join(names) + " |"
    yield "|---|" + "---:|" * (3 + len(columns))
    shown = {n: k for n, k in results["programs"].items() if is_comparable(k)}
    gain = {name: np.median(errors(k, "peak", "all")) for name, k in shown.items()}
    for name in sorted(shown, key=lambda name: -gain[name]):
        known = shown[name]
        told = known["touching"]
        share = told["known_bytes"] / max(1, told["bytes"])
        touched = told["touched_bytes"] / max(1, told["known_bytes"])
        found = [100 * float(np.median(errors(known, *column))) for column in columns]
        yield (
            f"| {name} | {share:.0%} | {touched:.0%} | {show_size(round(heap(known)))} | "
            + " | ".join(f"{value:+.1f} %" for value in found) + " |"
        )  # fmt: skip
    yield ""
    for figure in FIGURES:
        both = [[_error(known, figure, touch) for known in shown.values()] for touch in TOUCHES]
        nearer = sum(recorded < everything for everything, recorded in zip(*both, strict=True))
        yield (
            f"- {figure} heap: the median error is {np.median(both[0]):.1%} with all pages, "
            f"{np.median(both[1]):.1%} with those recorded, which is nearer in {nearer} of "
            f"{len(shown)} programs"
        )


def median_error(shown: Iterable[Mapping[str, Any]], figure: str, touch: str) -> float:
    """Return the median over programs of the median error over allocators."""
    return float(np.median([_error(known, figure, touch) for known in shown]))


def _error(known: Mapping[str, Any], figure: str, touch: str) -> float:
    return float(np.median(np.abs(errors(known, figure, touch))))


def _locate(names: Sequence[str]) -> Located:
    return {name: (get_allocator(name), get_allocator(name).locate()) for name in names}


def _compile_helper(folder: str) -> Path:
    library = Path(folder) / "maps_at_exit.so"
    source = Path(__file__).with_name("maps_at_exit.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
    return library


def _run(options: argparse.Namespace, results: dict[str, Any]) -> None:
    names = ("glibc",) if options.smoke else ALLOCATORS
    programs = find_programs()
    chosen = chosen_programs(["ghostscript-pages"] if options.smoke else options.names)
    with tempfile.TemporaryDirectory(prefix="touching-") as folder:
        helper = _compile_helper(folder)
        for name, trace in chosen.items():
            if not options.smoke and not _tells(trace):
                continue
            rounds = 1 if options.smoke else options.rounds
            known = measure(programs[name], trace, _locate(names), helper, rounds)
            results["programs"][name] = known
            if not options.smoke:
                stamp = make_stamp(
                    "touching", sys.argv, of=[name], allocators=installed(names), rounds=rounds
                )
                results["provenance"] = merge_stamps(results["provenance"], stamp)
                write_results(RESULTS, results)


def _tells(trace: Path) -> bool:
    """Tell whether a recording knows what was touched."""
    with Trace(trace) as opened:
        info: TraceInfo = describe(opened)
    return info.touching.known_blocks > 0


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--print", action="store_true", dest="only_prints")
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    results: dict[str, Any] = {"schema": SCHEMA, "version": 2, "provenance": [], "programs": {}}
    if RESULTS.exists() and not options.smoke:
        results = json.loads(RESULTS.read_text())
    if not (options.only_prints or options.write_docs):
        warm_memory()
        _run(options, results)
    print("\n".join([*provenance_lines(results["provenance"]), *lines(results)]))
    if options.write_docs:
        write_between(ROOT / "docs" / "how-to" / "profiles.md", "touching", list(lines(results)))


if __name__ == "__main__":
    main()
