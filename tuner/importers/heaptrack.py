"""Read heaptrack's recordings, raw (``.raw``) and as it stores them by default.

Text lines of hexadecimal numbers.  What matters here:

    v HEAPTRACK FORMAT            versions
    X COMMAND                     of the program
    + SIZE TRACE ADDRESS          raw: an allocation
    - ADDRESS                     raw: a free
    a SIZE TRACE                  stored: the next kind of allocation, numbered from 0
    + KIND, - KIND                stored: an allocation and a free of that kind
    c MILLISECONDS                time

A stored recording does not say which block of a kind is freed; the youngest is taken.

Source: heaptrack's ``accumulatedtracedata.cpp`` and ``heaptrack_interpret.cpp``.
"""

from __future__ import annotations

import re
from typing import Final

from tuner.importers.format import Format
from tuner.importers.heap import ImportedHeap
from tuner.importers.source import BadCallError, Source, matched
from tuner.trace.file import Api

FORMAT_VERSION: Final = 3
"""Newest version of the format that is known."""

_NS_PER_MS: Final = 10**6
_LINE = re.compile(r"[va+c-](?: [0-9a-f]{1,16})+", re.ASCII)


def _read(source: Source, heap: ImportedHeap) -> None:
    kinds: list[_Kind] = []
    for line in source.lines():
        letter, _, rest = line.partition(" ")
        if letter == "X":
            heap.take_command(rest)
        elif letter in {"v", "a", "+", "-", "c"}:  # others: strings, stacks, resident memory
            text = matched(_LINE, line.rstrip(" "), "a line of heaptrack")[0]
            _take(heap, kinds, letter, [int(word, 16) for word in text.split(" ")[1:]])
    if kinds:
        heap.lose_all("which block of a size and call stack a free is for; the youngest is taken")


class _Kind:
    """Blocks of one size and call stack, in a stored recording."""

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
        self.n_live = 0

    @property
    def youngest(self) -> tuple[int, int]:
        """Name of the youngest block; of a block that was never seen if there is none."""
        return self.number, self.n_live


def _take(heap: ImportedHeap, kinds: list[_Kind], letter: str, numbers: list[int]) -> None:
    """Take one line."""
    match letter, numbers:
        case "v", [_, version] if version > FORMAT_VERSION:
            message = f"format version {version}; {FORMAT_VERSION} is the newest that is known"
            raise BadCallError(message)
        case "v", _:
            pass
        case "c", [milliseconds]:
            heap.at(milliseconds * _NS_PER_MS)
        case "a", [size, _]:
            kinds.append(_Kind(len(kinds), size))
        case "+", [size, _, address]:
            heap.call(Api.MALLOC, new=address, size=size)
        case "+", [number] if number < len(kinds):
            kind = kinds[number]
            kind.n_live += 1
            heap.call(Api.MALLOC, new=kind.youngest, size=kind.size)
        case "-", [number] if number < len(kinds):
            kind = kinds[number]
            heap.call(Api.FREE, old=kind.youngest)
            kind.n_live = max(0, kind.n_live - 1)
        case "-", [address]:
            heap.call(Api.FREE, old=address)
        case _:
            message = (
                f"not a line of heaptrack: {letter!r} with {len(numbers)} numbers, "
                f"after {len(kinds)} kinds"
            )
            raise BadCallError(message)


FORMAT: Final = Format(
    name="heaptrack",
    title="heaptrack",
    lost=(
        "threads: all calls are those of one",
        "realloc: each is a free and an allocation",
        "calloc and aligned allocations: all are malloc; blocks of memalign are not there at all",
        "times between the marks heaptrack sets every 10 ms",
    ),
    recognise=re.compile(rb"v [0-9a-f]+ [0-9a-f]+\n", re.ASCII).match,
    read_events=_read,
)
