"""Read the names that processes give themselves: servers write their roles over their arguments."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_INTERVAL_S: Final = 0.2
"""Time between two looks."""


@contextlib.contextmanager
def watched_titles(spool: Path, *, is_wanted: bool) -> Iterator[Mapping[int, str]]:
    """Look at the processes of a recording until the context ends; not at all unless wanted.

    Yields:
        Process -> its command line as last seen; complete when the context ends.
    """
    titles: dict[int, str] = {}
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(_INTERVAL_S):
            titles.update(read_titles(spool))

    watcher = threading.Thread(target=watch, daemon=True)
    if is_wanted:
        watcher.start()
    try:
        yield titles
    finally:
        is_over.set()
        if is_wanted:
            watcher.join()


def read_titles(spool: Path, proc: Path = Path("/proc")) -> dict[int, str]:
    """Return the command line that each recorded process shows now; those that ended are absent."""
    found = {}
    for number in recorded_pids(spool):
        with contextlib.suppress(OSError):
            words = (proc / str(number) / "cmdline").read_bytes().decode(errors="replace")
            if title := " ".join(words.replace("\0", " ").split()):
                found[number] = title
    return found


def recorded_pids(spool: Path) -> set[int]:
    """Return the processes that have a spool: ``PID.spool``, after an exec ``PID-N.spool``."""
    names = (re.match(r"(\d+)[-.]", path.name) for path in spool.glob("*.spool"))
    return {int(name[1]) for name in names if name}
