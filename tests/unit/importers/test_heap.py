"""Calls with addresses become events with slots; what is missing is counted."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tuner.importers.heap import INVERSION_EVENTS, ImportedHeap
from tuner.trace.file import Api, Events, Op


def heap_events(act: Callable[[ImportedHeap], None]) -> tuple[ImportedHeap, list[Op]]:
    batches: list[Events] = []
    heap = ImportedHeap(batches.append, 1000)
    act(heap)
    heap.flush()
    return heap, [Op(op) for op in np.concatenate(batches)["op"]]


def test_a_late_free_of_another_thread_is_put_in_order():
    def act(heap: ImportedHeap) -> None:
        heap.call(Api.MALLOC, new="block", size=1)
        heap.call(Api.MALLOC, new="block", size=2, thread="other")
        heap.call(Api.FREE, old="block")

    heap, ops = heap_events(act)

    assert ops == [Op.MALLOC, Op.THREAD_START, Op.FREE, Op.MALLOC]
    assert (heap.n_inverted, heap.losses()) == (1, [])


def test_frees_that_never_come_are_counted():
    def act(heap: ImportedHeap) -> None:
        for size in range(4):
            heap.call(Api.MALLOC, new="block", size=size)
        for n in range(INVERSION_EVENTS):
            heap.call(Api.MALLOC, new=n + 1, size=1)
        heap.call(Api.FREE, old="block")

    heap, ops = heap_events(act)

    assert ops[-1] is Op.FREE
    assert heap.losses() == ["frees missing where an address was allocated again: 3"]


def test_one_missing_free_makes_one_block_wrong_however_often_its_address_comes():
    def act(heap: ImportedHeap) -> None:
        heap.call(Api.MALLOC, new="block", size=1)
        for size in range(2, 9):
            heap.call(Api.MALLOC, new="block", size=size)
            heap.call(Api.FREE, old="block")

    heap, ops = heap_events(act)

    # The first free that comes is taken for a late one, so its block lives until the next.
    assert ops == [Op.MALLOC, Op.FREE] * 8
    assert heap.losses() == ["frees missing where an address was allocated again: 1"]
    assert (heap.n_inverted, heap.n_foreign) == (0, 0)


@pytest.mark.parametrize("end", [{"api": Api.FREE}, {"api": Api.REALLOC, "new": "c", "size": 3}])
def test_a_late_free_is_no_missing_one_once_its_block_is_freed(end: dict[str, Any]):
    def act(heap: ImportedHeap) -> None:
        for size in (1, 2):
            heap.call(Api.MALLOC, new="block", size=size)
        heap.call(Api.FREE, old="block")  # late
        heap.call(old="block", **end)
        for size in (4, 5):
            heap.call(Api.MALLOC, new="block", size=size)
        heap.call(Api.FREE, old="block")  # late again

    heap, _ = heap_events(act)

    assert (heap.n_inverted, heap.losses()) == (2, [])


@pytest.mark.parametrize(
    ("call", "ops", "losses"),
    [
        ({"api": Api.FREE}, [], []),
        ({"api": Api.FREE, "old": "b"}, [Op.FREE], []),
        ({"api": Api.REALLOC, "old": "b"}, [Op.FREE], []),
        ({"api": Api.REALLOC, "old": "b", "size": 9}, [], ["allocations that failed: 1"]),
        ({"api": Api.REALLOC, "new": "c", "size": 9}, [Op.MALLOC], []),
        ({"api": Api.REALLOC, "old": "b", "new": "b", "size": 9}, [Op.REALLOC], []),
        ({"api": Api.MALLOC, "size": 9}, [], ["allocations that failed: 1"]),
        ({"api": Api.VALLOC, "new": "c", "size": 9}, [Op.ALIGNED], []),
    ],
)
def test_null_means_what_it_means_in_c(call: dict[str, Any], ops: list[Op], losses: list[str]):
    def act(heap: ImportedHeap) -> None:
        heap.call(Api.MALLOC, new="b", size=1)
        heap.call(**call)

    heap, found = heap_events(act)

    assert found == [Op.MALLOC, *ops]
    assert heap.losses() == losses


@pytest.mark.parametrize(("alignment", "log2"), [(0, 0), (1, 0), (24, 5), (64, 6), (1 << 40, 40)])
def test_an_alignment_is_rounded_up_as_allocators_do(alignment: int, log2: int):
    batches: list[Events] = []
    heap = ImportedHeap(batches.append, 1000)
    heap.call(Api.MEMALIGN, new="b", size=1, alignment=alignment)
    heap.flush()

    assert batches[0]["align_log2"].tolist() == [log2]
