"""Allocation traces: read and write them, describe them, thin them out."""

import os
import shlex
import stat
from pathlib import Path
from typing import Final

MAGIC: Final = b"\x93MTTRC\r\n"
"""First bytes of a trace; TRACE_MAGIC of ``rand_malloc/trace/format.h``."""
SPOOL_SUFFIX: Final = ".spool"
"""``app.trace.spool`` is the folder in which the recording of ``app.trace`` is until it ends."""

_NAME_BYTES = 200
"""What a name may have beside a mark of what it is, of the 255 bytes of a file system; of its end,
where the traces of one recording differ."""


def place_while_written(path: Path) -> Path:
    """Return where a trace is until it is whole; what is no file, such as a device, is opened."""
    try:
        if path.exists() and not path.is_file():
            return path
    except OSError:  # opening it says why
        return path
    name = os.fsdecode(os.fsencode(path.name)[-_NAME_BYTES:])
    return path.with_name(f".{name}.{os.getpid()}")


def put_in_place(written: Path, place: Path) -> None:
    """Give a whole trace its name, and the mode of what it replaces."""
    if place.is_file():
        written.chmod(stat.S_IMODE(place.stat().st_mode))
    written.replace(place)


def recovery(spool: Path, output: Path) -> str:
    """Return the command that builds the trace of an unfinished recording, for a message."""
    return f"`malloc-tuner trace recover {shlex.quote(str(spool))} -o {shlex.quote(str(output))}`"
