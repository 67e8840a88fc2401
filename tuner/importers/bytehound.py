"""Read the allocations of bytehound as its server gives them out: JSON.

``/data/ID/allocations`` is an object with ``allocations``, a list; of each
allocation ``timestamp``, ``thread``, ``size`` and ``deallocation`` (null, or
``timestamp`` and ``thread``) are used.  The list may be in any order.

Limit: the whole list is in memory at once.

Source: bytehound's ``server-core/src/protocol.rs``.
"""

import re
from typing import Annotated, Final

from pydantic import BaseModel, Field

from tuner.importers.format import ALL_MALLOC, NO_REALLOC, NO_THREAD_ENDS, Format
from tuner.importers.heap import ImportedHeap
from tuner.importers.source import Count, Source
from tuner.trace.file import Api


class _Time(BaseModel):
    secs: Annotated[int, Field(strict=True, ge=0, lt=2**33)]
    fract_nsecs: Annotated[int, Field(strict=True, ge=0, lt=10**9)]

    @property
    def ns(self) -> int:
        return self.secs * 10**9 + self.fract_nsecs


class _End(BaseModel):
    timestamp: _Time
    thread: Count | None = None


class _Allocation(_End):
    thread: Count
    size: Count
    deallocation: _End | None


class _Document(BaseModel):
    allocations: list[_Allocation]
    total_count: Count = 0


def _read(source: Source, heap: ImportedHeap) -> None:
    """Put the allocations into a heap, in the order of their times.

    At one moment frees come first, then allocations, then frees of blocks that lived no time.
    """
    document = source.document(_Document)
    n_missing = document.total_count - len(document.allocations)
    heap.missed["allocations that the file counts but does not list"] += max(0, n_missing)
    calls = []
    for index, row in enumerate(document.allocations):
        born_ns, end = row.timestamp.ns, row.deallocation
        calls.append((born_ns, 1, index, Api.MALLOC, row.thread))
        if end is not None:
            freed_ns = max(born_ns, end.timestamp.ns)
            thread = row.thread if end.thread is None else end.thread
            calls.append((freed_ns, 0 if freed_ns > born_ns else 2, index, Api.FREE, thread))
    calls.sort()
    for time_ns, _, index, api, thread in calls:
        source.place = f" allocation {index}"
        heap.at(time_ns - calls[0][0])
        block, size = index + 1, document.allocations[index].size  # block 0 is NULL
        heap.call(api, old=block, new=block, size=size, thread=thread)


FORMAT: Final = Format(
    name="bytehound",
    title="bytehound, allocations as JSON",
    lost=(NO_REALLOC, ALL_MALLOC, NO_THREAD_ENDS),
    recognise=re.compile(rb'\s*\{.*?"allocations"\s*:\s*\[', re.DOTALL).match,
    read_events=_read,
)
