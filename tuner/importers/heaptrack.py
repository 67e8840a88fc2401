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
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tuner.importers.format import Format
from tuner.importers.heap import ImportedHeap
from tuner.importers.source import BadCallError, Source

FORMAT_VERSION: Final = 3
"""Newest version of the format that is known."""

_LINE = re.compile(r".(?: [0-9a-f]{1,16})+", re.ASCII)


@dataclass
class _Recording:
    """What is known while reading."""

    heap: ImportedHeap
    kinds: list[int] = field(default_factory=list)
    """Sizes of the kinds of a stored recording."""
    live: dict[int, list[int]] = field(default_factory=dict)
    """Kind -> numbers of its live blocks, the youngest last."""
    n_blocks: int = 0

    def version(self, numbers: list[int]) -> None:
        """Check the format."""
        if len(numbers) == 2 and numbers[1] > FORMAT_VERSION:  # noqa: PLR2004 - v A B
            message = f"format version {numbers[1]}; {FORMAT_VERSION} is the newest that is known"
            raise BadCallError(message)

    def kind(self, numbers: list[int]) -> None:
        """Take a kind of allocation."""
        size, _ = numbers
        self.kinds.append(size)

    def allocate(self, numbers: list[int]) -> None:
        """Take an allocation, raw or stored."""
        if len(numbers) > 1:
            size, _, address = numbers
            self.heap.allocate(address, size)
            return
        (kind,) = numbers
        if kind >= len(self.kinds):
            message = f"allocation of kind {kind}, but only {len(self.kinds)} were announced"
            raise BadCallError(message)
        self.heap.allocate(("block", self.n_blocks), self.kinds[kind])
        self.live.setdefault(kind, []).append(self.n_blocks)
        self.n_blocks += 1

    def free(self, numbers: list[int]) -> None:
        """Take a free, raw or stored."""
        (number,) = numbers
        if not self.kinds:
            self.heap.free(number)
            return
        blocks = self.live.get(number)
        self.heap.free(("block", blocks.pop()) if blocks else ("none", number))

    def clock(self, numbers: list[int]) -> None:
        """Take the time."""
        (milliseconds,) = numbers
        self.heap.at(milliseconds * 10**6)

    def line(self, text: str) -> None:
        """Take one line."""
        if text.startswith("X "):
            self.heap.take_command(text[2:])
            return
        letter, *words = text.split(" ")
        taker = _TAKERS.get(letter)
        if taker is None:  # strings, stacks, resident memory
            return
        if not _LINE.fullmatch(text):
            message = f"not a line of heaptrack: {text[:120]!r}"
            raise BadCallError(message)
        try:
            taker(self, [int(word, 16) for word in words])
        except ValueError as error:  # too few or too many numbers to unpack
            message = f"not a line of heaptrack: {text[:120]!r}"
            raise BadCallError(message) from error


_TAKERS: Final[dict[str, Callable[[_Recording, list[int]], None]]] = {
    "v": _Recording.version,
    "a": _Recording.kind,
    "+": _Recording.allocate,
    "-": _Recording.free,
    "c": _Recording.clock,
}
"""First letter of a line -> the method that takes its numbers."""


def _read(source: Source, heap: ImportedHeap) -> None:
    recording = _Recording(heap)
    for line in source.lines():
        recording.line(line.rstrip(" "))
    if recording.kinds:
        heap.lose_all("which block of a size and call stack a free is for; the youngest is taken")


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
