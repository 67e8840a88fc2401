"""The program that a trace was recorded of."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from tuner.trace.file import Trace


@dataclass(frozen=True)
class Recorded:
    """The program as it was recorded."""

    command: tuple[str, ...]
    """Program and arguments; empty where the trace does not say."""
    exit_status: int | None
    """None where the trace does not say, or a signal ended it."""

    def is_run_by(self, command: Sequence[str]) -> bool | None:
        """Return whether a command runs the same program; None where that is not known."""
        if not self.command or not command:
            return None
        return PurePath(command[0]).name == PurePath(self.command[0]).name

    def differs_from(self, command: Sequence[str]) -> str:
        """Say in what a command is another than the recorded one; empty if it is the same."""
        if not self.command:
            return ""
        if not self.is_run_by(command):
            return f"another program than the recorded one ({shlex.join(self.command)})"
        if tuple(command[1:]) != self.command[1:]:
            return f"other arguments than recorded ({shlex.join(self.command)})"
        return ""


def recorded_in(trace: Path) -> Recorded:
    """Return what a trace knows of its program.

    Raises:
        TraceError: it cannot be read.
    """
    with Trace(trace) as opened:
        known = opened.metadata
    # Older traces and those of children have the arguments alone.
    command, status = known.get("command") or known.get("argv"), known.get("exit_status")
    return Recorded(
        tuple(map(str, command)) if isinstance(command, list) else (),
        status if isinstance(status, int) else None,
    )
