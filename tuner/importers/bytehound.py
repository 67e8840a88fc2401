"""Read the allocations of bytehound as its server gives them out: JSON.

``/data/ID/allocations`` is an object with ``allocations``, a list; of each
allocation ``timestamp``, ``thread``, ``size`` and ``deallocation`` (null, or
``timestamp`` and ``thread``) are used.  The list may be in any order.

Limit: the whole list is in memory at once.

Source: bytehound's ``server-core/src/protocol.rs``.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import numpy as np

from tuner.importers.format import Format
from tuner.importers.heap import ImportedHeap
from tuner.importers.source import BadCallError, Source

_NEVER: Final = (1 << 64) - 1
"""The end of a block that was not freed."""


def _read(source: Source, heap: ImportedHeap) -> None:
    """Put the allocations into a heap, in the order of their times."""
    items, total = _load(source)
    rows = []
    for number, item in enumerate(items):
        source.place = f" allocation {number}"
        rows.append(_row(item))
    if total > len(rows):
        heap.lose("allocations that the file counts but does not list", total - len(rows))
    begin, end = (np.array([row[i] for row in rows], "u8") for i in (0, 1))
    order, is_free = _order(begin, end)
    start_ns = int(begin.min()) if rows else 0
    times = (np.concatenate([begin, end])[order] - np.uint64(start_ns)).tolist()
    indexes = (order % max(1, len(rows))).tolist()
    for time_ns, index, frees in zip(times, indexes, is_free.tolist(), strict=True):
        source.place = f" allocation {index}"
        _, _, size, thread, freed_by = rows[index]
        heap.at(time_ns)
        if frees:
            heap.free(index, thread=freed_by)
        else:
            heap.allocate(index, size, thread=thread)


def _load(source: Source) -> tuple[list[Any], int]:
    """Return the list, and how many allocations the server says there are."""
    with source.open() as file:
        try:
            document = json.load(file)
        except (ValueError, RecursionError) as error:
            message = f"not JSON: {error}; was the file cut off?"
            raise BadCallError(message) from error
    items = document.get("allocations") if isinstance(document, dict) else None
    if not isinstance(items, list):
        message = 'no list "allocations"'
        raise BadCallError(message)
    total = document.get("total_count")
    return items, total if isinstance(total, int) else 0


def _row(item: Any) -> tuple[int, int, int, int, int]:  # noqa: ANN401 - as JSON has it
    """Return begin, end, size, thread, and the thread that frees."""
    try:
        freed = item["deallocation"]
        begin = _ns(item["timestamp"])
        end = _NEVER if freed is None else _ns(freed["timestamp"])
        size, thread = item["size"], item["thread"]
        freed_by = thread if freed is None else freed.get("thread", thread)
    except (KeyError, TypeError, AttributeError) as error:
        message = f"is malformed: {type(error).__name__} {error}"
        raise BadCallError(message) from error
    if not all(type(n) is int and 0 <= n <= _NEVER for n in (begin, end, size, thread, freed_by)):
        message = "is malformed: numbers from 0 to 2^64 were expected"
        raise BadCallError(message)
    return begin, end, size, thread, freed_by


def _ns(timestamp: dict[str, int]) -> int:
    return timestamp["secs"] * 10**9 + timestamp["fract_nsecs"]


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
