"""What may change when an optimisation goes on, and what may not."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tuner.errors import SpecError, StoreError
from tuner.optimize.kinds.service import service_rules
from tuner.optimize.proof.judgement import Rules
from tuner.optimize.quantities import PEAK
from tuner.optimize.request import Request, check_goes_on, differences
from tuner.runs import REQUEST_FILE
from tuner.service.plan import ServicePlan

PROGRAM = Request(("app", "data"), 600.0, ("glibc", "jemalloc"))
PLAN = ServicePlan(("server",), "tcp:{port}", "hey -q 20 http://127.0.0.1:{port}/")
SERVICE = Request(PLAN.command, 600.0, ("glibc",), service_rules(0.01, {}), service=PLAN)
LIMITED = Rules(limits=((PEAK, 0.1),), strict=(PEAK,))


def of_plan(**changes: Any) -> dict[str, Any]:
    return {"service": replace(PLAN, **changes)}


def goes_on(folder: Path, begun: Request, asked: Request) -> None:
    """Check a request against one that was kept in a file."""
    (folder / REQUEST_FILE).write_text(json.dumps(begun.as_record()))
    check_goes_on(folder, Request.load(folder), asked)


@pytest.mark.parametrize("begun", [PROGRAM, SERVICE], ids=["program", "service"])
def test_time_may_change_and_an_input_to_judge_on_may_be_added(tmp_path: Path, begun: Request):
    goes_on(tmp_path, begun, begun)
    goes_on(tmp_path, begun, replace(begun, seconds=3600.0))
    goes_on(tmp_path, begun, replace(begun, held_out=("app", "other")))


def test_a_folder_of_another_version_is_refused(tmp_path: Path):
    (tmp_path / REQUEST_FILE).write_text(json.dumps({**PROGRAM.as_record(), "version": 1}))

    with pytest.raises(StoreError, match="another version of malloc-tuner wrote it; choose"):
        Request.load(tmp_path)


def test_a_service_is_given_a_load():
    assert (PROGRAM.given, SERVICE.given) == ("input", "load")


def test_constraints_on_a_program_may_change(tmp_path: Path):
    goes_on(tmp_path, PROGRAM, replace(PROGRAM, rules=LIMITED))
    goes_on(tmp_path, replace(PROGRAM, rules=LIMITED), PROGRAM)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"command": ("app", "more data")}, "command"),
        ({"further": (("app", "more data"),)}, "command"),
        ({"allocators": ("glibc",)}, "--allocators"),
        ({"rules": Rules(0.02)}, "--least"),
        ({"rules": Rules(goals=(PEAK,))}, "--goals"),
        ({"evaluations": 50}, "--evaluations"),
        ({"timeout_s": 5.0}, "--timeout"),
        ({"expect_status": 1}, "--expect-status"),
        ({"cpu": 1}, "--cpu"),
        ({"seed": 2}, "--seed"),
        ({"is_direct": True}, "--direct"),
    ],
)
def test_nothing_else_of_a_program_may(tmp_path: Path, changes: dict[str, Any], name: str):
    with pytest.raises(SpecError, match=f"optimisation, different in {name}; choose another"):
        goes_on(tmp_path, PROGRAM, replace(PROGRAM, **changes))


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        (of_plan(load="hey -q 200 http://127.0.0.1:{port}/"), "--load"),
        (of_plan(ready="line:ready"), "--ready"),
        (of_plan(idle_s=1.0), "--idle"),
        (of_plan(warm_ups=0), "--warm-ups"),
        (of_plan(stop="SIGINT"), "--stop"),
        (of_plan(setup="initdb"), "--setup"),
        (of_plan(teardown="rm"), "--teardown"),
        (of_plan(user="nobody"), "--user"),
        (of_plan(read="hey"), "--read"),
        (of_plan(load_s=60.0), "--timeout"),
        ({"cpu": 1}, "--cpu"),
        ({"rules": service_rules(0.01, {"p99": 0.2})}, "--constraint"),
        ({"rules": service_rules(0.02, {})}, "--least"),
    ],
)
def test_of_a_service_nothing_of_a_run_may_change(
    tmp_path: Path, changes: dict[str, Any], name: str
):
    with pytest.raises(SpecError, match=f"optimisation, different in {name}; choose another"):
        goes_on(tmp_path, SERVICE, replace(SERVICE, **changes))


def test_an_input_that_was_judged_on_stays(tmp_path: Path):
    begun = replace(PROGRAM, held_out=("app", "other"))

    for held_out in (("app", "third"), None):
        with pytest.raises(SpecError, match="different in held-out input"):
            goes_on(tmp_path, begun, replace(begun, held_out=held_out))


def test_a_library_by_its_relative_path_is_the_same_one():
    begun = Request(("app",), 60.0, ("exgen:lib/a.so", "glibc"))

    assert not differences(
        begun, replace(begun, allocators=(f"exgen:{Path.cwd()}/lib/a.so", "glibc"))
    )
    assert differences(begun, replace(begun, allocators=("exgen:b.so", "glibc"))) == (
        "--allocators",
    )


def test_several_differences_are_all_named(tmp_path: Path):
    asked = replace(PROGRAM, cpu=1, timeout_s=1.0, seed=3)

    with pytest.raises(SpecError, match="different in --timeout, --cpu and --seed;"):
        goes_on(tmp_path, PROGRAM, asked)


def test_a_program_is_no_service(tmp_path: Path):
    program = replace(SERVICE, service=None, rules=Rules())

    for begun, asked in ((program, SERVICE), (SERVICE, program)):
        with pytest.raises(SpecError, match="different in --ready and --load;"):
            goes_on(tmp_path, begun, asked)
