"""Recordings of malloc-bench become the traces that they stand for."""

from __future__ import annotations

import pytest

from benchmarks.malloc_bench_traces import CALLOC, FREE, MALLOC, REALLOC, read_events
from tuner.trace.file import Op


def number(value: int) -> bytes:
    """Return a variable-length number."""
    out = []
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def nested(field: int, content: bytes) -> bytes:
    return number(field << 3 | 2) + number(len(content)) + content


def call(kind: int, *values: int) -> bytes:
    """Return a line of the file; -1 leaves a field out."""
    fields = b"".join(number(i << 3) + number(v) for i, v in enumerate(values, start=1) if v >= 0)
    return nested(1, nested(kind, fields))


def test_calls_become_events_with_slots_used_again() -> None:
    lines = [
        call(MALLOC, 0, 300), call(CALLOC, 6, 4, 100), call(REALLOC, 7, 0, 70_000), call(FREE, 6),
        call(MALLOC, 8, 64, 32), call(FREE, 7),
    ]  # fmt: skip
    events = read_events(b"".join(lines))
    assert [Op(op).name for op in events["op"]] == [
        "MALLOC", "CALLOC", "REALLOC", "FREE", "ALIGNED", "FREE",
    ]  # fmt: skip
    assert events["size"].tolist() == [300, 400, 70_000, 0, 64, 0]
    assert events["slot"].tolist() == [0, 1, 0, 1, 1, 0]
    assert events["align_log2"].tolist() == [0, 0, 0, 0, 5, 0]


def test_what_was_never_allocated_is_not_freed() -> None:
    assert len(read_events(call(FREE, 9) + call(REALLOC, -1, 9))) == 0


def test_a_file_that_ends_early_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\d"):
        read_events(call(MALLOC, 5, 300)[:-1])
