"""Where commands print: a console for tables, and text that goes to a file on request."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tuner.cli.progress_bar import ProgressBar


def stdout_console(table: Table | None = None) -> Console:
    """Return a console for standard output, wide enough for a table that is given.

    It makes no guesses about highlighting.
    """
    from rich.console import Console

    from tuner.report.terminal import width_for

    return Console(width=width_for(table), highlight=False)


def stderr_progress() -> ProgressBar:
    """Return a progress bar on standard error; where that is no terminal, lines now and then."""
    from rich.console import Console

    from tuner.cli.progress_bar import ProgressBar

    return ProgressBar(Console(stderr=True))


def tell_what_lacks(trace: Path) -> None:
    """Say on standard error what a trace lacks of its program's run, if anything.

    Raises:
        TraceError: the trace cannot be read.
    """
    from tuner.trace.file import Trace

    with Trace(trace) as opened:
        if not opened.totals.is_complete:
            print(
                f"malloc-tuner: {trace}: the file was cut off; "
                "what follows covers its readable part only",
                file=sys.stderr,
            )
        elif opened.totals.lacks and not opened.is_low_fidelity:
            print(f"malloc-tuner: {trace}: {opened.totals.lacks}", file=sys.stderr)


def tell_if_guessed(workload: Path) -> None:
    """Say on standard error that a workload is of low fidelity, if it is.

    Raises:
        TraceError: the workload cannot be read.
    """
    from tuner.profile.trust import caveat
    from tuner.trace.file import Trace

    with Trace(workload) as opened:
        said = caveat(opened)
    if said:
        print(f"malloc-tuner: {workload}: {said}", file=sys.stderr)


def print_or_write(text: str, output: Path | None, *, executable: bool = False) -> None:
    """Print a finished text, or write it to a file.

    Args:
        text: with its last line end.
        output: the file; None for standard output.
        executable: True lets everybody run the file who may read it.

    Raises:
        OutputError: the file cannot be written.
    """
    from tuner.output import write_text

    if output is None:
        sys.stdout.write(text)
    else:
        write_text(output, text, executable=executable)
