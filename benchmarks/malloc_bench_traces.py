"""Make traces of the recordings of malloc-bench, for benchmarks/fidelity.py.

They are recordings of single-threaded programs by others and do not ship: fetch
https://github.com/ClaytonKnittel/malloc-bench, then

    benchmarks/malloc_bench_traces.py FOLDER            the twelve that fidelity.py takes
    benchmarks/malloc_bench_traces.py FOLDER NAME...    others of malloc-bench's traces/
    benchmarks/malloc_bench_traces.py --smoke           a quick look that it still runs

writes them to ``runs/traces``, as mb-NAME.trace.

Each is a gzipped message of protocol buffers; of that format only variable-length numbers and
nested messages occur.  Calls come one after the other without times: they are put 50 us apart.

Source: malloc-bench, proto/tracefile.proto; https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from tuner.trace.file import EVENT, Api, Events, Op, write_trace

OUTPUT: Final = Path(__file__).resolve().parent.parent / "runs" / "traces"
NAMES: Final = (
    "bdd-aa32", "cbit-parity", "clang", "grep", "haskell-web-server", "mc_server",
    "mc_server_small", "ngram-shake1", "onoro", "py-catan-ai", "scp", "ssh",
)  # fmt: skip
STEP_NS: Final = 50_000

LINE: Final = 1
"""Field of the file: one call."""
MALLOC, FREE, REALLOC, CALLOC = 1, 2, 3, 4
"""Fields of a call."""


def read_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field: a number, or a nested message.

    Raises:
        ValueError: the message has a field of another type, or ends early.
    """
    at = 0
    while at < len(message):
        key, at = _number(message, at)
        value, at = _number(message, at)
        if key & 7 == 0:
            yield key >> 3, value
        elif key & 7 == 2 and at + value <= len(message):
            yield key >> 3, message[at : at + value]
            at += value
        else:
            raise ValueError(at)


def _number(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message):
            raise ValueError(at)
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


class _Heap:
    """The events so far, and the slots in use."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int, int]] = []
        self.slots: dict[int, int] = {}
        self.free_slots: list[int] = []

    def allocate(self, op: Op, api: Api, block: int, size: int, alignment: int = 0) -> None:
        self.end(block)  # the number is used again without a free that was seen
        slot = self.free_slots.pop() if self.free_slots else len(self.slots)
        self.slots[block] = slot
        align_log2 = alignment.bit_length() - 1 if alignment else 0
        self.rows.append((op, api, size, slot, align_log2))

    def resize(self, old: int, new: int, size: int) -> None:
        slot = self.slots.pop(old)
        self.slots[new] = slot
        self.rows.append((Op.REALLOC, Api.REALLOC, size, slot, 0))

    def end(self, block: int) -> None:
        if block in self.slots:
            slot = self.slots.pop(block)
            self.free_slots.append(slot)
            self.rows.append((Op.FREE, Api.FREE, 0, slot, 0))


def _call(heap: _Heap, kind: int, call: dict[int, int]) -> None:
    """Take a call; a block without a number is NULL, and numbers begin at 0."""
    first, second, third = call.get(1), call.get(2), call.get(3, 0)
    if kind == FREE and first is not None:
        heap.end(first)
    elif kind == REALLOC and second in heap.slots:
        if first is None or third == 0:
            heap.end(second)
        else:
            heap.resize(second, first, third)
    elif first is None:
        return
    elif kind == MALLOC:
        op, api = (Op.ALIGNED, Api.MEMALIGN) if third else (Op.MALLOC, Api.MALLOC)
        heap.allocate(op, api, first, second or 0, third)
    elif kind == CALLOC:
        heap.allocate(Op.CALLOC, Api.CALLOC, first, (second or 0) * third)
    elif kind == REALLOC:
        heap.allocate(Op.MALLOC, Api.MALLOC, first, third)


def read_events(message: bytes) -> Events:
    """Return the events of a recording; calls that failed leave none.

    Raises:
        ValueError: the message is damaged, or of another kind.
    """
    heap = _Heap()
    for number, line in read_fields(message):
        if number == LINE and isinstance(line, bytes):
            for kind, call in read_fields(line):
                if isinstance(call, bytes):
                    _call(heap, kind, {n: v for n, v in read_fields(call) if isinstance(v, int)})
    table = np.array(heap.rows, np.int64).reshape(-1, 5)
    events = np.zeros(len(table), EVENT)
    for column, field in enumerate(("op", "api", "size", "slot", "align_log2")):
        events[field] = table[:, column]
    events["time_ns"] = np.arange(len(events), dtype=np.uint64) * STEP_NS
    return events


def main() -> None:
    """Convert what the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    if options.smoke:
        # malloc(24) -> 7, then free(7)
        print(len(read_events(bytes([10, 6, 10, 4, 8, 7, 16, 24, 10, 4, 18, 2, 8, 7]))), "events")
        return
    if options.folder is None:
        print("nothing to do: no folder of malloc-bench was named", file=sys.stderr)
        return
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for name in options.names or NAMES:
        path = options.folder / "traces" / f"{name}.trace.gz"
        events = read_events(gzip.decompress(path.read_bytes()))
        metadata = {"tool": "benchmarks/malloc_bench_traces.py", "source": path.name}
        write_trace(OUTPUT / f"mb-{name}.trace", events, metadata)
        print(f"mb-{name}: {len(events):,} events")


if __name__ == "__main__":
    main()
