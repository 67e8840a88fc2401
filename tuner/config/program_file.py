"""Model of a file for ``optimize``: a campaign that names its program instead of a trace.

    allocators = ["glibc", "jemalloc"]

    [program]
    command = ["./app", "--input", "data"]
    held_out = ["./app", "--input", "other"]
    time = "10min"

Commands run in the current folder, as they do on the command line.
"""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from tuner.config.campaign import Allocators
from tuner.config.reading import StrictModel, read_toml, validate
from tuner.errors import SpecError
from tuner.limits import BUDGET, EFFECT, MOST_EVALUATIONS, MOST_RUNS, MOST_SEED, REST, RUN_TIME

Command = Annotated[tuple[str, ...], Field(min_length=1)]


def _with_unit(value: object) -> object:
    if isinstance(value, int | float):
        raise ValueError('must be a duration with its unit, such as "60 s"')  # noqa: TRY004 - pydantic collects ValueErrors
    return value


_HasUnit = BeforeValidator(_with_unit)


class ProgramTable(StrictModel):
    """The program, and how it is judged."""

    command: Command | None = None
    commands: tuple[Command, ...] = ()
    """Instead of `command`: those that are tuned on together."""
    held_out: Command | None = None
    """Command with an input that is not tuned on."""
    time: Annotated[str, _HasUnit, AfterValidator(BUDGET.check)] | None = None
    """For the whole optimisation, such as ``10min``."""
    timeout: Annotated[str, _HasUnit, AfterValidator(RUN_TIME.check)] | None = None
    """Limit of one run."""
    expect_status: Annotated[int, Field(ge=0, le=255)] | None = None
    """Exit status of the program; None: 0."""
    goals: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """What is to gain, such as ``peak_memory``; None: mean memory or CPU time."""
    least: Annotated[str, AfterValidator(EFFECT.check)] | None = None
    """Least effect that counts, such as ``1%``."""
    cpu: Annotated[int, Field(ge=0)] | None = None
    """Core to run on."""
    constraints: tuple[str, ...] = ()
    """What may become worse, and by how much, such as ``peak_memory <= default * 1.1``."""
    direct: bool = False
    """Nothing is recorded or emulated: the program alone is searched with."""

    @model_validator(mode="after")
    def _check(self) -> ProgramTable:
        if (self.command is None) == (len(self.commands) == 0):
            raise ValueError("give command, or commands, an array of several")
        return self

    @property
    def all_commands(self) -> tuple[tuple[str, ...], ...]:
        """What is tuned on."""
        return self.commands or ((self.command,) if self.command else ())


class ServiceTable(StrictModel):
    """How the program is run as a service: the options of `optimize` of the same names."""

    ready: str
    load: str
    held_out_load: str | None = None
    warm_ups: Annotated[int, Field(ge=0, le=MOST_RUNS)] = 1
    idle: Annotated[str, _HasUnit, AfterValidator(REST.check)] = "10s"
    stop: str = "SIGTERM"
    setup: str | None = None
    teardown: str | None = None
    user: str | None = None
    read: str = "auto"
    constraints: tuple[str, ...] = ()


class ProgramFile(StrictModel):
    """A whole file."""

    name: str | None = None
    allocators: Allocators | None = None
    evaluations: Annotated[int, Field(ge=5, le=MOST_EVALUATIONS)] | None = None
    """In emulation."""
    seed: Annotated[int, Field(ge=0, le=MOST_SEED)] | None = None
    program: ProgramTable
    service: ServiceTable | None = None
    """None: the program ends by itself."""

    @model_validator(mode="after")
    def _check(self) -> ProgramFile:
        lacks = ("commands", "held_out", "expect_status", "goals", "constraints")
        found = [name for name in lacks if getattr(self.program, name)]
        if self.service is not None and found:
            raise ValueError(
                f"program.{found[0]}: is of a program that ends; [service] has constraints and "
                "held_out_load"
            )
        return self


def load_program_file(path: Path) -> ProgramFile:
    """Read a file for ``optimize``.

    Raises:
        SpecError: the file cannot be read or is wrong; every problem is named.
    """
    data = read_toml(path)
    if "trace" in data and "program" not in data:
        call = f"`malloc-tuner tune {quote(str(path))}`"
        raise SpecError(f"{path}: has a trace, so it is a campaign: {call}")
    return validate(ProgramFile, data, str(path))
