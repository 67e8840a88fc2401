"""What is read of the files of valgrind's tools."""

from __future__ import annotations

import pytest

from benchmarks.allocator_runs import instructions_by_object, misses


def test_misses_are_per_thousand_instructions() -> None:
    text = "events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw\nsummary: 2000 2 1 9 6 2 9 4 1\n"

    assert misses(text) == {
        "instructions": 2000,
        "l1_misses": 12,
        "l2_misses": 4,
        "l1_mpki": 6.0,
        "l1_data_mpki": 5.0,
        "l2_mpki": 2.0,
    }


def test_instructions_of_callees_count_once() -> None:
    text = """events: Ir
ob=(1) /usr/bin/app
fl=(1) app.c
fn=(1) main
10 5
cob=(2) /lib/liballoc.so
cfi=(2) malloc.c
cfn=(2) malloc
calls=1 3
11 20
+2 7

ob=(2)
fl=(2)
fn=(2)
3 20
ob=(1)
fn=(3) other
* 8
"""
    assert instructions_by_object(text) == {"/usr/bin/app": 20, "/lib/liballoc.so": 20}


def test_a_file_without_summary_is_an_error() -> None:
    with pytest.raises(ValueError, match="no summary"):
        misses("events: Ir\n")
