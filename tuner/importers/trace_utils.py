"""Read the files of glibc's malloc trace utilities: traces (``.mtrace``) and workloads (``.wl``).

A trace is an array of records of 64 bytes, one per call, with thread and addresses.
A workload is what their ``trace2wl`` makes of it: a byte code per thread, with
numbers instead of addresses and hand-overs between threads (``SYNC_W``, ``SYNC_R``).
The order in which threads ran is gone from a workload; here they take turns, one
call each, and wait for hand-overs.

Source: the branch dj/malloc of glibc, ``malloc/mtrace.h``, ``trace2wl.c`` and ``trace_run.c``.
"""

import io
import re
import struct
from collections.abc import Iterator, Mapping
from typing import Final

from tuner.importers.format import NO_THREAD_ENDS, Format
from tuner.importers.heap import NULL, ImportedHeap
from tuner.importers.source import BadCallError, Source
from tuner.trace.file import Api

# Traces

_RECORD: Final = struct.Struct("<iI7Q")
"""Thread, type, two pointers, size, alignment, and three words that are not used."""
_RECORDS_AT_ONCE: Final = 1 << 14
_UNUSED, _MAGIC = 0, 255
_FUNCTIONS: Final = {
    1: Api.MALLOC, 2: Api.CALLOC, 3: Api.FREE, 4: Api.REALLOC, 5: Api.MEMALIGN, 6: Api.VALLOC,
    7: Api.PVALLOC, 8: Api.POSIX_MEMALIGN,
}  # fmt: skip
_ALIGNED: Final = frozenset({Api.MEMALIGN, Api.POSIX_MEMALIGN})


def _read_trace(source: Source, heap: ImportedHeap) -> None:
    for number, (thread, code, old, new, size, alignment, *_) in enumerate(_records(source)):
        source.place = f" record {number}"
        kind = code & 0xFF
        if kind in (_UNUSED, _MAGIC):
            continue
        if kind not in _FUNCTIONS:
            raise BadCallError(f"type {kind} is unknown")
        api = _FUNCTIONS[kind]
        result = NULL if api is Api.POSIX_MEMALIGN and old else new  # it failed: old is its status
        aligned = alignment if api in _ALIGNED else 0
        heap.call(api, old=old, new=result, size=size, alignment=aligned, thread=thread)


def _records(source: Source) -> Iterator[tuple[int, ...]]:
    with source.open() as file:
        while chunk := file.read(_RECORDS_AT_ONCE * _RECORD.size):
            if len(chunk) % _RECORD.size:
                source.place = ""
                raise BadCallError("ends within a record; was it cut off?")
            yield from _RECORD.iter_unpack(chunk)


# Workloads

_NOP, _DONE, _SIGNAL, _WAIT, _BLOCKS, _THREAD = 0, 1, 6, 7, 8, 11
_CALLS: Final = {
    2: (Api.MALLOC, ("new", "size")),
    3: (Api.CALLOC, ("new", "size")),
    4: (Api.REALLOC, ("new", "old", "size")),
    5: (Api.FREE, ("old",)),
    12: (Api.MEMALIGN, ("new", "alignment", "size")),
    13: (Api.VALLOC, ("new", "size")),
    14: (Api.PVALLOC, ("new", "size")),
}
"""Operation -> function and operands, as `ImportedHeap.call` names them; block 0 is NULL."""
_STEPS: Final = {
    **{operation: names for operation, (_, names) in _CALLS.items()},
    **dict.fromkeys((_SIGNAL, _WAIT), ("number",)),
}
_HEAD: Final = dict.fromkeys((_BLOCKS, 9, 10, _THREAD), ("number",))
"""Operations of threads and of the head, with their operands."""
_MAX_WORKLOAD_BYTES: Final = 1 << 32


class _Code(io.BytesIO):
    """Byte code, read from some place on."""

    def number(self) -> int:
        """Read seven bits a byte, high bits first, the last byte without its top bit."""
        value = 0
        while not value >> 57:
            byte = self.read(1)
            if not byte:
                raise BadCallError("the workload ends here; was it cut off?")
            value = value << 7 | byte[0] & 0x7F
            if not byte[0] & 0x80:
                return value
        raise BadCallError("a number of more than 64 bits")

    def steps(
        self, known: Mapping[int, tuple[str, ...]], where: str
    ) -> Iterator[tuple[int, dict[str, int]]]:
        """Yield operations with their operands up to the end of a head or a thread."""
        while (operation := self.number()) != _DONE:
            if operation in known:
                yield operation, {name: self.number() for name in known[operation]}
            elif operation != _NOP:
                raise BadCallError(f"operation {operation} does not belong into {where}")


def _play(
    heap: ImportedHeap, thread: int, code: _Code, n_blocks: int, signalled: set[int]
) -> Iterator[bool]:
    """Play a thread: yields after each step, and False as long as it waits for a hand-over."""
    for operation, operands in code.steps(_STEPS, "a thread"):
        if operation == _WAIT:
            while operands["number"] not in signalled:
                yield False
            continue
        if operation == _SIGNAL:
            signalled.add(operands["number"])
        else:
            block = max(operands.get("old", 0), operands.get("new", 0))
            if block > n_blocks:
                raise BadCallError(f"block {block} of {n_blocks}")
            heap.call(_CALLS[operation][0], thread=thread, **operands)
        yield True


def _read_workload(source: Source, heap: ImportedHeap) -> None:
    with source.open() as file:
        code = _Code(file.read(_MAX_WORKLOAD_BYTES))
    signalled: set[int] = set()
    try:
        head = [(step, found["number"]) for step, found in code.steps(_HEAD, "the head")]
        n_blocks = max((number for step, number in head if step == _BLOCKS), default=0)
        content, turns = code.getvalue(), {}
        for thread, start in enumerate(number for step, number in head if step == _THREAD):
            own = _Code(content)
            if start >= len(content):
                raise BadCallError(
                    f"thread {thread} begins at byte {start}, behind the end; was it cut off?"
                )
            own.seek(start)
            turns[own] = _play(heap, thread, own, n_blocks, signalled)
        while turns:
            is_stuck = True
            for code, played in list(turns.items()):
                is_further = next(played, None)
                is_stuck = is_stuck and is_further is False
                if is_further is None:
                    del turns[code]
            if is_stuck:
                raise BadCallError("all threads wait for each other")
    finally:
        source.place = f" byte {code.tell()}"


TRACE: Final = Format(
    name="glibc-trace",
    title="glibc's malloc trace utilities, .mtrace",
    lost=(NO_THREAD_ENDS,),
    # The first record is magic.
    recognise=re.compile(rb".{4}\xff.{3}\x34\x12\0{6}", re.DOTALL).match,
    read_events=_read_trace,
)
WORKLOAD: Final = Format(
    name="glibc-workload",
    title="glibc's malloc trace utilities, .wl",
    lost=(
        "the order of the threads, but for hand-overs of blocks: they take turns",
        NO_THREAD_ENDS,
    ),
    # The head: tables of pointers and of hand-overs, number of threads.
    recognise=re.compile(rb"\x08[\x80-\xff]*[\0-\x7f]\x09[\x80-\xff]*[\0-\x7f]\x0a").match,
    read_events=_read_workload,
)
