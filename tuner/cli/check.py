"""`malloc-tuner check`: is each setting of an export in effect in a running process?"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.console import print_note
from tuner.cli.epilog import subcommand
from tuner.cli.options import AsJson
from tuner.errors import ProgramError, SettingError, SpecError
from tuner.limits import MOST_PID

if TYPE_CHECKING:  # reading the class imports what does the work; --help must not
    from tuner.service.check import InEffect

SCHEMA = "malloc-tuner.check"
VERSION = 1
"""Schema and version of the JSON output."""

_WORDS = {True: "in effect", False: "NOT in effect", None: "cannot be seen"}


def _process_id(text: str) -> int:
    """Return the id of a process; what is none is most likely the export, given first."""
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= MOST_PID):
        raise typer.BadParameter(
            f"{text} is no process id; it comes first, the export second: check PID EXPORT"
        )
    return int(text)


@subcommand(
    "Check an export's settings in a running process.",
    "malloc-tuner check $(pidof -s app) malloc.json",
    errors=(SpecError, SettingError, ProgramError),
)
def check(
    pid: Annotated[
        int, typer.Argument(parser=_process_id, metavar="PID", help="Process id of the program.")
    ],
    export: Annotated[
        Path, typer.Argument(metavar="EXPORT", help="File of `export --format json`.")
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Print what was looked at; exit code 6 when something is not in effect."""
    from tuner.service.check import check_process, load_expected

    findings = check_process(pid, load_expected(export))
    if as_json:
        print(_as_json(pid, findings))
    else:
        width = max(len(f"{one.what} {one.asked}") for one in findings) + 2
        for one in findings:
            why = f": {one.why}" if one.why else ""
            print(f"{f'{one.what} {one.asked}':<{width}}{_WORDS[one.is_in_effect]}{why}")
    wrong = [one.what for one in findings if one.is_in_effect is False]
    if wrong:
        raise SettingError(f"process {pid}: not in effect: {', '.join(wrong)}")
    unseen = [one.what for one in findings if one.is_in_effect is None]
    if unseen:
        print_note(f"process {pid}: cannot be seen, so not judged: {', '.join(unseen)}")


def _as_json(pid: int, findings: Sequence[InEffect]) -> str:
    found = [dataclasses.asdict(one) for one in findings]
    return json.dumps(
        {"schema": SCHEMA, "version": VERSION, "process": pid, "findings": found}, indent=2
    )
