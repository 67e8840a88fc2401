"""Read the log of glibc's mtrace: one line per call, with addresses.

``@ CALLER + ADDRESS SIZE``  malloc, calloc or an aligned allocation
``@ CALLER - ADDRESS``       free
``@ CALLER < ADDRESS`` and ``@ CALLER > ADDRESS SIZE``  realloc, old and new
``! ADDRESS SIZE``           realloc that failed

Source: "Tracing malloc" in the manual of the GNU C Library.
"""

from __future__ import annotations

import re
from typing import Final

from tuner.importers.format import Format
from tuner.importers.heap import ImportedHeap
from tuner.importers.source import BadCallError, Source

_LINE = re.compile(
    r"(?:@ .* )?(?:([-<]) (?:0x([0-9a-f]{1,16})|\(nil\)|0)"
    r"|([+>!]) (?:0x([0-9a-f]{1,16})|\(nil\)|0) (?:0x([0-9a-f]{1,16})|0))"
)


def _read(source: Source, heap: ImportedHeap) -> None:
    moving: int | None = None
    for line in source.lines():
        if not line or line.startswith("= "):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            message = f"not a line of mtrace: {line[:120]!r}"
            raise BadCallError(message)
        kind = match[1] or match[3]
        if (kind == ">") != (moving is not None):
            message = "'<' and '>' of a realloc do not stand together"
            raise BadCallError(message)
        address, size = int(match[2] or match[4] or "0", 16), int(match[5] or "0", 16)
        _call(heap, kind, address, size, moving)
        moving = address if kind == "<" else None
    if moving is not None:
        message = "ends in the middle of a realloc; was it cut off?"
        raise BadCallError(message)


def _call(heap: ImportedHeap, kind: str, address: int, size: int, moving: int | None) -> None:
    """Take one call; '<' waits for its '>', which brings the block that is moving."""
    if kind == "!":
        heap.lose("reallocs that failed")
    elif kind == ">" and moving is not None:
        heap.reallocate(moving, address, size)
    elif kind == "+" and address:
        heap.allocate(address, size)
    elif kind == "-":
        heap.free(address)


FORMAT: Final = Format(
    name="mtrace",
    title="mtrace of glibc",
    lost=(
        "threads: all calls are those of one",
        "calloc and aligned allocations: all are malloc",
        "what was allocated before mtrace() was called",
    ),
    recognise=re.compile(rb"= Start\s|@ .* [-+<>!] (?:0x|\(nil\))").match,
    read_events=_read,
)
