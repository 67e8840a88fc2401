"""What of the environment acts on malloc and is no allocator's, and stays under a candidate.

A library is an allocator whose name says so, or that exports malloc.  ld.so(8) splits LD_PRELOAD
at colons and blanks.
"""

import re
import struct
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tuner.allocators.libraries import find_library
from tuner.recording.explain import switches_in

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

PRELOAD: Final = "LD_PRELOAD"
TUNABLES: Final = "GLIBC_TUNABLES"
OF_MALLOC: Final = "glibc.malloc."

_DAMAGE: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error)
"""What pyelftools raises beside its own error for a file whose tables are damaged."""


def parts_of(text: str | None) -> list[str]:
    """Return what a value of either variable lists."""
    return list(filter(None, re.split("[: ]", text or "")))


def beside(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what stays of both variables."""
    preloads, tunables = (parts_of(environment.get(name)) for name in (PRELOAD, TUNABLES))
    kept = {
        PRELOAD: [one for one in preloads if not is_allocator(one)],
        TUNABLES: [one for one in tunables if not one.startswith(OF_MALLOC)],
    }
    return {name: ":".join(parts) for name, parts in kept.items() if parts}


def staying(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what stays of both variables and of `SWITCHES`: figures hold beside it."""
    return {**beside(environment), **switches_in(environment)}


def in_front(variables: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    """Return variables, with others of their names behind."""
    names = {**variables, **others}
    return {name: ":".join(filter(None, [variables.get(name), others.get(name)])) for name in names}


def not_loaded(why: str = "is the program static, or its environment cleaned?") -> str:
    """Say that an allocator that was preloaded is not there."""
    return f"the library was not loaded: {why}"


def preloaded_allocator(environment: Mapping[str, str]) -> str | None:
    """Return the path of the allocator that is preloaded first; None where another library is."""
    first = next(iter(parts_of(environment.get(PRELOAD))), "")
    return first if "/" in first and "$" not in first and is_allocator(first) else None


@cache
def is_allocator(entry: str) -> bool:
    """Return whether an entry of LD_PRELOAD is an allocator, or nothing that can be loaded."""
    if re.search("malloc|exgen", Path(entry).name):
        return True
    path = Path(entry) if "/" in entry else find_library(entry)
    if path is None or "$" in entry:
        return False
    return exports_malloc(path) is not False


def brings_malloc(file: str, root: Path = Path("/")) -> bool:
    """Return whether a mapped file is an allocator: by its name, and what it exports if that shows.

    Programs have such names too, and so has a part of Abseil, which is no allocator.

    Args:
        file: its path, as the process has it.
        root: of that process, which may be in a container.
    """
    return re.search("malloc|libexgen", Path(file).name) is not None and (
        exports_malloc(root / file.lstrip("/")) is not False
    )


def exports_malloc(path: Path) -> bool | None:
    """Return whether others call malloc of this program or library; None: it is none, or not here.

    That of a program comes before that of any library, preloaded ones too.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return _exports_malloc(path, (status.st_dev, status.st_ino, status.st_ctime_ns))


@cache
def _exports_malloc(path: Path, _identity: tuple[int, ...]) -> bool | None:
    from elftools.common.exceptions import ELFError  # noqa: PLC0415 - only where asked
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415 - as above

    try:
        with path.open("rb") as file:
            return any(one["st_shndx"] != "SHN_UNDEF" for one in _named_malloc(ELFFile(file)))
    except (ELFError, OSError, *_DAMAGE):
        return None


def _named_malloc(elf: "ELFFile") -> Iterable[Any]:
    """Return the dynamic symbols of that name, of those with a table of hashes the defined one.

    Reading all symbols takes seconds for large programs.
    """
    hashes: Any = next(elf.iter_sections("SHT_GNU_HASH"), None)
    if hashes:
        return filter(None, [hashes.get_symbol("malloc")])
    table: Any = elf.get_section_by_name(".dynsym")
    return (table.get_symbol_by_name("malloc") if table else None) or ()
