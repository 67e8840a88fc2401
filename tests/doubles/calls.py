"""Random but valid sequences of calls, and what every importer's format makes of them."""

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st


@dataclass(frozen=True)
class Call:
    """One call on a block; blocks are numbered, and numbers used again after a free."""

    kind: str
    """``malloc``, ``calloc``, ``memalign``, ``realloc`` or ``free``."""
    block: int
    size: int = 0
    thread: int = 0

    @property
    def address(self) -> int:
        """Where the block lies, the same for the same number."""
        return 0x5000_0000 + self.block * 0x100000


@st.composite
def calls(draw: st.DrawFn, n_threads: int = 1) -> list[Call]:
    """Draw up to 60 calls, each on a block that may have it."""
    live: list[int] = []
    made: list[Call] = []
    for _ in range(draw(st.integers(1, 60))):
        thread = draw(st.integers(0, n_threads - 1)) if made else 0
        size = draw(st.integers(1, 5000))
        kind = draw(st.sampled_from(["malloc", "calloc", "memalign", "realloc", "free"]))
        if kind in ("realloc", "free") and live:
            block = draw(st.sampled_from(live))
            if kind == "free":
                live.remove(block)
                size = 0
        else:
            kind = kind if kind not in ("realloc", "free") else "malloc"
            block = next(n for n in range(len(live) + 1) if n not in live)
            live.append(block)
        made.append(Call(kind, block, size, thread))
    return made


def as_valgrind(made: Sequence[Call]) -> bytes:
    forms: dict[str, Callable[[Call], str]] = {
        "malloc": lambda c: f"malloc({c.size}) = 0x{c.address:X}",
        "calloc": lambda c: f"calloc(1,{c.size}) = 0x{c.address:X}",
        "memalign": lambda c: f"memalign(al 64, size {c.size}) = 0x{c.address:X}",
        "realloc": lambda c: f"realloc(0x{c.address:X},{c.size}) = 0x{c.address:X}",
        "free": lambda c: f"free(0x{c.address:X})",
    }
    return "".join(f"--7-- {forms[c.kind](c)}\n" for c in made).encode()


def as_mtrace(made: Sequence[Call]) -> bytes:
    lines = ["= Start"]
    for c in made:
        at = f"@ ./app:(main+0x12)[0x1234] {{}} 0x{c.address:x}"
        if c.kind == "free":
            lines.append(at.format("-"))
        elif c.kind == "realloc":
            lines += [at.format("<"), f"{at.format('>')} 0x{c.size:x}"]
        else:
            lines.append(f"{at.format('+')} 0x{c.size:x}")
    return ("\n".join(lines) + "\n").encode()


def as_malloc_lab(made: Sequence[Call]) -> bytes:
    letters = {"malloc": "a", "calloc": "a", "memalign": "a", "realloc": "r", "free": "f"}
    head = [1 << 20, 1 + max(c.block for c in made), len(made), 1]
    body = [f"{letters[c.kind]} {c.block}" + (f" {c.size}" if c.size else "") for c in made]
    return ("\n".join([*map(str, head), *body]) + "\n").encode()


def as_heaptrack_raw(made: Sequence[Call]) -> bytes:
    lines = ["v 10400 3", "X ./app --flag"]
    for c in made:
        if c.kind in ("free", "realloc"):
            lines.append(f"- {c.address:x}")
        if c.kind != "free":
            lines.append(f"+ {c.size:x} 1 {c.address:x}")
    return ("\n".join(lines) + "\n").encode()


_TYPES = {"malloc": 1, "calloc": 2, "free": 3, "realloc": 4, "memalign": 5}


def as_glibc_trace(made: Sequence[Call]) -> bytes:
    records = [(0, 255, 0x1234, 0, 8, 0, 0)]
    for c in made:
        old = c.address if c.kind in ("free", "realloc") else 0
        new = 0 if c.kind == "free" else c.address
        alignment = 64 if c.kind == "memalign" else 0
        records.append((100 + c.thread, _TYPES[c.kind], old, new, c.size, alignment, 0))
    return b"".join(struct.pack("<iIQQQQQ16x", *record) for record in records) + bytes(64)


def _varint(value: int) -> bytes:
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F | 0x80)
    return bytes(reversed(groups))


_OPCODES = {"malloc": 2, "calloc": 3, "realloc": 4, "free": 5, "memalign": 12}


def as_glibc_workload(made: Sequence[Call]) -> bytes:
    """Write them as a workload; a hand-over stands wherever the thread changes."""
    n_threads = 1 + max(c.thread for c in made)
    code = [b"" for _ in range(n_threads)]
    n_syncs, last = 0, made[0].thread
    for c in made:
        if c.thread != last:
            n_syncs += 1
            code[last] += bytes([6]) + _varint(n_syncs)
            code[c.thread] += bytes([7]) + _varint(n_syncs)
            last = c.thread
        block = _varint(c.block + 1)
        fields = {"realloc": block + block, "memalign": block + _varint(64)}.get(c.kind, block)
        code[c.thread] += bytes([_OPCODES[c.kind]]) + fields
        code[c.thread] += b"" if c.kind == "free" else _varint(c.size)
    code = [part + b"\x01" for part in code]
    n_blocks = 2 + max(c.block for c in made)
    head = b"\x08" + _varint(n_blocks) + b"\x09" + _varint(n_syncs) + b"\x0a" + _varint(n_threads)
    n_head = len(head) + 1
    while True:  # the places of the threads are part of the head
        starts, place = b"", n_head
        for part in code:
            starts += b"\x0b" + _varint(place)
            place += len(part)
        if n_head == len(head) + len(starts) + 1:
            return head + starts + b"\x01" + b"".join(code)
        n_head = len(head) + len(starts) + 1


def as_bytehound(made: Sequence[Call]) -> bytes:
    """Write them as bytehound's allocations: in no order, one call a microsecond."""
    items: list[dict[str, object]] = []
    live: dict[int, dict[str, object]] = {}
    for n, c in enumerate(made):
        when = {"secs": 1000 + n // 1_000_000, "fract_nsecs": n % 1_000_000 * 1000}
        if c.kind in ("free", "realloc"):
            live.pop(c.block)["deallocation"] = {"timestamp": when, "thread": c.thread}
        if c.kind != "free":
            live[c.block] = {
                "address": c.address, "timestamp": when, "thread": c.thread, "size": c.size,
                "deallocation": None, "backtrace": [{"function": "main"}],
            }  # fmt: skip
            items.append(live[c.block])
    return json.dumps({"allocations": items[::-1], "total_count": len(items)}).encode()
