"""Whether an answer holds where it was not tuned: real programs, one input to tune, one to judge.

`optimize` answers for each program within --seconds; the answer is then compared on another input,
in interleaved rounds, with the program as it is, with every allocator's default, and with what
emulation alone would have exported: the balanced pick of the same campaign.  Every run is kept.

Targets: no answer is worse than the program as it is by more than 1 % in mean memory, peak memory
or CPU time beyond doubt, that is with its whole 95 % interval; and none is in the median of memory.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.harness import Benchmark, Call, Target, table
from benchmarks.results import ROOT, Parts
from benchmarks.rounds import Figures, Row, column, failed, run_rounds
from tuner.campaign.setup import locate
from tuner.compare.plan import Step
from tuner.front.picks import select_balanced
from tuner.optimize import emulation
from tuner.optimize.answer import Answer, Decision
from tuner.optimize.kinds import tuned_of
from tuner.optimize.quantities import MEAN, PEAK, QUANTITIES
from tuner.optimize.request import Request
from tuner.optimize.session import Session
from tuner.optimize.tuned import AS_IS
from tuner.optimize.work import TRACE_FILE
from tuner.records import Configuration, Outcome
from tuner.stats import ratio_estimate

WORKLOADS: Final = ROOT / "configs" / "workloads"
ALLOCATORS: Final = ("glibc", "tcmalloc", "jemalloc", "mimalloc", "exgen")
OTHER_SOURCE: Final = ROOT / "tests" / "native" / "recorder_subject_new.cc"
OURS, EMULATED = "answer", "emulation alone"
_LEAST: Final = 0.01


@dataclass(frozen=True)
class Task:
    """A program with two inputs."""

    name: str
    tuned: tuple[str, ...]
    judged: tuple[str, ...]


def _workload(name: str, tuned: str, judged: str) -> Task:
    run = str(WORKLOADS / name / "run.sh")
    return Task(name, (run, tuned), (run, judged))


TASKS: Final = {
    task.name: task
    for task in (
        _workload("perl-index", "4", "6"),
        _workload("sqlite-memory", "4000", "3000"),
        _workload("ruby-records", "8", "5"),
        _workload("lua-objects", "12", "9"),
        _workload("python-threads", "120", "90"),
        _workload("openmp-words", "24", "18"),
        _workload("tesseract-openmp", "12", "9"),
        _workload("cxx-compile", "containers.cpp", str(OTHER_SOURCE)),
        _workload("clang-compile", "../cxx-compile/containers.cpp", str(OTHER_SOURCE)),
        _workload("gem5-timing-sort", "300", "220"),
    )
}
"""Interpreters, a database, a compiler, a text recogniser, a simulator, programs with threads."""


def measure(call: Call) -> None:
    """Ask for an answer for every program, then judge it on the other input."""
    for part in call.choose(list(TASKS), ["lua-objects"]):
        call.keep(part, _measure(call, TASKS[part]), rounds=call.rounds)


def _measure(call: Call, task: Task) -> Mapping[str, object]:
    seconds = 3.0 if call.is_smoke else float(call.options.seconds)
    evaluations = 8 if call.is_smoke else None
    request = Request(task.tuned, seconds, ALLOCATORS, evaluations=evaluations)
    run = call.folder / f"{task.name}-{seconds:g}"
    answer = Session(run, request).answer()
    subjects = _subjects(run, answer)
    known = {label: one.key for label, one in subjects.items()}
    rows = run_rounds(
        call,
        task.name,
        [task.name],
        [AS_IS, *subjects],
        _runner(run, task, subjects),
        same=[seconds, known],
        baseline=AS_IS,
    )
    head = {"decision": str(answer.decision), "sentence": answer.sentence, "seconds": seconds}
    return {**head, "used_s": round(answer.seconds, 1), "subjects": known, "rows": rows}


def _subjects(run: Path, answer: Answer) -> dict[str, Configuration]:
    """Return what is judged beside the program as it is, by label."""
    found = {name: Configuration(name) for name in ALLOCATORS}
    emulated = emulation.load(run)
    balanced = select_balanced(
        emulated.trials, emulation.OBJECTIVES, emulated.default_of(ALLOCATORS[0])
    )
    found[EMULATED] = balanced.configuration
    if answer.decision is Decision.DEPLOY and answer.configuration is not None:
        found[OURS] = answer.configuration
    return found


def _runner(
    run: Path, task: Task, subjects: Mapping[str, Configuration]
) -> Callable[[str, str], Figures]:
    """Return what runs the judged input under a subject."""
    files = locate(emulation.campaign_spec(run / TRACE_FILE, ALLOCATORS, 1, 100))
    tuned = tuned_of(Request(task.judged, 0.0, ALLOCATORS), files, os.environ)
    run_step = tuned.runner(subjects, tuned.examine())

    def run_once(_task: str, subject: str) -> Figures:
        found = run_step(Step(0, 0, None, subject))
        return Outcome.succeeded(dict(found.good)) if found.good else failed(str(found.reason))

    return run_once


# What is shown


@dataclass(frozen=True)
class Judged:
    """A subject on the input that was not tuned on."""

    program: str
    subject: str
    changes: Mapping[str, tuple[float, float, float]]
    """Quantity -> median change and the ends of its interval."""


def judged_of(parts: Parts) -> list[Judged]:
    """Return every subject of every program with its changes."""
    found = []
    for name in TASKS:
        kept = parts.get(name)
        if kept:
            labels = kept["subjects"]
            found += [_judged(name, label, kept["rows"]) for label in labels]
    return found


def _judged(program: str, subject: str, rows: Sequence[Row]) -> Judged:
    changes = {}
    for name in QUANTITIES:
        mine, base = column(rows, name, subject=subject), column(rows, name, subject=AS_IS)
        ratio = ratio_estimate(mine, base) if mine and len(mine) == len(base) else None
        if ratio is not None:
            ends = ratio.interval
            low, high = (ends.low, ends.high) if ends else (ratio.median, ratio.median)
            changes[name] = (ratio.median - 1.0, low - 1.0, high - 1.0)
    return Judged(program, subject, changes)


def lines(parts: Parts) -> Iterator[str]:
    """Yield the answers, then what every subject changes on the judged input."""
    for name in TASKS:
        if kept := parts.get(name):
            yield f"{name}: {kept['sentence']} ({kept['used_s']:g} of {kept['seconds']:g} s)"
    yield ""
    rows = []
    for one in judged_of(parts):
        cells = [_cell(one.changes.get(name)) for name in QUANTITIES]
        rows.append([one.program, one.subject, *cells])
    yield from table(["program", "on the judged input", *QUANTITIES], rows)


def _cell(change: tuple[float, float, float] | None) -> str:
    if change is None:
        return "failed"
    middle, low, high = (100.0 * share for share in change)
    return f"{middle:+.1f} % ({low:+.1f} .. {high:+.1f})"


def targets(parts: Parts) -> Iterator[Target]:
    """Yield how many answers are worse than the program as it is, on the judged input."""
    judged = judged_of(parts)
    own = [one for one in judged if one.subject == OURS]
    beyond = sum(any(low > _LEAST for _, low, _ in one.changes.values()) for one in own)
    memory = sum(
        any(one.changes[name][0] > _LEAST for name in (MEAN, PEAK) if name in one.changes)
        for one in own
    )
    note = f"{len(own)} of {len(parts)} programs with a setting to deploy"
    yield Target("answers worse by 1 % beyond doubt", beyond, 0, note=note, form=".0f")
    yield Target("answers with 1 % more memory", memory, 0, form=".0f")


def summary(parts: Parts) -> str:
    """Return how many settings were deployed, and whether all of them held."""
    n_deployed = sum(one.subject == OURS for one in judged_of(parts))
    words = f"{n_deployed} settings to deploy for {len(parts)} programs"
    if not n_deployed:
        return f"not shown yet: {words}"
    return f"{'reached' if all(t.is_met for t in targets(parts)) else '**missed**'}: {words}"


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=600.0, metavar="S",
                        help="for each answer; default: %(default)s")  # fmt: skip


BENCHMARK: Final = Benchmark(
    name="answers",
    about=__doc__,
    claim="An answer of `optimize` holds on input that it was not tuned on.",
    depends_on=("rand_malloc", "tuner/optimize", "configs/workloads"),
    measure=measure,
    lines=lines,
    targets=targets,
    outcome=summary,
    options=_options,
    rounds=10,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
