"""Find out whether a program can have a second thread, from its files alone.

Algorithm: the program and all it is linked with form a graph; an object is
*reached* when it is the program, when a reached object imports a name it exports,
or when it has constructors.  A reached object that imports a creator
(`tuner.link.creators`) is a reason; runtimes pass creators on and are none.

Guarantee: the verdict SINGLE is given only if no reached object refers to a
creator, no library is missing, and no symbols were taken away that would be needed.
Limits: a library counts as a whole, so a program that calls one of its functions
is charged with all of them.  Threads made by the system call itself, without
libc, are not seen, except those of the Go runtime.  Modules that libc loads for
itself (nsswitch.conf, gconv) are taken to start none.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Final

from tuner.errors import BinaryError
from tuner.link.closure import Closure, load
from tuner.link.creators import (
    IN_EVERY_STATIC_PROGRAM,
    Creator,
    Effect,
    creator_of,
    is_runtime,
    module_users,
)
from tuner.link.elf import ElfObject, read_object


class Verdict(StrEnum):
    """The answer."""

    SINGLE = "single"
    """No second thread: libexgen-st.so is safe."""
    THREADED = "threaded"
    """Something in it starts threads: libexgen.so is needed."""
    UNKNOWN = "unknown"
    """The files do not say: libexgen.so is the safe choice."""


LIBRARY: Final = {
    Verdict.SINGLE: "exgen-st",
    Verdict.THREADED: "exgen",
    Verdict.UNKNOWN: "exgen",
}
"""What to link with: ``-lexgen`` or ``-lexgen-st``."""


@dataclass(frozen=True)
class Reason:
    """One thing that speaks against the single-threaded library."""

    path: Path
    """The object it is about."""
    symbol: str | None
    """The creator it refers to; None when the reason is another."""
    verdict: Verdict
    """THREADED or UNKNOWN: what it leads to."""
    text: str
    """What, in words, without the path."""
    via: str | None
    """How a library is reached; None for the program itself."""


@dataclass(frozen=True)
class Advice:
    """The verdict on a program, with everything it rests on."""

    program: Path
    is_program: bool
    """False for a shared library: the verdict says nothing of the programs that load it."""
    verdict: Verdict
    reasons: tuple[Reason, ...]
    """What led to it, the strongest first; empty for SINGLE."""
    not_counted: tuple[str, ...]
    """References that lead nowhere, and why."""
    notes: tuple[str, ...]
    """What was assumed."""
    objects: tuple[Path, ...]
    """All files that were read, the program first."""

    @property
    def library(self) -> str:
        """Name to link with, without ``lib`` and ``.so``."""
        return LIBRARY[self.verdict]


def advise(path: Path, environment: Mapping[str, str] | None = None) -> Advice:
    """Examine a program or a shared library.

    Args:
        path: an ELF file.
        environment: where LD_LIBRARY_PATH is looked up; None for that of this process.

    Raises:
        MissingToolError: there is no such file.
        BinaryError: it is no program for Linux on x86-64 or AArch64.
    """
    program = read_object(path)
    if program.is_static:
        return _advice(program, list(_static_reasons(program)), notes=_static_notes(program))
    if program.architecture != platform.machine():
        message = (
            f"{path}: built for {program.architecture}, but this machine is {platform.machine()}: "
            "its libraries are not here; ask on the machine it is for"
        )
        raise BinaryError(message)
    closure = load(program, environment)
    reached = _reached(closure)
    reasons = [*_reasons(closure, reached), *_go(program), *_missing(closure)]
    not_counted, notes = _not_counted(closure, reached), _notes(closure, reached)
    return _advice(program, reasons, not_counted, notes, closure.objects)


def _advice(
    program: ElfObject,
    reasons: list[Reason],
    not_counted: Iterable[str] = (),
    notes: Iterable[str] = (),
    objects: Iterable[ElfObject] = (),
) -> Advice:
    verdict = Verdict.SINGLE
    if reasons:
        is_threaded = any(reason.verdict is Verdict.THREADED for reason in reasons)
        verdict = Verdict.THREADED if is_threaded else Verdict.UNKNOWN
    return Advice(
        program=program.path,
        is_program=program.is_program,
        verdict=verdict,
        reasons=tuple(sorted(reasons, key=lambda r: _weight(program, r))),
        not_counted=tuple(not_counted),
        notes=tuple(notes),
        objects=tuple(one.path for one in objects) or (program.path,),
    )


def _weight(program: ElfObject, reason: Reason) -> tuple[bool, bool]:
    """Sort what is certain before what is not, and the program before its libraries."""
    return reason.verdict is not Verdict.THREADED, reason.path != program.path


# Who is reached, and how


def _reached(closure: Closure) -> dict[Path, str | None]:
    """Return the reached objects with the way to them, None for the program."""
    providers: dict[str, list[ElfObject]] = {}
    for one in closure.objects:
        for name in one.exports:
            providers.setdefault(name, []).append(one)
    program, *libraries = closure.objects
    reached: dict[Path, str | None] = {program.path: None}
    reached |= {
        o.path: "its constructors run at the start" for o in libraries if o.has_constructors
    }
    queue = [o for o in closure.objects if o.path in reached]
    while queue:
        user = queue.pop(0)
        for name in sorted(user.imports):
            for provider in providers.get(name, ()):
                if provider.path not in reached:
                    reached[provider.path] = f"{user.path} calls its {name}"
                    queue.append(provider)
    return reached


_LEADS_TO: Final = {
    Effect.STARTS: Verdict.THREADED,
    Effect.MAY_START: Verdict.UNKNOWN,
    Effect.LOADS_CODE: Verdict.UNKNOWN,
}


@lru_cache(maxsize=1 << 16)
def _creator(name: str) -> Creator | None:
    return creator_of(name)


def _references(one: ElfObject) -> list[tuple[str, Creator]]:
    found = ((name, _creator(name)) for name in sorted(one.imports))
    return [(name, creator) for name, creator in found if creator is not None]


def _reasons(closure: Closure, reached: Mapping[Path, str | None]) -> Iterator[Reason]:
    for one in closure.objects:
        if one.path not in reached or is_runtime(one.soname):
            continue
        for name, creator in _references(one):
            text = f"refers to {name}, which {creator.effect} ({creator.what})"
            yield Reason(one.path, name, _LEADS_TO[creator.effect], text, reached[one.path])


def _missing(closure: Closure) -> Iterator[Reason]:
    for one in closure.missing:
        text = f"needs {one.name}, which was not found"
        yield Reason(one.wanted_by, None, Verdict.UNKNOWN, text, None)


def _not_counted(closure: Closure, reached: Mapping[Path, str | None]) -> Iterator[str]:
    for one in closure.objects:
        names = [name for name, _ in _references(one)]
        if not names:
            continue
        if is_runtime(one.soname):
            yield f"{one.path} refers to {', '.join(names)}: only for callers that want threads"
        elif one.path not in reached:
            yield f"{one.path} refers to {', '.join(names)}: nothing calls into it"


def _notes(closure: Closure, reached: Mapping[Path, str | None]) -> Iterator[str]:
    program = closure.objects[0]
    if not program.is_program:
        yield "this is a library: the programs that load it are to be asked about too"
    ours = (o for o in closure.objects if o.path in reached and not is_runtime(o.soname))
    users = {name for one in ours for name in module_users(one.imports)}
    if users:
        yield (
            f"libc loads modules for {', '.join(sorted(users))}; they are taken to start no threads"
        )


# Programs that load nothing


def _go(program: ElfObject) -> Iterator[Reason]:
    if program.is_go:
        text = "is a Go program: its runtime starts threads"
        yield Reason(program.path, None, Verdict.THREADED, text, None)


def _static_reasons(program: ElfObject) -> Iterator[Reason]:
    yield from _go(program)
    if program.is_stripped:
        text = "is static and stripped: what was linked into it is not visible"
        yield Reason(program.path, None, Verdict.UNKNOWN, text, None)
    for name in sorted(program.defined - IN_EVERY_STATIC_PROGRAM):
        creator = _creator(name)
        if creator is None or name.startswith("__"):  # the other names of the same functions
            continue
        text = f"holds {name}, which {creator.effect} ({creator.what})"
        if name.startswith("clone"):
            text += "; posix_spawn, system and popen bring it too"
        yield Reason(program.path, name, _LEADS_TO[creator.effect], text, None)


def _static_notes(program: ElfObject) -> Iterator[str]:
    yield "a static program is linked with the archive, not with a shared library"
    if not program.is_stripped:
        yield "every static program holds dlopen; it does not count: what it loads has a malloc too"
