"""Find everything a program is linked with, as the dynamic loader would.

For each name in DT_NEEDED, breadth first: what is loaded already under that name;
a name with a slash is a path; else DT_RPATH of the object and of those that
loaded it, LD_LIBRARY_PATH, DT_RUNPATH, the cache of ldconfig, the default folders.
Files for another machine are passed over.

Source: ld.so(8), and the ELF specification's "Dynamic Linking".
Limits: LD_PRELOAD and /etc/ld.so.preload add nothing here; the program decides.
"""

from __future__ import annotations

import os
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tuner.allocators.libraries import parse_ldconfig
from tuner.errors import BinaryError, MissingToolError
from tuner.link.elf import ElfObject, read_object

DEFAULT_FOLDERS: Final = (
    "/lib/{architecture}-linux-gnu",
    "/usr/lib/{architecture}-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
)
"""Where the loader of Debian, and that of other systems, looks at the end."""

_KERNEL_LIBRARIES: Final = ("linux-vdso.so.1", "linux-gate.so.1")


@dataclass(frozen=True)
class Missing:
    """A library that was not found."""

    name: str
    wanted_by: Path


@dataclass(frozen=True)
class Closure:
    """A program and its libraries, in the order of loading."""

    objects: tuple[ElfObject, ...]
    """The program first."""
    missing: tuple[Missing, ...]


def ldconfig_cache() -> tuple[str, ...]:
    """Return the lines of ``ldconfig -p``; none when the program is not there."""
    for program in ("/sbin/ldconfig", "/usr/sbin/ldconfig"):
        if Path(program).exists():
            listing = subprocess.run([program, "-p"], capture_output=True, text=True, check=False)
            return tuple(listing.stdout.splitlines())
    return ()


@dataclass
class _Loader:
    """What has been loaded so far."""

    environment: Mapping[str, str]
    cache: Callable[[], tuple[str, ...]]
    objects: list[ElfObject] = field(default_factory=list)
    parents: dict[Path, ElfObject | None] = field(default_factory=dict)
    """Path -> the object that asked for it first."""
    names: dict[str, ElfObject] = field(default_factory=dict)
    """Names under which objects are known: sonames, and as they were asked for."""
    missing: list[Missing] = field(default_factory=list)

    def add(self, found: ElfObject, parent: ElfObject | None) -> None:
        self.objects.append(found)
        self.parents[found.path] = parent
        if found.soname:
            self.names.setdefault(found.soname, found)

    def load(self, name: str, parent: ElfObject) -> ElfObject | None:
        """Load a library that is not there yet; return it if it is new."""
        if name in self.names or name in _KERNEL_LIBRARIES:
            return None
        for path in self._candidates(name, parent):
            found = _try(path, parent.architecture)
            if found is None:
                continue
            known = next((o for o in self.objects if o.path.samefile(found.path)), None)
            self.names[name] = known or found
            if known is None:
                self.add(found, parent)
            return None if known else found
        self.missing.append(Missing(name, parent.path))
        return None

    def _candidates(self, name: str, parent: ElfObject) -> Iterator[Path]:
        if "/" in name:
            yield Path(_expand(name, parent))
            return
        folders = list(self._rpaths(parent))
        variable = self.environment.get("LD_LIBRARY_PATH", "").replace(";", ":")
        folders += [folder for folder in variable.split(":") if folder]
        folders += [_expand(folder, parent) for folder in parent.runpath]
        yield from (Path(folder) / name for folder in folders)
        if parent.uses_default_folders:
            yield from parse_ldconfig(self.cache(), name)
            for folder in DEFAULT_FOLDERS:
                yield Path(folder.format(architecture=parent.architecture)) / name

    def _rpaths(self, asking: ElfObject) -> Iterator[str]:
        """Yield DT_RPATH of the object and of those that loaded it, unless it has DT_RUNPATH."""
        one: ElfObject | None = None if asking.runpath else asking
        while one is not None:
            for folder in one.rpath:
                yield _expand(folder, one)
            one = self.parents[one.path]


def _expand(text: str, parent: ElfObject) -> str:
    """Replace the loader's variables."""
    values = {
        "ORIGIN": str(parent.path.resolve().parent),
        "LIB": f"lib/{parent.architecture}-linux-gnu",
        "PLATFORM": parent.architecture,
    }
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", value).replace(f"${name}", value)
    return text


def _try(path: Path, architecture: str) -> ElfObject | None:
    """Read a library; None if the loader would pass it over."""
    if not path.is_file():
        return None
    try:
        found = read_object(path)
    except (BinaryError, MissingToolError):
        return None
    return found if found.architecture == architecture else None


def load(
    program: ElfObject,
    environment: Mapping[str, str] | None = None,
    cache: Callable[[], tuple[str, ...]] | None = None,
) -> Closure:
    """Find all libraries of a program.

    Args:
        program: as read.
        environment: where LD_LIBRARY_PATH is looked up; None for that of this process.
        cache: gives the lines of ``ldconfig -p``; None asks the system, once.

    Returns:
        The program with what was found, and what was not.
    """
    if cache is None:
        lines = ldconfig_cache()
        cache = lambda: lines  # noqa: E731 - a constant as a function
    loader = _Loader(os.environ if environment is None else environment, cache)
    loader.add(program, None)
    queue = deque([program])
    while queue:
        parent = queue.popleft()
        new = (loader.load(name, parent) for name in parent.needed)
        queue.extend(found for found in new if found is not None)
    return Closure(tuple(loader.objects), tuple(loader.missing))
