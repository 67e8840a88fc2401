"""Shared memory objects that hold simulated memory: a new name, and what the dead left.

gem5 makes the object, and its name is removed as soon as gem5 has mapped it.  A gem5 that is
killed before that leaves the name behind, and the pages that it had touched.  The name carries
the number of the process, so that the next one knows whether it is still wanted.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where the kernel keeps shared memory objects
PREFIX = "gem5-validate-"


def own_name(folder: Path = SHARED_MEMORY) -> Path:
    """Return the name of this process's object."""
    return folder / f"{PREFIX}{os.getpid()}"


def remove_left(folder: Path = SHARED_MEMORY) -> None:
    """Remove the objects of this user whose processes are dead."""
    for path in folder.glob(f"{PREFIX}*"):
        number = path.name.removeprefix(PREFIX)
        with contextlib.suppress(OSError):  # removed meanwhile, or another user's process
            if number.isdecimal() and _is_own(path) and not _is_alive(int(number)):
                path.unlink()


def _is_own(path: Path) -> bool:
    found = path.lstat()
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    return True
