"""Play the records of Langdon's rand_malloc: a trace of what his program would do with them.

One tick after the other, the next record's block is allocated, then all blocks are freed that
are due, the earliest scheduled first.  Ticks go on until the last block is due, but no further
than a horizon; what is due behind it is never freed.

The file is his text (`tuner.importers.records`) or a DHAT profile, of which records are made as
his tools do (`tuner.importers.classic_tree`).

Guarantees: the same records and seed give his program's figures, number by number, as long as
it runs to its end: it gives up where more than `WIDTH` blocks are due at one tick.

Source: github.com/wblangdon/rand_malloc, rand_malloc.c 1.36 and its README; written anew.
"""

import ctypes
from collections.abc import Iterator
from itertools import islice
from typing import Final

import numpy as np

from tuner.importers import classic_tree, heap_profiles
from tuner.importers.format import ONE_THREAD, Format
from tuner.importers.heap import ImportedHeap
from tuner.importers.records import read_records, recognise_records
from tuner.importers.source import Source
from tuner.trace.file import Api

HORIZON: Final = 10_000_000
"""Ticks."""

WIDTH: Final = 20
"""Blocks due at one tick, above which the original gives up."""

_TICK_NS: Final = 1000
"""Our clock; the original has none."""
_RAND_MAX: Final = 2**31 - 1


def random_numbers(seed: int) -> Iterator[int]:
    """Yield what glibc's rand() returns after srand(`seed`), a seed from 0 to 2**31 - 1.

    Example:
        >>> next(random_numbers(1))
        1804289383
    """
    libc, number = ctypes.CDLL(None), ctypes.c_int32()
    state, data = ctypes.create_string_buffer(128), ctypes.create_string_buffer(64)
    libc.initstate_r(seed, state, len(state), data)
    while True:
        libc.random_r(data, ctypes.byref(number))
        yield number.value


def _draw_about(mean: float, numbers: Iterator[int]) -> int:
    """Return the rounded mean of five numbers that are uniform up to twice `mean`.

    It is at least 1 where `mean` is.
    """
    drawn = sum(islice(numbers, 5)) * mean / (_RAND_MAX * 2.5)
    return 1 if mean >= 1 > drawn else int(drawn + 0.5)


def play(records: np.ndarray, heap: ImportedHeap) -> None:
    """Put the calls that his program makes into a heap, with its figures.

    Args:
        records: shape (n,), dtype `tuner.importers.records.RECORD`.
        heap: an empty one.
    """
    numbers = random_numbers(heap.seed)
    sizes, lives = _drawn(records, numbers)
    births = np.arange(len(records))
    due = births + lives
    freed = np.flatnonzero(due < HORIZON)
    ticks, blocks = np.concatenate([births, due[freed]]), np.concatenate([births, freed])
    is_free = np.arange(len(ticks)) >= len(births)
    order = np.lexsort((blocks, is_free, ticks))
    calls = np.stack([ticks, blocks + 1, np.where(is_free, -1, sizes[blocks])], 1)[order]
    for tick, block, size in calls.tolist():  # block 0 is NULL
        heap.at(tick * _TICK_NS)
        if size < 0:
            heap.call(Api.FREE, old=block)
        else:
            heap.call(Api.MALLOC, new=block, size=size)
    what = f"frees that are due after {HORIZON:,} ticks, where the original ends"
    heap.missed[what] += len(records) - len(freed)
    live_bytes = np.cumsum(np.where(is_free, -sizes[blocks], sizes[blocks])[order])
    figures = _figures(due, sizes, live_bytes) | {"last_random": next(numbers)}
    heap.facts = {"level": "classic", "figures": figures}


def _drawn(records: np.ndarray, numbers: Iterator[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return size and lifetime of each block; the lifetime is drawn first."""
    sizes, lives = (np.floor(records[name] + 0.5).astype(np.int64) for name in ("size", "life"))
    for i in np.flatnonzero(records["type"] > 1):
        lives[i] = _draw_about(records["life"][i], numbers)
        if records["type"][i] == 3:  # noqa: PLR2004 - as in the file
            sizes[i] = _draw_about(records["size"][i], numbers)
    return sizes, lives


def _figures(due: np.ndarray, sizes: np.ndarray, live_bytes: np.ndarray) -> dict[str, int]:
    """Return what his program prints at its end, but for the random number.

    Args:
        due: tick at which each block is due, in the order of the records.
        sizes: of the blocks, bytes.
        live_bytes: after each call.
    """
    beyond = due[due >= HORIZON]
    width = int(np.bincount(due[due < HORIZON]).max(initial=0))
    return {
        "steps": min(max(int(due.max()) + 1, len(due)), HORIZON) + 1,
        "max_width": width,
        "last_free_at": int(due.max()),
        "last_beyond": int(beyond[-1]) if len(beyond) else 0,
        "allocated_bytes": int(sizes.sum()),
        "mallocs": len(due),
        "frees": len(due) - len(beyond),
        "peak_live_bytes": int(live_bytes.max()),
        "final_live_bytes": int(live_bytes[-1]),
        "fits_original": width <= WIDTH,
    }


def _read(source: Source, heap: ImportedHeap) -> None:
    if heap_profiles.DHAT.recognise(source.start(4096)):
        records = classic_tree.records_of(source)
        heap.lost += classic_tree.LOST
    else:
        records = read_records(source)
    source.place = ""
    play(records, heap)


FORMAT: Final = Format(
    name="classic",
    title="Langdon's rand_malloc",
    lost=(ONE_THREAD, "realloc, calloc and aligned allocations: all are malloc"),
    recognise=recognise_records,
    read_events=_read,
)
