"""Read the traces of malloc labs (``.rep``): requests on numbered blocks, as text.

A head of four numbers (suggested heap size, number of blocks, number of requests,
weight), then one request a line: ``a ID BYTES``, ``r ID BYTES``, ``f ID``.

Source: Bryant and O'Hallaron, "Computer Systems: A Programmer's Perspective",
the malloc lab's driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tuner.errors import TraceError
from tuner.importers.heap import BadCallError, ImportedHeap
from tuner.importers.source import Source

LOST: Final = (
    "threads: there is one",
    "calloc and aligned allocations: all are malloc",
)

_HEAD: Final = ("heap size", "number of blocks", "number of requests", "weight")
_N_HEAD: Final = len(_HEAD)
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_START = re.compile(rb"(?:\s*\d+\s*\n){4}\s*[arf] \d", re.ASCII)


def recognise(start: bytes) -> bool:
    """Recognise it by the head and the first request."""
    return _START.match(start) is not None


def read(source: Source, heap: ImportedHeap) -> None:
    """Put the requests into a heap.

    Raises:
        TraceError: a line is malformed, or there are not as many as the head says.
    """
    lines = ((number, line.split()) for number, line in source.lines() if line.strip())
    head = _head(source, lines)
    n_requests, last = 0, _N_HEAD
    for number, words in lines:
        n_requests, last = n_requests + 1, number
        if n_requests > head[2]:
            raise source.error(number, f"more than the {head[2]} requests the head announces")
        try:
            _request(heap, words, head[1])
        except BadCallError as error:
            raise source.error(number, str(error)) from error
    if n_requests != head[2]:
        raise source.error(last, f"ends after {n_requests} of {head[2]} requests; was it cut off?")


def _head(source: Source, lines: Iterator[tuple[int, list[str]]]) -> list[int]:
    head: list[int] = []
    for what in _HEAD:
        number, words = next(lines, (len(head) + 1, []))
        if len(words) != 1 or not _NUMBER.fullmatch(words[0]):
            raise _bad(source, number, f"the {what} was expected here", words)
        head.append(int(words[0]))
    return head


def _bad(source: Source, number: int, what: str, words: list[str]) -> TraceError:
    return source.error(number, f"{what}, not {' '.join(words)[:80]!r}")


def _request(heap: ImportedHeap, words: list[str], n_blocks: int) -> None:
    kind, *fields = words
    n_fields = {"a": 2, "r": 2, "f": 1}.get(kind)
    if n_fields != len(fields) or not all(_NUMBER.fullmatch(field) for field in fields):
        message = f"'a ID BYTES', 'r ID BYTES' or 'f ID' was expected, not {' '.join(words)[:80]!r}"
        raise BadCallError(message)
    block = int(fields[0])
    if block >= n_blocks:
        message = f"block {block}: the head announces {n_blocks} blocks, from 0"
        raise BadCallError(message)
    if kind == "a":
        heap.allocate(block, int(fields[1]))
    elif kind == "f":
        heap.free(block)
    else:
        heap.reallocate(block, block, int(fields[1]))
