"""What benchmarks/touching.py makes of memory maps and of figures."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.touching import beside_heap, errors, heap, is_comparable, lines

MIB = 1 << 20


def mapping(begin: int, end: int, rights: str, inode: int, name: str, *, anonymous_kib: int) -> str:
    return (
        f"{begin:x}-{end:x} {rights} 00000000 fe:00 {inode}     {name}\n"
        f"Size: 1 kB\nAnonymous: {anonymous_kib} kB\nAnonHugePages: 0 kB\n"
    )


def test_data_and_stacks_are_no_heap() -> None:
    smaps = "".join((
        mapping(0x1000, 0x2000, "rw-p", 7, "/usr/bin/app", anonymous_kib=1),
        mapping(0x2000, 0x3000, "rw-p", 0, "", anonymous_kib=2),  # its zeroed data
        mapping(0x4000, 0x9000, "rw-p", 0, "[heap]", anonymous_kib=1000),
        mapping(0x10000, 0x20000, "rw-p", 0, "", anonymous_kib=2000),  # mapped by malloc
        mapping(0x100000, 0x101000, "---p", 0, "", anonymous_kib=0),
        mapping(0x101000, 0x101000 + 8 * MIB, "rw-p", 0, "", anonymous_kib=4),  # a thread's stack
        mapping(0x2000000, 0x2001000, "rw-p", 0, "[stack]", anonymous_kib=8),
    ))  # fmt: skip
    assert beside_heap(smaps) == (1 + 2 + 4 + 8) * 1024


@pytest.fixture
def known() -> dict[str, Any]:
    figures = {"peak": [12 * MIB, None], "mean": [8 * MIB, None]}
    return {
        "touching": {"bytes": 100, "known_bytes": 50, "touched_bytes": 10},
        "beside_heap_bytes": 2 * MIB,
        "emulated": {"all": figures, "recorded": {"peak": [9 * MIB, None], "mean": [6 * MIB, 1]}},
        "program": {"peak": [[11 * MIB, 12 * MIB, 13 * MIB], []], "mean": [[7 * MIB], []]},
    }


def test_errors_are_of_the_heap_alone(known: dict[str, Any]) -> None:
    """And of allocators under which both ran."""
    assert heap(known) == 10 * MIB
    assert errors(known, "peak", "all") == pytest.approx([0.2])
    assert errors(known, "peak", "recorded") == pytest.approx([-0.1])
    assert errors(known, "mean", "recorded") == pytest.approx([0.2])


def test_the_table_leaves_out_what_is_mostly_no_heap(known: dict[str, Any]) -> None:
    small = {**known, "beside_heap_bytes": 10 * MIB}
    assert is_comparable(known)
    assert not is_comparable(small)
    table = list(lines({"programs": {"app": known, "small": small}}))
    assert table[2] == "| app | 50% | 20% | 10.0 MiB | +20.0 % | -10.0 % | +60.0 % | +20.0 % |"
    assert len(table) == 6
    assert "nearer in 1 of 1 programs" in table[4]
