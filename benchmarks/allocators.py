"""exgen against the allocators it is tuned against: time, memory, cache misses, threads.

All subjects are measured side by side in one run, in interleaved rounds, one process a run;
figures are medians with 95 % intervals.  Parts:

    programs   single-threaded programs and the shipped single-threaded traces, replayed natively:
               CPU time, peak resident memory, faults; the geometric means
    floor      below what no allocator can bring the programs' peak resident memory: that of
               glibc less what its heap holds beyond the live bytes, by recording and replay
    cache      L1 and L2 misses per thousand instructions of an allocation-heavy program, by
               cachegrind
    share      how much of each program's instructions is the allocator's own, by callgrind: what
               an allocator that costs nothing could save
    threads    the workloads of `malloc-tuner bench` at 2, 4, 16, 64, 128 threads: throughput,
               percentiles of malloc, peak resident memory
    churn      resident memory over live bytes, while threads come and go and sizes drift
    presets    what exgen's presets do to real programs; they were found in emulation
    safety     what the safety settings of exgen cost the same programs
    gem5       a simulator as the program, when the variable GEM5 names gem5.opt

    benchmarks/allocators.py                                   all parts
    benchmarks/allocators.py --peer snmalloc=/opt/snmalloc.so@0.7.1  with a further peer; repeatable
    benchmarks/allocators.py --parts threads --only exgen,glibc
    benchmarks/allocators.py --parts churn --churn-minutes 60
    benchmarks/allocators.py --programs more.toml              further programs, already built
    benchmarks/allocators.py --print                           tables of the last results
    benchmarks/allocators.py --print --figures docs/images     and pictures of its threads part
    benchmarks/allocators.py --smoke                           tiny runs, no judgement

Samples are written to ``runs/allocators`` as they come: a run that was killed goes on where it
stopped, if no library has changed; ``--fresh`` begins anew.  When all is done they go to
``benchmarks/results/allocators.json``, where parts that were not run keep their last
ones.  Exit status 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.allocator_programs import (
    ROOT,
    Command,
    gem5_command,
    make_programs,
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
    run_program,
)
from benchmarks.allocator_tables import (
    Medians,
    common,
    failed,
    floor_lines,
    judge_all,
    long_ones,
    medians,
    standing_lines,
    subjects_of,
    table_lines,
    threads_comparison,
)
from benchmarks.peers import peer_subject
from benchmarks.provenance import (
    identities_of,
    make_stamp,
    merge_stamps,
    n_rounds,
    provenance_lines,
    stamps_of,
    write_results,
)
from tuner.bench.journal import Journal, Sample, make_header, sample_record
from tuner.bench.plan import THREADED, Plan, Task, make_tasks
from tuner.bench.rounds import run_missing
from tuner.bench.subjects import (
    Subject,
    configured_subject,
    named_subject,
    with_variables,
)
from tuner.cli.bench_tables import bench_tables
from tuner.cli.console import stdout_console
from tuner.errors import MissingToolError, TunerError
from tuner.measure.driver import BenchDriver
from tuner.measure.program import padded
from tuner.measure.warm import warm_memory
from tuner.profile.generated import replayable
from tuner.report.bench_figures import write_bench_figures
from tuner.resources import configs_dir

RESULTS: Final = ROOT / "benchmarks" / "results" / "allocators.json"
SCHEMA: Final = "malloc-tuner.benchmark.allocators"
PARTS: Final = (
    "programs",
    "floor",
    "cache",
    "share",
    "threads",
    "churn",
    "candidates",
    "safety",
    "gem5",
)
PEERS: Final = ("glibc", "mimalloc", "jemalloc", "tcmalloc")
OURS: Final = ("exgen", "exgen-st")
SAFETY: Final = ("check", "junk", "secure")
"""Settings that find mistakes of programs, each with the milder ones in it."""
_SINGLE_THREADED: Final = frozenset({"exgen-st", "dlmalloc"})
_COUNTED: Final = frozenset({"cache", "share", "floor", "instructions"})
"""Parts of one round: they count the same again."""
_SHARES: Final = frozenset({"exgen", "mimalloc", "jemalloc"})
THREADS: Final = (2, 4, 16, 64, 128)
REPLAYED: Final = ("cxx-compile", "ghostscript-pages", "perl-index", "redis-load")
"""Shipped profiles of programs of one thread."""

Run = Callable[[Command, Subject, dict[str, str]], dict[str, Any]]
"""Runs a command on a subject in an environment and returns what is kept of it."""


@dataclass(frozen=True)
class Session:
    """What holds for all parts of one call."""

    subjects: tuple[Subject, ...]
    folder: Path
    """Where samples are written as they come."""
    inputs: Path
    """Where inputs of programs are made."""
    rounds: int
    thread_rounds: int
    seconds: float
    """Counting phase of a threaded workload."""
    churn_s: float
    candidates: tuple[str, ...]
    """Settings of exgen to compare, as `configured_subject` takes them."""
    extra: tuple[Command, ...]
    """Further programs."""
    smoke: bool

    @property
    def threaded(self) -> tuple[Subject, ...]:
        """The subjects that stand threads."""
        return tuple(s for s in self.subjects if s.label not in _SINGLE_THREADED)


def main() -> int:
    """Run what was asked for, print tables and judgements, return the exit status."""
    options = _parse(sys.argv[1:])
    try:
        if not options.print:
            warm_memory()
            _measure(options)
        kept = json.loads((options.output or RESULTS).read_text())
    except TunerError as error:
        sys.exit(f"allocators.py: {error}")
    except FileNotFoundError as error:
        sys.exit(f"allocators.py: {error.filename}: no results yet; run without --print")
    if options.figures and "threads" in kept["parts"]:
        comparison = threads_comparison(kept["parts"]["threads"])
        for path in write_bench_figures(comparison, options.figures, ("svg",)):
            print(f"drawn: {path}", file=sys.stderr)
    return _print(kept, is_judged=not options.smoke)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS), help="default: all")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PATH@VERSION")
    parser.add_argument(
        "--with",
        action="append",
        default=[],
        dest="candidates",
        metavar="LABEL=exgen,SETTING=VALUE,...",
        help="for the part candidates",
    )
    parser.add_argument("--only", metavar="NAME,...", help="only these subjects")
    parser.add_argument("--exgen", metavar="PATH", help="libexgen.so to use; default: ours")
    parser.add_argument("--exgen-st", metavar="PATH", help="libexgen-st.so to use; default: ours")
    parser.add_argument("--programs", type=Path, metavar="FILE", help="further programs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--thread-rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.2, help="of a threaded run")
    parser.add_argument("--churn-minutes", type=float, default=0.2)
    parser.add_argument("--fresh", action="store_true", help="drop samples of a killed run")
    parser.add_argument("--output", type=Path, help="where the results go")
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="draw the threads part")
    parser.add_argument("--print", action="store_true", help="print the last results only")
    parser.add_argument("--smoke", action="store_true", help="a quick look that it still runs")
    options = parser.parse_args(arguments)
    options.parts = options.parts.split(",")
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"--parts {unknown.pop()}: there is none; allowed: {', '.join(PARTS)}")
    return options


def _measure(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="allocators-") as name:
        scratch = Path(name)
        subjects = _subjects(options)
        place = scratch if options.smoke else ROOT / "runs" / "allocators"
        folder = place / _digest(subjects, options)
        if options.fresh:
            shutil.rmtree(folder, ignore_errors=True)
        options.output = options.output or (scratch / "results.json" if options.smoke else RESULTS)
        session = Session(
            subjects=subjects,
            folder=folder,
            inputs=scratch,
            rounds=1 if options.smoke else options.rounds,
            thread_rounds=1 if options.smoke else options.thread_rounds,
            seconds=0.02 if options.smoke else options.seconds,
            churn_s=0.2 if options.smoke else options.churn_minutes * 60,
            candidates=tuple(options.candidates),
            extra=tuple(read_programs(options.programs)) if options.programs else (),
            smoke=options.smoke,
        )
        parts = {}
        for part in options.parts:
            start = time.monotonic()
            measured = _MEASURE[part](session)
            if measured is not None:
                parts[part] = {**measured, "seconds": round(time.monotonic() - start, 1)}
        _keep(parts, session, options.output)
        shutil.rmtree(folder, ignore_errors=True)
        if options.smoke:
            sys.exit(_print(json.loads(options.output.read_text()), is_judged=False))


def _subjects(options: argparse.Namespace) -> tuple[Subject, ...]:
    """Return exgen, the peers of this machine and those by path."""
    paths = {"exgen": options.exgen, "exgen-st": options.exgen_st}
    subjects = []
    for name in (*(PEERS[:1] if options.smoke else PEERS), *OURS):
        try:
            subjects.append(named_subject(f"{name}:{paths[name]}" if paths.get(name) else name))
        except MissingToolError as error:
            print(f"allocators.py: left out: {error}", file=sys.stderr)
    subjects += [peer_subject(text) for text in options.peer]
    wanted = options.only.split(",") if options.only else [s.label for s in subjects]
    if unknown := set(wanted) - {subject.label for subject in subjects}:
        sys.exit(f"allocators.py: --only {unknown.pop()}: is not among the subjects")
    return tuple(subject for subject in subjects if subject.label in wanted)


def _digest(subjects: Sequence[Subject], options: argparse.Namespace) -> str:
    """Return a name that changes with everything that samples of one session share.

    And with the parts, so that other parts can be measured at the same time.
    """
    shared = [[subject.identity() for subject in subjects], options.seconds, options.churn_minutes]
    shared.append(options.parts)
    return hashlib.sha256(json.dumps(shared).encode()).hexdigest()[:12]


def _keep(parts: dict[str, Any], session: Session, output: Path) -> None:
    """Write the results; parts that were not run keep their last ones."""
    kept = json.loads(output.read_text())["parts"] if output.exists() else {}
    stamps = stamps_of(output)
    own = {"subjects": [subject.identity() for subject in session.subjects]}
    anew = {name: {**own, **part} for name, part in parts.items()}
    for name, part in anew.items():
        compared = identities_of(part["subjects"])
        rounds = n_rounds(part["samples"])
        stamp = make_stamp("allocators", sys.argv, of=[name], allocators=compared, rounds=rounds)
        stamps = merge_stamps(stamps, stamp)
    document = {"schema": SCHEMA, "version": 2, "provenance": stamps, "parts": {**kept, **anew}}
    write_results(output, document)


# Programs


def _programs(session: Session) -> dict[str, Any]:
    commands = [*make_programs(session.inputs, smoke=session.smoke), *session.extra]
    commands += _traces(session.inputs)
    return {"samples": _rounds("programs", commands, session.subjects, session, run_program)}


def _candidates(session: Session) -> dict[str, Any] | None:
    if not session.candidates:
        print("allocators.py: candidates left out: --with names none", file=sys.stderr)
        return None
    subjects = [*_plain(session), *map(configured_subject, session.candidates)]
    measured = _variants("candidates", subjects, session)
    if _has_valgrind("instructions"):
        counted = _variants("instructions", subjects, session, run_instructions)
        measured["samples"] += counted["samples"]
    return measured


def _safety(session: Session) -> dict[str, Any]:
    return _variants("safety", _safe_subjects(session), session)


def _variants(
    part: str, subjects: Sequence[Subject], session: Session, run: Run = run_program
) -> dict[str, Any]:
    """Run the programs with other subjects than the session's, or in another way.

    A smoke run counts the last two only, which are the smallest: each takes fifty times as long.
    """
    inputs = session.inputs / part
    inputs.mkdir()
    commands = make_programs(inputs, smoke=session.smoke)
    if session.smoke and run is not run_program:
        commands = commands[-2:]
    samples = _rounds(part, commands, subjects, session, run)
    return {"samples": samples, "subjects": [subject.identity() for subject in subjects]}


def _plain(session: Session) -> list[Subject]:
    return [subject for subject in session.subjects if subject.label in {"glibc", "exgen"}]


def _safe_subjects(session: Session) -> list[Subject]:
    """Return glibc, exgen, and exgen with each safety setting."""
    plain = _plain(session)
    ours = next(subject for subject in plain if subject.label == "exgen")
    safe = [replace(ours, label=f"exgen-{name}") for name in SAFETY]
    conf = [f"exgen-{name}:EXGEN_CONF={name}:true" for name in SAFETY]
    return [*plain, *with_variables(safe, conf)]


def _gem5(session: Session) -> dict[str, Any] | None:
    folder = session.inputs / "gem5"
    folder.mkdir()
    command = gem5_command(folder, smoke=session.smoke)
    if command is None:
        print("allocators.py: gem5 left out: GEM5 does not name gem5.opt", file=sys.stderr)
        return None
    return {"samples": _rounds("gem5", [command], session.subjects, session, run_gem5)}


def _traces(folder: Path) -> list[Command]:
    """Return replays of `REPLAYED`, as traces that are made in a folder."""
    workloads = configs_dir() / "workloads"
    commands = []
    for name in REPLAYED:
        profile = workloads / name / f"{name}.profile.json.zst"
        trace = replayable(profile, 1, folder / f"{name}.trace")
        commands.append(Command(f"{REPLAY}{name}", (str(trace),)))
    return commands


def _rounds(
    part: str, commands: Sequence[Command], subjects: Sequence[Subject], session: Session, run: Run
) -> list[dict[str, Any]]:
    """Run every command on every subject in interleaved rounds; what is on file is not run again.

    A subject that failed a command is out of it.
    """
    path = session.folder / f"{part}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    samples = list(_read_samples(path))
    done = {(s["program"], s["subject"], s["round"]) for s in samples}
    out = {(s["program"], s["subject"]) for s in samples if s["status"] != "ok"}
    environments = padded([{**subject.environment} for subject in subjects])
    n_rounds = 1 if part in _COUNTED else session.rounds
    for number, command in itertools.product(range(n_rounds), commands):
        if command.rounds is not None and number >= command.rounds:
            continue
        order = list(zip(subjects, environments, strict=True))
        random.Random(f"{number} {command.name}").shuffle(order)
        for subject, environment in order:
            key = (command.name, subject.label)
            if (*key, number) in done or key in out:
                continue
            figures = run(command, subject, environment)
            sample = {"program": command.name, "subject": subject.label, "round": number, **figures}
            if sample["status"] != "ok":
                out.add(key)
            samples.append(sample)
            with path.open("a") as file:
                file.write(json.dumps(sample) + "\n")
            _tell(part, sample)
    return samples


def _read_samples(path: Path) -> Iterator[dict[str, Any]]:
    text = path.read_text() if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)  # drop a line that a kill cut off
    yield from map(json.loads, whole.splitlines())


def _tell(part: str, sample: dict[str, Any]) -> None:
    figure = sample.get("cpu_s")
    text = f"{figure:.3f} s" if figure is not None else sample["reason"] or ""
    print(f"{part} round {sample['round']} {sample['program']} {sample['subject']}: {text}",
          file=sys.stderr)  # fmt: skip


def _has_valgrind(part: str) -> bool:
    """Tell whether a part that needs valgrind can be measured; say so if it cannot."""
    found = shutil.which("valgrind") is not None
    if not found:
        print(f"allocators.py: {part} left out: valgrind is not installed", file=sys.stderr)
    return found


def _cache(session: Session) -> dict[str, Any] | None:
    if not _has_valgrind("cache"):
        return None
    commands = [python_command(session.inputs, 200 if session.smoke else 5000)]
    if not session.smoke:
        commands.append(perl_command())
    return {"samples": _rounds("cache", commands, session.subjects, session, run_cachegrind)}


def _share(session: Session) -> dict[str, Any] | None:
    if not _has_valgrind("share"):
        return None
    subjects = [subject for subject in session.subjects if subject.label in _SHARES]
    return _variants("share", subjects, session, run_callgrind)


def _floor(session: Session) -> dict[str, Any]:
    subjects = [subject for subject in session.subjects if subject.label == "glibc"]
    return _variants("floor", subjects, session, run_floor)


# Threads and churn


def _threads(session: Session) -> dict[str, Any]:
    tasks = make_tasks(THREADED, (2,) if session.smoke else THREADS)
    plan = Plan(tasks, session.seconds, session.thread_rounds)
    return _bench("threads", plan, session)


def _churn(session: Session) -> dict[str, Any]:
    limit_s = session.churn_s * 2 + 120
    return _bench(
        "churn", Plan((Task("churn", 2),), session.churn_s, 1, timeout_s=limit_s), session
    )


def _bench(part: str, plan: Plan, session: Session) -> dict[str, Any]:
    subjects = session.threaded
    journal = Journal(session.folder / part, make_header(subjects, plan))

    def on_sample(sample: Sample) -> None:
        rate = "" if sample.result is None else f"{sample.result.operations} operations"
        print(f"{part} round {sample.round} {sample.task} {sample.subject}: "
              f"{sample.reason or rate}", file=sys.stderr)  # fmt: skip

    run_missing(plan, subjects, journal, BenchDriver(), on_sample)
    comparison = journal.comparison
    return {
        "header": comparison.header,
        "samples": [sample_record(sample) for sample in comparison.samples],
    }


_MEASURE: Final[dict[str, Callable[[Session], dict[str, Any] | None]]] = {
    "programs": _programs,
    "floor": _floor,
    "cache": _cache,
    "share": _share,
    "threads": _threads,
    "churn": _churn,
    "candidates": _candidates,
    "safety": _safety,
    "gem5": _gem5,
}


# Printing


_COLUMNS: Final = {
    "programs": (
        ("CPU time, s", "cpu_s", 1.0, 3),
        ("peak RSS, MiB", "peak_rss_bytes", float(1 << 20), 2),
        ("faults, thousands", "faults", 1000.0, 2),
    ),
    "floor": (
        (
            "peak RSS without what the heap holds beyond live bytes, MiB",
            "floor_bytes",
            float(1 << 20),
            2,
        ),
        ("live bytes at the peak, MiB", "peak_live_bytes", float(1 << 20), 2),
    ),
    "cache": (
        ("L1 misses per thousand instructions", "l1_mpki", 1.0, 2),
        ("L1 data misses per thousand instructions", "l1_data_mpki", 1.0, 2),
        ("L2 misses per thousand instructions", "l2_mpki", 1.0, 3),
        ("L1 misses, thousands", "l1_misses", 1000.0, 0),
        ("L2 misses, thousands", "l2_misses", 1000.0, 1),
        ("instructions, millions", "instructions", 1e6, 1),
    ),
    "share": (
        ("instructions of the allocator, %", "share", 0.01, 2),
        ("instructions of the allocator, millions", "own_instructions", 1e6, 1),
    ),
    "candidates": (
        ("CPU time, s", "cpu_s", 1.0, 3),
        ("peak RSS, MiB", "peak_rss_bytes", float(1 << 20), 2),
        ("instructions, millions", "instructions", 1e6, 1),
    ),
    "safety": (
        ("CPU time, s", "cpu_s", 1.0, 3),
        ("peak RSS, MiB", "peak_rss_bytes", float(1 << 20), 2),
    ),
    "gem5": (
        ("CPU time, s", "cpu_s", 1.0, 2),
        ("mean heap, MiB", "mean_anon_bytes", float(1 << 20), 1),
        ("peak RSS, MiB", "peak_rss_bytes", float(1 << 20), 1),
    ),
}
"""Part -> tables: title, field, what it is divided by, digits."""


def _print(kept: dict[str, Any], *, is_judged: bool) -> int:
    """Print tables and judgements; return the exit status."""
    parts = kept["parts"]
    print("\n".join(provenance_lines(kept["provenance"])))
    _print_tables(parts)
    for line in failed(parts):
        print(f"no result: {line}")
    if not is_judged:
        return 0
    print("\nfigures against their targets")
    judgements = list(judge_all(parts, subjects_of(parts)))
    for judgement in judgements:
        print(judgement)
    n_met = sum(judgement.is_met for judgement in judgements)
    print(f"{n_met} of {len(judgements)} reached")
    return 0 if n_met == len(judgements) else 1


def _print_tables(parts: dict[str, Any]) -> None:
    for name, tables in _COLUMNS.items():
        if name in parts:
            _print_programs(name, parts[name], tables)
    for line in floor_lines(parts):
        print(line)
    for name in ("threads", "churn"):
        if name in parts:
            for table in bench_tables(threads_comparison(parts[name])):
                print()
                stdout_console(table).print(table)
    if "threads" in parts:
        for line in standing_lines(threads_comparison(parts["threads"])):
            print(line)


def _print_programs(
    name: str, part: dict[str, Any], tables: Sequence[tuple[str, str, float, int]]
) -> None:
    labels = [subject["label"] for subject in part["subjects"]]
    for title, field, scale, digits in tables:
        rows: Medians = medians(part["samples"], field)
        for line in table_lines(f"{name}: {title}", rows, labels, scale, digits):
            print(line)
        if field == "cpu_s" and (longer := long_ones(rows)) and len(longer) < len(rows):
            (*_, means) = table_lines("", common(longer, ["glibc"]), labels, scale, digits)
            print(means.replace("mean/glibc", "..without short", 1))
    times = ", ".join(sorted({s["program"] for s in part["samples"] if _differs(s, part)}))
    if times:
        print(f"output differs from glibc's: {times}")


def _differs(sample: dict[str, Any], part: dict[str, Any]) -> bool:
    mine = sample.get("output_sha256")
    theirs = {
        s.get("output_sha256")
        for s in part["samples"]
        if s["program"] == sample["program"] and s["subject"] == "glibc" and s["status"] == "ok"
    }
    return mine is not None and bool(theirs) and mine not in theirs


if __name__ == "__main__":
    sys.exit(main())
