"""What the help of a command says: what it does; below its options, examples and exit codes.

The meaning of an exit code is the first line of its error's docstring, so help,
documentation and code cannot drift apart.
"""

from collections.abc import Callable, Iterator, Mapping
from textwrap import indent
from typing import TypeVar

import typer

from tuner.errors import InterruptedCampaign, TunerError
from tuner.page import wrapped

_MARK = "help_of_command"
_Function = TypeVar("_Function", bound=Callable[..., None])

USUAL_EXIT_CODES = {
    0: "Success.",
    1: "A defect of malloc-tuner.",
    2: "A wrong command line.",
    InterruptedCampaign.exit_code: "Interrupted.",
}
"""Exit codes every command shares, beside those of its errors."""

_WIDTH = 78
"""Columns of an epilog: Click writes a help of 80, whatever the terminal, and indents it by two."""


def error_classes() -> Iterator[type[TunerError]]:
    """Yield every error of `tuner.errors`, by exit code."""
    yield from sorted(TunerError.__subclasses__(), key=lambda error: error.exit_code)


def meaning(error: type[TunerError]) -> str:
    """Return the sentence that explains an error class."""
    return (error.__doc__ or error.__name__).splitlines()[0]


def exit_codes() -> dict[int, str]:
    """Return every exit code of the command with its meaning, ascending."""
    return {error.exit_code: meaning(error) for error in error_classes()} | USUAL_EXIT_CODES


def exit_code_table(codes: Mapping[int, str]) -> str:
    """Write a table of exit codes; the control character keeps Typer from joining its lines."""
    lines = ["\b", "Exit codes:"]
    for code in sorted(codes):
        lines += wrapped(f"  {code:>3}  {codes[code]}", _WIDTH, others=" " * 7)
    return "\n".join(lines)


def epilog(
    *examples: str,
    errors: tuple[type[TunerError], ...] = (),
    meanings: Mapping[type[TunerError], str] | None = None,
) -> str:
    """Write the epilog of one command.

    Args:
        examples: command lines a user can copy, most common first; no line of them longer than
            76 columns, but one may go on in the next behind a backslash.
        errors: the errors this command is known for; the usual codes are always listed.
        meanings: of those that mean less here than their classes do.

    Returns:
        The examples and the table of exit codes.

    Example:
        >>> print(epilog("malloc-tuner doctor").split(chr(10))[2])
          malloc-tuner doctor
    """
    title = "Example:" if len(examples) == 1 else "Examples:"
    block = "\n".join(["\b", title, *(indent(example, "  ") for example in examples)])
    narrow = meanings or {}
    codes = USUAL_EXIT_CODES | {e.exit_code: narrow.get(e) or meaning(e) for e in errors}
    return f"{block}\n\n{exit_code_table(codes)}"


def subcommand(
    what: str,
    *examples: str,
    errors: tuple[type[TunerError], ...] = (),
    meanings: Mapping[type[TunerError], str] | None = None,
    **how: object,
) -> Callable[[_Function], _Function]:
    """Mark the function of a command with its help, which `add_command` gives to Typer.

    Args:
        what: what it does.
        examples: as of `epilog`.
        errors: as of `epilog`.
        meanings: as of `epilog`.
        how: what else Typer takes of a command.
    """

    def mark(function: _Function) -> _Function:
        vars(function)[_MARK] = {
            "help": what,
            "epilog": epilog(*examples, errors=errors, meanings=meanings),
            **how,
        }
        return function

    return mark


def add_command(app: typer.Typer, name: str, function: Callable[..., None]) -> None:
    """Add a function that `subcommand` has marked to an application or a group."""
    app.command(name, **vars(function)[_MARK])(function)
