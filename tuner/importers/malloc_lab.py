"""Read the traces of malloc labs (``.rep``): requests on numbered blocks, as text.

A head of four numbers (suggested heap size, number of blocks, number of requests,
weight), then one request a line: ``a ID BYTES``, ``r ID BYTES``, ``f ID``.

Source: Bryant and O'Hallaron, "Computer Systems: A Programmer's Perspective",
the malloc lab's driver.
"""

from __future__ import annotations

import re
from typing import Final

from tuner.importers.format import Format
from tuner.importers.heap import ImportedHeap
from tuner.importers.source import BadCallError, Source

_HEAD: Final = ("heap size", "number of blocks", "number of requests", "weight")
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_REQUEST = re.compile(r"([ar]) +(\d{1,18}) +(\d{1,18})|f +(\d{1,18})", re.ASCII)


def _read(source: Source, heap: ImportedHeap) -> None:
    lines = (line.strip() for line in source.lines())
    texts = (line for line in lines if line)
    head = [_number(what, next(texts, "")) for what in _HEAD]
    n_requests = 0
    for text in texts:
        n_requests += 1
        if n_requests > head[2]:
            message = f"more than the {head[2]} requests the head announces"
            raise BadCallError(message)
        _request(heap, text, head[1])
    if n_requests != head[2]:
        message = f"ends after {n_requests} of {head[2]} requests; was it cut off?"
        raise BadCallError(message)


def _number(what: str, text: str) -> int:
    if not _NUMBER.fullmatch(text):
        message = f"the {what} was expected here, not {text[:80]!r}"
        raise BadCallError(message)
    return int(text)


def _request(heap: ImportedHeap, text: str, n_blocks: int) -> None:
    match = _REQUEST.fullmatch(text)
    if match is None:
        message = f"'a ID BYTES', 'r ID BYTES' or 'f ID' was expected, not {text[:80]!r}"
        raise BadCallError(message)
    block = int(match[2] or match[4])
    if block >= n_blocks:
        message = f"block {block}: the head announces {n_blocks} blocks, from 0"
        raise BadCallError(message)
    if match[1] == "a":
        heap.allocate(block, int(match[3]))
    elif match[1] == "r":
        heap.reallocate(block, block, int(match[3]))
    else:
        heap.free(block)


FORMAT: Final = Format(
    name="malloc-lab",
    title="malloc lab, .rep",
    lost=("threads: there is one", "calloc and aligned allocations: all are malloc"),
    recognise=re.compile(rb"(?:\s*\d+\s*\n){4}\s*[arf] \d", re.ASCII).match,
    read_events=_read,
)
