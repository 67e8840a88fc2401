"""What `malloc-tuner record` does, and a parser for the plain calls of it.

Free of Typer: see `tuner.cli.main`.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.errors import OutputError, ProgramError

if TYPE_CHECKING:  # imported when the command runs
    from tuner.recording import RecordedProcess, Recording


@dataclass(frozen=True)
class RecordCall:
    """The words of one call of `record`."""

    command: tuple[str, ...]
    """Program and arguments, at least one word."""
    output: Path
    """The trace to write."""
    follow: bool = False
    """Record the children too."""
    force: bool = False
    """Replace a trace that is there."""


def parse_plain(words: Sequence[str]) -> RecordCall | None:
    """Parse a call of `record` that is right and has no other option than its own.

    Args:
        words: of the command line, without the name of the program.

    Returns:
        None where anything is unusual: Typer's parser then explains what.
    """
    if not words or words[0] != "record":
        return None
    output = None
    flags = {"--follow": False, "--force": False}
    rest: Iterator[str] = iter(words[1:])
    command: list[str] = []
    for word in rest:
        if word in ("-o", "--output"):
            output = next(rest, "-")
        elif word.startswith("--output="):
            output = word.removeprefix("--output=")
        elif word in flags:
            flags[word] = True
        elif word == "--":
            command = list(rest)
        elif word.startswith("-"):
            return None
        else:
            command = [word, *rest]
    if not output or output.startswith("-") or not command:
        return None
    return RecordCall(tuple(command), Path(output), flags["--follow"], flags["--force"])


def run(call: RecordCall) -> None:
    """Run the program, write its trace, and describe it on standard error.

    Raises:
        MissingToolError: the program does not exist.
        OutputError: a trace is there already, cannot be written, or holds only what was
            recorded until the disk was full.
        ProgramError: nothing was recorded, or the program crashed.
    """
    from tuner.recording import record

    recording = record(call.command, call.output, follow=call.follow, force=call.force)
    _report(recording, call.command[0], follow=call.follow)


def _line(process: RecordedProcess, *, is_one_of_several: bool) -> str:
    """Describe one trace; of several, each by what its process calls itself, or was started as."""
    from tuner.units import show_size

    totals = process.totals
    per_event = process.file_bytes / max(1, totals.n_events)
    return (
        f"{process.path}: {totals.n_events:,} events, {totals.n_threads} "
        f"thread{'s'[: totals.n_threads > 1]}, peak live {show_size(totals.peak_live_bytes)}, "
        f"{show_size(process.file_bytes)} on disk ({per_event:.2f} bytes an event)  "
        f"{_name(process) if is_one_of_several else shlex.join(process.argv[:1])}"
    )


def _name(process: RecordedProcess) -> str:
    words = process.title or shlex.join(process.argv)
    if len(words) > _NAME_CHARACTERS:
        words = words[: _NAME_CHARACTERS - 3] + "..."
    return f"{words} (pid {process.pid})"


_NAME_CHARACTERS = 60
_FEW_EVENTS = 2_000
"""Above what shells and other starters make themselves: a script of bash with a few commands
1,324, `perl -e 'system ...'` 1,368, timeout 262, dash 47 (Debian 12)."""


def _report(recording: Recording, program: str, *, follow: bool) -> None:
    """Print a line for every trace; raise for a crash or an incomplete trace."""
    for process in recording.processes:
        print(_line(process, is_one_of_several=len(recording.processes) > 1), file=sys.stderr)
        if process.replaced:
            print(f"  (before that it ran {', '.join(process.replaced)}: not in the trace)",
                  file=sys.stderr)  # fmt: skip
    ending = recording.ending
    stopped = next((p for p in recording.processes if p.stopped), None)
    if stopped is not None:
        message = (
            f"{stopped.path}: recording stopped early: {stopped.stopped}; the trace holds "
            f"what was recorded until then, the program {ending}"
        )
        raise OutputError(message)
    if ending.is_crash:
        message = f"{program} {ending}; its trace is good up to the crash"
        raise ProgramError(message)
    if not follow and sum(p.totals.n_events for p in recording.processes) < _FEW_EVENTS:
        print(f"malloc-tuner: these are few events; if {program} starts the program that does "
              "the work, record that one too, with --follow", file=sys.stderr)  # fmt: skip
    if ending.exit_status != 0:
        print(f"malloc-tuner: {program} {ending}; its trace is complete", file=sys.stderr)
