"""From options to what is asked for."""

import pytest

from tuner.errors import SpecError
from tuner.optimize.options import Options, request_of, service_request
from tuner.optimize.proof.judgement import Rules
from tuner.optimize.quantities import CPU, PEAK
from tuner.optimize.request import Request
from tuner.service.plan import ServicePlan


def asked(**options: object) -> Request:
    return request_of([["app"]], None, Options(**options))  # type: ignore[arg-type]


def test_goals_are_named_as_in_conditions_and_stand_in_the_order_of_tables():
    assert asked(goals=("cpu_time", "peak_memory")).rules == Rules(goals=(PEAK, CPU))
    assert asked().rules == Rules()


@pytest.mark.parametrize(
    ("goals", "words"),
    [
        (("peak", "cpu_time"), "--goals: peak; did you mean 'peak_memory'. there are"),
        ((), "--goals: nothing"),
    ],
)
def test_a_goal_that_is_not_measured_is_refused(goals: tuple[str, ...], words: str):
    with pytest.raises(SpecError, match=rf"^{words}.* mean_memory, peak_memory and cpu_time$"):
        asked(goals=goals)


@pytest.mark.parametrize("options", [{"goals": ("peak_memory",)}, {"expect_status": 1}])
def test_what_is_of_programs_that_end_is_refused_for_a_service(options: dict[str, object]):
    plan = ServicePlan(("app",), "line:ready", "load")

    assert service_request(asked(), plan, None, None).service is plan
    with pytest.raises(SpecError, match="no --goals or --expect-status"):
        service_request(asked(**options), plan, None, None)


def test_what_is_tuned_on_is_not_held_out():
    with pytest.raises(SpecError, match=r"^--held-out: the command itself"):
        request_of([["app", "x"], ["app", "y"]], ("app", "y"), Options())
    with pytest.raises(SpecError, match=r"^--held-out-load: the load itself"):
        service_request(asked(), ServicePlan(("app",), "line:ready", "load"), None, "load")


def test_a_name_in_braces_is_looked_at_in_the_other_load_too():
    plan = ServicePlan(("app",), "line:ready", "load {port}")

    with pytest.raises(SpecError, match=r"\{ports\}: free ports are"):
        service_request(asked(), plan, None, "load {ports}")
