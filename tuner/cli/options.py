"""Arguments and options that several commands share, so that they read alike everywhere."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder of a campaign.")]

OutputFile = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write to a file.")
]

TrialNumber = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="The trial of this number.")
]


class Threads(StrEnum):
    """How the threads of a trace are run."""

    BATON = "baton"
    FREE = "free"


class HugePages(StrEnum):
    """What becomes of transparent huge pages."""

    NEVER = "never"
    KEEP = "keep"
