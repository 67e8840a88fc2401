"""Programs inside simulated machines: prepared, run with an allocator preloaded, proven.

gem5 runs the program in system-call emulation, with the environment of a subject and nothing
else of this computer's.  A library that the guest's loader does not find is ignored by it in
silence; so the files that the guest had mapped at its end must hold it.

Every program has a start that is subtracted: the guest ``empty``, for the emulator a replay of
nothing, or the guest itself with other arguments.  Allocators spend up to millions of
instructions before a program begins.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tuner.config.gem5_inside import Inside, InsideProgram
from tuner.errors import MissingToolError, ProgramError
from tuner.measure.gem5 import (
    SCRIPT,
    Gem5Run,
    file_digest,
    judge_simulation,
    make_guests,
    read_run,
)
from tuner.measure.process import Processes, tool_environment
from tuner.measure.program import PRELOAD, ProgramRunner, Surroundings, padded
from tuner.output import fresh_folder
from tuner.records import Outcome, Status
from tuner.resources import native_file

EMPTY = "empty"
"""Guest that does nothing; word that makes the emulator replay nothing."""

_REPLAY = "--replay-plan"
_ROOM = {f"_{index}": "x" * 250 for index in range(16)}
"""Room that every guest's environment takes at least, so that the stack lies equally deep in
sessions with other subjects."""

_PLAN_SECONDS = 600.0


@dataclass(frozen=True)
class InsideTask:
    """One program on one machine."""

    program: str
    """Name of the program, or of a start: ``start``, ``start-2`` on two cores, ``replay-start``."""
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


class RunsInside(Protocol):
    """Runs programs inside machines; `Gem5Inside`, or a double."""

    def identity(self, task: InsideTask, environment: Mapping[str, str]) -> str:
        """Return a digest of all that decides what is simulated."""
        ...

    def run(
        self, task: InsideTask, label: str, environment: Mapping[str, str], timeout_s: float | None
    ) -> Outcome[Gem5Run]:
        """Run a program to its end; one that fails is no error here: it has a reason."""
        ...


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
    known: dict[Path, str] = field(default_factory=dict)
    """Digests of files that were read already; they do not change during a session."""

    def identity(self, task: InsideTask, environment: Mapping[str, str]) -> str:
        """Return a digest of gem5, scripts, machine, program, its files and the environment.

        Raises:
            ProgramError: a file cannot be read.
        """
        files = [self.program, task.machine, *sorted(self.scripts.glob("*.py"))]
        files += _guest_files(task, environment)
        for path in files:
            if path not in self.known and path.is_file():
                self.known[path] = file_digest(path)
        digests = [self.known[path] for path in files if path in self.known]
        facts = [digests, task.command, task.cores, sorted(environment.items())]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]

    def run(
        self, task: InsideTask, label: str, environment: Mapping[str, str], timeout_s: float | None
    ) -> Outcome[Gem5Run]:
        """Run a program to its end; one that fails is no error here.

        Args:
            task: what to run where.
            label: of the subject; names the folder of the run's files.
            environment: of the guest.
            timeout_s: limit in seconds; None for none.

        Raises:
            OutputError: the folder of its files cannot be written.
            MissingToolError: gem5 cannot be executed.
            ProgramError: the result of gem5 is of another version.
        """
        folder = fresh_folder(self.outputs / task.machine.stem / task.program / label)
        words = [str(self.program), "-q", "-d", str(folder), str(self.scripts / SCRIPT)]
        words += ["--machine", str(task.machine), "--cores", str(task.cores)]
        words += ["--guest", task.command[0]]
        for name, text in sorted(environment.items()):
            words += ["--environment", f"{name}={text}"]
        ended = self.runner.run(
            [*words, "--", *task.command[1:]],
            tool_environment(os.environ),
            Surroundings(timeout_s=timeout_s),
            folder,
        )
        found = read_run(ended, folder)
        status, reason = judge_simulation(found, None)
        if status is not Status.OK:
            return Outcome.did_not_succeed(status, f"gem5: {reason}")
        if changed := self._changed(task, environment):
            reason = f"{changed} was replaced while it was measured"
            return Outcome.did_not_succeed(Status.FAILED, reason)
        return Outcome.succeeded(found)

    def _changed(self, task: InsideTask, environment: Mapping[str, str]) -> Path | None:
        """Return a file of a run that is not what its digest in the identity says."""
        files = _guest_files(task, environment)
        return next((f for f in files if f in self.known and file_digest(f) != self.known[f]), None)


def _guest_files(task: InsideTask, environment: Mapping[str, str]) -> list[Path]:
    words = (*task.command, environment.get(PRELOAD, ""))
    return [Path(word) for word in words if word.startswith("/")]


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
        make_guests(inside.folder / "guests", guests, "LINK=")
    commands = {
        program.name: _commands(inside, program, guests, folder.resolve())
        for program in dict.fromkeys(program for program, _ in chosen)
    }
    tasks = []
    for program, machine in chosen:
        command, name, words = commands[program.name]
        start = InsideTask(name, machine, program.cores, words, None)
        tasks.append(InsideTask(program.name, machine, program.cores, command, start))
    return tasks


def _commands(
    inside: Inside, program: InsideProgram, guests: Path, folder: Path
) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """Return the command of a program, and name and command of what is subtracted."""
    own = f"{program.name}-start"
    command: tuple[str, ...]
    if program.trace is not None:
        plan = _save_plan(inside.folder / program.trace, program.first, folder / program.name)
        # A copy: an installation of another version in between must not change it.
        replayer = shutil.copy2(native_file("rand_malloc"), folder / "rand_malloc")
        command = (str(replayer), _REPLAY, str(plan))
        return command, own, (*command, EMPTY)
    if program.guest is not None:
        command = (str(guests / program.guest), *program.arguments)
        if program.start is not None:
            return command, own, (command[0], *program.start)
    else:
        word, *arguments = program.command or ()
        path = shutil.which(word)
        if path is None:
            message = f"{word}: not installed; {inside.path} wants it for {program.name}"
            raise MissingToolError(message)
        command = (str(Path(path).resolve()), *arguments)
    name = "start" if program.cores == 1 else f"start-{program.cores}"
    return command, name, (str(guests / EMPTY),)


def guest_environments(environments: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Return the environments of guests, padded to equal length.

    Args:
        environments: the settings of each allocator, ``LD_PRELOAD`` included.
    """
    return padded([*environments, _ROOM])[:-1]


def _save_plan(trace: Path, first: int | None, stem: Path) -> Path:
    """Write what is replayed of a trace to a file."""
    plan = stem.with_suffix(".plan")
    stem.parent.mkdir(parents=True, exist_ok=True)
    words: list[str | Path] = [native_file("rand_malloc"), "--save-plan", plan]
    words += ["--first", str(first)] if first is not None else []
    ended = Processes().run(
        [*words, trace], environment=tool_environment({}), timeout_s=_PLAN_SECONDS
    )
    if ended.exit_status != 0:
        raise ProgramError(ended.stderr.strip() or f"{trace}: rand_malloc failed")
    return plan
