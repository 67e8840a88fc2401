"""valgrind --trace-malloc=yes."""

from pathlib import Path

import pytest

from tests.doubles.imported import import_bytes
from tuner.trace.file import Api, Op


def test_alignment_and_function_are_kept(tmp_path: Path):
    log = (
        b"--7-- _Znwm(4) = 0x100\n--7-- _ZnamSt11align_val_t(size 64, al 32) = 0x200\n"
        b"--7-- _ZdlPvm(0x100)\n--7-- _ZdaPvSt11align_val_t(0x200)\n"
        b"--7-- memalign(al 4096, size 10) = 0x300\n--7-- calloc(3,7) = 0x400\n"
    )
    _, events = import_bytes(tmp_path, log)

    assert [Api(a) for a in events["api"]] == [
        Api.NEW, Api.NEW_ARRAY, Api.DELETE, Api.DELETE_ARRAY, Api.MEMALIGN, Api.CALLOC,
    ]  # fmt: skip
    assert events["align_log2"].tolist() == [0, 5, 0, 0, 12, 0]
    assert events["size"].tolist() == [4, 64, 0, 0, 10, 3 * 7]


def test_valgrinds_time_stamps_are_used(tmp_path: Path):
    log = b"--00:00:00:01.500 7-- malloc(4) = 0x100\n--00:00:01:00.000 7-- free(0x100)\n"
    _, events = import_bytes(tmp_path, log)

    assert events["time_ns"].tolist() == [1_500_000_000, 60_000_000_000]


@pytest.mark.parametrize(
    ("lines", "ops", "lost"),
    [
        ("realloc(0x0,9)malloc(9) = 0x2", [Op.MALLOC], None),
        ("malloc(9) = 0x2\n--7-- realloc(0x2,0)free(0x2)\n--7--  = 0", [Op.MALLOC, Op.FREE], None),
        ("malloc(9) = 0\n--7-- malloc(1) = 0x2", [Op.MALLOC], "allocations that failed: 1"),
        ("malloc(9) = 0x2\n--7-- malloc(9)", [Op.MALLOC], "calls whose result is missing: 1"),
        ("malloc(9) = 0x2\n--8-- malloc(9) = 0x3", [Op.MALLOC], "calls of other processes: 1"),
        ("malloc(9)free(0x0)\n--7--  = 0x2", [Op.MALLOC], None),
        (
            "malloc(9)calloc(1,5)\n--7--  = 0x20\n--7--  = 0x30",
            [Op.CALLOC, Op.MALLOC],
            "calls of two threads within each other, whose results may be swapped: 1",
        ),
        ("malloc(9)calloc(1,5) = 0x20\n--7--  = 0x30", [Op.CALLOC, Op.MALLOC], None),
        ("malloc(9) = 0x2\n--7-- Reading syms (0x12) from = 0x1", [Op.MALLOC], None),
        ("malloc(9) = 0x2\n--7-- malloc_usable_size(0x2) = 9", [Op.MALLOC], None),
        ("malloc(9) = 0x2\nprogram output: malloc(", [Op.MALLOC], None),
    ],
)
def test_oddities_of_valgrinds_log(tmp_path: Path, lines: str, ops: list[Op], lost: str | None):
    imported, events = import_bytes(tmp_path, f"--7-- {lines}\n".encode(), "valgrind")

    assert events["op"].tolist() == ops
    counted = [text for text in imported.lost if text[-1].isdigit()]
    assert counted == ([lost] if lost else [])
