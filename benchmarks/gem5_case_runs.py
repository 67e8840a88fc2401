"""What gem5_case.py runs: campaigns, points of them, and gem5 under each point."""

import json
import math
import os
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.gem5_traces import of_one_simulation
from benchmarks.harness import Call, children_s, located, malloc_tuner
from benchmarks.results import ROOT
from benchmarks.rounds import Figures, Row, failed, run_rounds
from tuner.config.gem5_suite import Simulation
from tuner.emulation import EmulationOptions
from tuner.measure.calibration import load_calibration
from tuner.measure.counting import InstructionCounter
from tuner.measure.emulator import Emulation, EmulatorEvaluator
from tuner.measure.gem5 import RESULT, Gem5, digest_of, gem5_environment, judge_simulation
from tuner.measure.process import Processes, last_line
from tuner.measure.program import Surroundings, padded
from tuner.records import Configuration, Measurement, Origin, Status, Trial
from tuner.resources import configs_dir
from tuner.runs import Run, load_run, search_spaces
from tuner.store.subject import Subject
from tuner.validate.gem5 import with_known_malloc
from tuner.validate.setup import Prepared, prepare
from tuner.validate.subjects import spread

RUNS: Final = ROOT / "runs"

BASELINE: Final = "glibc default"
HEAP_ALLOWANCE: Final = 1.025
"""What a point that is picked for its speed may hold, over glibc's default."""

COUNTED: Final = "20"
"""Argument of the simulation tuned on where its instructions are counted."""

_TIMEOUT_S: Final = 1800.0
_N_RANKED: Final = 3


@dataclass(frozen=True)
class Point:
    """One configuration that gem5 runs under."""

    label: str
    """``glibc default``, ``exgen lean``, ``jemalloc 17``."""
    prepared: Prepared
    measurement: Measurement | None
    """What the emulator measured."""

    @property
    def is_default(self) -> bool:
        """True for an allocator without any setting."""
        return self.label.endswith(" default")

    @property
    def is_candidate(self) -> bool:
        """True for defaults and picks; the others check the ranking."""
        return not self.label.rpartition(" ")[2].isdecimal()


def tune(allocators: Iterable[str], folder: Path = RUNS) -> None:
    """Run the campaigns, or what is missing of them."""
    for name in allocators:
        file = configs_dir() / "campaigns" / f"gem5-{name}.toml"
        malloc_tuner("tune", file, "-q", "-o", folder / f"gem5-{name}", "--workers", 1)


def load_campaigns(allocators: Iterable[str]) -> dict[str, Run]:
    """Return the runs of the campaigns, by allocator."""
    return {name: load_run(RUNS / f"gem5-{name}") for name in allocators}


def choose(run: Run, allocator: str, reference_bytes: float) -> dict[str, Trial]:
    """Return the points of a campaign by the last word of their labels.

    ``default``; ``lean``, the least mean heap; ``fast``, the least cost; ``even`` and ``thrifty``,
    the least cost that holds no more than glibc's default, and no more than the allowance; and
    numbers, which are spread over the mean heap.

    Args:
        run: a finished campaign.
        allocator: the one it searched.
        reference_bytes: mean heap of glibc's default.
    """
    trials = [t for t in run.trials if t.is_feasible and t.objectives is not None]
    default = next(t for t in trials if t.configuration == Configuration(allocator))
    within = [t for t in trials if _objective(t, 0) <= HEAP_ALLOWANCE * reference_bytes]
    even = [t for t in within if _objective(t, 0) <= reference_bytes]
    chosen = {"default": default}
    wanted = {
        "even": min(even, key=lambda t: _objective(t, 1)) if even else None,
        "lean": min(trials, key=lambda t: (_objective(t, 0), _objective(t, 1))),
        "thrifty": min(within, key=lambda t: _objective(t, 1)) if within else None,
        "fast": min(trials, key=lambda t: _objective(t, 1)),
    }
    for word, trial in wanted.items():
        if trial is not None and trial not in chosen.values():
            chosen[word] = trial
    seeds = (t for t in trials if t.origin is Origin.SEED and t not in chosen.values())
    chosen |= {f"seed-{number}": trial for number, trial in enumerate(seeds, 1)}
    rest = sorted((t for t in trials if t not in chosen.values()), key=lambda t: _objective(t, 0))
    return chosen | {str(t.number): t for t in spread(rest, _N_RANKED)}


def _objective(trial: Trial, position: int) -> float:
    return trial.objectives[position] if trial.objectives else math.inf


def points_of(runs: Mapping[str, Run]) -> list[Point]:
    """Return the points of all campaigns, in environments of one size, the baseline first."""
    found: list[tuple[str, Prepared, Measurement | None]] = []
    reference = next(iter(runs.values())).trials
    reference_bytes = next(_objective(t, 0) for t in reference if t.configuration.is_default)
    environment = gem5_environment(os.environ)
    for name, run in runs.items():
        chosen = choose(run, name, reference_bytes)
        subjects = [
            Subject(f"{name} {word}", trial.configuration, trial.number, (word,))
            for word, trial in chosen.items()
        ]
        prepared = prepare(subjects, run.campaign, environment, search_spaces(run.folder))
        found += [(p.subject.label, p, chosen[p.subject.roles[0]].measurement) for p in prepared]
    environments = padded([prepared.environment for _, prepared, _ in found])
    return [
        Point(label, Prepared(prepared.subject, environment, prepared.refusal), measurement)
        for (label, prepared, measurement), environment in zip(found, environments, strict=True)
    ]


def on_known_malloc(gem5: Gem5, points: Sequence[Point]) -> list[Point]:
    """Return the points with libc's malloc in front of one that gem5 was linked with."""
    prepared, notices = with_known_malloc(gem5, [point.prepared for point in points])
    for notice in notices:
        print(f"note: {notice}", file=sys.stderr)
    return [replace(p, prepared=one) for p, one in zip(points, prepared, strict=True)]


def settings_of(points: Iterable[Point]) -> dict[str, str]:
    """Return what is set at each point, by label: a label may mean another point of a later run."""
    return {point.label: point.prepared.subject.configuration.key for point in points}


def simulate(
    call: Call,
    part: str,
    gem5: Gem5,
    simulations: Sequence[Simulation],
    points: Sequence[Point],
    *,
    rounds: int | None = None,
) -> list[Row]:
    """Run the missing runs of interleaved rounds.

    A point that fails on a simulation is out of it, or simulates something else than the baseline;
    a simulation that fails under the baseline is out.
    """
    by_name, by_label = {s.name: s for s in simulations}, {p.label: p for p in points}

    def run(simulation: str, label: str) -> Figures:
        return _run(gem5, by_name[simulation], by_label[label])

    same = [settings_of(points), {s.name: gem5.identity(s) for s in simulations}]
    rows = run_rounds(
        call, part, list(by_name), list(by_label), run, same=same, rounds=rounds,
        baseline=BASELINE, shown="mean_heap",
    )  # fmt: skip
    return of_one_simulation(rows, BASELINE)


def _run(gem5: Gem5, simulation: Simulation, point: Point) -> Figures:
    if point.prepared.refusal is not None:
        return Figures.did_not_succeed(Status.REFUSED, point.prepared.refusal)
    surroundings = Surroundings(timeout_s=_TIMEOUT_S)
    found = gem5.simulate(simulation, point.prepared.environment, surroundings)
    status, reason = judge_simulation(found, None)
    if status is not Status.OK or found.result is None:
        return Figures.did_not_succeed(status, reason or status.value)
    heap, kinds = found.heap, found.result.memory_bytes
    return Figures.succeeded({
        "mean_heap": round(heap.mean_anon_bytes),
        "peak_heap": heap.peak_anon_bytes,
        "not_heap": kinds.program + kinds.python,
        "faults": heap.faults,
        "cpu_ns": heap.cpu_ns,
        "digest": digest_of(found),
    })  # fmt: skip


def count(call: Call, gem5: Gem5, simulation: Simulation, points: Sequence[Point]) -> list[Row]:
    """Count the instructions of one simulation under every point."""
    counter, by_label = InstructionCounter(), {p.label: p for p in points}

    def run(_task: str, label: str) -> Figures:
        gem5.folder(simulation).mkdir(parents=True, exist_ok=True)
        n = counter.count(
            gem5.command(simulation), by_label[label].prepared.environment, _TIMEOUT_S
        )
        return Figures.succeeded({"instructions": n}) if n else failed("not counted")

    same = settings_of(points)
    return run_rounds(call, "count", [simulation.name], list(by_label), run, same=same, rounds=1)


def look_at_zeros(
    call: Call, gem5: Gem5, simulation: Simulation, points: Sequence[Point]
) -> list[Row]:
    """Count the pages that hold only zeros at the end of a simulation, and split huge pages.

    Huge pages that were split are counted by the kernel for the whole machine.
    """
    by_label = {p.label: p for p in points}

    def run(_task: str, label: str) -> Figures:
        gem5.folder(simulation).mkdir(parents=True, exist_ok=True)
        words = list(gem5.command(simulation))
        words.insert(words.index("--"), "--zero-pages")
        before = _split_pages()
        environment = dict(by_label[label].prepared.environment)
        ended = Processes().run(words, environment=environment, timeout_s=_TIMEOUT_S)
        if ended.timed_out or ended.exit_status != 0:
            last = last_line(ended.stderr) or "no message"
            return failed(f"exit status {ended.exit_status}: {last}")
        n_split = _split_pages() - before
        result = json.loads((gem5.folder(simulation) / RESULT).read_text(encoding="utf-8"))
        anonymous = sum(result["memory_bytes"].get(kind, 0) for kind in _ANONYMOUS)
        return Figures.succeeded(
            {**result["zero_pages"], "anonymous_bytes": anonymous, "split": n_split}
        )

    same = settings_of(points)
    return run_rounds(call, "zeros", [simulation.name], list(by_label), run, same=same, rounds=1)


_ANONYMOUS: Final = ("heap", "python", "program", "preloaded")


def _split_pages() -> int:
    lines = Path("/proc/vmstat").read_text(encoding="utf-8").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("thp_split_page ")))


def evaluation_cost(name: str, trace: Path) -> float:
    """Return the CPU seconds of an evaluation of a default, memory run and count run together.

    The median of five.

    Args:
        name: of the allocator.
        trace: what is replayed.
    """
    options = EmulationOptions(thp="keep")
    evaluator = EmulatorEvaluator(Emulation(trace, located([name]), load_calibration(), options))
    seconds = []
    for _ in range(5):
        before = children_s()
        evaluation = evaluator.evaluate(Configuration(name), None)
        seconds.append(children_s() - before)
        if evaluation.status is not Status.OK:
            raise RuntimeError(evaluation.reason)
    return statistics.median(seconds)
