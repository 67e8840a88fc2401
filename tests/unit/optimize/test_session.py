"""What an optimisation needs before it makes runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tuner.optimize.answer import Answer, Decision
from tuner.optimize.judgement import Rules
from tuner.optimize.outlook import FEWEST_RUNS
from tuner.optimize.request import Request
from tuner.optimize.session import are_runs_all, fewest_runs, not_held_out
from tuner.optimize.work import SELECTION_FILE, TRACE_FILE
from tuner.service.plan import ServicePlan

SERVICE = Request(
    ("server",), 600.0, ("glibc",), service=ServicePlan(("server",), "tcp:80", "load")
)


def test_a_search_that_nothing_guides_needs_more_runs() -> None:
    assert fewest_runs(is_blind=True) > 4 * FEWEST_RUNS
    assert fewest_runs(is_blind=False) == FEWEST_RUNS


@pytest.mark.parametrize(
    ("decision", "is_said"),
    [(Decision.DEPLOY, False), (Decision.KEEP, True), (Decision.UNDECIDED, True)],
)
def test_an_input_that_was_held_out_and_not_run_is_spoken_of(
    decision: Decision, *, is_said: bool
) -> None:
    answer = not_held_out(
        Answer(decision, None, "", "glibc", {}, Rules(), None, (), 43, 60.0, reasons=("One.",))
    )

    assert ("The held-out input was not run" in " ".join(answer.reasons)) is is_said
    assert answer.reasons[0] == "One."


def test_a_service_with_time_for_few_runs_is_not_recorded(tmp_path: Path) -> None:
    assert are_runs_all(SERVICE, tmp_path, run_s=25.0)
    assert not are_runs_all(SERVICE, tmp_path, run_s=2.0)
    assert not are_runs_all(replace(SERVICE, evaluations=50), tmp_path, run_s=25.0)
    assert not are_runs_all(replace(SERVICE, service=None), tmp_path, run_s=25.0)


def test_more_time_goes_on_with_what_less_time_began(tmp_path: Path) -> None:
    (tmp_path / SELECTION_FILE).touch()
    assert are_runs_all(SERVICE, tmp_path, run_s=2.0)

    (tmp_path / TRACE_FILE).touch()
    assert not are_runs_all(SERVICE, tmp_path, run_s=25.0)
