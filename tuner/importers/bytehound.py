"""Read the allocations of bytehound as its server gives them out: JSON.

``/data/ID/allocations`` is an object with ``allocations``, a list; of each
allocation ``timestamp``, ``thread``, ``size`` and ``deallocation`` (null, or
``timestamp`` and ``thread``) are used.  The list may be in any order.

Limit: the whole list is in memory at once.

Source: bytehound's ``server-core/src/protocol.rs``.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

import numpy as np
from pydantic import BaseModel, Field

from tuner.importers.format import Format
from tuner.importers.heap import ImportedHeap
from tuner.importers.source import Count, Source

_NEVER: Final = (1 << 64) - 1
"""The end of a block that was not freed."""


class _Time(BaseModel):
    secs: Annotated[int, Field(strict=True, ge=0, lt=2**33)]
    fract_nsecs: Annotated[int, Field(strict=True, ge=0, lt=10**9)]

    @property
    def ns(self) -> int:
        return self.secs * 10**9 + self.fract_nsecs


class _End(BaseModel):
    timestamp: _Time
    thread: Count | None = None


class _Allocation(BaseModel):
    timestamp: _Time
    thread: Count
    size: Count
    deallocation: _End | None


class _Document(BaseModel):
    allocations: list[_Allocation]
    total_count: Count = 0


def _read(source: Source, heap: ImportedHeap) -> None:
    """Put the allocations into a heap, in the order of their times."""
    document = source.document(_Document)
    rows = document.allocations
    if document.total_count > len(rows):
        n_missing = document.total_count - len(rows)
        heap.lose("allocations that the file counts but does not list", n_missing)
    begin = np.array([row.timestamp.ns for row in rows], "u8")
    ends = (row.deallocation for row in rows)
    end = np.array([_NEVER if e is None else e.timestamp.ns for e in ends], "u8")
    order, is_free = _order(begin, end)
    start_ns = int(begin.min()) if rows else 0
    times = (np.concatenate([begin, end])[order] - np.uint64(start_ns)).tolist()
    indexes = (order % max(1, len(rows))).tolist()
    for time_ns, index, frees in zip(times, indexes, is_free.tolist(), strict=True):
        source.place = f" allocation {index}"
        row = rows[index]
        heap.at(time_ns)
        if not frees:
            heap.allocate(index, row.size, thread=row.thread)
        else:
            freed_by = row.deallocation.thread if row.deallocation else None
            heap.free(index, thread=row.thread if freed_by is None else freed_by)


def _order(begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return allocations (0 to n - 1) and frees (n to 2n - 1) in order, and which are frees.

    At one moment blocks are freed first, then allocated, then those that lived no time freed.
    """
    n = len(begin)
    if not n:
        return np.empty(0, "i8"), np.empty(0, bool)
    times = np.concatenate([begin, np.maximum(begin, end)])
    rank = np.concatenate([np.ones(n, "u1"), np.where(end > begin, 0, 2).astype("u1")])
    keep = np.concatenate([np.ones(n, bool), end != _NEVER])
    order = np.lexsort((rank, times))
    order = order[keep[order]]
    return order, order >= n


FORMAT: Final = Format(
    name="bytehound",
    title="bytehound, allocations as JSON",
    lost=(
        "realloc: each is a free and an allocation",
        "calloc and aligned allocations: all are malloc",
        "the ends of threads: each lives to the end",
    ),
    recognise=re.compile(rb'\s*\{.*?"allocations"\s*:\s*\[', re.DOTALL).match,
    read_events=_read,
)
