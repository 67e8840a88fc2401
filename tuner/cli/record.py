"""`malloc-tuner record`: run a program and write the trace of its allocations."""

from typing import Annotated

import typer

from tuner.cli import record_run
from tuner.cli.bounds import within
from tuner.cli.epilog import subcommand
from tuner.cli.options import Force, NewTrace
from tuner.cli.record_run import END, START
from tuner.errors import MissingToolError, OutputError, ProgramError, SpecError
from tuner.limits import DISK

_WINDOW = "Options for a part of the run"


@subcommand(
    "Run a program and write the trace of its allocations. Exit code 0 means that the "
    "trace is complete; the program's own exit status is printed and kept in the trace.",
    "malloc-tuner record -o app.trace -- ./app --its arguments",
    "malloc-tuner record --follow -o build.trace -- g++ -O2 -c big.cc",
    "malloc-tuner record --follow --ready tcp:8080 --from ready --to 5min \\\n"
    "  --at-most 2GiB -o app.trace -- ./server",
    errors=(MissingToolError, ProgramError, OutputError, SpecError),
    meanings={ProgramError: "The program crashed or went on alone, or nothing of it was recorded."},
    context_settings={"allow_interspersed_args": False},
)
def record(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND [ARGUMENTS]...")],
    output: NewTrace,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", help="Record the children too, one trace per process.")
    ] = False,
    force: Force = False,
    begin: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="start|ready|signal|TIME",
            help="When the trace begins, with the blocks that live then: when --ready holds, "
            "at SIGUSR1 to this command, or so long after the start.",
            rich_help_panel=_WINDOW,
        ),
    ] = START,
    end: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="end|stop|signal|TIME",
            help="When it ends: with the program, when this command is to stop it "
            "(SIGTERM, Ctrl-C), at the next SIGUSR1, or so long after its beginning.",
            rich_help_panel=_WINDOW,
        ),
    ] = END,
    ready: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="When the program is ready: tcp:PORT, http://HOST:PORT/PATH or command:COMMAND.",
            rich_help_panel=_WINDOW,
        ),
    ] = None,
    at_most: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            callback=within(DISK),
            help="Stop recording, not the program, when this much of the window is on disk; "
            "before the window begins, as much again.",
            rich_help_panel=_WINDOW,
        ),
    ] = None,
) -> None:
    """Run the program with the recorder in it."""
    window = record_run.WindowWords(begin, end, ready, at_most)
    record_run.run(record_run.RecordCall(tuple(command), output, follow, force, window))
