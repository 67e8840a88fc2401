"""The processes of a service, read from /proc: titles, and the allocators in them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_MARKS = ("malloc", "libexgen")
_TITLE_CHARS = 60


@dataclass(frozen=True)
class Process:
    """One process."""

    pid: int
    title: str
    """As ``ps`` shows it, which services set: ``nginx: worker process``."""
    libraries: tuple[str, ...]
    """Mapped files that are allocators."""
    files: frozenset[str]
    """Every mapped file."""


def processes_below(pid: int) -> list[Process]:
    """Return all descendants of a process that can be read."""
    return [found for child in _children(pid) for found in (process_of(child),) if found]


def _children(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for task in (_PROC / str(pid) / "task").iterdir():
            for word in (task / "children").read_text().split():
                yield int(word)
                yield from _children(int(word))


def process_of(pid: int) -> Process | None:
    """Return a process; None where it is gone, has ended, or may not be read."""
    folder = _PROC / str(pid)
    try:
        words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        rows = (folder / "maps").read_text(errors="replace").splitlines()
    except OSError:
        return None
    if not words:  # it has ended, and its parent does not know yet
        return None
    files = frozenset(row[at:] for row in rows if (at := row.find("/")) >= 0)
    libraries = tuple(
        sorted(one for one in files if any(mark in Path(one).name for mark in _MARKS))
    )
    return Process(pid, words.strip()[:_TITLE_CHARS], libraries, files)
