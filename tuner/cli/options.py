"""Arguments and options that several commands share, so that they read alike everywhere."""

import contextlib
import fcntl
import os
import stat
import sys
import termios
from collections.abc import Collection, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.bounds import number
from tuner.errors import SpecError
from tuner.limits import MOST_NUMBER
from tuner.output import file_to_write
from tuner.page import series
from tuner.registry import ALLOCATORS as KNOWN_ALLOCATORS
from tuner.registry import DEFAULT_ALLOCATORS, EXECUTORS

ALLOCATORS = ",".join(DEFAULT_ALLOCATORS)
"""Default of options that name allocators."""

KINDS = f"NAME is {series(KNOWN_ALLOCATORS, 'or')}; PATH is your own build of it."
"""What options that take ``NAME[:PATH],...`` say of it."""

RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="Run folder of `tune` or `optimize`.")
]

MEASURED = "Run folder of `tune` or `optimize`, or of `validate` of a service."

MeasuredFolder = Annotated[Path, typer.Argument(metavar="RUN", help=MEASURED)]

OutputFile = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", parser=file_to_write, help="Write to a file."),
]

NewTrace = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FILE", parser=file_to_write, help="The trace to write."
    ),
]

Force = Annotated[bool, typer.Option("--force", help="Replace a trace that exists.")]

SETTING = "'ALLOCATOR NAME=VALUE ...'"
SETTING_HELP = "A setting, such as 'jemalloc narenas=2 dirty_decay_ms=500'; repeatable."

Settings = Annotated[list[str] | None, typer.Option(metavar=SETTING, help=SETTING_HELP)]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]

Executor = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="local (the default), or for many machines dask or slurm.",
        autocompletion=lambda: list(EXECUTORS),
    ),
]

Scheduler = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Address of Dask's scheduler, such as tcp://host:8786."),
]

TrialNumber = Annotated[int | None, number(0, MOST_NUMBER, "The trial of this number.")]


ValidationNumber = Annotated[
    int | None,
    number(1, MOST_NUMBER, "Validation to use; default: the last of the recorded program."),
]


def chosen_form(
    form: str | None,
    by_ending: Mapping[str, str],
    output: Path | None,
    default: str,
    *,
    is_json: bool,
) -> str:
    """Return the value of --format, for which --json is short.

    Args:
        form: what is given; None: nothing.
        by_ending: ending of a file, in lower case -> the form that it has then.
        output: the file; None for standard output.
        default: the form of any other file, and of standard output.
        is_json: --json is given.
    """
    if is_json and form not in {None, "json"}:
        raise typer.BadParameter("give one of --format and --json")
    ending = output.suffix.lower() if output else ""
    return "json" if is_json else form or by_ending.get(ending, default)


def refuse_input() -> None:
    """Refuse what waits on standard input: the program runs many times, and would not see it.

    Raises:
        SpecError: says how to pass it on.
    """
    with contextlib.suppress(OSError, ValueError):
        descriptor = sys.stdin.fileno()
        found = os.fstat(descriptor)
        n_bytes = found.st_size if stat.S_ISREG(found.st_mode) else 0
        if stat.S_ISFIFO(found.st_mode):
            waiting = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
            n_bytes = int.from_bytes(waiting, sys.byteorder)
        if n_bytes:
            raise SpecError(
                "standard input is not passed on to the program, which runs many times: let a "
                "shell open a file in every run: -- sh -c 'exec ./app < FILE'"
            )


class Threads(StrEnum):
    """How the threads of a trace are run."""

    BATON = "baton"
    FREE = "free"


class HugePages(StrEnum):
    """What becomes of transparent huge pages."""

    NEVER = "never"
    KEEP = "keep"


Thp = Annotated[
    HugePages, typer.Option(help="Transparent huge pages: as the machine is set, or off.")
]


class InapplicableOption(typer.BadParameter):
    """An option was given that this form of the command would ignore; exit code 2."""

    def format_message(self) -> str:
        """Return the message alone, without "Invalid value"."""
        return self.message


def given_options(context: typer.Context) -> list[str]:
    """Return the options on the command line, as ``--name``, in the order of the help.

    What comes from a variable of the environment or from a default is none.
    """
    names = []
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        is_given = source is not None and source.name == "COMMANDLINE"
        if is_given and parameter.param_type_name == "option":
            names.append(max(parameter.opts, key=len))
    return names


def refuse_options(context: typer.Context, names: Collection[str], why: str) -> None:
    """Refuse options that this form of a command would ignore.

    Args:
        context: of the command that runs.
        names: options that do not apply, as ``--name``.
        why: completes "--name does not apply", such as ``with --print``.

    Raises:
        InapplicableOption: one of them is on the command line.
    """
    found = [name for name in given_options(context) if name in names]
    if found:
        verb = "does" if len(found) == 1 else "do"
        raise InapplicableOption(f"{', '.join(found)} {verb} not apply {why}", ctx=context)


def allow_options(context: typer.Context, names: Collection[str], why: str) -> None:
    """Refuse every option but these, see `refuse_options`: a new option applies nowhere."""
    refuse_options(context, set(given_options(context)) - set(names), why)


def allocator_names(text: str) -> tuple[str, ...]:
    """Return the allocators of a list.

    Raises:
        SpecError: it names none.
    """
    return given_names("--allocators", text, "glibc")


def given_names(option: str, text: str, example: str) -> tuple[str, ...]:
    """Return the names that an option has.

    Raises:
        SpecError: it has none.
    """
    names = split_names(text)
    if not names:
        raise SpecError(f"{option} {text!r}: name one, such as {example}")
    return names


def split_names(text: str) -> tuple[str, ...]:
    """Return the names of a list such as ``mean_heap,cost``, each once, in order."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
