"""`malloc-tuner link-advice`: which of exgen's two libraries a program may be linked with."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.epilog import subcommand
from tuner.cli.options import AsJson, refuse_options
from tuner.errors import BinaryError, MissingToolError, ThreadedVerdict, UnknownVerdict

if TYPE_CHECKING:  # reading the class imports pyelftools; --help must not
    from tuner.link.advice import Advice

SCHEMA = "malloc-tuner.link-advice"
VERSION = 2
"""Schema and version of the JSON output."""

_VERDICTS = {
    "single": "libexgen-st.so is safe: it cannot have a second thread",
    "threaded": "libexgen.so is needed: it can start threads",
    "unknown": "libexgen.so is the safe choice: it may start threads",
}
_EXIT_CODES = {
    "single": 0,
    "threaded": ThreadedVerdict.exit_code,
    "unknown": UnknownVerdict.exit_code,
}


def as_json(advice: Advice) -> str:
    """Write the advice as one JSON object."""
    head = {"schema": SCHEMA, "version": VERSION, "library": advice.library}
    return json.dumps({**head, **asdict(advice)}, indent=2, default=str)


def as_text(advice: Advice) -> str:
    """Write the advice for people."""
    lines = [f"{advice.program}: {_VERDICTS[advice.verdict]}"]
    lines += [f"  {r.path} {r.text}" for r in advice.reasons if r.verdict is advice.verdict]
    if not advice.is_program:
        lines.append("  this is a library: examine the programs that load it too")
    return "\n".join(lines)


@subcommand(
    "Check which of the two exgens is safe to link with.",
    "malloc-tuner link-advice ./app",
    "cc -o app app.o -L$EXGEN -l$(malloc-tuner link-advice --choose ./app-plain)",
    errors=(MissingToolError, BinaryError, ThreadedVerdict, UnknownVerdict),
)
def link_advice(
    context: typer.Context,
    program: Annotated[
        Path, typer.Argument(metavar="BINARY", help="A linked program, or a shared library.")
    ],
    as_json_object: AsJson = False,
    choose: Annotated[
        bool,
        typer.Option(
            "--choose",
            help="Print only the name to link with, exgen-st or exgen; exit with 0 for both.",
        ),
    ] = False,
) -> None:
    """Print which library to link with, and why."""
    from tuner.link.advice import advise

    if choose:
        refuse_options(context, {"--json"}, "with --choose, which prints one word")
    advice = advise(program)
    if choose:
        print(advice.library)
        return
    print(as_json(advice) if as_json_object else as_text(advice))
    raise typer.Exit(_EXIT_CODES[advice.verdict])
