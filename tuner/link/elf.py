"""Read from one ELF file what linking depends on, with pyelftools; no machine code is read."""

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

_PIE: Final = 0x08000000  # DF_1_PIE: a program, not a library
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
    is_program: bool
    """False for a shared library."""
    is_static: bool
    """True when nothing is loaded beside it."""
    is_stripped: bool
    """True when the full symbol table is gone; matters for static programs only."""
    is_go: bool
    """True for a program of the Go compiler, whose runtime starts threads without libc."""
    names: frozenset[str]
    """Names it wants from others, without versions; of a static program all that it has."""


def read_object(path: Path) -> ElfObject:
    """Read a program or a shared library.

    Raises:
        MissingToolError: there is no such file, or it cannot be read.
        BinaryError: it is no ELF file (a script, for example), an object file or a
            core dump, damaged, or for a machine exgen does not run on.
    """
    try:
        if path.is_fifo():  # whose opening waits for a writer
            raise BinaryError(f"{path}: a pipe; name a program file")
        with path.open("rb") as file:
            _check_magic(path, file.read(4096))
            try:
                return _read(path, ELFFile(file))
            except BinaryError:
                raise
            except _DAMAGE as error:
                raise BinaryError(
                    f"{path}: a damaged ELF file: {str(error) or type(error).__name__}"
                ) from error
    except OSError as error:
        raise MissingToolError(
            f"{path}: cannot be read ({error.strerror}); name a program file"
        ) from error


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
    machine, kind = elf.header["e_machine"], elf.header["e_type"]
    if machine not in ARCHITECTURES or elf.elfclass != 64 or not elf.little_endian:  # noqa: PLR2004 - bits
        name = f"{elf.elfclass}-bit {elf.get_machine_arch()}"
        raise BinaryError(f"{path}: built for {name}; exgen is for 64-bit x86-64 and AArch64")
    if kind not in ("ET_EXEC", "ET_DYN"):
        what = {"ET_REL": "an object file", "ET_CORE": "a core dump"}.get(kind, "no program")
        raise BinaryError(f"{path}: {what}; name a program that was linked")
    dynamic = _dynamic(elf)
    tags = {tag.entry.d_tag: tag.entry.d_val for tag in dynamic.iter_tags()} if dynamic else {}
    has_interpreter = any(s.header.p_type == "PT_INTERP" for s in elf.iter_segments())
    is_program = kind == "ET_EXEC" or has_interpreter or bool(tags.get("DT_FLAGS_1", 0) & _PIE)
    is_static = is_program and not has_interpreter and "DT_NEEDED" not in tags
    full = elf.get_section_by_name(".symtab")
    wanted = elf.get_section_by_name(".dynsym") or dynamic
    return ElfObject(
        path=path,
        architecture=ARCHITECTURES[machine],
        is_program=is_program,
        is_static=is_static,
        is_stripped=not isinstance(full, SymbolTableSection),
        is_go=any(elf.get_section_by_name(name) for name in (".go.buildinfo", ".gopclntab")),
        names=_names(full, is_static=True) if is_static else _names(wanted, is_static=False),
    )


def _dynamic(elf: ELFFile) -> DynamicSection | DynamicSegment | None:
    """Return the dynamic section; files without section headers have it as a segment only."""
    section = elf.get_section_by_name(".dynamic")
    if isinstance(section, DynamicSection):
        return section
    return next((s for s in elf.iter_segments() if isinstance(s, DynamicSegment)), None)


def _names(table: Any, *, is_static: bool) -> frozenset[str]:  # noqa: ANN401 - pyelftools
    """Return what a table defines, for a static program, or else what it wants from others."""
    if not isinstance(table, SymbolTableSection | DynamicSegment):
        return frozenset()
    return frozenset(
        symbol.name
        for symbol in table.iter_symbols()
        if symbol.name
        and (symbol.entry.st_shndx != "SHN_UNDEF") is is_static
        and (is_static or symbol.entry.st_info.bind != "STB_LOCAL")
    )
