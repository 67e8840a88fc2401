"""Processes: what a small one prints; others by their environment, to see that none is left."""

import contextlib
import subprocess
import sys
import time
from pathlib import Path

_LIMIT_S = 60.0


def printed_by(code: str) -> str:
    """Return what a Python of its own prints of some code, without the end of the last line."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def processes_with(mark: str) -> list[int]:
    """Return the processes whose environment holds a text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


def is_soon_gone(mark: str) -> bool:
    """Wait until no process has a text in its environment; False if one keeps running."""
    end_s = time.monotonic() + _LIMIT_S
    while processes_with(mark):
        if time.monotonic() > end_s:
            return False
        time.sleep(0.02)
    return True
