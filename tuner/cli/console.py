"""The console that tables are printed on: as wide as the terminal, and wide in a pipe."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH_OF_A_PIPE = 160
"""Columns when standard output is no terminal and COLUMNS is not set."""


def stdout_console() -> Console:
    """Return a console for standard output, without guesses about highlighting."""
    from rich.console import Console

    width = shutil.get_terminal_size((_WIDTH_OF_A_PIPE, 24)).columns
    return Console(width=width, highlight=False)
