"""Read the traces of malloc labs (``.rep``): requests on numbered blocks, as text.

A head of four numbers (suggested heap size, number of blocks, number of requests,
weight), then one request a line: ``a ID BYTES``, ``r ID BYTES``, ``f ID``.

Source: Bryant and O'Hallaron, "Computer Systems: A Programmer's Perspective",
the malloc lab's driver.
"""

import re

from tuner.importers.format import ALL_MALLOC, ONE_THREAD, Format
from tuner.importers.heap import ImportedHeap
from tuner.importers.source import BadCallError, Source, matched
from tuner.trace.file import Api

_HEAD = ("the heap size", "the number of blocks", "the number of requests", "the weight")
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_APIS = {"a": Api.MALLOC, "r": Api.REALLOC, None: Api.FREE}
_REQUEST = re.compile(r"(?:([ar])|f) +(\d{1,18})(?(1) +(\d{1,18}))", re.ASCII)


def _read(source: Source, heap: ImportedHeap) -> None:
    lines = source.stripped_lines()
    _, n_blocks, n_announced, _ = (
        int(matched(_NUMBER, next(lines, ""), what)[0]) for what in _HEAD
    )
    n_requests = 0
    for line in lines:
        n_requests += 1
        request = matched(_REQUEST, line, "'a ID BYTES', 'r ID BYTES' or 'f ID'")
        number, size = int(request[2]), int(request[3] or 0)
        if number >= n_blocks:
            raise BadCallError(f"block {number}: the head announces {n_blocks} blocks, from 0")
        block = number + 1  # 0 is NULL
        heap.call(_APIS[request[1]], old=block, new=block, size=size)
    if n_requests != n_announced:
        raise BadCallError(f"ends after {n_requests} requests; the head announces {n_announced}")


FORMAT = Format(
    name="malloc-lab",
    title="malloc lab, .rep",
    lost=(ONE_THREAD, ALL_MALLOC),
    recognise=re.compile(rb"(?:\s*\d+[^\S\n]*\n){4}\s*[arf] \d", re.ASCII).match,
    read_events=_read,
)
