"""Programs inside simulated machines: prepared, run with an allocator preloaded, counted.

gem5 runs the program in system-call emulation, with the environment of a subject and nothing
else of this computer's.  A library that the guest's loader does not find is ignored by it in
silence; so the files that the guest had mapped at its end must hold it.

Every program has a start that is subtracted: the guest ``empty``, for the emulator a replay of
nothing, or the guest itself with other arguments.  Allocators spend up to millions of
instructions before a program begins.

Misses are lines that demand accesses of the cores asked the next level for: no prefetches, and no
lines that are on their way already.  So they compare with hardware counters of lines brought in.
Cycles are elapsed cycles of the machine's clock; instructions are committed, over all cores.

Source: gem5, src/mem/cache/base.cc (demandMshrMisses), src/arch/x86/tlb.cc,
src/mem/mem_interface.cc, src/mem/coherent_xbar.cc (snoopTraffic); src/cpu/base.cc (requestors).
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from tuner.config.gem5_inside import Inside, InsideProgram
from tuner.errors import MissingToolError, ProgramError
from tuner.measure.gem5 import (
    SCRIPT,
    Gem5Run,
    file_digest,
    judge_simulation,
    make_guests,
    read_run,
    statistics_of,
)
from tuner.measure.gem5_stats import Statistics
from tuner.measure.preloads import PRELOAD, brings_malloc
from tuner.measure.process import Processes, tool_environment
from tuner.measure.program import ProgramRunner, Surroundings, padded
from tuner.output import fresh_folder
from tuner.records import Outcome, Status
from tuner.resources import native_file

EMPTY = "empty"
"""Guest that does nothing; word that makes the emulator replay nothing."""

_ROOM = {f"_{index}": "x" * 250 for index in range(16)}
"""Room that every guest's environment takes at least, so that the stack lies equally deep in
sessions with other subjects."""

_PLAN_SECONDS = 600.0

_MALLOC = re.compile(r"lib.*malloc.*\.so.*")
"""Name of a library that may bring an allocator."""

Counts = Mapping[str, int | None]
"""Counts of one run by name; None where a machine has no such thing.  ``lines_moved``, from the
caches of one core to those of another, is absent in older journals."""

_LEVEL: Final = r"board\.cache_hierarchy\.{}\d*\.(demandMshrMisses::processor\..*)?.*"
_PATTERNS: Final = {
    "l1d_misses": _LEVEL.format("l1dcaches"),
    "l1i_misses": _LEVEL.format("l1icaches"),
    "l2_misses": _LEVEL.format("l2caches"),
    "l3_misses": _LEVEL.format("l3cache"),
    "dtlb_misses": r"board\.processor\..*\.mmu\.dtb\.((?:rd|wr)Misses)",
    "itlb_misses": r"board\.processor\..*\.mmu\.itb\.((?:rd|wr)Misses)",
    "dram_bytes": r"board\.memory\.(?:.*\.)?(bytes(?:Read|Written)::total)",
}
"""Statistics of what counts, those with a group being summed: a level that misses nothing has
others only."""
_MOVED_BYTES: Final = r"board\.cache_hierarchy\.(?:membus|l3bus)\.(snoopTraffic)"
_LINE_BYTES: Final = 64


@dataclass(frozen=True)
class InsideTask:
    """One program on one machine."""

    program: str
    """Name of the program; of a start, that of the program and ``-start``."""
    machine: Path
    """Description."""
    cores: int
    command: tuple[str, ...]
    """Absolute path of the guest and its arguments."""
    start: InsideTask | None
    """What is subtracted; None for a start itself."""

    def __str__(self) -> str:
        """Name for people: ``lists on desktop``."""
        return f"{self.program} on {self.machine.stem}"


class Counted(BaseModel):
    """What one good run gave."""

    model_config = ConfigDict(frozen=True)

    output: str
    """SHA-256 of what the program printed."""
    counts: Counts
    files: Mapping[str, str] = Field(default_factory=dict)
    """SHA-256 of each file that the program had mapped at its end; older journals have none."""


@dataclass(frozen=True)
class Gem5Inside:
    """gem5 with prepared programs."""

    program: Path
    """gem5."""
    scripts: Path
    """Folder of ``run.py``."""
    outputs: Path
    """Folder of the files of runs."""
    runner: ProgramRunner
    timeout_s: float
    """Limit of one run."""
    in_guests: tuple[Path, ...] = ()
    """What every guest loads and no command names, such as its C library."""
    digest: Callable[[Path], str] = field(default_factory=lambda: functools.cache(file_digest))
    """Of a file, which does not change during a session."""

    def identity(self, task: InsideTask, environment: Mapping[str, str]) -> str:
        """Return a digest of gem5, scripts, machine, program, its files and the environment.

        Files that no command names, such as further libraries, are in `Counted.files`.

        Raises:
            ProgramError: a file cannot be read.
        """
        files = [self.program, task.machine, *sorted(self.scripts.glob("*.py")), *self.in_guests]
        words = map(Path, (*task.command, environment.get(PRELOAD, "")))
        files += [path for path in words if path.is_absolute() and path.is_file()]
        digests = list(map(self.digest, files))
        facts = [digests, task.command, task.cores, sorted(environment.items())]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]

    def is_current(self, counted: Counted) -> bool:
        """Return whether every file that the program had mapped is still what it was."""
        paths = {Path(path): digest for path, digest in counted.files.items()}
        return all(path.is_file() and self.digest(path) == was for path, was in paths.items())

    def run(self, task: InsideTask, label: str, environment: Mapping[str, str]) -> Outcome[Counted]:
        """Run a program to its end; one that fails is no error here.

        Args:
            task: what to run where.
            label: of the subject; names the folder of the run's files.
            environment: of the guest.

        Raises:
            OutputError: the folder of its files cannot be written.
            MissingToolError: gem5 cannot be executed.
            ProgramError: the result of gem5 is of another version, or a file of the program cannot
                be read.
        """
        folder = fresh_folder(self.outputs / task.machine.stem / task.program / label)
        words = [str(self.program), "-q", "-d", str(folder), str(self.scripts / SCRIPT)]
        words += ["--machine", str(task.machine), "--cores", str(task.cores)]
        for name, text in sorted(environment.items()):
            words += ["--environment", f"{name}={text}"]
        words += ["--guest", task.command[0], "--", *task.command[1:]]
        surroundings = Surroundings(timeout_s=self.timeout_s)
        ended = self.runner.run(words, tool_environment(os.environ), surroundings, folder)
        found = read_run(ended, folder)
        outcome = judge_inside(found, environment)
        if outcome.good is None or found.result is None:
            return outcome
        mapped = filter(Path.is_file, map(Path, found.result.guest_files))
        files = {str(path): self.digest(path) for path in mapped}
        return Outcome.succeeded(outcome.good.model_copy(update={"files": files}))


def judge_inside(found: Gem5Run, environment: Mapping[str, str]) -> Outcome[Counted]:
    """Return what a run counted, if it is one of a guest with this environment."""
    status, reason = judge_simulation(found, None)
    if status is not Status.OK or found.result is None:
        return Outcome.did_not_succeed(status, f"gem5: {reason}")
    preload = environment.get(PRELOAD)
    wanted = Path(preload).resolve() if preload else None
    files = [Path(path).resolve() for path in found.result.guest_files]
    if wanted and wanted not in files:
        reason = f"{preload} was not loaded: is the program statically linked?"
        return Outcome.did_not_succeed(Status.REFUSED, reason)
    named = [str(p) for p in files if _MALLOC.fullmatch(p.name) and p != wanted]
    brought = list(filter(brings_malloc, named))
    if brought:
        reason = f"the program brings {', '.join(brought)}; its malloc is not the one to measure"
        return Outcome.did_not_succeed(Status.REFUSED, reason)
    try:
        counts = counts_of(statistics_of(found))
    except ProgramError as error:
        return Outcome.did_not_succeed(Status.FAILED, str(error))
    output = hashlib.sha256(found.guest_output).hexdigest()
    return Outcome.succeeded(Counted(output=output, counts=counts))


def counts_of(statistics: Statistics) -> Counts:
    """Return what a run counted.

    Raises:
        ProgramError: the statistics lack instructions or time: no processor was simulated.
    """
    instructions = statistics.number("simInsts")
    ticks, period = statistics.number("simTicks"), statistics.number("board.clk_domain.clock")
    if not instructions or not ticks or not period:
        message = "stats.txt: holds no instructions or no time; was a processor simulated?"
        raise ProgramError(message)
    has_cores = statistics.number("board.processor.cores1.core.numCycles") is not None
    moved_bytes = _sum(statistics, _MOVED_BYTES) if has_cores else None
    return {
        "instructions": int(instructions),
        "cycles": round(ticks / period),
        **{name: _sum(statistics, pattern) for name, pattern in _PATTERNS.items()},
        "lines_moved": None if moved_bytes is None else moved_bytes // _LINE_BYTES,
    }


def _sum(statistics: Statistics, pattern: str) -> int | None:
    """Sum the statistics of matching names that have a group; None where no name matches."""
    found = list(filter(None, map(re.compile(pattern).fullmatch, statistics.values)))
    counted = (statistics.number(match[0]) or 0.0 for match in found if match[1])
    return round(sum(counted)) if found else None


def prepare_tasks(
    inside: Inside, chosen: Sequence[tuple[InsideProgram, Path]], folder: Path
) -> list[InsideTask]:
    """Build guests and plans and return what is to run.

    Args:
        inside: the suite.
        chosen: programs with machines.
        folder: where guests and plans are built.

    Raises:
        MissingToolError: make, the emulator or a command is not installed.
        ProgramError: a guest does not compile, or a trace cannot be read.
    """
    guests = (folder / "guests-dynamic").resolve()
    if any(program.trace is None for program, _ in chosen):
        names = {EMPTY, *(program.guest for program, _ in chosen if program.guest)}
        make_guests(inside.folder / "guests", guests, "LINK=", names=names)
    commands = {
        program: _commands(inside, program, guests, folder.resolve()) for program in dict(chosen)
    }
    tasks = []
    for program, machine in chosen:
        command, begin = commands[program]
        start = InsideTask(f"{program.name}-start", machine, program.cores, begin, None)
        tasks.append(InsideTask(program.name, machine, program.cores, command, start))
    return tasks


def _commands(
    inside: Inside, program: InsideProgram, guests: Path, folder: Path
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the command of a program, and that of what is subtracted."""
    nothing = (str(guests / EMPTY),)
    if program.trace is not None:
        plan = _save_plan(inside.folder / program.trace, program.first, folder / program.name)
        # A copy: an installation of another version in between must not change it.
        replayer = shutil.copy2(native_file("rand_malloc"), folder / "rand_malloc")
        command = (str(replayer), "--replay-plan", str(plan))
        return command, (*command, EMPTY)
    if program.guest is not None:
        guest = str(guests / program.guest)
        start = nothing if program.start is None else (guest, *program.start)
        return (guest, *program.arguments), start
    word, *arguments = program.command or ()
    path = shutil.which(word)
    if path is None:
        message = f"{word}: not installed; {inside.path} wants it for {program.name}"
        raise MissingToolError(message)
    return (str(Path(path).resolve()), *arguments), nothing


def guest_environments(environments: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Return environments, ``LD_PRELOAD`` included, as guests have them: all equally long."""
    return padded([*environments, _ROOM])[:-1]


def _save_plan(trace: Path, first: int | None, stem: Path) -> Path:
    """Write what is replayed of a trace to a file."""
    plan = stem.with_suffix(".plan")
    stem.parent.mkdir(parents=True, exist_ok=True)
    brief = [] if first is None else ["--first", str(first)]
    words = [str(native_file("rand_malloc")), "--save-plan", str(plan), *brief, str(trace)]
    ended = Processes().run(words, environment=tool_environment({}), timeout_s=_PLAN_SECONDS)
    if ended.exit_status != 0:
        raise ProgramError(ended.stderr.strip() or f"{trace}: rand_malloc failed")
    return plan
