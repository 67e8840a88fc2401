"""What gem5_case.py runs: campaigns, points of them, and gem5 under each point.

Every run of gem5 is one line of a journal (``runs/gem5-case/journal.jsonl``), written when it
ends, so that a measurement that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import random
import resource
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tuner.allocators import get_allocator
from tuner.config.gem5_suite import Simulation
from tuner.measure.calibration import load_calibration
from tuner.measure.counting import InstructionCounter
from tuner.measure.emulator import Emulation, EmulationOptions, EmulatorEvaluator
from tuner.measure.gem5 import RESULT, Gem5, digest_of, judge_simulation
from tuner.measure.program import Surroundings, padded
from tuner.records import Configuration, Measurement, Origin, Status, Trial
from tuner.resources import configs_dir
from tuner.runs import Run, load_run
from tuner.validate.setup import Prepared, prepare, search_spaces
from tuner.validate.subjects import Subject, spread

ROOT: Final = Path(__file__).resolve().parent.parent
RUNS: Final = ROOT / "runs"
ALLOCATORS: Final = ("glibc", "tcmalloc", "jemalloc", "mimalloc", "exgen")
"""The first is the baseline."""

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
        command = [sys.executable, "-m", "tuner.cli.main", "tune", str(file), "-q"]
        command += ["-o", str(folder / f"gem5-{name}"), "--workers", "1"]
        print("$ malloc-tuner", *command[3:], file=sys.stderr)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


def load_campaigns(allocators: Iterable[str], folder: Path = RUNS) -> dict[str, Run]:
    """Return the runs of the campaigns, by allocator."""
    return {name: load_run(folder / f"gem5-{name}") for name in allocators}


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
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
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


class Journal:
    """Lines of JSON, one per run, appended and flushed."""

    def __init__(self, path: Path) -> None:
        """Read what is there; a last line that was cut off is dropped.

        Raises:
            BlockingIOError: another process measures: they would write into each other's folders.
        """
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = path.with_suffix(".lock").open("w", encoding="utf-8")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.rows: list[dict[str, Any]] = []
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    self.rows.append(json.loads(line))
                except ValueError:
                    continue

    def add(self, row: dict[str, Any]) -> None:
        """Append a row."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        self.rows.append(row)

    def find(self, **fields: object) -> list[dict[str, Any]]:
        """Return the rows that have these values."""
        return [row for row in self.rows if fields.items() <= row.items()]


def simulate(
    journal: Journal,
    part: str,
    gem5: Gem5,
    simulations: Sequence[Simulation],
    points: Sequence[Point],
    *,
    rounds: int,
) -> None:
    """Run the missing runs of interleaved rounds.

    A point that fails on a simulation is out of it; a simulation that fails under the baseline,
    which comes first, is out.
    """
    for number in range(rounds):
        for simulation in simulations:
            for point in _order(points, simulation, number):
                place = {"part": part, "simulation": simulation.name, "label": point.label}
                known = journal.find(**place)
                is_out = any(row["status"] != Status.OK.value for row in known)
                base = journal.find(part=part, simulation=simulation.name, label=BASELINE)
                lacks_base = point.label != BASELINE and not any("digest" in row for row in base)
                if is_out or lacks_base or any(row["round"] == number for row in known):
                    continue
                digest = next((row["digest"] for row in base if "digest" in row), None)
                row = _run(gem5, simulation, point, digest)
                journal.add({**place, "round": number, **row})
                print(_told(journal.rows[-1]), file=sys.stderr, flush=True)


def _order(points: Sequence[Point], simulation: Simulation, number: int) -> Iterator[Point]:
    """Yield the points in another order for every round, the baseline first in round 0."""
    rest = list(points)
    random.Random(f"{simulation.name}/{number}").shuffle(rest)
    if number == 0:
        rest.sort(key=lambda point: point.label != BASELINE)
    return iter(rest)


def _run(gem5: Gem5, simulation: Simulation, point: Point, digest: str | None) -> dict[str, Any]:
    if point.prepared.refusal is not None:
        return {"status": Status.REFUSED.value, "reason": point.prepared.refusal}
    surroundings = Surroundings(timeout_s=_TIMEOUT_S)
    found = gem5.simulate(simulation, point.prepared.environment, surroundings)
    status, reason = judge_simulation(found, digest)
    if status is not Status.OK or found.result is None:
        return {"status": status.value, "reason": reason}
    heap, kinds = found.heap, found.result.memory_bytes
    return {
        "status": status.value,
        "mean_heap": round(heap.mean_anon_bytes),
        "peak_heap": heap.peak_anon_bytes,
        "not_heap": kinds.program + kinds.python,
        "faults": heap.faults,
        "cpu_ns": heap.cpu_ns,
        "system_ns": heap.system_ns,
        "wall_ns": heap.wall_ns,
        "digest": digest_of(found),
    }


def _told(row: Mapping[str, Any]) -> str:
    where = f"{row['part']} {row['round']}  {row['simulation']:24}{row['label']:20}"
    if row["status"] != Status.OK.value:
        return f"{where} {row['status']}: {row['reason']}"
    return f"{where}{row['mean_heap'] / 1e6:8.2f} MB{row['cpu_ns'] / 1e9:8.2f} s"


def count(journal: Journal, gem5: Gem5, simulation: Simulation, points: Sequence[Point]) -> None:
    """Count the instructions of one simulation under every point that lacks them."""
    counter = InstructionCounter()
    for point in points:
        place = {"part": "count", "simulation": simulation.name, "label": point.label}
        if journal.find(**place):
            continue
        gem5.folder(simulation).mkdir(parents=True, exist_ok=True)
        n = counter.count(gem5.command(simulation), point.prepared.environment, _TIMEOUT_S)
        journal.add({**place, "round": 0, "status": "ok" if n else "failed", "instructions": n})
        print(place, n, file=sys.stderr, flush=True)


def look_at_zeros(
    journal: Journal, gem5: Gem5, simulation: Simulation, points: Sequence[Point]
) -> None:
    """Count the pages that hold only zeros at the end of a simulation, and split huge pages.

    Huge pages that were split are counted by the kernel for the whole machine.
    """
    for point in points:
        place = {"part": "zeros", "simulation": simulation.name, "label": point.label}
        if journal.find(**place):
            continue
        gem5.folder(simulation).mkdir(parents=True, exist_ok=True)
        head, separator, arguments = _parted(gem5.command(simulation), "--")
        command = [*head, "--zero-pages", *separator, *arguments]
        before = _split_pages()
        subprocess.run(
            command,
            env=dict(point.prepared.environment),
            check=True,
            capture_output=True,
            timeout=_TIMEOUT_S,
        )
        n_split = _split_pages() - before
        result = json.loads((gem5.folder(simulation) / RESULT).read_text(encoding="utf-8"))
        anonymous = {k: v for k, v in result["memory_bytes"].items() if k in _ANONYMOUS}
        counts = {"anonymous_bytes": sum(anonymous.values()), "split": n_split}
        journal.add({**place, "round": 0, "status": "ok", **result["zero_pages"], **counts})
        print(journal.rows[-1], file=sys.stderr, flush=True)


_ANONYMOUS: Final = ("heap", "python", "program", "preloaded")


def _parted(words: Sequence[str], border: str) -> tuple[Sequence[str], list[str], Sequence[str]]:
    place = words.index(border)
    return words[:place], [border], words[place + 1 :]


def _split_pages() -> int:
    lines = Path("/proc/vmstat").read_text(encoding="utf-8").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("thp_split_page ")))


def evaluation_cost(name: str, trace: Path, repeats: int = 5) -> float:
    """Return the CPU seconds of one evaluation of a default, memory run and count run together.

    Args:
        name: of the allocator.
        trace: what is replayed.
        repeats: evaluations, of which the median counts.
    """
    adapter = get_allocator(name)
    options = EmulationOptions(thp="keep")
    allocators = {name: (adapter, adapter.locate())}
    evaluator = EmulatorEvaluator(Emulation(trace, allocators, load_calibration(), options))
    seconds = []
    for _ in range(repeats):
        before = _children_s()
        evaluation = evaluator.evaluate(Configuration(name), None)
        seconds.append(_children_s() - before)
        if evaluation.status is not Status.OK:
            raise RuntimeError(evaluation.reason)
    return statistics.median(seconds)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
