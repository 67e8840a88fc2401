"""Which instruction counters work on this machine, found by trying each one out."""

import os
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from tuner.errors import MissingToolError, ProgramError
from tuner.measure.answers import misunderstood
from tuner.measure.process import Processes, tool_environment
from tuner.resources import native_file

_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Instrument:
    """One way to count instructions, with the verdict of having tried it."""

    name: str
    """``qemu``, ``cachegrind`` or ``perf``, the best first."""
    works: bool
    detail: str
    """On what it was tried out when it works; what is missing when it does not."""


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)

    name: str
    works: bool
    detail: str


_ENTRIES = TypeAdapter(tuple[_Entry, ...])


def best_instrument(emulator: Path | None = None) -> str | None:
    """Return the name of the best instrument that works; those behind it are not tried out.

    Argument and errors are those of `find_instruments`.
    """
    found = _understood(ask_emulator("--best-instrument", emulator))
    return next((instrument.name for instrument in found if instrument.works), None)


def find_instruments(emulator: Path | None = None) -> tuple[Instrument, ...]:
    """Try every instrument and return the verdicts, the best instrument first.

    Args:
        emulator: path of rand_malloc; None for the installed one.

    Raises:
        MissingToolError: rand_malloc is not installed or cannot be started.
        ProgramError: it failed, or its answer is not understood.
    """
    return _understood(ask_emulator("--instruments", emulator))


def _understood(text: str) -> tuple[Instrument, ...]:
    try:
        entries = _ENTRIES.validate_json(text)
    except ValidationError as error:
        raise misunderstood("the answer of rand_malloc --instruments", error) from error
    return tuple(Instrument(entry.name, entry.works, entry.detail) for entry in entries)


def ask_emulator(option: str, emulator: Path | None = None) -> str:
    """Run rand_malloc with one option that prints JSON and return what it prints.

    Raises:
        MissingToolError: it is not installed or cannot be started.
        ProgramError: it failed.
    """
    path = emulator or native_file("rand_malloc")
    environment = tool_environment(os.environ)
    try:
        ended = Processes().run([path, option], environment=environment, timeout_s=_TIMEOUT_S)
    except OSError as error:
        raise MissingToolError(
            f"{path}: cannot be started: {error.strerror}; reinstall malloc-tuner"
        ) from error
    if ended.exit_status != 0 or ended.timed_out:
        why = "took too long" if ended.timed_out else ended.stderr.strip() or ended.ending
        raise ProgramError(f"rand_malloc {option}: failed: {why}")
    return ended.stdout
