"""Write the seeds of the fuzz targets that read traces and profiles, and of that of the heap.

    python tests/fuzz/make_seeds.py FOLDER

FOLDER/<target> gets small traces with every kind of event, whole and cut off, the columns of one
block for the mode that packs them itself (see fuzz_trace.c), profiles of small random traces with
threads, reallocs, bursts and fixed lives, and random operations (see fuzz_exgen_heap.c).  Seeds
that no code here writes any more are kept in corpus/.
"""

import random
import struct
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.doubles.traces import TraceMaker, write_mixed_trace
from tuner.profile.file import profile_text
from tuner.profile.fit import FitOptions, fit
from tuner.trace.file import EVENT, Api, Events, Op, Trace, write_trace

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


def whole(path: Path, events: Events, life: tuple[int | None, int | None] = (None, None)) -> bytes:
    write_trace(path, events, {"argv": ["seed"]}, life=life)
    return path.read_bytes()


def traces(path: Path) -> dict[str, bytes]:
    rng = np.random.default_rng(1)
    lives = [
        (i * 10_000, 0 if i % 2 else int(rng.integers(1, 5000)), 0, 0, 0,
         Op.FREE if i % 2 else Op.MALLOC, Api.FREE if i % 2 else Api.MALLOC, 0, 0, 0, 0)
        for i in range(100)
    ]  # fmt: skip
    every = whole(path, np.array(EVERY_KIND, EVENT))
    malloc, free, start, switch = b"\x00", b"\x4c", b"\x85", b"\x07"
    return {
        "every-kind": b"\x00" + every,
        "cut-off": b"\x00" + every[:-9],
        "no-totals": b"\x00" + every[:20] + bytes(4) + every[24:],
        "lives": b"\x00" + whole(path, np.array(lives, EVENT)),
        "empty": b"\x00" + whole(path, np.zeros(0, EVENT)),
        "life": b"\x00" + whole(path, np.array(EVERY_KIND, EVENT), (20_000, 2 * 10**10)),
        "block-lives": block(0, (malloc + free, b"\x00\x00", b"\x20", b""), 2),
        "block-threads": block(
            0, (malloc + switch + start + free, b"\x00\x00", b"\x05", b"\x01"), 3
        ),
        "block-touch": block(0, (b"\x17" + malloc, b"\x00", b"\x80\x80\x02", b"\x09"), 1),
        "block-elapsed": block(0, (b"\x0f" + malloc, b"\x00", b"\x01", b"\xff\x7f"), 1),
    }


def profile_of(trace: Path) -> bytes:
    with Trace(trace) as opened:
        return profile_text(fit(opened, FitOptions(even_windows=2, most_windows=4))).encode()


def profiles(path: Path) -> dict[str, bytes]:
    burst = TraceMaker()
    for slot in [burst.allocate(32) for _ in range(20)]:
        burst.free(slot)
    return {
        "burst": profile_of(burst.write(path)),
        "one-thread": profile_of(write_mixed_trace(path, 1, 60)),
        "threads": profile_of(write_mixed_trace(path, 3, 90)),
        "life": profile_of(burst.write(path, (1000, 10**7))),
    }


def operations() -> dict[str, bytes]:
    """Return operations of all kinds and sizes, and those on small blocks of two threads."""
    rng = random.Random(1)
    small = [(rng.choice([0, 1, 2, 3, 128, 131]), *rng.randbytes(2), 0) for _ in range(600)]
    return {"mixed": rng.randbytes(2400), "small": b"".join(map(bytes, small))}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seed.trace"
        targets = {
            "fuzz_trace": traces(path),
            "fuzz_profile": profiles(path),
            "fuzz_exgen_heap": operations(),
        }
    for target, seeds in targets.items():
        (Path(sys.argv[1]) / target).mkdir(parents=True, exist_ok=True)
        for name, content in seeds.items():
            (Path(sys.argv[1]) / target / name).write_bytes(content)


if __name__ == "__main__":
    main()
