"""Validations of equal subjects: what counts as a false alarm, and what as a run."""

from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks import false_alarms
from benchmarks.false_alarms import BENCHMARK, outcome, summary, targets
from benchmarks.harness import Call
from tests.doubles.program_runs import CRASHED
from tuner.errors import ProgramError


def test_a_difference_counts_when_all_claims_together_show_it():
    differs = [0.8 + 0.001 * n for n in range(8)], [1.0] * 8
    equal = [1.0] * 8, [1.0] * 8

    assert outcome([differs]) == (True, True)
    assert outcome([differs, *[equal] * 9]) == (False, True), "8 rounds are too few for 10 claims"
    assert outcome([equal]) == (False, False)


def test_a_program_that_fails_is_no_validation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(false_alarms, "ProgramRunner", lambda: Namespace(run=lambda *_: CRASHED))
    call = Call(BENCHMARK, Namespace(parts=["no load added"], smoke=True), tmp_path, {})

    with pytest.raises(ProgramError, match="killed by SIGSEGV"):
        BENCHMARK.measure(call)


def test_too_few_rounds_make_no_validation():
    parts = {"no load added": [{"round": 0, "subject": "0", "status": "ok", "cpu_ns": 1}]}

    assert list(targets(parts)) == []
    assert summary(parts) == "not shown yet"
