"""Find a shared library as the dynamic loader would: LD_LIBRARY_PATH, its cache, known folders."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LDCONFIG_LINE = re.compile(r"\s*(?P<name>\S+) \((?P<flags>[^)]*)\) => (?P<path>/\S+)")
_FALLBACK_DIRS: Final = (
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
)
"""Searched where the cache of ldconfig does not answer."""


def find_library(soname: str) -> Path | None:
    """Return the path of a 64-bit library, or None if it is not installed.

    Args:
        soname: file name, such as ``libjemalloc.so.2``.
    """
    return next((path for path in _candidates(soname) if path.is_file()), None)


def _candidates(soname: str) -> Iterator[Path]:
    """Yield where a library may be, in the order the loader would look."""
    dirs = [d for d in os.environ.get("LD_LIBRARY_PATH", "").split(":") if d]
    yield from (Path(d) / soname for d in dirs)
    yield from _ldconfig_paths(soname)
    yield from (Path(d) / soname for d in _FALLBACK_DIRS)


def _ldconfig_paths(soname: str) -> Iterator[Path]:
    for program in ("/sbin/ldconfig", "/usr/sbin/ldconfig"):
        if not Path(program).exists():
            continue
        listing = subprocess.run([program, "-p"], capture_output=True, text=True, check=False)
        yield from parse_ldconfig(listing.stdout.splitlines(), soname)
        return


def parse_ldconfig(lines: Iterable[str], soname: str) -> Iterator[Path]:
    """Yield the 64-bit paths of a library in the output of ``ldconfig -p``."""
    for line in lines:
        match = _LDCONFIG_LINE.fullmatch(line)
        if match and match["name"] == soname and "64" in match["flags"]:
            yield Path(match["path"])
