"""Where commands print: a console for tables, and text that goes to a file on request."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.page import wrapped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tuner.cli.progress_bar import ProgressBar
    from tuner.optimize.answering.answer import Answer
    from tuner.report.grid import Grid


PAGE_WIDTH = 100
"""Columns of what people read, at most."""


def page_width() -> int:
    """Return the columns of a page: those of a terminal that is narrower than `PAGE_WIDTH`."""
    return min(PAGE_WIDTH, shutil.get_terminal_size((PAGE_WIDTH, 24)).columns)


def folded(line: str, hang: int) -> str:
    """Return a line as lines of a page.

    Args:
        line: its blanks are kept where it is not broken.
        hang: columns by which all but the first are indented.
    """
    return "\n".join(wrapped(line, page_width(), others=" " * hang))


def folded_note(line: str) -> str:
    """Return a line for standard error: lines of a page on a terminal, one in a log."""
    return folded(line, 2) if sys.stderr.isatty() else line


def print_answer(answer: Answer) -> None:
    """Print what the program itself proves, in as many columns as there are."""
    from tuner.optimize.answering.table import TABLE_WIDTH

    for line in answer.lines(min(TABLE_WIDTH, page_width())):
        print(line)


def stdout_console(table: Table | None = None) -> Console:
    """Return a console for standard output, wide enough for a table that is given.

    It shows text as it is: no guesses about highlighting, no markup, no emoji.
    """
    from rich.console import Console

    from tuner.report.terminal import width_for

    class StandardOutput(Console):
        def on_broken_pipe(self) -> None:
            """Leave a reader that went away to the command line; rich would exit with 1."""
            raise BrokenPipeError

    width = width_for(table)
    return StandardOutput(width=width, highlight=False, markup=False, emoji=False)


def print_grid(grid: Grid) -> None:
    """Print a table to standard output, and an empty line; a narrow terminal folds its heads."""
    from tuner.report.terminal import width_for

    table = grid.drawn()
    if width_for(table) > width_for():
        table = grid.drawn(is_folded=True)
    console = stdout_console(table)
    console.print(table)
    console.print()


def stderr_console() -> Console:
    """Return a console for standard error, which makes no emoji of figures between colons."""
    from rich.console import Console

    return Console(stderr=True, emoji=False)


def stderr_progress() -> ProgressBar:
    """Return a progress bar on standard error; where that is no terminal, lines now and then."""
    from tuner.cli.progress_bar import ProgressBar

    return ProgressBar(stderr_console())


def print_note(text: str) -> None:
    """Print what is to be known of the result, on standard error."""
    print(folded_note(f"malloc-tuner: {text}"), file=sys.stderr, flush=True)


def print_or_write(text: str, output: Path | None, *, executable: bool = False) -> None:
    """Print a finished text, or write it to a file and print which.

    Args:
        text: with its last line end.
        output: the file; None for standard output.
        executable: True adds the right to run it for all who may read it.

    Raises:
        OutputError: the file cannot be written.
    """
    from tuner.output import write_text

    if output is None:
        sys.stdout.write(text)
    else:
        write_text(output, text, executable=executable)
        if output.is_file():  # a device may be this very output
            print(f"wrote {output}")
