"""Is the mean heap of the emulation that of the program?  Small programs of known curve.

Each mode of benchmarks/heap_curves.c runs under the default of every allocator and is recorded,
in rounds; its traces are emulated under the same.  What counts is the error of the emulated mean
heap against the real one, medians over rounds:

    real mean heap = mean RssAnon less LazyFree, from exec to exit, of the program
                     less the same of the program that allocates nothing (under glibc)

so what an allocator takes at its start is heap on both sides, and stacks, data and loader are
on neither.  Huge pages are as the machine has them, on both sides.  Programs run at real-time
priority where that is permitted: they mostly sleep, and should wake up in time on a busy machine.
"""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.harness import (
    ALLOCATORS,
    Benchmark,
    Call,
    Target,
    installed,
    located,
    relative,
    table,
)
from benchmarks.results import Parts
from benchmarks.rounds import (
    Figures,
    Row,
    column,
    failed,
    failed_target,
    failures,
    n_failed,
    run_rounds,
)
from benchmarks.sources import EMULATOR, EXGEN
from tuner.allocators import Located
from tuner.bench.subjects import named_subject
from tuner.emulation import EmulationOptions
from tuner.fidelity import measure_panel
from tuner.measure.calibration import load_calibration
from tuner.measure.program import ProgramRunner, Surroundings, clean_environment, padded
from tuner.recording import record
from tuner.records import Configuration

MOST_MEDIAN: Final = 0.05
MOST_ERROR: Final = 0.15
"""Of the absolute errors the median and the greatest."""
BESIDE: Final = "beside"
"""Subject: the program that allocates nothing."""
TIMEOUT_S: Final = 60.0
_SOURCE: Final = Path(__file__).with_suffix(".c")
MODES: Final = re.findall(r'^    {"([a-z-]+)", ', _SOURCE.read_text(encoding="utf-8"), re.MULTILINE)
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
    subprocess.run(["cc", "-O1", "-pthread", _SOURCE, "-o", program], check=True)
    return program


def measure(call: Call) -> None:
    """Run, record and emulate every mode under every allocator."""
    names = ALLOCATORS[:1] if call.is_smoke else ALLOCATORS
    program, everywhere = compile_program(call.scratch), located(names)
    environments = dict(
        zip(names, padded([named_subject(n).environment for n in names]), strict=True)
    )
    for mode in call.choose(MODES, ["idle-both"]):

        def run(_task: str, subject: str, mode: str = mode) -> Figures:
            if subject == BESIDE:
                return _real([str(program), mode, "without"], environments[names[0]])
            real = _real([str(program), mode], environments[subject])
            trace = call.scratch / "program.trace"
            with _on_time():
                record([str(program), mode], trace, force=True)
            emulated = _emulated(trace, {subject: everywhere[subject]})
            if real.values is None or emulated is None:
                return failed(real.reason or "the emulation failed")
            return Figures.succeeded({**real.values, "emulated": emulated})

        rows = run_rounds(call, mode, [mode], [*names, BESIDE], run, same=installed(names))
        call.keep(mode, rows, allocators=installed(names), rounds=call.rounds)


def _real(command: list[str], environment: Mapping[str, str]) -> Figures:
    """Run a program once; its mean in bytes."""
    variables = {**clean_environment(os.environ), **environment}
    with _on_time():
        run = ProgramRunner().run(command, variables, _SURROUNDINGS)
    is_good = run.exit_status == 0 and run.preload_mapped is not False
    return Figures.succeeded({"real": run.mean_anon_bytes}) if is_good else failed(run.ending)


def _emulated(trace: Path, only: Located) -> float | None:
    """Return the mean heap of a trace's emulation under a default, in bytes."""
    (name,) = only
    options = EmulationOptions(instrument="none", thp="keep", timeout_s=TIMEOUT_S)
    prices = load_calibration()
    (found,) = measure_panel(trace, [Configuration(name)], only, prices, options, reads_back=False)
    return found.value("mean_heap") if found else None


def real_means(rows: list[Row]) -> dict[str, float]:
    """Return the real mean heap for each allocator, in bytes."""
    beside = column(rows, "real", subject=BESIDE)
    names = dict.fromkeys(row["subject"] for row in rows if row["subject"] != BESIDE)
    found = {name: column(rows, "real", subject=name) for name in names}
    return {name: median(v) - median(beside) for name, v in found.items() if v and beside}


def errors(rows: list[Row]) -> dict[str, float]:
    """Return the relative error of the emulated mean for each allocator that was measured."""
    real = real_means(rows)
    found = {name: column(rows, "emulated", subject=name) for name in real}
    return {name: median(v) / real[name] - 1 for name, v in found.items() if v}


def lines(parts: Parts) -> Iterator[str]:
    """Yield the errors of every program and allocator."""
    found: Mapping[str, dict[str, float]] = {mode: errors(rows) for mode, rows in parts.items()}
    names = list(dict.fromkeys(name for row in found.values() for name in row))
    cells = []
    for mode, row in found.items():
        real = next(iter(real_means(parts[mode]).values()), 0.0)
        shown = (relative(1 + row[name] if name in row else None) for name in names)
        cells.append([mode, f"{real / 1024:.0f} KiB", *shown])
    if names:
        yield from table(["program", f"real mean under {names[0]}", *names], cells)
    for rows in parts.values():
        yield from failures(rows)


def targets(parts: Parts) -> Iterator[Target]:
    """Yield median and greatest absolute error over programs and allocators, and what failed."""
    found = [abs(error) for rows in parts.values() for error in errors(rows).values()]
    if found:
        yield Target("median error", median(found), MOST_MEDIAN, form=".1%")
        yield Target("greatest error", max(found), MOST_ERROR, form=".1%")
    yield from failed_target(sum(map(n_failed, parts.values())))


BENCHMARK: Final = Benchmark(
    name="heap_curves",
    about=__doc__,
    claim="The emulated [mean heap](decisions/measuring.md#the-real-mean-heap) of small "
    "programs of known heap errs by at most 5 % in the median and 15 % at the most.",
    depends_on=(
        *EXGEN,
        *EMULATOR,
        "rand_malloc/recorder",
        "rand_malloc/supervise",
        "benchmarks/heap_curves.c",
    ),
    measure=measure,
    needs=MODES,
    lines=lines,
    targets=targets,
    rounds=5,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
