"""Calls with addresses become events with slots; what is missing is counted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tuner.importers.heap import INVERSION_EVENTS, ImportedHeap
from tuner.trace.file import Events, Op


def heap_events(act: Callable[[ImportedHeap], None]) -> tuple[ImportedHeap, list[Op]]:
    batches: list[Events] = []
    heap = ImportedHeap(batches.append, 1000)
    act(heap)
    heap.flush()
    return heap, [Op(op) for op in np.concatenate(batches)["op"]]


def test_a_late_free_of_another_thread_is_put_in_order() -> None:
    def act(heap: ImportedHeap) -> None:
        heap.allocate("block", 1)
        heap.allocate("block", 2, thread="other")
        heap.free("block")

    heap, ops = heap_events(act)

    assert ops == [Op.MALLOC, Op.THREAD_START, Op.FREE, Op.MALLOC]
    assert (heap.n_inverted, heap.losses()) == (1, [])


def test_a_free_that_never_comes_is_counted() -> None:
    def act(heap: ImportedHeap) -> None:
        heap.allocate("block", 1)
        heap.allocate("block", 2)
        for n in range(INVERSION_EVENTS):
            heap.allocate(n, 1)
        heap.free("block")

    heap, ops = heap_events(act)

    assert ops[-1] is Op.FREE
    assert heap.losses() == ["1 frees that are missing: the address was allocated again"]
