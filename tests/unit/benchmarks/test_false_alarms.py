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
    assert summary(parts, "not shown yet") == "not shown yet"


def cell(n_rounds: int, n_false: int, n_validations: int = 1000) -> dict[str, object]:
    counts = {"n_validations": n_validations, "n_false": n_false, "n_alone": n_false}
    return {"what": "skewed", "n_rounds": n_rounds, "n_claims": 1, **counts}


def test_validations_of_too_few_rounds_dilute_nothing():
    parts = {"simulated": [cell(5, 0), cell(8, 30), cell(12, 40)]}

    assert summary(parts, "reached").startswith("reached: 3.5% of 2,000 simulated validations")


@pytest.mark.parametrize(("n_false", "is_met"), [(30, True), (60, False)])
def test_the_upper_end_of_each_noise_is_judged(n_false: int, *, is_met: bool):
    noise, worst = targets({"simulated": [cell(8, n_false), cell(12, 35)]})

    assert noise.is_met is is_met
    assert worst.is_met
