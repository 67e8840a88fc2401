"""What benchmarks/heap_curves.py makes of its raw figures."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.heap_curves import errors, lines, real_means

KIB = 1 << 10


@pytest.fixture
def known() -> dict[str, Any]:
    return {
        "allocators": ["glibc", "exgen"],
        "emulated": [[900 * KIB, 1000 * KIB, 1100 * KIB], [1030 * KIB]],
        "program": [[1100 * KIB, 1090 * KIB, 1200 * KIB], [1100 * KIB]],
        "beside": [99 * KIB, 100 * KIB, 101 * KIB],
    }


def test_what_is_no_heap_is_taken_off(known: dict[str, Any]) -> None:
    assert real_means(known) == [1000 * KIB, 1000 * KIB]
    assert errors(known) == pytest.approx([0.0, 0.03])


def test_what_was_not_measured_has_no_error(known: dict[str, Any]) -> None:
    assert errors({**known, "emulated": [[], [KIB]]})[0] is None
    assert errors({**known, "program": [[KIB], []]})[1] is None


def test_a_missed_target_is_said(known: dict[str, Any]) -> None:
    results = {"programs": {"idle": known}}
    assert list(lines(results)) == [
        "| program | real mean under glibc | glibc | exgen |",
        "|---|---:|---:|---:|",
        "| idle | 1000 KiB | +0.0 % | +3.0 % |",
        "",
        "- reached: median error 1.5% (target: 5% at most)",
        "- reached: greatest error 3.0% (target: 15% at most)",
    ]
    bad = {**known, "emulated": [[1300 * KIB], [1300 * KIB]]}
    text = "\n".join(lines({**results, "programs": {"idle": bad}}))
    assert "- MISSED: median error 30.0%" in text
    assert "- MISSED: greatest error 30.0%" in text
