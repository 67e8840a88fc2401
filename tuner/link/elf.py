"""Read what the analysis needs from one ELF file: its names, and what it is linked with.

pyelftools does the reading; nothing here looks at machine code.  A file that is
no ELF file, is damaged, or is for a machine that exgen does not run on ends in
one clear error.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection, DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from tuner.errors import BinaryError, MissingToolError

ARCHITECTURES: Final = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}
"""Machines exgen runs on, by their names in ELF headers and in ``uname -m``."""

_POINTER_BYTES: Final = 8
_PIE: Final = 0x08000000  # DF_1_PIE: a program, not a library
_NO_DEFAULT_LIBRARIES: Final = 0x00000800  # DF_1_NODEFLIB
_DAMAGE: Final = (
    ELFError, ValueError, KeyError, IndexError, AttributeError, TypeError, AssertionError,
    OverflowError, MemoryError, RecursionError, ZeroDivisionError, OSError,
)  # fmt: skip
"""What reading a damaged file makes pyelftools raise; found by fuzzing."""


@dataclass(frozen=True)
class ElfObject:
    """A program or a shared library, as far as linking goes."""

    path: Path
    architecture: str
    """``x86_64`` or ``aarch64``."""
    soname: str | None
    is_program: bool
    """False for a shared library."""
    is_static: bool
    """True when nothing is loaded beside it."""
    is_stripped: bool
    """True when the full symbol table is gone; matters for static programs only."""
    is_go: bool
    """True for a program of the Go compiler, whose runtime starts threads without libc."""
    needed: tuple[str, ...]
    """Libraries it asks for (DT_NEEDED, DT_FILTER, DT_AUXILIARY), in order."""
    rpath: tuple[str, ...]
    """DT_RPATH, which libraries inherit; empty when there is a DT_RUNPATH, which overrules it."""
    runpath: tuple[str, ...]
    """DT_RUNPATH, which holds for its own `needed` only."""
    uses_default_folders: bool
    has_constructors: bool
    """True when code of its own runs as soon as it is loaded."""
    imports: frozenset[str]
    """Names it wants from others, without versions."""
    exports: frozenset[str]
    """Names it offers to others."""
    defined: frozenset[str]
    """Every name in the full symbol table of a static program; empty for others."""


def read_object(path: Path) -> ElfObject:
    """Read a program or a shared library.

    Raises:
        MissingToolError: there is no such file, or it cannot be read.
        BinaryError: it is no ELF file (a script, for example), an object file or a
            core dump, damaged, or for a machine exgen does not run on.
    """
    try:
        with path.open("rb") as file:
            _check_magic(path, file.read(4096))
            try:
                return _read(path, ELFFile(file))
            except BinaryError:
                raise
            except _DAMAGE as error:
                message = f"{path}: a damaged ELF file: {str(error) or type(error).__name__}"
                raise BinaryError(message) from error
    except OSError as error:
        message = f"{path}: cannot be read ({error.strerror}); name a program file"
        raise MissingToolError(message) from error


def _check_magic(path: Path, start: bytes) -> None:
    if start.startswith(b"\x7fELF"):
        return
    if start.startswith(b"#!"):
        interpreter = start[2:].split(b"\n", 1)[0].decode("utf-8", "replace").strip()
        message = f"{path}: a script, run by {interpreter!r}; name the interpreter's own file"
    elif start.startswith(b"!<arch>"):
        message = f"{path}: an archive; link a program with it and name that"
    else:
        message = f"{path}: not an ELF file; name a program that was linked"
    raise BinaryError(message)


def _read(path: Path, elf: ELFFile) -> ElfObject:
    architecture = _architecture(path, elf)
    kind = elf.header["e_type"]
    if kind not in ("ET_EXEC", "ET_DYN"):
        what = {"ET_REL": "an object file", "ET_CORE": "a core dump"}.get(kind, "no program")
        message = f"{path}: {what}; name a program that was linked"
        raise BinaryError(message)
    dynamic = _dynamic(elf)
    tags = _tags(elf, dynamic)
    has_interpreter = any(s.header.p_type == "PT_INTERP" for s in elf.iter_segments())
    flags = tags.number("DT_FLAGS_1")
    is_pie = bool(flags & _PIE)
    needed = tags.texts("DT_FILTER") + tags.texts("DT_AUXILIARY") + tags.texts("DT_NEEDED")
    is_static = not has_interpreter and not needed and (kind == "ET_EXEC" or is_pie)
    full = elf.get_section_by_name(".symtab")
    imports, exports = _dynamic_names(elf, dynamic)
    return ElfObject(
        path=path,
        architecture=architecture,
        soname=next(iter(tags.texts("DT_SONAME")), None),
        is_program=kind == "ET_EXEC" or is_pie or has_interpreter,
        is_static=is_static,
        is_stripped=not isinstance(full, SymbolTableSection),
        is_go=any(elf.get_section_by_name(name) for name in (".go.buildinfo", ".gopclntab")),
        needed=needed,
        rpath=() if tags.texts("DT_RUNPATH") else _folders(tags.texts("DT_RPATH")),
        runpath=_folders(tags.texts("DT_RUNPATH")),
        uses_default_folders=not flags & _NO_DEFAULT_LIBRARIES,
        has_constructors=_has_constructors(tags),
        imports=imports,
        exports=exports,
        defined=_defined(full) if is_static and isinstance(full, SymbolTableSection) else _NONE,
    )


_NONE: Final[frozenset[str]] = frozenset()


def _architecture(path: Path, elf: ELFFile) -> str:
    machine = elf.header["e_machine"]
    if machine not in ARCHITECTURES or elf.elfclass != 64 or not elf.little_endian:  # noqa: PLR2004 - bits
        name = f"{elf.elfclass}-bit {elf.get_machine_arch()}"
        message = f"{path}: built for {name}; exgen is for 64-bit x86-64 and AArch64"
        raise BinaryError(message)
    return ARCHITECTURES[machine]


# Tags of the dynamic section


@dataclass(frozen=True)
class _Tags:
    """The dynamic section, by tag."""

    values: dict[str, list[Any]]
    """Texts for tags that name something, else numbers."""

    def texts(self, tag: str) -> tuple[str, ...]:
        return tuple(str(value) for value in self.values.get(tag, []))

    def number(self, tag: str) -> int:
        return int(next(iter(self.values.get(tag, [])), 0))


_TEXTS: Final = {
    "DT_NEEDED": "needed", "DT_RPATH": "rpath", "DT_RUNPATH": "runpath", "DT_SONAME": "soname",
}  # fmt: skip
"""Tags whose text pyelftools looks up, and where it keeps it."""


def _dynamic(elf: ELFFile) -> DynamicSection | DynamicSegment | None:
    """Return the dynamic section; files without section headers have it as a segment only."""
    section = elf.get_section_by_name(".dynamic")
    if isinstance(section, DynamicSection):
        return section
    return next((s for s in elf.iter_segments() if isinstance(s, DynamicSegment)), None)


def _tags(elf: ELFFile, dynamic: DynamicSection | DynamicSegment | None) -> _Tags:
    values: dict[str, list[Any]] = {}
    for tag in dynamic.iter_tags() if dynamic is not None else ():
        name = tag.entry.d_tag
        value: Any = tag.entry.d_val
        if name in _TEXTS:
            value = getattr(tag, _TEXTS[name])
        elif name in ("DT_FILTER", "DT_AUXILIARY") and isinstance(dynamic, DynamicSection):
            strings: Any = elf.get_section(dynamic["sh_link"])
            value = strings.get_string(value)
        values.setdefault(name, []).append(value)
    return _Tags(values)


def _folders(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(folder for text in texts for folder in text.split(":") if folder)


def _has_constructors(tags: _Tags) -> bool:
    """Return whether there are constructors beside the one entry of the toolchain."""
    n_entries = tags.number("DT_INIT_ARRAYSZ") // _POINTER_BYTES
    return n_entries > (1 if "DT_INIT" in tags.values else 0)


# Symbols


def _dynamic_names(
    elf: ELFFile, dynamic: DynamicSection | DynamicSegment | None
) -> tuple[frozenset[str], frozenset[str]]:
    """Return what is wanted and what is offered."""
    table: Any = elf.get_section_by_name(".dynsym")
    if not isinstance(table, SymbolTableSection):
        table = dynamic if isinstance(dynamic, DynamicSegment) else None
    imports: set[str] = set()
    exports: set[str] = set()
    for symbol in table.iter_symbols() if table is not None else ():
        if symbol.entry.st_info.bind == "STB_LOCAL" or not symbol.name:
            continue
        (imports if symbol.entry.st_shndx == "SHN_UNDEF" else exports).add(symbol.name)
    return frozenset(imports), frozenset(exports)


def _defined(table: SymbolTableSection) -> frozenset[str]:
    return frozenset(s.name for s in table.iter_symbols() if s.entry.st_shndx != "SHN_UNDEF")
