"""Whether an answer holds where it was not tuned: real programs, one input to tune, one to judge.

`optimize` answers for each program within --seconds, with a held-out input where the program has a
third one (--no-held-out: without); the answer is then compared on the input that judges,
in rounds, with the program as it is, with every allocator's default, and with what
emulation alone finds best: the balanced pick of the same campaign.  With --direct also
with what `optimize --direct` answers in the same time, with --rivals also with what TPE and SMAC3
find on the program itself in the same time.  Every run is kept.

What a subject changes is judged where it runs alone on a core, as it will be deployed.  Fronts,
whose points differ by little, are judged where all share a core, which load meets all alike.

Several settings make a front: of a rival what it saw undominated, of emulation its front, of
`optimize` its answer and what it measured undominated (what emulation proposes, where no run was
to be had); of each the six that have most hypervolume.  What is heavier than the guard of peak
memory allows, as far as each knows it, is not among them: `optimize` recommends no such setting.
The share is that of the hypervolume of all settings that ran in the same rounds
(benchmarks/fronts.py).  Among them are those known best: what all parts kept before, of any
length, leave undominated.

Every program uses glibc by itself, so that glibc beside the program as it is runs the same program
twice.  A part where half of that interval of CPU time is wider than the hypervolume reaches from
the program as it is, 10 %, shows hypervolume where nothing changes: it is not judged in it, and
the targets that lack it are not reached.  More rounds narrow the interval.

Targets: no answer is worse than the program as it is by more than 1 % in mean memory, peak memory
or CPU time beyond doubt, that is with its whole 95 % interval, or fails; and none is in the median
of memory.  Answers for three programs use 5 % less mean memory or CPU time than the best of the
allocators' defaults and at most 1 % more of the other than the program as it is, by their medians.
The hypervolume at 10 minutes is at least 95 % of the best known, at 5 minutes at least 1.2 times
that of the better rival, and never less than a rival's.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from benchmarks import rivals
from benchmarks.allocator_programs import GEM5
from benchmarks.fronts import GOALS, MOST_SHOWN, REFERENCE, points_of, shares_of, undominated
from benchmarks.harness import (
    ALLOCATORS,
    NOT_SHOWN,
    Benchmark,
    Call,
    Target,
    digits_of,
    installed,
    percent,
    table,
)
from benchmarks.results import ROOT, Parts
from benchmarks.rounds import (
    Change,
    Figures,
    Row,
    changes_of,
    is_any_worse,
    is_out,
    n_rounds,
    run_rounds,
    runner_of,
    worse_target,
)
from benchmarks.sources import EXGEN, SEARCH
from tuner.campaign.setup import locate
from tuner.errors import ProgramError, SpecError
from tuner.front.dominance import front_points
from tuner.front.picks import select_balanced
from tuner.front.whole import campaign_whole
from tuner.optimize.answering.answer import Answer, Decision
from tuner.optimize.choosing import emulation
from tuner.optimize.choosing.direct import space_of
from tuner.optimize.comparison import configuration_of
from tuner.optimize.kinds.making import Files, tuned_of
from tuner.optimize.proof.abreast import abreast_on, cores_abreast
from tuner.optimize.proof.duets import RunsOnCores, free_bytes, keeps_one_core
from tuner.optimize.proof.judgement import Rules
from tuner.optimize.quantities import CPU, MEAN, PEAK, QUANTITIES
from tuner.optimize.request import Request
from tuner.optimize.session import Session
from tuner.optimize.tuned import AS_IS, Runs, Tuned, label_of
from tuner.optimize.work import TRACE_FILE
from tuner.output import write_text
from tuner.records import Configuration, Outcome
from tuner.report.measured import measured_front
from tuner.stats import Interval

WORKLOADS: Final = ROOT / "configs" / "workloads"
OTHER_SOURCE: Final = ROOT / "benchmarks" / "streams.cpp"
JOBS: Final = ROOT / "benchmarks" / "jobs.rb"
TWICE: Final = ALLOCATORS[0]
"""What the program as it is runs on as well."""
OURS, EMULATED, DIRECT = "answer", "emulation alone", "direct search"
DEFAULTS: Final = "allocators' defaults"
KNOWN: Final = "known before"
_LEAST: Final = 0.01
_MUCH, _WITH_MUCH = 0.05, 3
"""What an answer must gain over every default, and how many must."""
_FIVE_MINUTES, _TEN_MINUTES = 300.0, 600.0
_TIME_OF_A_ROW_S, _MOST_TIMES = 0.5, 12
"""Of short runs that are repeated for one row, and how often at most."""
_SHARE_OF_MEMORY: Final = 0.4
"""Of what is free, that all runs at once may take if each takes what the program does as it is."""

RunOnce: TypeAlias = Callable[[str, str], Figures]
"""From a task and a subject to what one run of it measured."""


@dataclass(frozen=True)
class Task:
    """A program with its inputs."""

    name: str
    tuned: tuple[str, ...]
    judged: tuple[str, ...]
    held_out: tuple[str, ...] | None = None
    """With which `optimize` may turn its winner down."""
    needs: str = ""
    """Programs without which it is left out, separated by blanks."""

    @property
    def lacking(self) -> str:
        """What this machine lacks of it, in words; nothing where it can run."""
        if self.needs == GEM5:
            return "" if shutil.which(os.environ.get(GEM5, "")) else "GEM5 names no gem5.opt"
        missing = [name for name in self.needs.split() if shutil.which(name) is None]
        return f"{', '.join(missing)}: not installed" if missing else ""


def _task(name: str, needs: str, run: tuple[str, ...], *inputs: str) -> Task:
    """Return a task; inputs: to tune, to judge and, where there is one, to hold out."""
    tuned, judged, *further = ((*run, one) for one in inputs)
    return Task(name, tuned, judged, further[0] if further else None, needs)


def _workload(name: str, needs: str, *inputs: str) -> Task:
    return _task(name, needs, (str(WORKLOADS / name / "run.sh"),), *inputs)


TASKS: Final = {
    task.name: task
    for task in (
        _workload("perl-index", "perl", "4", "6", "5"),
        _workload("sqlite-memory", "sqlite3", "4000", "3000", "3500"),
        _workload("ruby-records", "ruby", "8", "5", "6"),
        _workload("lua-objects", "lua5.4", "12", "9", "10"),
        _workload("python-threads", "/usr/bin/python3", "120", "90", "105"),
        _task("ruby-jobs", "ruby", ("ruby", str(JOBS)), "4000", "3000", "3500"),
        _workload("openmp-words", "gcc", "24", "18", "21"),
        _workload("tesseract-openmp", "tesseract gs", "12", "9", "10"),
        _workload("cxx-compile", "g++", "containers.cpp", str(OTHER_SOURCE)),
        _workload("clang-compile", "clang++", "../cxx-compile/containers.cpp", str(OTHER_SOURCE)),
        _workload("svg-render", "rsvg-convert", "24", "36", "30"),
        _workload("gem5-timing-sort", GEM5, "300", "220", "260"),
    )
}
"""Interpreters, a database, compilers, a text recogniser, a renderer, a simulator, threads."""


def measure(call: Call) -> None:
    """Ask for an answer for every program, then judge it on the other input."""
    seeds = [1] if call.is_smoke else call.options.seeds
    for part in call.choose(list(TASKS), ["lua-objects"]):
        if lacking := TASKS[part].lacking:
            call.leave_out(part, lacking)
            continue
        for seed in seeds:
            seconds = 3.0 if call.is_smoke else float(call.options.seconds)
            name = _part(part, seconds, seed)
            if not call.is_done(name):
                kept = _measure(call, name, TASKS[part], seconds, seed)
                call.keep(name, kept, allocators=installed(ALLOCATORS), rounds=call.rounds)


def _part(program: str, seconds: float, seed: int) -> str:
    return f"{program} {seconds:g} s, seed {seed}"


def _measure(call: Call, part: str, task: Task, seconds: float, seed: int) -> Mapping[str, object]:
    evaluations = 8 if call.is_smoke else None
    held_out = task.held_out if call.options.held_out and not call.is_smoke else None
    request = Request(
        task.tuned, seconds, ALLOCATORS, held_out=held_out, evaluations=evaluations, seed=seed
    )
    builds = installed(ALLOCATORS)
    run = call.run_folder(part, f"{task.name}-{seconds:g}-{seed}-{digits_of(builds)}")
    answer = Session(run, request).answer()
    subjects = _subjects(run, answer)
    sets: dict[str, list[Configuration]] = {
        OURS: _with_answer(subjects, _measured(run)) or _emulated(run),
        EMULATED: _emulated(run),
    }
    if call.options.direct:
        direct = replace(request, held_out=None, evaluations=None, is_direct=True)
        alone = Session(run.with_name(f"{run.name}-direct"), direct).answer()
        if alone.decision is Decision.DEPLOY and alone.configuration is not None:
            subjects[DIRECT] = alone.configuration
    for rival in filter(rivals.is_there, call.options.rivals):
        sets[rival] = _rival(rival, run, task, seconds, seed)
    if known := known_best(call.parts, task.name, _files(run)):
        sets[KNOWN] = known
    named = {label_of(one): one for found in sets.values() for one in found}
    everything = {
        **subjects,
        **{label: one for label, one in named.items() if label not in subjects},
    }
    keys = {label: one.key for label, one in everything.items()}
    judging = _Judging(run, task, everything)
    at_once, apart = judging.at_once(), judging.apart()

    def judged(labels: Iterable[str], runs: tuple[RunOnce, int]) -> list[Row]:
        run_once, workers = runs
        return run_rounds(
            call,
            part,
            [task.name],
            [AS_IS, *labels],
            run_once,
            same=[seconds, keys, builds, runs is at_once],
            baseline=AS_IS,
            workers=workers,
        )

    rows = judged(everything, at_once or apart)
    of_each = {"apart": judged(subjects, apart)} if at_once else {}
    return {
        "program": task.name,
        "seed": seed,
        "decision": str(answer.decision),
        "sentence": answer.sentence,
        "seconds": seconds,
        "used_s": round(answer.seconds, 1),
        "subjects": {label: one.key for label, one in subjects.items()},
        "sets": {name: [label_of(one) for one in found] for name, found in sets.items()},
        "rows": rows,
        **of_each,
    }


def known_best(parts: Parts, program: str, files: Files) -> list[Configuration]:
    """Return a few settings of a program that all kept parts leave undominated, by their memory.

    What is no setting of these allocators any more is left out.
    """
    points: dict[Configuration, list[float]] = {}
    for kept in parts.values():
        if kept.get("program") == program and "sets" in kept:
            for label in set(chain.from_iterable(kept["sets"].values())):
                setting, found = _setting(label, files), points_of(kept["rows"], label)
                if setting is not None and found is not None:
                    points[setting] = np.median(found, axis=0).tolist()
    return undominated(points)


def _setting(label: str, files: Files) -> Configuration | None:
    try:
        return configuration_of(label, files)
    except SpecError as error:
        print(f"{label}: left out: {error}", file=sys.stderr)
        return None


def _rival(rival: str, run: Path, task: Task, seconds: float, seed: int) -> list[Configuration]:
    """Return what a rival finds in the same time; kept once it was found."""
    path = run / f"rival-{rival}.json"
    if not path.exists():
        files = _files(run)
        tuned = tuned_of(Request(task.tuned, seconds, ALLOCATORS), files, os.environ)
        reference = tuned.examine()
        space = space_of(files, reference, ALLOCATORS)
        strategy = rivals.made(rival, space, seed)
        found = rivals.searched(strategy, tuned, reference, space, seconds)
        write_text(path, json.dumps([one.key for one in found]) + "\n")
    return [Configuration.from_key(key) for key in json.loads(path.read_bytes())]


def _measured(run: Path) -> dict[Configuration, Sequence[float]]:
    """Return what an optimisation measured of the settings that keep the guard of peak memory."""
    files = _files(run)
    return {
        setting: [-row.changes[goal].likely for goal in GOALS]
        for row in measured_front(run).rows
        if row.label != AS_IS and row.changes
        if -row.changes[PEAK].likely <= Rules().margin(PEAK)
        if (setting := _setting(row.label, files)) is not None
    }


def _with_answer(
    subjects: Mapping[str, Configuration], measured: Mapping[Configuration, Sequence[float]]
) -> list[Configuration]:
    """Return what is deployed, and a few of what was measured that nothing else dominates."""
    front = undominated(measured)
    if OURS not in subjects or subjects[OURS] in front:
        return front
    return [subjects[OURS], *undominated(measured, MOST_SHOWN - 1)]


def _emulated(run: Path) -> list[Configuration]:
    emulated = emulation.load(run)
    points = front_points(emulated.trials, emulation.OBJECTIVES)
    logs = {point.trial.configuration: np.log(point.values).tolist() for point in points}
    return undominated(logs, reference=np.max(list(logs.values()), axis=0) + REFERENCE)


def _subjects(run: Path, answer: Answer) -> dict[str, Configuration]:
    """Return what is judged beside the program as it is, by label."""
    found = {name: Configuration(name) for name in ALLOCATORS}
    emulated = emulation.load(run)
    balanced = select_balanced(
        emulated.trials,
        emulation.OBJECTIVES,
        emulated.default_of(ALLOCATORS[0]),
        campaign_whole(emulated.record, emulated.trials),
    )
    found[EMULATED] = balanced.configuration
    if answer.decision is Decision.DEPLOY and answer.configuration is not None:
        found[OURS] = answer.configuration
    return found


def _files(run: Path) -> Files:
    return locate(emulation.campaign_spec(run / TRACE_FILE, ALLOCATORS, 1, 100))


class _Judging:
    """Runs the judged input under some subjects.

    A short program runs several times for one row: its CPU time varies by more than settings
    differ.
    """

    def __init__(self, run: Path, task: Task, subjects: Mapping[str, Configuration]) -> None:
        self._tuned = tuned_of(Request(task.judged, 0.0, ALLOCATORS), _files(run), os.environ)
        self._reference = self._tuned.examine()
        if self._reference.exit_status:
            words = f"exit status {self._reference.exit_status} as it is"
            words += "; nothing can be judged on it"
            raise ProgramError(f"{task.name}, {task.judged[-1]}: {words}")
        self._subjects = subjects
        self._times = max(1, min(_MOST_TIMES, int(_TIME_OF_A_ROW_S / self._reference.wall_s)))

    def at_once(self) -> tuple[RunOnce, int] | None:
        """Return what makes a run on one core, which load meets all alike, and how many at a time.

        None where the program does not keep to a core.
        """
        tuned, reference = self._tuned, self._reference
        if not isinstance(tuned, RunsOnCores) or not keeps_one_core(reference):
            return None
        fitting = int(_SHARE_OF_MEMORY * free_bytes() / reference.values[PEAK])
        n_at_once = max(1, min(len(self._subjects) + 1, fitting))
        on_core = tuned.on_core(max(os.sched_getaffinity(0)))
        return self._made(on_core.runner(self._subjects, reference.patient(n_at_once))), n_at_once

    def apart(self) -> tuple[RunOnce, int]:
        """Return what makes a run as it will be deployed, alone on a core, and how many at a time.

        What gives memory back by the clock, or uses less of the caches, differs where runs share a
        core.
        """

        def runs_of(tuned: Tuned) -> Runs:
            return tuned.runner(self._subjects, self._reference)

        cores = cores_abreast(self._tuned, self._reference, None)
        abreast = abreast_on(cores, self._tuned, runs_of)
        if abreast is None:
            return self._made(runs_of(self._tuned)), 1
        return self._made(abreast.runs), abreast.n_cores

    def _made(self, runs: Runs) -> RunOnce:
        return repeated(runner_of(runs), self._times)


def repeated(run_once: RunOnce, times: int) -> RunOnce:
    """Return what runs a subject so many times for one row: the medians, or the first failure."""

    def run(task: str, subject: str) -> Figures:
        found = [run_once(task, subject) for _ in range(times)]
        values = [one.good for one in found if one.good is not None]
        if len(values) < len(found):
            return next(one for one in found if one.good is None)
        return Outcome.succeeded(
            {name: statistics.median(one[name] for one in values) for name in values[0]}
        )

    return run


# What is shown


def doubt_about(kept: Mapping[str, Any]) -> str:
    """Return why CPU times of a part show no hypervolume; nothing where they do."""
    if TWICE not in kept["subjects"]:
        return ""
    found = changes_of(kept["rows"], TWICE, AS_IS, (CPU,)).get(CPU)
    if found is None:
        return "not judged: the same program twice did not run to its end in every round"
    if found.low is not None and found.high is not None:
        half = (math.log1p(found.high) - math.log1p(found.low)) / 2.0
        if half <= REFERENCE:
            return ""
    return f"not judged: the same program twice differed by {found} in CPU time"


@dataclass(frozen=True)
class Judged:
    """A subject on the input that was not tuned on."""

    program: str
    subject: str
    changes: Mapping[str, Change]
    """By quantity; empty where it failed."""
    is_out: bool
    """Whether it failed."""

    @property
    def is_worse(self) -> bool | None:
        """Whether something is worse, or it failed; None: in doubt."""
        found = [one.is_worse(_LEAST) for one in self.changes.values()]
        return self.is_out or is_any_worse(found)

    def cell(self, quantity: str) -> str:
        """Return what it changes, for a table."""
        return str(self.changes.get(quantity) or ("failed" if self.is_out else "-"))


def judged_of(parts: Parts) -> list[Judged]:
    """Return every subject of every program with its changes."""
    found = []
    for name, kept in parts.items():
        for label in kept["subjects"]:
            rows = kept.get("apart", kept["rows"])
            changes = changes_of(rows, label, AS_IS, QUANTITIES)
            found.append(Judged(name, label, changes, is_out(rows, label, AS_IS)))
    return found


@dataclass(frozen=True)
class Volume:
    """How much of the best known hypervolume the settings of one method have."""

    part: str
    seconds: float
    method: str
    share: float


def doubts_of(parts: Parts) -> dict[str, str]:
    """Return the parts that are doubtful, see `doubt_about`."""
    return {name: doubt for name, kept in parts.items() if (doubt := doubt_about(kept))}


def volumes_of(parts: Parts, doubts: Mapping[str, str]) -> list[Volume]:
    """Return the shares of every method in every part that has fronts, and no doubt about them."""
    return [
        Volume(name, kept["seconds"], method, share)
        for name, kept in parts.items()
        if "sets" in kept and name not in doubts
        for method, share in shares_of(
            kept["rows"], {DEFAULTS: list(ALLOCATORS), **kept["sets"]}
        ).items()
    ]


def lines(parts: Parts) -> Iterator[str]:
    """Yield the answers, then what every subject changes on the judged input."""
    doubts = doubts_of(parts)
    for name, kept in parts.items():
        yield f"{name}: {kept['sentence']} ({kept['used_s']:g} of {kept['seconds']:g} s)"
        if name in doubts:
            yield f"{name}: hypervolume {doubts[name]}"
    yield ""
    volumes = volumes_of(parts, doubts)
    if volumes:
        methods = list(dict.fromkeys(one.method for one in volumes))
        shares = {(one.part, one.method): one.share for one in volumes}
        rows = [
            [name, *(percent(shares.get((name, method))) for method in methods)]
            for name in dict.fromkeys(one.part for one in volumes)
        ]
        yield from table(["hypervolume of the best known", *methods], rows)
        yield ""
    rows = []
    for one in judged_of(parts):
        rows.append([one.program, one.subject, *map(one.cell, QUANTITIES)])
    yield from table(["program", "on the judged input", *QUANTITIES], rows)


def targets(parts: Parts) -> Iterator[Target]:
    """Yield how many answers are worse than the program as it is, on the judged input."""
    judged = judged_of(parts)
    own = [one for one in judged if one.subject == OURS]
    memory = sum(
        any(one.changes[name].median > _LEAST for name in (MEAN, PEAK) if name in one.changes)
        for one in own
    )
    note = f"{len(own)} of {len(parts)} deploy a setting"
    yield worse_target([one.is_worse for one in own], note)
    yield Target("answers with 1 % more memory", memory, 0, form=".0f")
    if len(parts) >= _WITH_MUCH:
        above = sorted({
            parts[one.program].get("program", one.program)
            for one in own
            if _is_above(one, judged)
        })  # fmt: skip
        yield Target("programs 5 % above every allocator's default", len(above), _WITH_MUCH,
                     at_least=True, note=", ".join(above), form=".0f")  # fmt: skip
    doubts = doubts_of({name: kept for name, kept in parts.items() if "sets" in kept})
    yield from _volume_targets(volumes_of(parts, doubts), parts, doubts)


def _is_above(answer: Judged, judged: Sequence[Judged]) -> bool:
    """Return whether an answer gains much over every default in one thing, at no loss in the other.

    A default that failed is none to beat.
    """
    defaults = [
        one.changes
        for one in judged
        if one.program == answer.program and one.subject in ALLOCATORS and one.changes
    ]
    ratios = {name: 1.0 + change.median for name, change in answer.changes.items()}
    return any(
        ratios[other] <= 1.0 + _LEAST
        and all(ratios[goal] <= (1.0 - _MUCH) * (1.0 + one[goal].median) for one in defaults)
        for goal, other in ((MEAN, CPU), (CPU, MEAN))
        if {goal, other} <= ratios.keys()
    )


def _volume_targets(
    volumes: Sequence[Volume], parts: Parts, doubts: Mapping[str, str]
) -> Iterator[Target]:
    shares: dict[str, dict[str, Volume]] = {}
    for one in volumes:
        shares.setdefault(one.part, {})[one.method] = one

    def least(
        what: str, found: Mapping[str, float], limit: float, doubtful: Sequence[str]
    ) -> Iterator[Target]:
        """Yield the least of all; what is not judged may be less."""
        notes = [f"{name}: {doubts[name]}" for name in doubtful]
        if found:
            rounds = min(n_rounds(parts[name]["rows"]) for name in found)
            note = "; ".join([f"parts: {len(found)}, of {rounds} rounds or more", *notes])
            known = min(found.values())
            interval = Interval(0.0, known) if doubtful else None
            yield Target(what, known, limit, at_least=True, note=note, interval=interval)
        elif doubtful:
            n = len(doubtful)
            yield Target(f"parts judged, {what}", 0, n, at_least=True, note="; ".join(notes),
                         form=".0f", interval=Interval(0, n))  # fmt: skip

    theirs = (rivals.TPE, rivals.SMAC)
    at_ten = {
        name: found[OURS].share
        for name, found in shares.items()
        if found[OURS].seconds >= _TEN_MINUTES
    }
    doubtful = [name for name in doubts if parts[name]["seconds"] >= _TEN_MINUTES]
    yield from least("least hypervolume at 10 minutes", at_ten, 0.95, doubtful)
    over: dict[str, float] = {}
    for name, found in shares.items():
        best = max((found[rival].share for rival in theirs if rival in found), default=0.0)
        if best > 0.0:
            over[name] = found[OURS].share / best
    doubtful = [name for name in doubts if not parts[name]["sets"].keys().isdisjoint(theirs)]
    at_five = {n: ratio for n, ratio in over.items() if parts[n]["seconds"] == _FIVE_MINUTES}
    five = [name for name in doubtful if parts[name]["seconds"] == _FIVE_MINUTES]
    yield from least("least share over the better rival's at 5 minutes", at_five, 1.2, five)
    if over or doubtful:
        behind = sum(ratio < 1.0 for ratio in over.values())
        notes = [f"of {len(over)}", *(f"{name}: {doubts[name]}" for name in doubtful)]
        most = Interval(behind, behind + len(doubtful)) if doubtful else None
        yield Target("times behind a rival", behind, 0, note="; ".join(notes), form=".0f",
                     interval=most)  # fmt: skip


def summary(parts: Parts, verdict: str) -> str:
    """Return how many settings were deployed, how many of them held, and what is missed."""
    n_deployed = sum(one.subject == OURS for one in judged_of(parts))
    words = f"{n_deployed} of {len(parts)} deploy a setting"
    if not n_deployed:
        return f"{NOT_SHOWN}: {words}"
    worse, *others = targets(parts)
    missed = (one.brief for one in others if one.is_missed)
    doubts = (f"hypervolume of {name} {doubt}" for name, doubt in doubts_of(parts).items())
    return "; ".join([f"{verdict}: {words}", worse.brief, *missed, *doubts])


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=_TEN_MINUTES, metavar="S",
                        help="for each answer; default: %(default)s")  # fmt: skip
    parser.add_argument("--no-held-out", dest="held_out", action="store_false",
                        help="ask without a held-out input")  # fmt: skip
    parser.add_argument("--direct", action="store_true",
                        help="also ask `optimize --direct`, in as much time again")  # fmt: skip
    parser.add_argument("--rivals", nargs="*", choices=[rivals.TPE, rivals.SMAC], default=[],
                        help="also search with these, each in as much time")  # fmt: skip
    parser.add_argument("--seeds", nargs="+", type=int, default=[1], metavar="N",
                        help="each is a part of its own; default: 1")  # fmt: skip


BENCHMARK: Final = Benchmark(
    name="answers",
    about=__doc__,
    claim="An answer of `optimize` holds on input that it was not tuned on.",
    depends_on=(
        *("benchmarks/rivals.py", "benchmarks/search_rivals.py"),
        *("benchmarks/streams.cpp", "benchmarks/jobs.rb"),
        "configs/workloads",
        *("rand_malloc", "tuner/measure", "tuner/optimize"),
        *EXGEN,
        *SEARCH,
    ),
    measure=measure,
    needs=[_part(name, _TEN_MINUTES, 1) for name in TASKS],
    lines=lines,
    targets=targets,
    outcome=summary,
    options=_options,
    rounds=10,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
