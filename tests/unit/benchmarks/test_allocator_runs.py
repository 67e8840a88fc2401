"""What is read of the files of valgrind's tools."""

import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import allocator_runs, allocators
from benchmarks.allocator_programs import Command
from benchmarks.allocator_runs import instructions_by_object, misses, run_gem5
from benchmarks.harness import Call
from tests.doubles.program_runs import GOOD
from tests.doubles.simulated import RESULT, STATISTICS
from tuner.bench.subjects import BenchSubject
from tuner.measure.gem5 import Gem5Run
from tuner.measure.program import ProgramRun


def test_misses_are_per_thousand_instructions():
    text = "events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw\nsummary: 2000 2 1 9 6 2 9 4 1\n"

    assert misses(text) == {
        "instructions": 2000,
        "l1_misses": 12,
        "l2_misses": 4,
        "l1_mpki": 6.0,
        "l1_data_mpki": 5.0,
        "l2_mpki": 2.0,
    }


def test_instructions_of_callees_count_once():
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


def test_a_gem5_with_an_allocator_of_its_own_does_not_run_on_glibc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    linked = replace(GOOD, malloc_libraries=("/usr/lib/libtcmalloc.so.4",))
    monkeypatch.setattr(allocator_runs, "_run", lambda *_: linked)
    monkeypatch.setattr(allocator_runs, "read_run", lambda run, _: simulated(run))
    command = Command("gem5", ("gem5.opt", "-d", str(tmp_path)))
    exgen = BenchSubject("exgen", Path("/opt/libexgen.so"))

    found = run_gem5(command, BenchSubject("glibc", None), {})

    assert (found.reason or "").startswith("gem5 is linked with libtcmalloc.so.4")
    assert run_gem5(command, exgen, {}).good is not None


def simulated(run: ProgramRun) -> Gem5Run:
    return Gem5Run(run, RESULT, STATISTICS, b"42\n")


def test_a_comparison_that_goes_on_has_the_stamp_of_its_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(allocators, "run_missing", lambda *_: Namespace(samples={}))
    monkeypatch.setattr(allocators, "_subjects", lambda _: [])
    monkeypatch.setattr(Call, "keep", lambda *_, **__: None)
    monkeypatch.setattr(Call, "folder", tmp_path)
    options = Namespace(smoke=False, churn_minutes=0.1)
    call = Call(allocators.BENCHMARK, options, tmp_path, {})
    noted = {"commit": "1" * 40, "sources": {"x": "2"}}
    (tmp_path / "churn").mkdir()
    (tmp_path / "churn.begun.json").write_text(json.dumps(noted))

    allocators._bench(call, "churn")  # noqa: SLF001 - takes it over

    assert call.begun == {"churn": noted}


def test_a_file_without_summary_is_an_error():
    with pytest.raises(ValueError, match="no summary"):
        misses("events: Ir\n")
