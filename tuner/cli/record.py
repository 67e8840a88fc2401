"""`malloc-tuner record`: run a program and write the trace of its allocations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli import record_run
from tuner.cli.epilog import epilog
from tuner.errors import MissingToolError, OutputError, ProgramError


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command(
        "record",
        help=(
            "Run a program and write the trace of its allocations. Exit code 0 means that the "
            "trace is complete; the program's own exit status is printed and kept in the trace."
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
        force: Annotated[
            bool, typer.Option("--force", help="Replace a trace that exists.")
        ] = False,
    ) -> None:
        record_run.run(record_run.RecordCall(tuple(command), output, follow, force))
