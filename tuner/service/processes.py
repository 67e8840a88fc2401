"""The processes of a service, read from /proc: titles, and the allocators in them."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.measure.preloads import PRELOAD, TUNABLES, brings_malloc, parts_of
from tuner.recording.descendants import descendants

_PROC = Path("/proc")
_TITLE_CHARS = 60


FileId = tuple[int, int]
"""Device and inode."""


@dataclass(frozen=True)
class Process:
    """One process."""

    pid: int
    title: str
    """As ``ps`` shows it, which services set: ``nginx: worker process``."""
    libraries: tuple[str, ...]
    """Mapped files that are allocators."""
    files: Mapping[str, FileId]
    """Every mapped file, under the name that it has for this process."""


def processes_below(pid: int) -> list[Process]:
    """Return all descendants of a process that can be read."""
    return [found for child in descendants(pid) for found in (process_of(child),) if found]


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
    files = dict(_mapped(row) for row in rows if "/" in row)
    libraries = tuple(sorted(file for file in files if brings_malloc(file, folder / "root")))
    return Process(pid, words.strip()[:_TITLE_CHARS], libraries, files)


def _mapped(row: str) -> tuple[str, FileId]:
    """Return the file of a row of maps, see proc(5), which may have been replaced since."""
    _, _, _, device, inode, name = row.split(maxsplit=5)
    major, minor = device.split(":")
    file_id = (os.makedev(int(major, 16), int(minor, 16)), int(inode))
    return name.removesuffix(" (deleted)"), file_id


def lacking(pids: Iterable[int], variables: Mapping[str, str]) -> str | None:
    """Return a variable that arrived in none of some processes; None where each may have.

    Those that started others do not count: they may have cleaned the environment of these.  What
    a process was started with cannot be known where it may not be read, or where it has written
    its title there, as nginx and the workers of PostgreSQL do.
    """
    last = (pid for pid in pids if next(descendants(pid), None) is None)
    known = [found for found in map(_environ, last) if found is not None]
    return next(
        (
            name
            for name, value in variables.items()
            if known and not any(_has(found, name, value) for found in known)
        ),
        None,
    )


def _has(variables: Mapping[str, str], name: str, value: str) -> bool:
    """Return whether a variable has a value; a start script may have added to a list."""
    found = variables.get(name, "")
    if name == PRELOAD:
        return set(parts_of(value)) <= set(parts_of(found))
    if name == TUNABLES:  # the last one of a name counts
        return _tunables(value).items() <= _tunables(found).items()
    return found == value


def _tunables(value: str) -> dict[str, str]:
    parts = (part.partition("=") for part in value.split(":"))
    return {name: setting for name, _, setting in parts}


def _environ(pid: int) -> dict[str, str] | None:
    """Return what a process was started with; None where that is not known."""
    try:
        content = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    return variables_of(content)


def variables_of(content: bytes) -> dict[str, str] | None:
    """Return the variables that a file ``environ`` holds; None where a title is over them.

    Who writes one often leaves nothing but ends of strings, as Redis and nginx do.
    """
    words = _with_tunables_joined(os.fsdecode(content).split("\0"))
    rows = [word.partition("=") for word in words if word]
    is_overwritten = content and not any(name.isidentifier() and mark for name, mark, _ in rows)
    return None if is_overwritten else {name: value for name, _, value in rows}


def _with_tunables_joined(words: Sequence[str]) -> list[str]:
    """Return the variables with those of `TUNABLES` as they were given.

    glibc up to 2.37 reads them in place and leaves an end of string for every colon.
    """
    joined: list[str] = []
    for word in words:
        if joined and word.startswith("glibc.") and joined[-1].startswith(f"{TUNABLES}="):
            joined[-1] += f":{word}"
        else:
            joined.append(word)
    return joined


def place_of(process: Process, file: str) -> Path | None:
    """Return where this process finds a file that another one maps; None: nowhere.

    The other one may be in a container, where a name means another file.
    """
    inside = _PROC / str(process.pid) / "root" / file.removeprefix("/")
    for place in (Path(file), inside):
        if _id_of(place) == process.files[file]:
            return place
    return inside if _id_of(inside) else None  # overlays show other numbers


def _id_of(place: Path) -> FileId | None:
    try:
        status = place.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
