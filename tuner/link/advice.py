"""Judge from its files alone whether a program can have a second thread.

Algorithm: the program and all that the dynamic loader would load for it are looked at; one that
imports a creator (`tuner.link.creators`) is a reason.  Runtimes pass creators on and are none.

Guarantee: the verdict SINGLE is given only if no file refers to a creator, no library is missing,
and no symbols were taken away that would be needed.
Limits: a library counts as a whole, called or not.  Not seen: threads made by the bare system call
(except those of Go), by libc's own modules (nsswitch.conf, gconv), by what is preloaded.
"""

import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from tuner.errors import BinaryError
from tuner.link.creators import IN_EVERY_STATIC_PROGRAM, creators_among, is_runtime
from tuner.link.elf import ElfObject, read_object

_LOADERS: Final = {"x86_64": "/lib64/ld-linux-x86-64.so.2", "aarch64": "/lib/ld-linux-aarch64.so.1"}
"""glibc's dynamic loader.  Not the one that the program names, which would be run on trust."""

_LOADED: Final = re.compile(r"\t(?:.+? => )?(?P<path>\S.*) \(0x[0-9a-f]+\)")
_MISSING: Final = re.compile(r"\t(?P<name>.+) => not found")


class LinkVerdict(StrEnum):
    """The answer."""

    SINGLE = "single"
    """No second thread: libexgen-st.so is safe."""
    THREADED = "threaded"
    """Something in it starts threads: libexgen.so is needed."""
    UNKNOWN = "unknown"
    """The files leave it open: libexgen.so is the safe choice."""


@dataclass(frozen=True)
class Reason:
    """One file that speaks against the single-threaded library."""

    path: Path
    verdict: LinkVerdict
    """THREADED or UNKNOWN: what it leads to."""
    text: str
    """What, in words, without the path."""


@dataclass(frozen=True)
class Advice:
    """The verdict on a program, with everything it rests on."""

    program: Path
    is_program: bool
    """False for a shared library: the verdict leaves out the programs that load it."""
    verdict: LinkVerdict
    reasons: tuple[Reason, ...]
    """What led to it, the strongest first; empty for SINGLE."""
    objects: tuple[Path, ...]
    """All files that were read, the program first."""

    @property
    def library(self) -> str:
        """Name to link with, without ``lib`` and ``.so``."""
        return "exgen-st" if self.verdict is LinkVerdict.SINGLE else "exgen"


def advise(path: Path, environment: Mapping[str, str] | None = None) -> Advice:
    """Examine a program or a shared library.

    Args:
        path: an ELF file.
        environment: where LD_LIBRARY_PATH is looked up; None for that of this process.

    Raises:
        MissingToolError: there is no such file.
        BinaryError: it is no program for Linux on this machine.
    """
    program = read_object(path)
    if program.architecture != platform.machine() and not program.is_static:
        raise BinaryError(
            f"{path}: built for {program.architecture}, but this machine is {platform.machine()}: "
            "its libraries are not here; run the command on the machine it is for"
        )
    objects, missing = [program], list[str]()
    if not program.is_static:
        loaded, missing = _load(program, os.environ if environment is None else environment)
        objects += map(read_object, loaded)
    reasons = [*_of_names(objects), *(_unknown(program, f"needs {name}") for name in missing)]
    if program.is_go:
        text = "is a Go program, whose runtime starts threads"
        reasons.append(Reason(path, LinkVerdict.THREADED, text))
    if program.is_static and program.is_stripped:
        reasons.append(_unknown(program, "is static and stripped: its functions have no names"))
    reasons.sort(key=lambda reason: (reason.verdict is LinkVerdict.UNKNOWN, reason.path != path))
    return Advice(
        program=path,
        is_program=program.is_program,
        verdict=reasons[0].verdict if reasons else LinkVerdict.SINGLE,
        reasons=tuple(reasons),
        objects=tuple(one.path for one in objects),
    )


def _unknown(program: ElfObject, text: str) -> Reason:
    return Reason(program.path, LinkVerdict.UNKNOWN, text)


def _load(program: ElfObject, environment: Mapping[str, str]) -> tuple[list[Path], list[str]]:
    """Let the dynamic loader list what it would load, and what it does not find; see ldd(1)."""
    path = environment.get("LD_LIBRARY_PATH", "")
    done = subprocess.run(
        [_LOADERS[program.architecture], str(program.path.absolute())],
        env={"LD_TRACE_LOADED_OBJECTS": "1", "LD_LIBRARY_PATH": path},
        capture_output=True,
        check=False,
    )
    lines = done.stdout.decode(errors="surrogateescape").splitlines()
    found = [Path(match["path"]) for match in map(_LOADED.fullmatch, lines) if match]
    missing = [f"{m['name']}, which was not found" for m in map(_MISSING.fullmatch, lines) if m]
    if done.returncode != 0 and not missing:
        why = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        missing = [f"a loader that understands it ({why})"]
    # linux-vdso.so.1 and its like are no files.
    return [one for one in found if one.is_absolute() or one.exists()], missing


def _of_names(objects: list[ElfObject]) -> Iterator[Reason]:
    """Yield a reason for each file with creators, and for those whose effect is not certain."""
    for one in objects:
        if is_runtime(one.path.name):
            continue
        # Names with __ are other names of the same functions.
        names = one.names - IN_EVERY_STATIC_PROGRAM if one.is_static else one.names
        names = frozenset(n for n in names if not (one.is_static and n.startswith("__")))
        for verdict, verb, found in (
            (LinkVerdict.THREADED, "starts threads", creators_among(names, is_certain=True)),
            (LinkVerdict.UNKNOWN, "may start threads", creators_among(names, is_certain=False)),
        ):
            if found:
                yield Reason(one.path, verdict, f"{verb}: {', '.join(found)}")
