"""Model of what runs inside simulated machines: ``gem5-validate/inside.toml``, or a user's own.

A program is a guest of ``guests/``, the beginning of a trace, or a command of this computer.  Each
runs on each machine.  Paths are relative to the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from tuner.config.campaign import Name
from tuner.config.gem5_suite import ALL, check_words, machine_keys, missing_file, repeated
from tuner.config.reading import StrictModel, problems_error, read_toml, validate

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class InsideProgram(StrictModel):
    """One program."""

    name: Name
    guest: Name | None = None
    """Program of ``guests/``."""
    arguments: tuple[str, ...] = ()
    """Of the guest."""
    start: tuple[str, ...] | None = None
    """Arguments of the guest for the run that is subtracted; None: that of `empty`."""
    trace: str | None = None
    """Trace or profile that the emulator replays."""
    first: Annotated[int, Field(ge=1)] | None = None
    """How many events of the trace; None for all."""
    command: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Program of this computer with its arguments."""
    cores: Annotated[int, Field(ge=1, le=64)] = 1
    """One for each thread that the program has at once."""
    threads: (
        Annotated[tuple[Annotated[int, Field(ge=1, le=64)], ...], Field(min_length=1)] | None
    ) = None
    """Numbers of threads: there is one program for each, which is also its last argument."""

    @model_validator(mode="after")
    def _is_one_of_three(self) -> Self:
        if sum(value is not None for value in (self.guest, self.trace, self.command)) != 1:
            message = "must have exactly one of guest, trace and command"
            raise ValueError(message)
        if self.guest is None and (self.arguments or self.start or self.threads):
            message = "arguments, start and threads are a guest's; those of a command stand in it"
            raise ValueError(message)
        if self.first is not None and self.trace is None:
            message = "first is a trace's"
            raise ValueError(message)
        return self

    def by_threads(self) -> tuple[InsideProgram, ...]:
        """Return the program for each number of threads; itself where there are none."""
        return tuple(map(self._with, self.threads)) if self.threads else (self,)

    def _with(self, count: int) -> InsideProgram:
        last = str(count)
        changed = {
            "name": f"{self.name}-{last}",
            "arguments": (*self.arguments, last),
            "start": None if self.start is None else (*self.start, last),
            "cores": count,
            "threads": None,
        }
        return self.model_copy(update=changed)


class _InsideFile(StrictModel):
    version: Literal[1]
    machines: Annotated[tuple[str, ...], Field(min_length=1)]
    programs: Annotated[tuple[InsideProgram, ...], Field(min_length=1)]


@dataclass(frozen=True)
class Inside:
    """What runs inside, read and checked."""

    path: Path
    """Its file."""
    machines: tuple[Path, ...]
    """Descriptions; their names without the ending are distinct."""
    programs: tuple[InsideProgram, ...]
    """In the order of the file, by number of threads; names are distinct."""

    @property
    def folder(self) -> Path:
        """Where paths are relative to, and ``guests`` lies."""
        return self.path.resolve().parent

    def choose(self, words: Sequence[str]) -> list[tuple[InsideProgram, Path]]:
        """Return programs with machines, in the order of the file.

        Args:
            words: names of programs, which then run on all machines, and of machines, on which
                then only the named programs run, or all; or `ALL`.

        Raises:
            SpecError: a word is none of these.
        """
        programs = {program.name: program for program in self.programs}
        machines = {path.stem: path for path in self.machines}
        check_words(self.path, words, [*programs, *machines, ALL], "program or machine")
        named = set(words) & programs.keys() if ALL not in words else set()
        where = set(words) & machines.keys()
        return [
            (program, path)
            for program in self.programs
            for path in self.machines
            if (not named or program.name in named) and (not where or path.stem in where)
        ]


def load_inside(path: Path) -> Inside:
    """Read what runs inside and check that machines, guests and traces are there.

    Raises:
        SpecError: one line per problem: unknown key, bad value, a name given twice, a file
            that is missing, a machine without a processor.
    """
    content = validate(_InsideFile, read_toml(path), str(path))
    folder = path.resolve().parent
    machines = tuple(folder / machine for machine in content.machines)
    programs = tuple(one for program in content.programs for one in program.by_threads())
    inside = Inside(path, machines, programs)
    problems = repeated([program.name for program in inside.programs], "programs")
    problems += repeated([machine.stem for machine in machines], "machines")
    problems += [problem for machine in machines for problem in _machine_problems(machine)]
    problems += [problem for p in inside.programs for problem in _program_problems(folder, p)]
    if problems:
        raise problems_error(str(path), problems)
    return inside


def _machine_problems(path: Path) -> list[str]:
    keys, problem = machine_keys(path)
    if problem is None and "cpu" not in keys:
        problem = "has no processor to run a program on"
    return [f"machines.{path.stem}: {problem}"] if problem else []


def _program_problems(folder: Path, program: InsideProgram) -> list[str]:
    where = f"programs.{program.name}"
    if program.guest is not None:
        source = folder / "guests" / f"{program.guest}.c"
        return missing_file(f"{where}.guest", program.guest, source)
    if program.trace is not None:
        return missing_file(f"{where}.trace", program.trace, folder / program.trace)
    return []
