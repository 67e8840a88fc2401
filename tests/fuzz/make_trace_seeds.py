"""Write the seeds of fuzz_trace: run after the format changed.

    python tests/fuzz/make_trace_seeds.py

Small traces with every kind of event, whole and cut off, and the columns of one
block for the mode that packs them itself (see fuzz_trace.c).
"""

import struct
import tempfile
from pathlib import Path

import numpy as np

from tuner.trace.file import EVENT, Api, Events, Op, write_trace

SEEDS = Path(__file__).parent / "corpus" / "fuzz_trace"

EVERY_KIND = [
    (0, 100, 0, 0, 0, Op.MALLOC, Api.MALLOC, 0, 0, 0, 0),
    (0, 24, 1, 0, 0, Op.CALLOC, Api.CALLOC, 0, 0, 0, 0),
    (20_000, 0, 0, 1, 1, Op.THREAD_START, Api.THREAD, 0, 0, 0, 0),
    (20_000, 4096, 2, 1, 1, Op.ALIGNED, Api.POSIX_MEMALIGN, 12, 0, 0, 0),
    (20_000, 1 << 40, 2, 0, 1, Op.REALLOC, Api.REALLOC, 0, 0, 1 << 20, 0),
    (90_000, 0, 0, 1, 0, Op.FREE, Api.DELETE_SIZED, 0, 0, 0, 0),
    (90_000, 7, 0, 1, 1, Op.MALLOC, Api.NEW, 0, 0, 0, 0),
    (10**10, 0, 0, 1, 1, Op.THREAD_EXIT, Api.THREAD, 0, 0, 0, 0),
]


def block(thread: int, columns: tuple[bytes, bytes, bytes, bytes], n_events: int) -> bytes:
    lengths = struct.pack("<4I", *(len(column) for column in columns))
    return b"\x01" + struct.pack("<QII", 0, thread, n_events) + lengths + b"".join(columns)


def whole(events: Events, life: tuple[int | None, int | None] = (None, None)) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seed.trace"
        write_trace(path, events, {"argv": ["seed"]}, life=life)
        return path.read_bytes()


def main() -> None:
    SEEDS.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    lives = [
        (i * 10_000, 0 if i % 2 else int(rng.integers(1, 5000)), 0, 0, 0,
         Op.FREE if i % 2 else Op.MALLOC, Api.FREE if i % 2 else Api.MALLOC, 0, 0, 0, 0)
        for i in range(100)
    ]  # fmt: skip
    every = whole(np.array(EVERY_KIND, EVENT))
    malloc, free, start, switch = b"\x00", b"\x4c", b"\x85", b"\x07"
    seeds = {
        "every-kind": b"\x00" + every,
        "cut-off": b"\x00" + every[:-9],
        "no-totals": b"\x00" + every[:20] + bytes(4) + every[24:],
        "lives": b"\x00" + whole(np.array(lives, EVENT)),
        "empty": b"\x00" + whole(np.zeros(0, EVENT)),
        "life": b"\x00" + whole(np.array(EVERY_KIND, EVENT), (20_000, 2 * 10**10)),
        "block-lives": block(0, (malloc + free, b"\x00\x00", b"\x20", b""), 2),
        "block-threads": block(
            0, (malloc + switch + start + free, b"\x00\x00", b"\x05", b"\x01"), 3
        ),
        "block-touch": block(0, (b"\x17" + malloc, b"\x00", b"\x80\x80\x02", b"\x09"), 1),
        "block-elapsed": block(0, (b"\x0f" + malloc, b"\x00", b"\x01", b"\xff\x7f"), 1),
    }
    for name, content in seeds.items():
        (SEEDS / name).write_bytes(content)


if __name__ == "__main__":
    main()
