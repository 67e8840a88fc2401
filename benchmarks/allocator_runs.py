"""How allocators.py runs one program on one allocator: plainly, replayed, counted, simulating."""

import contextlib
import itertools
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks.allocator_programs import Command
from benchmarks.rounds import Figures, failed
from tuner.bench.subjects import BenchSubject
from tuner.errors import ProgramError
from tuner.measure.gem5 import RESULT, STATISTICS, digest_of, judge_simulation, read_run
from tuner.measure.process import Processes, tool_environment
from tuner.measure.program import ProgramRun, ProgramRunner, Surroundings
from tuner.recording import record
from tuner.records import Status
from tuner.resources import native_file

REPLAY: Final = "replay "
"""Begin of the name of a command that is a trace to be replayed."""
_NS: Final = 1e9
_SAMPLE_MS: Final = 20
_VALGRIND_LIMIT_S: Final = 900.0
_LIMIT_S: Final = 300.0
_CACHES: Final = ("--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,16,64")
"""Size, ways, bytes a line: the first two levels of a common processor, on every machine alike."""
_EVENTS: Final = re.compile(r"^events: (.*)$", re.MULTILINE)
_SUMMARY: Final = re.compile(r"^summary: (.*)$", re.MULTILINE)
_OBJECT: Final = re.compile(r"(c?)ob=\((\d+)\)(?: (.*))?")


def run_program(
    command: Command, subject: BenchSubject, environment: dict[str, str], n_threads: int = 1
) -> Figures:
    """Run a program once under supervise, with one thread on one core."""
    if command.name.startswith(REPLAY):
        return _replay(command, subject)
    run = _run(command, environment, n_threads)
    if run.exit_status != 0 or run.preload_mapped is False:
        reason = run.ending if run.exit_status != 0 else "the library was not loaded"
        last = (run.stderr_tail.strip().splitlines() or [""])[-1]
        return failed(f"{reason}: {last}" if last else reason)
    return _figures(run, run.output_sha256)


def run_gem5(command: Command, subject: BenchSubject, environment: dict[str, str]) -> Figures:
    """Run a simulation once; its output is all it simulated, and its mean heap is malloc's.

    What gem5 prints holds times, so that no two runs print the same.  A gem5 that was linked with
    an allocator of its own has no run under glibc.
    """
    output = Path(command.words[command.words.index("-d") + 1])
    for name in (RESULT, STATISTICS):
        (output / name).unlink(missing_ok=True)
    found = read_run(_run(command, environment), output)
    status, reason = judge_simulation(found, None)
    if status is not Status.OK:
        return failed(reason or status.value)
    if subject.library is None and found.run.malloc_libraries:
        names = ", ".join(Path(path).name for path in found.run.malloc_libraries)
        return failed(f"gem5 is linked with {names}: build it without (scons --without-tcmalloc)")
    return _figures(found.heap, digest_of(found))


def _run(command: Command, environment: dict[str, str], n_threads: int = 1) -> ProgramRun:
    """Run a command in its folder under supervise."""
    cpu = max(os.sched_getaffinity(0)) if n_threads == 1 else None
    surroundings = Surroundings(cpu=cpu, timeout_s=_LIMIT_S, sample_ms=_SAMPLE_MS)
    variables = {**tool_environment(os.environ), **command.variables, **environment}
    return ProgramRunner().run(command.words, variables, surroundings, command.folder)


def _figures(run: ProgramRun, output_sha256: str | None) -> Figures:
    return Figures.succeeded({
        "cpu_s": run.cpu_ns / _NS,
        "user_s": run.user_ns / _NS,
        "wall_s": run.wall_ns / _NS,
        "peak_rss_bytes": run.peak_rss_bytes,
        "mean_anon_bytes": run.mean_anon_bytes,
        "faults": run.faults,
        "output_sha256": output_sha256,
    })  # fmt: skip


def _replay(command: Command, subject: BenchSubject) -> Figures:
    """Replay a trace natively; memory is the heap at its peak and what was there before."""
    result, reason = _emulated(command, subject)
    if result is None:
        return failed(reason or "no result")
    return Figures.succeeded({
        "cpu_s": result["cpu_ns"] / _NS,
        "wall_s": result["wall_ns"] / _NS,
        "peak_rss_bytes": result["peak_heap_bytes"] + result["baseline_bytes"],
        "mean_anon_bytes": result["mean_heap_bytes"],
        "faults": result["faults"],
    })  # fmt: skip


def _emulated(command: Command, subject: BenchSubject) -> tuple[dict[str, Any] | None, str | None]:
    """Return what rand_malloc measured of a trace, or why it did not."""
    words: list[str | Path] = [native_file("rand_malloc"), "--runs", "memory"]
    words += ["--curve-points", "0", "--cpu", str(max(os.sched_getaffinity(0)))]
    words += itertools.chain.from_iterable(["--env", f"{n}={v}"] for n, v in subject.variables)
    words += ["--preload", str(subject.library)] if subject.library else []
    ended = Processes().run(
        [*words, *command.words], environment=tool_environment(os.environ), timeout_s=_LIMIT_S
    )
    if ended.exit_status != 0:
        return None, (ended.stderr.strip().splitlines() or [f"exit status {ended.exit_status}"])[-1]
    return json.loads(ended.stdout), None


def run_memory_case(
    command: Command, subject: BenchSubject, environment: dict[str, str]
) -> Figures:
    """Run a program that prints a number of bytes."""
    del subject
    variables = {**tool_environment(os.environ), **environment}
    ended = Processes().run(command.words, environment=variables, timeout_s=_LIMIT_S)
    if ended.exit_status != 0:
        return failed(f"exit status {ended.exit_status}")
    return Figures.succeeded({"bytes": int(ended.stdout)})


def run_cachegrind(command: Command, subject: BenchSubject, environment: dict[str, str]) -> Figures:
    """Run a program once under cachegrind; instructions and misses, or why there are none."""
    del subject
    words = ["--tool=cachegrind", "--cache-sim=yes", *_CACHES, "--cachegrind-out-file="]
    text, reason = _under_valgrind(words, command, environment)
    return failed(reason or "") if text is None else Figures.succeeded(misses(text))


def run_instructions(
    command: Command, subject: BenchSubject, environment: dict[str, str]
) -> Figures:
    """Run a program once under cachegrind without caches; its instructions."""
    del subject
    words = ["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file="]
    text, reason = _under_valgrind(words, command, environment)
    if text is None or (summary := _SUMMARY.search(text)) is None:
        return failed(reason or "cachegrind left no summary")
    return Figures.succeeded({"instructions": int(summary[1].split()[0])})


def run_callgrind(command: Command, subject: BenchSubject, environment: dict[str, str]) -> Figures:
    """Run a program once under callgrind; the allocator's share of its instructions."""
    words = ["--tool=callgrind", "--callgrind-out-file="]
    text, reason = _under_valgrind(words, command, environment)
    if text is None or subject.library is None:
        return failed(reason or "no library of its own")
    counts = instructions_by_object(text)
    own = sum(n for path, n in counts.items() if Path(path).resolve() == subject.library.resolve())
    total = sum(counts.values())
    return Figures.succeeded({"instructions": total, "own_instructions": own, "share": own / total})


def run_floor(command: Command, subject: BenchSubject, environment: dict[str, str]) -> Figures:
    """Return below what no allocator can bring the peak RSS of a program.

    It is the peak RSS less what the heap holds beyond the program's live bytes, which is known
    from replaying a recording of the program on the same allocator.
    """
    peak = _run(command, environment).peak_rss_bytes
    variables = [f"{name}={value}" for name, value in command.variables.items()]
    silently = ["sh", "-c", 'exec "$@" > /dev/null', "sh", "env", *variables]
    with tempfile.TemporaryDirectory(prefix="allocators-") as folder:
        try:
            with contextlib.chdir(command.folder or Path.cwd()):
                recording = record([*silently, *command.words], Path(folder) / "program.trace")
        except ProgramError:  # it allocates nothing
            return Figures.succeeded({"floor_bytes": peak, "peak_live_bytes": 0})
        process = max(recording.processes, key=lambda process: process.totals.peak_live_bytes)
        live = process.totals.peak_live_bytes
        result, reason = _emulated(Command(command.name, (str(process.path),)), subject)
    if result is None:
        return failed(reason or "no result")
    beyond = max(0, result["peak_heap_bytes"] - live)
    return Figures.succeeded({"floor_bytes": peak - beyond, "peak_live_bytes": live})


def _under_valgrind(
    words: list[str], command: Command, environment: dict[str, str]
) -> tuple[str | None, str | None]:
    """Run a program under a tool of valgrind; return the tool's file, or why there is none.

    Args:
        words: options, the last one wanting the name of the file.
        command: the program.
        environment: of the subject.
    """
    with tempfile.TemporaryDirectory(prefix="allocators-") as folder:
        result = Path(folder) / "counts"
        tool = ["valgrind", "--quiet", *words[:-1], f"{words[-1]}{result}"]
        variables = {**tool_environment(os.environ), **command.variables, **environment}
        ended = Processes().run(
            [*tool, *command.words],
            environment=variables,
            timeout_s=_VALGRIND_LIMIT_S,
            cwd=command.folder,
        )
        if ended.exit_status != 0 or not result.exists():
            last = (ended.stderr.strip().splitlines() or [""])[-1]
            return None, f"exit status {ended.exit_status}: {last}"
        return result.read_text(), None


def instructions_by_object(text: str) -> dict[str, int]:
    """Return the instructions of every program file and library in a file of callgrind.

    Args:
        text: in callgrind's format: a line "ob=" names the file that the costs below it belong
            to, "cob=" that of the function called next, and the line behind "calls=" has the
            cost of that function, which it has itself too.
    """
    names: dict[str, str] = {}
    counts: dict[str, int] = {}
    current = ""
    lines = iter(text.splitlines())
    for line in lines:
        if named := _OBJECT.match(line):
            name = names.setdefault(named[2], named[3] or "")
            current = current if named[1] else name
        elif line.startswith("calls="):
            next(lines, None)
        elif line[:1].isdigit() or line[:1] in {"+", "-", "*"}:
            counts[current] = counts.get(current, 0) + int(line.split()[1])
    return counts


def misses(text: str) -> dict[str, float]:
    """Return instructions and misses of a file of cachegrind.

    Args:
        text: with the lines "events:" and "summary:".

    Returns:
        instructions; l1_misses and l2_misses; l1_mpki, l1_data_mpki and l2_mpki, which are
        misses per thousand instructions.

    Raises:
        ValueError: it is no such file.
    """
    names, numbers = _EVENTS.search(text), _SUMMARY.search(text)
    if names is None or numbers is None:
        raise ValueError("cachegrind left no summary")
    counts = dict(zip(names[1].split(), map(int, numbers[1].split()), strict=True))
    per = 1000 / counts["Ir"]
    data = counts["D1mr"] + counts["D1mw"]
    first = counts["I1mr"] + data
    second = counts["ILmr"] + counts["DLmr"] + counts["DLmw"]
    return {
        "instructions": counts["Ir"],
        "l1_misses": first,
        "l2_misses": second,
        "l1_mpki": first * per,
        "l1_data_mpki": data * per,
        "l2_mpki": second * per,
    }
