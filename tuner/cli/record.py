"""`malloc-tuner record`: run a program and write the trace of its allocations."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.epilog import epilog
from tuner.errors import MissingToolError, OutputError, ProgramError

if TYPE_CHECKING:  # reading the classes imports numpy; --help must not
    from tuner.workload.recording import RecordedProcess, Recording


def _line(process: RecordedProcess) -> str:
    """Tell of one trace."""
    from tuner.units import show_size

    totals = process.totals
    per_event = process.file_bytes / max(1, totals.n_events)
    return (
        f"{process.path}: {totals.n_events:,} events, {totals.n_threads} "
        f"thread{'s'[: totals.n_threads > 1]}, peak live {show_size(totals.peak_live_bytes)}, "
        f"{show_size(process.file_bytes)} on disk ({per_event:.2f} bytes an event)  "
        f"{shlex.join(process.argv[:1])}"
    )


_FEW_EVENTS = 10_000
"""Less is made by a shell that starts the program proper, hardly by a program worth tuning."""


def _report(recording: Recording, program: str, *, follow: bool) -> None:
    """Tell of every trace, and raise what must not pass unseen."""
    for process in recording.processes:
        print(_line(process), file=sys.stderr)
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
        message = f"{program} {ending}; its trace is complete up to the crash"
        raise ProgramError(message)
    if not follow and sum(p.totals.n_events for p in recording.processes) < _FEW_EVENTS:
        print(f"malloc-tuner: these are few events; if {program} starts the program that does "
              "the work, record that one too, with --follow", file=sys.stderr)  # fmt: skip
    if ending.exit_status != 0:
        print(f"malloc-tuner: {program} {ending}; its trace is good", file=sys.stderr)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command(
        "record",
        help="Run a program and write the trace of its allocations.",
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
