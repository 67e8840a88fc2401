"""Whether noise changes what `optimize` concludes: known differences, judged quiet and loaded.

A program of about 0.3 s runs against itself with a preloaded library that adds a known share of
work to one side, or to none.  Rounds of both, in random order, go on until the evidence of
`tuner.optimize.proof.evidence` calls one slower at 5 %, or an experiment's time is over; that is a
verdict.  Part `quiet` adds no load, part `loaded` has two endless loops beside it.  Pairs run one
after the other; duets run at the same time on one core; `optimize` goes on with the narrower.
Where nothing differs every experiment takes its whole time, so the intervals at their ends show
what pairs and duets are worth in the same time.  The load average says what else ran.  Part
`counted` has the same load and counts the instructions of both sides once, as `optimize` does
beside CPU time.

Targets: at least 95 % of the verdicts under load equal the one that most quiet experiments of their
kind have; at most 5 % false verdicts where nothing differs; 2 % of added work is found in
at least 80 % of the experiments.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.calibration import busy_loops
from benchmarks.harness import Benchmark, Call, Target, checked, percent, table
from benchmarks.results import ROOT, Parts
from benchmarks.rounds import share_target
from tuner.compare.journal import Journal, JournalKeeper
from tuner.compare.loop import Observer, compare
from tuner.compare.plan import Course, Step, shuffled
from tuner.errors import ProgramError
from tuner.measure.counting import InstructionCounter
from tuner.measure.program import ProgramRunner, Surroundings
from tuner.optimize.proof.evidence import greatest_evidence, lower_bound, upper_bound
from tuner.records import Outcome, Status

Row = Mapping[str, float | int | str]
"""One pair of runs: kind, mode, experiment, round, CPU time in ns or instructions of both, load."""

PROGRAM: Final = (
    "x = [bytes(i % 700) for i in range(360000)]\n"
    "y = {i: str(i) for i in range(520000)}\n"
    "print(sum(map(len, x)), len(y))\n"
)
_BRIEF: Final = ("/bin/true",)
"""For a first look: counting takes fifty times as long."""
COUNTED: Final = "counted"
LOADS: Final = {"quiet": 0, "loaded": 2, COUNTED: 2}
"""Part -> endless loops beside the program."""

KINDS: Final = {"same": 0.0, "2 % more": 0.02, "5 % more": 0.05, "10 % less": -0.1}
"""Kind -> share of work that the second side has more than the first."""
SAME, LITTLE = "same", "2 % more"
_SHARE_OF_KIND: Final = {LITTLE: 0.5, "5 % more": 0.1, "10 % less": 0.1}
"""Of its time that an experiment takes, about."""
PAIRS, DUETS, COUNTS = "pairs", "duets", "counts"
_UNITS: Final = {PAIRS: "ns", DUETS: "ns", COUNTS: "instructions"}
_ERROR: Final = 0.05
_COUNT_S: Final = 8.0
"""Of counting the instructions of one run under load, about."""
_LEAST_COUNTED: Final = 0.005
"""Share of instructions: a greater difference of two counts is a verdict.  Added time is added in
a chain of dependent steps, which are fewer instructions a second than the program's."""

_CALIBRATION_STEPS: Final = 50_000_000
_SIDES: Final = ("first", "second")
_SEED: Final = 20261122


@dataclass(frozen=True)
class Experiment:
    """One question put to the machine."""

    kind: str
    mode: str
    number: int

    def __str__(self) -> str:
        """Name it in a journal."""
        return f"{self.mode}/{self.kind}/{self.number}"

    @classmethod
    def parse(cls, text: str) -> Experiment:
        """Read what `str` wrote."""
        mode, kind, number = text.split("/")
        return cls(kind, mode, int(number))


@dataclass(frozen=True)
class Cost:
    """One run."""

    work: int
    """CPU time in ns, or instructions where they are counted."""
    wall_ns: int
    load: float = 0.0
    """Programs that ran or wanted to, on average over the last minute."""


def verdict(differences: Sequence[float], mode: str = PAIRS) -> str | None:
    """Return what the evidence says of the second side; None: nothing, so far.

    Args:
        differences: log(first / second) of every round, in order.
        mode: how the rounds were run.
    """
    if mode == COUNTS:
        change = -math.fsum(differences)  # of one round
        return None if abs(change) < _LEAST_COUNTED else "slower" if change > 0.0 else "faster"
    wanted = 2.0 / _ERROR  # either side may be called slower
    if greatest_evidence([-x for x in differences]) >= wanted:
        return "slower"
    if greatest_evidence(differences) >= wanted:
        return "faster"
    return None


class Experiments:
    """A plan: every experiment until it is decided, or its time is over."""

    def __init__(self, experiments: Sequence[Experiment], seconds: float) -> None:
        """Take the experiments in order, and how long each may take."""
        self._experiments = experiments
        self._seconds = seconds

    def blocks(self, course: Course[Experiment, Cost]) -> Iterator[Sequence[Step[Experiment]]]:
        """Yield the rounds of one experiment after the other."""
        for one in self._experiments:
            number = 0
            while not self._is_over(course, one):
                yield shuffled(_SIDES, number, _SEED, one)
                number += 1

    def n_left(self, course: Course[Experiment, Cost]) -> int:
        """Return how many experiments are left: how many runs that takes is open."""
        return sum(not self._is_over(course, one) for one in self._experiments)

    def _is_over(self, course: Course[Experiment, Cost], one: Experiment) -> bool:
        rounds = rounds_of(course, one)
        if one.mode == COUNTS:
            return bool(rounds)
        took = [sum(side.wall_ns for side in both) for both in rounds]
        if one.mode == DUETS:
            took = [max(side.wall_ns for side in both) for both in rounds]
        return sum(took) >= self._seconds * 1e9 or verdict(differences(rounds)) is not None


def rounds_of(course: Course[Experiment, Cost], one: Experiment) -> list[tuple[Cost, Cost]]:
    """Return both sides of every whole round of an experiment, in order."""
    found = []
    for number in range(len(course.samples)):
        both = [course.samples.get((number, one, side)) for side in _SIDES]
        good = [side.good for side in both if side is not None and side.good is not None]
        if len(good) < len(_SIDES):
            break
        found.append((good[0], good[1]))
    return found


def differences(rounds: Sequence[tuple[Cost, Cost]]) -> list[float]:
    """Return log(first / second) of the work."""
    return [math.log(first.work / second.work) for first, second in rounds]


# Measuring


def measure(call: Call) -> None:
    """Make the experiments of every part, and keep every run."""
    shim = _compile(call.scratch)
    for part in call.choose(list(LOADS), list(LOADS)):
        call.keep(part, _measure(call, part, shim))


def _measure(call: Call, part: str, shim: Path) -> list[Row]:
    n, seconds = (1, 0.1) if call.is_smoke else (call.options.experiments, call.options.seconds)
    modes = [COUNTS] if part == COUNTED else call.options.modes
    about_s, most_s = durations_s(n, seconds, modes)
    kinds = [LITTLE] if call.is_smoke else list(KINDS)
    print(
        f"{part}: {n} experiments of each of {len(kinds)} kinds, {' and '.join(modes)}: about "
        f"{about_s / 3600.0:.1f} h, {most_s / 3600.0:.1f} h at most; interrupted, it goes on",
        file=sys.stderr,
    )
    experiments = [
        Experiment(kind, mode, number) for number in range(n) for kind in kinds for mode in modes
    ]
    header = {"schema": "malloc-tuner.benchmark.noise", "version": 1, "seconds": seconds}
    with ExitStack() as stack:
        run = _runner(shim, _BRIEF if call.is_smoke else _python(PROGRAM))
        stack.enter_context(busy_loops(LOADS[part]))
        path = call.journal(part, ["seconds", seconds])
        journal = stack.enter_context(Journal(path, {**header, **call.begin}, same=("seconds",)))
        call.go_on(part, journal.content.header)
        keeper = JournalKeeper(journal, _encode, _decode)
        for mode in modes:  # a duet is a block of two at once
            own = [one for one in experiments if one.mode == mode]
            compare(
                Experiments(own, seconds), run, keeper, _shown(part),
                workers=2 if mode == DUETS else 1,
            )  # fmt: skip
        return _rows([(key, run) for key, run in keeper.kept() if key[1] in experiments])


def durations_s(n: int, seconds: float, modes: Sequence[str]) -> tuple[float, float]:
    """Return how long a part takes, about and at most.

    Where nothing differs an experiment takes its whole time; a small difference is found in about
    half of it, a great one in a tenth.  Counts take as long as they do: each side is counted once.

    Args:
        n: experiments of each kind and mode.
        seconds: that one may take.
        modes: of the part.

    Example:
        >>> durations_s(200, 60.0, [PAIRS]), durations_s(20, 60.0, [COUNTS])
        ((20400.0, 48000.0), (1280.0, 2560.0))
    """
    if COUNTS in modes:
        about_s = n * len(KINDS) * len(_SIDES) * _COUNT_S
        return about_s, 2.0 * about_s
    shares = (1.0 if share == 0.0 else _SHARE_OF_KIND[kind] for kind, share in KINDS.items())
    one_s = n * len(modes) * seconds
    return round(one_s * sum(shares), 1), one_s * len(KINDS)


def _python(program: str) -> tuple[str, ...]:
    return sys.executable, "-E", "-S", "-c", program


def _runner(shim: Path, command: Sequence[str]) -> Callable[[Step[Experiment]], Outcome[Cost]]:
    """Return what makes one run; the added work is a share of the program's own."""
    runner = ProgramRunner()
    cores = sorted(os.sched_getaffinity(0))
    surroundings = Surroundings(timeout_s=120.0)

    def environment(n_steps: int) -> dict[str, str]:
        added = {"ADDED_WORK": f"{n_steps:012d}", "LD_PRELOAD": str(shim)}
        return {"PATH": os.environ["PATH"], **added}

    def run_once(n_steps: int, program: Sequence[str], cpu: int | None = None) -> Cost:
        found = checked(runner.run(program, environment(n_steps), replace(surroundings, cpu=cpu)))
        return Cost(found.cpu_ns, found.wall_ns, os.getloadavg()[0])

    def count_once(n_steps: int) -> Cost:
        begin = time.monotonic_ns()
        found = InstructionCounter().count(command, environment(n_steps), surroundings.timeout_s, 0)
        if found is None:
            raise ProgramError("cachegrind left no count")
        return Cost(found, time.monotonic_ns() - begin, os.getloadavg()[0])

    idle = _python("")
    ns_of_step = statistics.median(
        (run_once(_CALIBRATION_STEPS, idle).work - run_once(0, idle).work) / _CALIBRATION_STEPS
        for _ in range(5)
    )
    own_ns = statistics.median(run_once(0, command).work for _ in range(5))

    def run(step: Step[Experiment]) -> Outcome[Cost]:
        share = KINDS[step.task.kind]
        has_more = (share > 0.0) == (step.subject == _SIDES[1])
        n_steps = round(abs(share) * own_ns / ns_of_step) if has_more else 0
        if step.task.mode == COUNTS:
            return Outcome.succeeded(count_once(n_steps))
        cpu = cores[step.round % len(cores)] if step.task.mode == DUETS else None
        return Outcome.succeeded(run_once(n_steps, command, cpu))

    return run


def _compile(folder: Path) -> Path:
    library = folder / "added_work.so"
    source = ROOT / "benchmarks" / "added_work.c"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def _encode(step: Step[Experiment], run: Outcome[Cost]) -> Row:
    times = run.good or Cost(0, 0)
    head = {"round": step.round, "task": str(step.task), "side": step.subject, "at": step.position}
    return {**head, "status": run.status.value, **vars(times)}


def _decode(row: Mapping[str, object]) -> tuple[tuple[int, Experiment, str], Outcome[Cost]]:
    key = (int(str(row["round"])), Experiment.parse(str(row["task"])), str(row["side"]))
    load = float(str(row.get("load", 0.0)))
    times = Cost(int(str(row["work"])), int(str(row["wall_ns"])), load)
    return key, Outcome(Status(str(row["status"])), None, times)


def _rows(kept: Sequence[tuple[tuple[int, Experiment, str], Outcome[Cost]]]) -> list[Row]:
    course: Course[Experiment, Cost] = Course()
    for key, run in kept:
        course.add(key, run)
    return [
        {
            "mode": one.mode,
            "kind": one.kind,
            "experiment": one.number,
            "round": number,
            f"first_{_UNITS[one.mode]}": first.work,
            f"second_{_UNITS[one.mode]}": second.work,
            "load": round(max(first.load, second.load), 1),
        }
        for one in dict.fromkeys(key[1] for key, _ in kept)
        for number, (first, second) in enumerate(rounds_of(course, one))
    ]


def _shown(part: str) -> Observer[Experiment, Cost]:
    def on_sample(step: Step[Experiment], run: Outcome[Cost]) -> None:
        work = run.good.work / 1e6 if run.good else 0.0
        unit = "million instructions" if step.task.mode == COUNTS else "ms"
        print(f"{part} {step.task} {step.round} {step.subject}: {work:.0f} {unit}", file=sys.stderr)

    return Observer(on_sample)


# What is shown


@dataclass(frozen=True)
class Verdicts:
    """Of all experiments of one kind."""

    part: str
    mode: str
    kind: str
    counts: Counter[str]
    """``slower``, ``faster``, ``undecided``."""
    n_rounds: float
    """Median of an experiment."""
    spread: float
    """Median over the experiments of the standard deviation of log(first / second)."""
    half_width: float | None
    """Median over the experiments of half the interval of log(first / second) at their end."""
    load: float | None
    """Median of the load average; None where it was not kept."""

    @property
    def n(self) -> int:
        """Experiments."""
        return self.counts.total()

    @property
    def right(self) -> str:
        """What is true."""
        share = KINDS[self.kind]
        return "undecided" if share == 0.0 else "slower" if share > 0.0 else "faster"


def verdicts_of(parts: Parts) -> list[Verdicts]:
    """Return the verdicts of every part, mode and kind."""
    found = []
    for part in LOADS:
        grouped: dict[tuple[str, str], dict[int, list[float]]] = {}
        loads: dict[tuple[str, str], list[float]] = {}
        for row in parts.get(part, ()):
            experiments = grouped.setdefault((row["mode"], row["kind"]), {})
            unit = _UNITS[row["mode"]]
            difference = math.log(row[f"first_{unit}"] / row[f"second_{unit}"])
            experiments.setdefault(row["experiment"], []).append(difference)
            if "load" in row:
                loads.setdefault((row["mode"], row["kind"]), []).append(row["load"])
        for (mode, kind), experiments in grouped.items():
            counts = Counter(verdict(seen, mode) or "undecided" for seen in experiments.values())
            spreads = [statistics.stdev(seen) for seen in experiments.values() if len(seen) > 1]
            lengths = statistics.median(map(len, experiments.values()))
            spread = statistics.median(spreads) if spreads else math.nan
            width = statistics.median(map(half_width, experiments.values()))
            shown = width if math.isfinite(width) else None
            load = statistics.median(loads[mode, kind]) if (mode, kind) in loads else None
            found.append(Verdicts(part, mode, kind, counts, lengths, spread, shown, load))
    return found


def narrower(verdicts: Sequence[Verdicts]) -> list[Verdicts]:
    """Return those of the mode that has the narrower interval in its part."""
    timed = [one for one in verdicts if one.mode != COUNTS]
    widths: dict[str, dict[str, float]] = {}
    for one in timed:
        if one.kind == SAME:
            width = math.inf if one.half_width is None else one.half_width
            widths.setdefault(one.part, {})[one.mode] = width
    best = {part: min(found, key=lambda mode: found[mode]) for part, found in widths.items()}
    return [one for one in timed if one.mode == best.get(one.part, one.mode)]


def half_width(differences: Sequence[float]) -> float:
    """Return half of the interval of the typical difference; inf where rounds are too few."""
    return (upper_bound(differences, _ERROR) - lower_bound(differences, _ERROR)) / 2.0


def lines(parts: Parts) -> Iterator[str]:
    """Yield the verdicts of every kind, and how narrow pairs and duets are."""
    rows = [
        [
            one.part,
            one.mode,
            one.kind,
            str(one.n),
            *(str(one.counts[name]) for name in ("faster", "undecided", "slower")),
            f"{one.n_rounds:g}",
            percent(one.spread) if math.isfinite(one.spread) else "",
            percent(one.half_width, 2) if one.kind == SAME and one.mode != COUNTS else "",
            f"{one.load:.1f}" if one.load is not None else "",
        ]
        for one in verdicts_of(parts)
    ]
    titles = ["machine", "mode", "second side", "experiments", "faster", "undecided", "slower"]
    yield from table([*titles, "rounds", "spread of a round", "interval, +-", "load"], rows)


def targets(parts: Parts) -> Iterator[Target]:
    """Yield what is aimed at, of the narrower of pairs and duets, which `optimize` goes on with."""
    found = narrower(verdicts_of(parts))
    quiet = {one.kind: one for one in found if one.part == "quiet"}
    loaded = {one.kind: one for one in found if one.part == "loaded"}
    shared = quiet.keys() & loaded.keys()
    if shared:
        usual = {kind: quiet[kind].counts.most_common(1)[0][0] for kind in shared}
        n_equal = sum(loaded[kind].counts[usual[kind]] for kind in shared)
        n_all = sum(loaded[kind].n for kind in shared)
        yield share_target("verdicts under load as quiet", n_equal, n_all, 0.95, at_least=True)
    counted = {one.kind: one for one in verdicts_of(parts) if one.mode == COUNTS}
    for where, known in (
        ("on a quiet machine", quiet),
        ("under load", loaded),
        ("under load, by counting", counted),
    ):
        if SAME in known:
            n_false = known[SAME].n - known[SAME].counts["undecided"]
            yield share_target(f"false verdicts {where}", n_false, known[SAME].n, 0.05)
        if LITTLE in known:
            n_found, what = known[LITTLE].counts["slower"], f"2 % of added work found {where}"
            yield share_target(what, n_found, known[LITTLE].n, 0.8, at_least=True)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--experiments", type=int, default=200, metavar="N",
                        help="of each kind and mode; default: %(default)s")  # fmt: skip
    parser.add_argument(
        "--modes",
        nargs="+",
        choices=[PAIRS, DUETS],
        default=[PAIRS, DUETS],
        help="the narrower one is what the targets judge; default: both",
    )
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S",
                        help="that an experiment may take; default: %(default)s")  # fmt: skip


BENCHMARK: Final = Benchmark(
    name="noise",
    about=__doc__,
    claim="Load beside a program does not change what is concluded about it.",
    depends_on=(
        "rand_malloc/supervise",
        "tuner/optimize/proof/evidence.py",
        "benchmarks/added_work.c",
    ),
    measure=measure,
    needs=list(LOADS),
    lines=lines,
    targets=targets,
    options=_options,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
