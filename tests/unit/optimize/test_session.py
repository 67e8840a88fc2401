"""What an optimisation needs before it makes runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tuner.optimize.outlook import FEWEST_RUNS
from tuner.optimize.request import Request
from tuner.optimize.session import are_runs_all, fewest_runs
from tuner.optimize.work import SELECTION_FILE, TRACE_FILE
from tuner.service.plan import ServicePlan

SERVICE = Request(
    ("server",), 600.0, ("glibc",), service=ServicePlan(("server",), "tcp:80", "load")
)


def test_a_search_that_nothing_guides_needs_more_runs() -> None:
    assert fewest_runs(is_blind=True) > 4 * FEWEST_RUNS
    assert fewest_runs(is_blind=False) == FEWEST_RUNS


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
