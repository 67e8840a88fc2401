"""Say why the program of a command cannot be run, before anything else is done with it."""

import os
import re
import shlex
import shutil
from pathlib import Path

from tuner.errors import MissingToolError


def check_program(program: str, nor: str = "") -> None:
    """Check that there is a program.

    Args:
        program: first word of the command.
        nor: what else it might have been.

    Raises:
        MissingToolError: there is none; the message says what to give instead.
    """
    if shutil.which(program) is not None:
        return
    message = f"{program}: no such program{nor}"
    first, *further = program.split() or [""]
    if further and shutil.which(first):
        needs_shell = re.search(r"[|&;<>$()]", program)
        rest = f"sh -c {shlex.quote(program)}" if needs_shell else program
        how = "to a shell" if needs_shell else "without quotes"
        message = f"{program!r}: is one word; give the command {how}: -- {rest}"
    if Path(program).is_file():
        word = shlex.quote(program)
        message = (
            f"{program}: not executable; if it is a script, give its interpreter too: "
            f"-- INTERPRETER {word}; if it is a trace, `malloc-tuner tune {word}` searches "
            "with it"
        )
        if os.access(program, os.X_OK):
            message = f"{program}: not in PATH; give ./{program}"
    raise MissingToolError(message)
