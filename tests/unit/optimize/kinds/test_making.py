"""What a request tunes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.doubles.program_runs import GOOD
from tuner.errors import ProgramTimeoutError
from tuner.measure.program import Surroundings
from tuner.optimize.kinds import making as kinds
from tuner.optimize.kinds.service import Service
from tuner.optimize.request import Request
from tuner.records import Outcome, Status
from tuner.service.lifecycle import ServiceRun
from tuner.service.plan import ServicePlan


@pytest.mark.parametrize(("seconds", "expected_s"), [(5.0, 10.0), (20.0, 20.0), (600.0, 60.0)])
def test_a_service_has_no_more_time_to_get_ready_than_there_is(
    monkeypatch: pytest.MonkeyPatch, seconds: float, expected_s: float
):
    waited_s = []

    def run(
        plan: ServicePlan, environment: Mapping[str, str], surroundings: Surroundings
    ) -> Outcome[ServiceRun]:
        del environment, surroundings
        waited_s.append(plan.ready_s)
        return Outcome.did_not_succeed(Status.FAILED, "not ready")

    def service(*words: Any, **options: Any) -> Service:
        return Service(*words, **options, run=run)

    monkeypatch.setattr(kinds, "Service", service)
    plan = ServicePlan(("server",), "tcp:{port}", "load")
    tuned = kinds.tuned_of(Request(("server",), seconds, ("glibc",), service=plan), {}, {})

    with pytest.raises(Exception, match="not ready"):
        tuned.examine()

    assert waited_s == [expected_s]


def test_first_runs_end_with_the_time_also_those_of_the_held_out_input(
    monkeypatch: pytest.MonkeyPatch,
):
    limits_s = []

    class Runner:
        def __init__(self, **_: Any) -> None:
            """Start nothing."""

        def run(self, command: object, environment: object, surroundings: Surroundings) -> object:
            limits_s.append(surroundings.timeout_s)
            return replace(GOOD, timed_out=True)

    monkeypatch.setattr(kinds, "ProgramRunner", Runner)
    request = Request(("app",), 20.0, ("glibc",), held_out=("app", "other"))
    tuned, held_out = kinds.tuned_of(request, {}, {}), kinds.held_out_of(request, {}, {})
    assert held_out is not None

    words = "app: still running after 20 s; .*; if it .* is a service: give --ready and --load"
    for one in (tuned, held_out):
        with pytest.raises(ProgramTimeoutError, match=words):
            one.examine()
    assert limits_s == [20.0, 20.0]
