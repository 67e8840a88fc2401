"""The command `malloc-tuner`: assembles the commands and turns errors into exit codes.

Every command lives in a module of its own with a function `register`.  The
modules import at the top only what their options need; what does the work is
imported by the command when it runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import errno
import io
import os
import platform
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import tuner
from tuner.cli import (
    bench,
    doctor,
    emulate,
    export,
    fidelity,
    fit,
    front,
    import_,
    link_advice,
    pick,
    presets,
    record,
    report,
    trace,
    tune,
    validate,
    vary,
)
from tuner.cli.epilog import exit_code_table, exit_codes
from tuner.errors import OutputError, TunerError

MODULES = (
    record,
    import_,
    trace,
    fit,
    vary,
    fidelity,
    emulate,
    tune,
    front,
    pick,
    validate,
    report,
    export,
    presets,
    link_advice,
    bench,
    doctor,
)
"""The commands' modules, in the order of use."""

COMMANDS = tuple(
    module.__name__.rpartition(".")[2].rstrip("_").replace("_", "-") for module in MODULES
)
"""Names of the commands and groups, in the order of the help."""

DEBUG_VARIABLE = "MALLOC_TUNER_DEBUG"
"""Set to 1 to see the traceback of a defect."""

_HELP = """\
Find the malloc, and its settings, that use the least memory for the least work.

Record a program's allocations, tune in emulation, prove it on the program:

\b
  malloc-tuner record -o app.trace -- ./app --its arguments
  malloc-tuner tune app.trace --evaluations 300 -o runs/app
  malloc-tuner validate runs/app -- ./app --its arguments
  malloc-tuner report runs/app
  malloc-tuner export runs/app --pick balanced --format env > malloc.env

`malloc-tuner COMMAND --help` shows examples and the exit codes of a command;
`malloc-tuner doctor` tells what this machine offers.
"""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"malloc-tuner {tuner.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Take the options that stand before a command."""


class _InOrderOfUse(TyperGroup):
    """Lists the commands as `COMMANDS` has them; left alone, Typer puts groups last."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - the base class's
        return [name for name in COMMANDS if name in self.commands]


def _usual_name(name: str) -> str:
    """Return the name under which an option stands in the help; other words stay as they are."""
    return {"allocator": "allocators"}.get(name, name)


def build_app() -> typer.Typer:
    """Assemble the application from the modules in `COMMANDS`."""
    app = typer.Typer(
        name="malloc-tuner",
        cls=_InOrderOfUse,
        no_args_is_help=True,
        rich_markup_mode=None,  # plain text: brackets stay as they are, and --help is fast
        pretty_exceptions_enable=False,
        context_settings={
            "help_option_names": ["-h", "--help"],
            "token_normalize_func": _usual_name,
        },
    )
    app.callback(help=_HELP, epilog=exit_code_table(exit_codes()))(_options)
    for module in MODULES:
        module.register(app)
    return app


def _report_defect(error: Exception) -> None:
    """Tell the user that this is our fault, and what to send us."""
    if os.environ.get(DEBUG_VARIABLE) == "1":
        traceback.print_exc()
    last = traceback.extract_tb(error.__traceback__)[-1]
    print(
        f"malloc-tuner: defect: {type(error).__name__}: {error}\n"
        f"  at {last.filename}:{last.lineno}; malloc-tuner {tuner.__version__}, "
        f"Python {platform.python_version()}, {platform.platform()}\n"
        f"  Please report it with these lines and the output of the same command "
        f"under {DEBUG_VARIABLE}=1, which adds the traceback.",
        file=sys.stderr,
    )


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        arguments: the words after the program's name; None takes them from the
            command line.
    """
    _pass_names_through()
    code = _run(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _abandon_stdout()
    except OSError as error:
        _abandon_stdout()
        return code or _report_full_output(error)
    return code


def _run(arguments: Sequence[str] | None) -> int:
    try:
        build_app()(args=arguments, prog_name="malloc-tuner")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except TunerError as error:
        print(f"malloc-tuner: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _abandon_stdout()
        return 0
    except Exception as error:  # noqa: BLE001 - the one place where a defect ends
        return _ended_by(error)
    return 0


def _pass_names_through() -> None:
    """Let names of files that are no text leave as the bytes they came as."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")


def _ended_by(error: Exception) -> int:
    """Report what no command expects, and return the exit code: output is full, or a defect."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC and not error.filename:
        _abandon_stdout()
        return _report_full_output(error)
    _report_defect(error)
    return 1


def _report_full_output(error: OSError) -> int:
    """Say that what was to be printed is lost; returns the exit code."""
    message = f"standard output: cannot be written ({error.strerror})"
    print(f"malloc-tuner: {message}", file=sys.stderr)
    return OutputError.exit_code


def _open_closed_streams() -> None:
    """Let what is printed go nowhere if the caller closed the stream (``>&-``).

    Python then has None in its place, and the next file that is opened would get its number.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(descriptor, "r" if name == "stdin" else "w"))


def _abandon_stdout() -> None:
    """Stop writing to a reader that went away (``| head``), also at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Run the command line and exit; SIGTERM counts as Ctrl-C, so that no child outlives it."""
    _open_closed_streams()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(run())


if __name__ == "__main__":
    main()
