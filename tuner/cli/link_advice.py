"""`malloc-tuner link-advice`: which of exgen's two libraries a program may be linked with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuner.cli.epilog import epilog
from tuner.cli.options import refuse_options
from tuner.errors import BinaryError, MissingToolError, ThreadedVerdict, UnknownVerdict

if TYPE_CHECKING:  # reading the classes imports pyelftools; --help must not
    from tuner.link.advice import Advice, Reason

SCHEMA = "malloc-tuner.link-advice"
VERSION = 1
"""Schema and version of the JSON output."""

_VERDICTS = {
    "single": "libexgen-st.so is safe: it cannot have a second thread",
    "threaded": "libexgen.so is needed: it can start threads",
    "unknown": "cannot know whether it starts threads; libexgen.so is the safe choice",
}


def as_json(advice: Advice) -> str:
    """Write the advice as one JSON object."""
    value: dict[str, Any] = {
        "schema": SCHEMA,
        "version": VERSION,
        "program": str(advice.program),
        "is_program": advice.is_program,
        "verdict": advice.verdict.value,
        "library": advice.library,
        "reasons": [
            {
                "object": str(reason.path),
                "symbol": reason.symbol,
                "verdict": reason.verdict.value,
                "text": reason.text,
                "via": reason.via,
            }
            for reason in advice.reasons
        ],
        "not_counted": advice.not_counted,
        "notes": advice.notes,
        "objects": [str(path) for path in advice.objects],
    }
    return json.dumps(value, indent=2)


def _reason_lines(advice: Advice) -> list[str]:
    """Write what led to the verdict, one line per file."""
    counting = [reason for reason in advice.reasons if reason.verdict is advice.verdict]
    lines = []
    for path in dict.fromkeys(reason.path for reason in counting):
        ours = [reason for reason in counting if reason.path == path]
        line = "; ".join(f"{path} {reason.text}" for reason in ours if reason.symbol is None)
        lines += [line] if line else []
        lines += _symbol_line(path, [reason for reason in ours if reason.symbol])
    return lines


def _symbol_line(path: Path, reasons: list[Reason]) -> list[str]:
    if not reasons:
        return []
    first, *others = reasons
    to = "to " if first.text.startswith("refers to ") else ""
    more = f", and {to}{', '.join(str(reason.symbol) for reason in others)}" if others else ""
    via = f"; {first.via}" if first.via else ""
    return [f"{path} {first.text}{more}{via}"]


def as_text(advice: Advice) -> str:
    """Write the advice for people."""
    lines = [f"{advice.program}: {_VERDICTS[advice.verdict.value]}"]
    blocks = {
        "because": _reason_lines(advice),
        "not counted": advice.not_counted,
        "note": advice.notes,
    }
    for title, texts in blocks.items():
        if texts:
            lines += [title, *(f"  {text}" for text in texts)]
    n_objects = len(advice.objects)
    lines.append(f"{n_objects} file{'s'[: n_objects > 1]} examined")
    return "\n".join(lines)


def _exit_code(advice: Advice) -> int:
    """Return the exit code of a verdict; an answer is no error and needs no message."""
    errors = {"threaded": ThreadedVerdict, "unknown": UnknownVerdict}
    error = errors.get(advice.verdict.value)
    return 0 if error is None else error.exit_code


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command(
        "link-advice",
        help="Check which of the two exgens is safe to link with.",
        epilog=epilog(
            "malloc-tuner link-advice ./app",
            "cc -o app app.o -L$EXGEN -l$(malloc-tuner link-advice --choose ./app-plain)",
            errors=(MissingToolError, BinaryError, ThreadedVerdict, UnknownVerdict),
        ),
    )
    def link_advice(
        context: typer.Context,
        program: Annotated[
            Path, typer.Argument(metavar="BINARY", help="A linked program, or a shared library.")
        ],
        as_json_object: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
        choose: Annotated[
            bool,
            typer.Option(
                "--choose",
                help="Print only the name to link with, exgen-st or exgen; exit with 0 for both.",
            ),
        ] = False,
    ) -> None:
        from tuner.link.advice import advise

        if choose:
            refuse_options(context, {"--json"}, "with --choose, which prints one word")

        advice = advise(program)
        if choose:
            print(advice.library)
            return
        print(as_json(advice) if as_json_object else as_text(advice))
        raise typer.Exit(_exit_code(advice))
