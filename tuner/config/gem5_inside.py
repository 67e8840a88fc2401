"""Model of what runs inside simulated machines: ``gem5-validate/inside.toml``, or a user's own.

A program is a guest of ``guests/``, the beginning of a trace, or a command of this computer.  Each
runs on each machine.  Paths are relative to the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from tuner.config.campaign import Name
from tuner.config.gem5_suite import ALL, check_known, machine_keys, missing_file, repeated
from tuner.config.reading import StrictModel, problems_error, read_toml, validate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


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

    @model_validator(mode="after")
    def _is_one_of_three(self) -> Self:
        if sum(value is not None for value in (self.guest, self.trace, self.command)) != 1:
            raise ValueError("must have exactly one of guest, trace and command")
        if self.guest is None and (self.arguments or self.start):
            raise ValueError("arguments and start are a guest's; those of a command stand in it")
        if self.first is not None and self.trace is None:
            raise ValueError("first is a trace's")
        return self


class Inside(StrictModel):
    """What runs inside, read and checked."""

    path: Path
    """Its file."""
    version: Literal[1]
    machines: Annotated[tuple[Path, ...], Field(min_length=1)]
    """Descriptions; their names without the ending are distinct."""
    programs: Annotated[tuple[InsideProgram, ...], Field(min_length=1)]
    """In the order of the file; names are distinct."""

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
        programs = [program.name for program in self.programs]
        machines = [path.stem for path in self.machines]
        check_known(self.path, words, [*programs, *machines, ALL], "program or machine")
        named = programs if ALL in words else set(programs).intersection(words) or programs
        where = set(machines).intersection(words) or machines
        return [
            (program, self.folder / path)
            for program in self.programs
            for path in self.machines
            if program.name in named and path.stem in where
        ]


def load_inside(path: Path) -> Inside:
    """Read what runs inside and check that machines, guests and traces are there.

    Raises:
        SpecError: one line per problem: unknown key, bad value, a name given twice, a file
            that is missing, a machine without a processor.
    """
    inside = validate(Inside, {**read_toml(path), "path": path}, str(path))
    if problems := list(_problems(inside)):
        raise problems_error(str(path), problems)
    return inside


def _problems(inside: Inside) -> Iterator[str]:
    yield from repeated([program.name for program in inside.programs], "programs")
    yield from repeated([machine.stem for machine in inside.machines], "machines")
    for machine in inside.machines:
        keys, problem = machine_keys(inside.folder / machine)
        if problem or "cpu" not in keys:
            yield f"machines.{machine.stem}: {problem or 'has no processor to run a program on'}"
    for program in inside.programs:
        where = f"programs.{program.name}"
        if program.guest is not None:
            source = inside.folder / "guests" / f"{program.guest}.c"
            yield from missing_file(f"{where}.guest", program.guest, source)
        if program.trace is not None:
            yield from missing_file(f"{where}.trace", program.trace, inside.folder / program.trace)
