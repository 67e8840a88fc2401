"""Read the files of glibc's malloc trace utilities: traces (``.mtrace``) and workloads (``.wl``).

A trace is an array of records of 64 bytes, one per call, with thread and addresses.
A workload is what their ``trace2wl`` makes of it: a byte code per thread, with
numbers instead of addresses and hand-overs between threads (``SYNC_W``, ``SYNC_R``).
The order in which threads ran is gone from a workload; here they take turns, one
call each, and wait for hand-overs.

Source: the branch dj/malloc of glibc, ``malloc/mtrace.h``, ``trace2wl.c`` and ``trace_run.c``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tuner.importers.format import Format
from tuner.importers.heap import ImportedHeap
from tuner.importers.source import BadCallError, Source
from tuner.trace.file import Api

# Traces

_RECORD: Final = np.dtype(
    [
        ("thread", "<i4"),
        ("type", "<u4"),
        ("ptr1", "<u8"),
        ("ptr2", "<u8"),
        ("size", "<u8"),
        ("size2", "<u8"),
        ("size3", "<u8"),
        ("pad", "<u8", 2),
    ]
)
_RECORD_BYTES: Final = _RECORD.itemsize
_RECORDS_AT_ONCE: Final = 1 << 14
_UNUSED, _FREE, _REALLOC, _POSIX_MEMALIGN, _MAGIC = 0, 3, 4, 8, 255
_MAGIC_POINTER: Final = 0x1234
_ALLOCATIONS: Final = {
    1: Api.MALLOC, 2: Api.CALLOC, 5: Api.MEMALIGN, 6: Api.VALLOC, 7: Api.PVALLOC,
    8: Api.POSIX_MEMALIGN,
}  # fmt: skip
_PAGE_BYTES: Final = 4096


def _is_trace(start: bytes) -> bool:
    """Recognise it by the first record."""
    if len(start) < _RECORD_BYTES:
        return False
    first = np.frombuffer(start[:_RECORD_BYTES], _RECORD)[0]
    return bool(first["type"] & 0xFF == _MAGIC and first["ptr1"] == _MAGIC_POINTER)


def _read_trace(source: Source, heap: ImportedHeap) -> None:
    number = 0
    for records in _records(source):
        for record in records.tolist():
            source.place = f" record {number}"
            _take(heap, record)
            number += 1


def _records(source: Source) -> Iterator[np.ndarray]:
    with source.open() as file:
        while chunk := file.read(_RECORDS_AT_ONCE * _RECORD_BYTES):
            if len(chunk) % _RECORD_BYTES:
                source.place = ""
                message = "ends within a record; was it cut off?"
                raise BadCallError(message)
            yield np.frombuffer(chunk, _RECORD)


def _take(heap: ImportedHeap, record: tuple[int, ...]) -> None:
    thread, code, old, new, size, size2, *_ = record
    kind = code & 0xFF
    if kind in (_UNUSED, _MAGIC):
        return
    if kind == _FREE:
        if old:
            heap.free(old, thread=thread)
    elif kind == _REALLOC:
        _realloc(heap, thread, old, new, size)
    elif kind in _ALLOCATIONS:
        has_failed = not new or (kind == _POSIX_MEMALIGN and old != 0)
        if has_failed:
            heap.lose("allocations that failed")
            return
        api = _ALLOCATIONS[kind]
        heap.allocate(new, size, api, thread=thread, alignment=_alignment(api, size2))
    else:
        message = f"type {kind} is unknown"
        raise BadCallError(message)


def _realloc(heap: ImportedHeap, thread: int, old: int, new: int, size: int) -> None:
    if not new:
        if old and size == 0:
            heap.free(old, Api.REALLOC, thread=thread)
        else:
            heap.lose("allocations that failed")
    elif old:
        heap.reallocate(old, new, size, thread=thread)
    else:
        heap.allocate(new, size, Api.REALLOC, thread=thread)


def _alignment(api: Api, stored: int) -> int:
    if api in (Api.MALLOC, Api.CALLOC):
        return 0
    return _PAGE_BYTES if api in (Api.VALLOC, Api.PVALLOC) else stored


# Workloads

_NOP, _DONE, _SYNC_W, _SYNC_R = 0, 1, 6, 7
_ALLOC_PTRS, _ALLOC_SYNCS, _NTHREADS, _START_THREAD = 8, 9, 10, 11
_WL_REALLOC, _WL_FREE, _WL_MEMALIGN = 4, 5, 12
_WL_ALLOCATIONS: Final = {2: Api.MALLOC, 3: Api.CALLOC, 13: Api.VALLOC, 14: Api.PVALLOC}
_MAX_WORKLOAD_BYTES: Final = 1 << 32


def _is_workload(start: bytes) -> bool:
    """Recognise it by the head: tables of pointers and of hand-overs, number of threads."""
    code = _Code(start)
    try:
        if code.byte() != _ALLOC_PTRS:
            return False
        code.number()
        if code.byte() != _ALLOC_SYNCS:
            return False
        code.number()
        return code.byte() == _NTHREADS
    except BadCallError:
        return False


@dataclass
class _Code:
    """A place in the byte code."""

    content: bytes
    position: int = 0

    def byte(self) -> int:
        if self.position >= len(self.content):
            message = "the workload ends here; was it cut off?"
            raise BadCallError(message)
        value = self.content[self.position]
        self.position += 1
        return value

    def number(self) -> int:
        """Read seven bits a byte, high bits first, the last byte without its top bit."""
        value = 0
        while True:
            byte = self.byte()
            value = value << 7 | byte & 0x7F
            if byte < 0x80:  # noqa: PLR2004 - the top bit
                return value
            if value >> 64:
                message = "a number of more than 64 bits"
                raise BadCallError(message)


@dataclass
class _Workload:
    """A workload being played."""

    heap: ImportedHeap
    n_pointers: int = 0
    signalled: set[int] = field(default_factory=set)
    """Hand-overs that may be taken."""

    def start(self, code: _Code) -> list[_Code]:
        """Read the head; return a place for each thread."""
        starts: list[_Code] = []
        while True:
            operation = code.byte()
            if operation == _DONE:
                return starts
            if operation == _NOP:
                continue
            if operation not in (_ALLOC_PTRS, _ALLOC_SYNCS, _NTHREADS, _START_THREAD):
                message = f"operation {operation} does not belong into the head"
                raise BadCallError(message)
            value = code.number()
            if operation == _ALLOC_PTRS:
                self.n_pointers = value
            elif operation == _START_THREAD:
                starts.append(_Code(code.content, value))

    def step(self, thread: int, code: _Code) -> bool | None:
        """Play up to one call; True: got on, False: waits for a hand-over, None: has ended."""
        start = code.position
        while True:
            before = code.position
            operation = code.byte()
            if operation == _DONE:
                return None
            if operation == _SYNC_R:
                if code.number() not in self.signalled:
                    code.position = before
                    return before > start
            elif operation == _SYNC_W:
                self.signalled.add(code.number())
            elif operation != _NOP:
                self._call(thread, operation, code)
                return True

    def _call(self, thread: int, operation: int, code: _Code) -> None:
        if operation == _WL_FREE:
            block = self._block(code)
            if block:
                self.heap.free(block, thread=thread)
        elif operation == _WL_REALLOC:
            new, old, size = self._block(code), self._block(code), code.number()
            _realloc(self.heap, thread, old, new, size)
        elif operation == _WL_MEMALIGN:
            block, alignment, size = self._block(code), code.number(), code.number()
            self._allocate(thread, block, size, Api.MEMALIGN, alignment)
        elif operation in _WL_ALLOCATIONS:
            api = _WL_ALLOCATIONS[operation]
            block, size = self._block(code), code.number()
            self._allocate(thread, block, size, api, _alignment(api, 0))
        else:
            message = f"operation {operation} is unknown"
            raise BadCallError(message)

    def _block(self, code: _Code) -> int:
        block = code.number()
        if block > self.n_pointers:
            message = f"block {block} of {self.n_pointers}"
            raise BadCallError(message)
        return block

    def _allocate(self, thread: int, block: int, size: int, api: Api, alignment: int) -> None:
        if block:
            self.heap.allocate(block, size, api, thread=thread, alignment=alignment)
        else:
            self.heap.lose("allocations that failed")


def _check_progress(n_waiting: int, n_threads: int) -> None:
    if n_threads and n_waiting >= n_threads:
        message = "all threads wait for each other"
        raise BadCallError(message)


def _read_workload(source: Source, heap: ImportedHeap) -> None:
    with source.open() as file:
        content = file.read(_MAX_WORKLOAD_BYTES)
    code = _Code(content)
    try:
        workload = _Workload(heap)
        turns = deque(enumerate(workload.start(code)))
        n_waiting = 0
        while turns:
            thread, code = turns.popleft()
            played = workload.step(thread, code)
            n_waiting = n_waiting + 1 if played is False else 0
            if played is not None:
                turns.append((thread, code))
            _check_progress(n_waiting, len(turns))
    finally:
        source.place = f" byte {code.position}"


TRACE: Final = Format(
    name="glibc-trace",
    title="glibc's malloc trace utilities, .mtrace",
    lost=("the ends of threads: each lives to the end",),
    recognise=_is_trace,
    read_events=_read_trace,
)
WORKLOAD: Final = Format(
    name="glibc-workload",
    title="glibc's malloc trace utilities, .wl",
    lost=(
        "the order of the threads, but for hand-overs of blocks: they take turns",
        "the ends of threads: each lives to the end",
    ),
    recognise=_is_workload,
    read_events=_read_workload,
)
