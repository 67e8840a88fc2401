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

import re
from typing import Final

from tuner.importers.format import ALL_MALLOC, NO_REALLOC, ONE_THREAD, Format
from tuner.importers.heap import ImportedHeap
from tuner.importers.source import BadCallError, Source, matched
from tuner.trace.file import Api

FORMAT_VERSION: Final = 3
"""Newest version of the format that is known."""

_NS_PER_MS: Final = 10**6
_LINE = re.compile(r"[va+c-](?: [0-9a-f]{1,16})+", re.ASCII)


def _read(source: Source, heap: ImportedHeap) -> None:
    sizes: list[int] = []
    n_live: list[int] = []
    for line in source.lines():
        letter, _, rest = line.partition(" ")
        if letter == "X":
            heap.command = rest
        elif letter in {"v", "a", "+", "-", "c"}:  # others: strings, stacks, resident memory
            text = matched(_LINE, line.rstrip(" "), "a line of heaptrack")[0]
            _take(heap, sizes, n_live, letter, [int(word, 16) for word in text.split(" ")[1:]])
    if sizes:
        heap.lost.append("which block of a size and call stack a free is for: the youngest")


def _take(
    heap: ImportedHeap, sizes: list[int], n_live: list[int], letter: str, numbers: list[int]
) -> None:
    """Take one line.

    Args:
        heap: of the program.
        sizes: of the blocks of each kind.
        n_live: blocks of each kind that are alive; kind and number name a block.
        letter: what the line is.
        numbers: behind it.
    """
    match letter, numbers:
        case "v", [_, version] if version > FORMAT_VERSION:
            raise BadCallError(
                f"format version {version}; {FORMAT_VERSION} is the newest that is known"
            )
        case "v", _:
            pass
        case "c", [milliseconds]:
            heap.at(milliseconds * _NS_PER_MS)
        case "a", [size, _]:
            sizes.append(size)
            n_live.append(0)
        case "+", [size, _, address]:
            heap.call(Api.MALLOC, new=address, size=size)
        case "+", [kind] if kind < len(sizes):
            n_live[kind] += 1
            heap.call(Api.MALLOC, new=(kind, n_live[kind]), size=sizes[kind])
        case "-", [kind] if kind < len(sizes):
            heap.call(Api.FREE, old=(kind, n_live[kind]))
            n_live[kind] = max(0, n_live[kind] - 1)
        case "-", [address]:
            heap.call(Api.FREE, old=address)
        case _:
            raise BadCallError(
                f"not a line of heaptrack: {letter!r} with {len(numbers)} numbers, "
                f"after {len(sizes)} kinds"
            )


FORMAT: Final = Format(
    name="heaptrack",
    title="heaptrack",
    lost=(
        ONE_THREAD,
        NO_REALLOC,
        f"{ALL_MALLOC}; blocks of memalign are not there at all",
        "times between the marks heaptrack sets every 10 ms",
    ),
    recognise=re.compile(rb"v [0-9a-f]+ [0-9a-f]+\n", re.ASCII).match,
    read_events=_read,
)
