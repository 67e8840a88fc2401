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

from tuner.errors import OutputError, ProgramError, SpecError

if TYPE_CHECKING:  # imported when the command runs
    from collections.abc import Callable

    from tuner.recording import RecordedProcess, Recording
    from tuner.recording.window import WindowPlan


START, END = "start", "end"


@dataclass(frozen=True)
class WindowWords:
    """The options that say which part is recorded, as typed."""

    begin: str = START
    end: str = END
    ready: str | None = None
    at_most: str | None = None


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
    window: WindowWords = WindowWords()


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
    if not output or output.startswith("-") or output.endswith(("/", "/.")) or not command:
        return None
    return RecordCall(tuple(command), Path(output), flags["--follow"], flags["--force"])


def run(call: RecordCall) -> None:
    """Run the program, write its trace, and describe it on standard error.

    Raises:
        MissingToolError: the program does not exist.
        OutputError: a trace is there already, cannot be written, or holds only what was
            recorded until the disk was full.
        ProgramError: nothing was recorded, the program crashed, a process that it started went
            on in the background, or what --from waits for did not come.
        SpecError: the window is not understood.
    """
    from tuner.cli.programs import check_program
    from tuner.recording import record

    window = window_plan(call.window)
    check_program(call.command[0])
    recording = record(
        call.command, call.output, follow=call.follow, force=call.force, window=window
    )
    _report(recording, call)


def window_plan(words: WindowWords) -> WindowPlan:
    """Return the part that is wanted.

    Raises:
        SpecError: an option is not understood, or lacks another one.
    """
    from tuner.recording.window import READY, WHOLE, WindowPlan, parse_begin, parse_end
    from tuner.units import parse_size

    if words == WindowWords():
        return WHOLE
    begin, end = parse_begin(words.begin), parse_end(words.end)
    if (begin == READY) != (words.ready is not None):
        raise SpecError("--from ready and --ready CONDITION go together")
    at_most = parse_size(words.at_most) if words.at_most is not None else None
    is_ready = _condition(words.ready) if words.ready is not None else None
    return WindowPlan(begin, end, is_ready, at_most, _tell)


def _tell(sentence: str) -> None:
    print(f"malloc-tuner: {sentence}", file=sys.stderr, flush=True)


def _condition(ready: str) -> Callable[[], bool]:
    import os
    from subprocess import DEVNULL

    from tuner.measure.process import Processes
    from tuner.service.readiness import check_ready, probe_of

    check_ready(ready)
    if ready.startswith("line:"):
        message = f"--ready {ready}: record does not see what the program prints; give tcp:PORT, "
        message += "http://HOST:PORT/PATH or command:COMMAND"
        raise SpecError(message)

    def succeeds(command: str) -> bool:
        done = Processes().run(
            ("sh", "-c", command), environment=os.environ, timeout_s=_READY_S,
            stdout=DEVNULL, stderr=DEVNULL,
        )  # fmt: skip
        return done.exit_status == 0

    return probe_of(ready, Path(), succeeds)


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

_READY_S = 5.0
"""Limit of one command that asks whether the program is ready."""


def _print_traces(processes: Sequence[RecordedProcess]) -> None:
    from tuner.recording.explain import killed_at_start

    for process in processes:
        print(_line(process, is_one_of_several=len(processes) > 1), file=sys.stderr)
        if process.replaced:
            print(f"  (before that it ran {', '.join(process.replaced)}: not in the trace)",
                  file=sys.stderr)  # fmt: skip
    if killed := killed_at_start(processes):
        print(f"malloc-tuner: {killed}", file=sys.stderr)


def _report(recording: Recording, call: RecordCall) -> None:
    """Print a line for every trace; raise for a crash or an incomplete trace."""
    from tuner.recording.explain import few_events, stopped_early, went_on

    program = call.command[0]
    _print_traces(recording.processes)
    if call.window.at_most and any(process.is_cut for process in recording.processes):
        print("malloc-tuner: recording ended before the program: by --to, or at --at-most "
              f"{call.window.at_most}", file=sys.stderr)  # fmt: skip
    ending = recording.ending
    if stopped := stopped_early(recording.processes):
        raise OutputError(f"{stopped}; the program {ending}")
    if ending.is_crash:
        raise ProgramError(f"{program} {ending}; {ending.what_is_left}")
    if recording.missed is not None:
        raise ProgramError(f"{call.output}: {recording.missed}")
    if recording.background:
        raise ProgramError(went_on(call.command, recording.background))
    n_events = sum(process.totals.n_events for process in recording.processes)
    if few := few_events(call.command, n_events, follow=call.follow):
        print(f"malloc-tuner: {few}", file=sys.stderr)
    if ending.exit_status != 0:
        print(f"malloc-tuner: {program} {ending}; {ending.what_is_left}", file=sys.stderr)
    busiest = max(recording.processes, key=lambda process: process.totals.n_events)
    trace = str(busiest.path)
    word = f"./{trace}" if trace.startswith("-") else trace  # else it is an option
    print(f"next: malloc-tuner tune {shlex.quote(word)}", file=sys.stderr)
