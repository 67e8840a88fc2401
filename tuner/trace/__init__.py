"""Allocation traces: read and write them, describe them, thin them out."""

import shlex
from pathlib import Path
from typing import Final

MAGIC: Final = b"\x93MTTRC\r\n"
"""First bytes of a trace; TRACE_MAGIC of ``rand_malloc/trace/format.h``."""
SPOOL_SUFFIX: Final = ".spool"
"""``app.trace.spool`` is the folder in which the recording of ``app.trace`` is until it ends."""


def recovery(spool: Path, output: Path) -> str:
    """Return the command that builds the trace of an unfinished recording, for a message."""
    return f"`malloc-tuner trace recover {shlex.quote(str(spool))} -o {shlex.quote(str(output))}`"
