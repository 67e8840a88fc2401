"""`malloc-tuner record`: run a program and write the trace of its allocations."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.epilog import epilog
from tuner.errors import MissingToolError, OutputError, ProgramError

if TYPE_CHECKING:  # the command imports what does the work when it runs
    from tuner.workload.recording import RecordedProcess, Recording


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
    """Tell of every trace, and raise what must not pass unseen."""
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


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command(
        "record",
        help=(
            "Run a program and write the trace of its allocations. The program's own exit status "
            "is reported and kept in the trace, and is not that of this command: 0 means that "
            "the trace is there and complete."
        ),
        epilog=epilog(
            "malloc-tuner record -o app.trace -- ./app --its arguments",
            "malloc-tuner record --follow -o build.trace -- g++ -O2 -c big.cc",
            errors=(MissingToolError, ProgramError, OutputError),
        ),
        context_settings={"allow_interspersed_args": False},
    )
    def record(
        command: Annotated[list[str], typer.Argument(metavar="COMMAND [ARGUMENTS]...")],
        output: Annotated[
            Path, typer.Option("--output", "-o", metavar="FILE", help="The trace to write.")
        ],
        follow: Annotated[
            bool,
            typer.Option("--follow", help="Record the children too, one trace per process."),
        ] = False,
    ) -> None:
        from tuner.workload.recording import record as run_and_record

        _report(run_and_record(command, output, follow=follow), command[0], follow=follow)
