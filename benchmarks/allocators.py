"""exgen against the allocators it is tuned against: time, memory, cache misses, threads.

All subjects are measured side by side, in interleaved rounds, one process a run; figures are
medians with 95 % intervals (of fewer than six rounds, their range).  A target is reached or missed
where the 95 % interval of the ratios of the rounds says so, and else not to be told apart.  Parts:

    programs     single-threaded programs, and shipped workloads of one thread replayed natively:
                 CPU time, peak resident memory, faults; the geometric means
    floor        below what no allocator can bring the programs' peak resident memory: that of
                 glibc less what its heap holds beyond the live bytes, by recording and replay
    cache        L1 and L2 misses, also per thousand instructions, of allocation-heavy programs, by
                 cachegrind
    share        how much of each program's instructions is the allocator's own, by callgrind:
                 what an allocator that costs nothing could save
    threads      the workloads of `malloc-tuner bench` at 2, 4, 16, 64, 128 threads: throughput,
                 percentiles of malloc, peak resident memory
    classes      the workloads of `malloc-tuner bench` of one range of sizes each, in one thread:
                 CPU time an operation
    churn        resident memory over live bytes, while threads come and go and sizes drift; one run
                 each, which leaves its target in doubt
    memory       small programs that are hard on an allocator's memory: what stays when most blocks
                 are freed and longer ones come (refill), when sizes drift (drift), when threads
                 rest or end, what a limit leaves, what counts where all memory is locked
    candidates   what each --setting does to real programs: whether exgen's default should change
    instructions of the candidates, counted by cachegrind
    safety       what the safety settings of exgen cost the same programs
    prices       the same in instructions, by cachegrind: of two that allocate much, and of pairs of
                 malloc and free
    gem5         a simulator as the program, when the variable GEM5 names gem5.opt
"""

import argparse
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.allocator_programs import (
    Command,
    gem5_command,
    make_programs,
    memory_cases,
    pairs_command,
    perl_command,
    python_command,
    read_programs,
)
from benchmarks.allocator_runs import (
    REPLAY,
    run_cachegrind,
    run_callgrind,
    run_floor,
    run_gem5,
    run_instructions,
    run_memory_case,
    run_program,
)
from benchmarks.allocator_tables import (
    class_lines,
    failure_lines,
    figure_table,
    floor_lines,
    memory_lines,
    missed_lines,
    safety_lines,
    single_lines,
    standing_lines,
)
from benchmarks.allocator_targets import OURS, TIMED, common, comparison_of, long_ones, targets
from benchmarks.harness import (
    PEERS,
    SINGLE_THREADED,
    Benchmark,
    Call,
    allocator_options,
    chosen_subjects,
    identities,
)
from benchmarks.results import Parts
from benchmarks.rounds import Figures, Row, column, medians, n_rounds, run_rounds
from benchmarks.sources import EMULATOR, EXGEN
from tuner.bench.journal import sample_record
from tuner.bench.plan import RANGES, THREADED, BenchPlan, Task, make_tasks
from tuner.bench.rounds import run_missing
from tuner.bench.subjects import BenchSubject, subject_of, with_variables
from tuner.cli.bench_tables import bench_tables
from tuner.cli.console import stdout_console
from tuner.cli.options import split_names
from tuner.compare.loop import Observer
from tuner.compare.plan import Step
from tuner.library import settings_of
from tuner.measure.driver import BenchDriver, DriverResult
from tuner.measure.program import padded
from tuner.optimize.tuned import label_of
from tuner.profile.generated import replayable
from tuner.records import Outcome
from tuner.report.bench_figures import write_bench_figures
from tuner.resources import configs_dir
from tuner.stats import fewest_pairs

SAFETY: Final = ("check", "junk", "secure")
"""Settings that find mistakes of programs, each with the milder ones in it."""
SHARES: Final = frozenset({"exgen", "mimalloc", "jemalloc"})
THREADS: Final = (2, 4, 16, 64, 128)
REPLAYED: Final = ("cxx-compile", "ghostscript-pages", "perl-index", "redis-load")
"""Shipped profiles of programs of one thread."""
_MIB: Final = float(1 << 20)

Run = Callable[[Command, BenchSubject, dict[str, str]], Figures]
"""Runs a command on a subject in an environment."""
Column = tuple[str, str, float, int]
"""Title, figure, what it is divided by, digits."""

_TIME: Final[Column] = ("CPU time, s", "cpu_s", 1.0, 3)
_PEAK: Final[Column] = ("peak RSS, MiB", "peak_rss_bytes", _MIB, 2)


# What is run


def _programs(call: Call) -> list[Command]:
    found = make_programs(call.scratch / "programs", smoke=call.is_smoke)
    return found + (read_programs(call.options.programs) if call.options.programs else [])


def _programs_and_replays(call: Call) -> list[Command]:
    """Return the programs, and replays of `REPLAYED` as traces made of their profiles."""
    commands = _programs(call)
    for name in REPLAYED[1:2] if call.is_smoke else REPLAYED:
        profile = configs_dir() / "workloads" / name / f"{name}.profile.json.zst"
        trace = replayable(profile, 1, call.scratch / f"{name}.trace")
        commands.append(Command(f"{REPLAY}{name}", (str(trace),)))
    return commands


def _pairs(call: Call) -> list[Command]:
    return [pairs_command(call.scratch, 64, 1000 if call.is_smoke else 1000000)]


def _heavy(call: Call) -> list[Command]:
    if call.is_smoke:  # counting an interpreter that only starts takes seconds
        return _pairs(call)
    return [python_command(call.scratch, 5000), perl_command()]


def _priced(call: Call) -> list[Command]:
    return _pairs(call) if call.is_smoke else [*_heavy(call), *_pairs(call)]


def _memory(call: Call) -> list[Command]:
    return memory_cases(call.scratch)[: 1 if call.is_smoke else None]


def _gem5(call: Call) -> list[Command]:
    command = gem5_command(call.scratch, smoke=call.is_smoke)
    return [command] if command else []


# What runs it


def _subjects(call: Call) -> list[BenchSubject]:
    names = ("glibc", "exgen") if call.is_smoke else (*PEERS, *OURS)
    return chosen_subjects(call, names)


def _only(*labels: str) -> Callable[[Call], list[BenchSubject]]:
    return lambda call: [subject for subject in _subjects(call) if subject.label in labels]


def _candidates(call: Call) -> list[BenchSubject]:
    asked, files = settings_of(call.options.setting, split_names(call.options.allocators or ""))
    wanted = [subject_of(label_of(one), *files[one.allocator], one) for one in asked]
    return [*_only("glibc", "exgen")(call), *wanted] if wanted else []


def _safe(call: Call) -> list[BenchSubject]:
    """Return glibc, exgen, and exgen with each safety setting."""
    plain = _only("glibc", "exgen")(call)
    safe = [replace(plain[-1], label=f"exgen-{name}") for name in SAFETY]
    conf = [f"exgen-{name}:EXGEN_CONF={name}:true" for name in SAFETY]
    return [*plain, *with_variables(safe, conf)]


def _with_timer(call: Call) -> list[BenchSubject]:
    """Return all that serve threads, and exgen with the setting for threads that rest."""
    found = [s for s in _subjects(call) if s.label not in SINGLE_THREADED]
    timed = [replace(s, label=TIMED) for s in found if s.label == "exgen"]
    return [*found, *with_variables(timed, [f"{TIMED}:EXGEN_CONF=timer:500"])]


@dataclass(frozen=True)
class Part:
    """One comparison over programs."""

    columns: tuple[Column, ...]
    run: Run = run_program
    commands: Callable[[Call], list[Command]] = _programs
    subjects: Callable[[Call], list[BenchSubject]] = _subjects
    needs: str | None = None
    """Program without which it is left out."""
    is_counted: bool = False
    """True: every round gives the same, so that one is enough."""


PARTS: Final[Mapping[str, Part]] = {
    "programs": Part(
        (_TIME, _PEAK, ("faults, thousands", "faults", 1000.0, 2)),
        commands=_programs_and_replays,
    ),
    "floor": Part(
        (("peak RSS without what the heap holds beyond live bytes, MiB", "floor_bytes", _MIB, 2),
         ("live bytes at the peak, MiB", "peak_live_bytes", _MIB, 2)),
        run_floor, subjects=_only("glibc"), is_counted=True,
    ),
    "cache": Part(
        (("L1 misses per thousand instructions", "l1_mpki", 1.0, 2),
         ("L1 data misses per thousand instructions", "l1_data_mpki", 1.0, 2),
         ("L2 misses per thousand instructions", "l2_mpki", 1.0, 3),
         ("L1 misses, thousands", "l1_misses", 1000.0, 0),
         ("L2 misses, thousands", "l2_misses", 1000.0, 1),
         ("instructions, millions", "instructions", 1e6, 1)),
        run_cachegrind, _heavy, needs="valgrind", is_counted=True,
    ),
    "share": Part(
        (("instructions of the allocator, %", "share", 0.01, 2),
         ("instructions of the allocator, millions", "own_instructions", 1e6, 1)),
        run_callgrind, subjects=_only(*SHARES), needs="valgrind", is_counted=True,
    ),
    "memory": Part(
        (("bytes, MiB", "bytes", _MIB, 1),), run_memory_case, _memory, _with_timer,
    ),
    "candidates": Part((_TIME, _PEAK), subjects=_candidates),
    "instructions": Part(
        (("instructions, millions", "instructions", 1e6, 1),),
        run_instructions, subjects=_candidates, needs="valgrind", is_counted=True,
    ),
    "safety": Part((_TIME, _PEAK), subjects=_safe),
    "prices": Part(
        (("instructions, millions", "instructions", 1e6, 1),),
        run_instructions, _priced, _safe, needs="valgrind", is_counted=True,
    ),
    "gem5": Part(
        (("CPU time, s", "cpu_s", 1.0, 2), ("mean heap, MiB", "mean_anon_bytes", _MIB, 1),
         ("peak RSS, MiB", "peak_rss_bytes", _MIB, 1)),
        run_gem5, _gem5,
    ),
}  # fmt: skip
BENCHED: Final = ("threads", "classes", "churn")
OF_SETTINGS: Final = ("candidates", "instructions")
"""Parts that are measured where --setting asks for them."""


# Measuring


def measure(call: Call) -> None:
    """Measure every part that was chosen and can be."""
    smoke = [name for name in (*PARTS, *BENCHED) if name != "share"]
    for name in call.choose((*PARTS, *BENCHED), smoke):
        if name in BENCHED:
            _bench(call, name)
        else:
            _compare(call, name, PARTS[name])


def _compare(call: Call, name: str, part: Part) -> None:
    subjects = {subject.label: subject for subject in part.subjects(call)}
    is_there = part.needs is None or shutil.which(part.needs)
    commands = {c.name: c for c in part.commands(call)} if subjects and is_there else {}
    if not commands:
        why = f"{part.needs} is not installed" if not is_there else "nothing to run"
        call.leave_out(name, why)
        return
    if call.is_smoke and name != "programs":  # that part runs them all; here the smallest
        commands = dict(list(commands.items())[-2:])
    padded_environments = padded([subject.environment for subject in subjects.values()])
    environments = dict(zip(subjects, padded_environments, strict=True))

    def run(task: str, label: str) -> Figures:
        return part.run(commands[task], subjects[label], environments[label])

    def repeats(task: str) -> int:
        return commands[task].rounds or call.rounds

    known = identities(subjects.values())
    rows = run_rounds(
        call, name, list(commands), list(subjects), run, same=known, repeats=repeats,
        rounds=1 if part.is_counted else None, shown="cpu_s",
    )  # fmt: skip
    call.keep(name, {"subjects": list(subjects), "rows": rows}, allocators=known,
              rounds=n_rounds(rows))  # fmt: skip


def _bench(call: Call, name: str) -> None:
    """Run workloads of `malloc-tuner bench`."""
    subjects = [s for s in _subjects(call) if s.label not in SINGLE_THREADED]
    if name != "churn":
        tasks = make_tasks(RANGES, (1,))
        if name == "threads":
            tasks = make_tasks(THREADED, (2,) if call.is_smoke else THREADS)
        plan = BenchPlan(tasks, 0.02 if call.is_smoke else call.options.seconds, call.rounds)
    else:
        seconds = 0.2 if call.is_smoke else call.options.churn_minutes * 60
        plan = BenchPlan((Task("churn", 2),), seconds, 1, timeout_s=2 * seconds + 120)
    known = identities(subjects)

    def on_sample(step: Step[Task], sample: Outcome[DriverResult]) -> None:
        text = sample.reason or "ok"
        print(f"{name} round {step.round} {step.task} {step.subject}: {text}", file=sys.stderr)

    folder = call.run_folder(name, name)
    found = run_missing(plan, subjects, folder, BenchDriver(), Observer(on_sample))
    samples = [_kept(name, sample_record(*one)) for one in found.samples.items()]
    part = {"subjects": list(known), "header": {"seconds": plan.seconds},
            "samples": samples}  # fmt: skip
    call.keep(name, part, allocators=known, rounds=plan.rounds)
    shutil.rmtree(folder)


def _kept(name: str, sample: Row) -> Row:
    """Return what is kept of a sample: no percentiles of free, of ranges of sizes none at all."""
    result = sample.get("result")
    if not result or not result.get("latency"):
        return sample
    latency = None if name == "classes" else {**result["latency"], "free": None}
    return {**sample, "result": {**result, "latency": latency}}


# Showing


def lines(parts: Parts) -> Iterator[str]:
    """Yield the tables of all parts."""
    for name, part in PARTS.items():
        if name in parts:
            yield from _part_lines(name, parts[name], part.columns)
    yield from floor_lines(parts)
    yield from class_lines(parts)
    for name in BENCHED:
        if name in parts and name != "classes":
            for table in bench_tables(comparison_of(parts[name])):
                with (console := stdout_console(table)).capture() as captured:
                    console.print(table)
                yield captured.get()
    if "threads" in parts:
        yield from standing_lines(comparison_of(parts["threads"]))
    yield from failure_lines(parts)


def _part_lines(name: str, part: Mapping[str, Any], columns: Sequence[Column]) -> Iterator[str]:
    for title, figure, scale, digits in columns:
        rows = medians(part["rows"], figure)
        yield from figure_table(f"{name}: {title}", rows, part["subjects"], scale, digits)
        if figure == "cpu_s" and (longer := long_ones(rows)) and len(longer) < len(rows):
            *_, means = figure_table("", common(longer, ["glibc"]), part["subjects"], 1.0, 3)
            yield means.replace("geometric mean", "without the short ones", 1)
    differing = sorted({row["task"] for row in part["rows"] if _differs(row, part["rows"])})
    if differing:
        yield f"output differs from glibc's: {', '.join(differing)}"


def _differs(row: Row, rows: Sequence[Row]) -> bool:
    mine = row.get("output_sha256")
    theirs = column(rows, "output_sha256", task=row["task"], subject="glibc")
    return mine is not None and bool(theirs) and mine not in theirs


def _options(parser: argparse.ArgumentParser) -> None:
    allocator_options(parser)
    parser.add_argument("--setting", action="append", default=[], metavar="'exgen NAME=VALUE ...'",
                        help="of candidates; repeatable")  # fmt: skip
    parser.add_argument("--programs", type=Path, metavar="FILE", help="further programs")
    parser.add_argument("--seconds", type=float, default=0.2, help="of a run of threads or classes")
    parser.add_argument("--churn-minutes", type=float, default=0.2)
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="draw the part threads")


def _draw(call: Call) -> None:
    comparison = comparison_of(call.parts["threads"])
    for path in write_bench_figures(comparison, call.options.figures, ("svg",)):
        print(f"drawn: {path}", file=sys.stderr)


BENCHMARK: Final = Benchmark(
    name="allocators",
    about=__doc__,
    claim="exgen needs no more than glibc, mimalloc, jemalloc, tcmalloc and others: time, memory, "
    "cache misses, threads; allowed are 1.02 times the time of any one program, 1.5 times that "
    "of a range of sizes, and up to 1.2 times the bytes of programs hard on memory.",
    depends_on=(
        *EXGEN,
        *EMULATOR,
        "rand_malloc/bench",
        "rand_malloc/supervise",
        "tuner/bench",
        "benchmarks/allocator_programs.py",
        "benchmarks/memory_cases.c",
        "benchmarks/pairs.c",
    ),
    measure=measure,
    needs=[name for name in (*PARTS, *BENCHED) if name not in OF_SETTINGS],
    lines=lines,
    targets=targets,
    options=_options,
    draw=_draw,
    blocks={
        "missed": missed_lines,
        "classes": class_lines,
        "memory": memory_lines,
        "safety": safety_lines,
        "single": single_lines,
    },
    rounds=fewest_pairs(1),
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
