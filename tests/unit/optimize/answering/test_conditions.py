"""Conditions of a build."""

from dataclasses import replace

import pytest

from tests.unit.optimize.answering.test_answer import DEPLOY, KEEP, OPEN
from tuner.errors import ConditionVerdict, SpecError
from tuner.optimize.answering.answer import Answer
from tuner.optimize.answering.conditions import parse_condition, refuse
from tuner.optimize.quantities import CPU


def test_a_decision_is_a_condition():
    assert parse_condition("keep")(KEEP)
    assert not parse_condition("keep")(DEPLOY)
    assert parse_condition(" undecided ")(OPEN)


@pytest.mark.parametrize(
    ("text", "is_so"),
    [
        ("mean_memory > -5%", False),
        ("mean_memory > -12 %", True),
        ("cpu_time <= -4%", True),
        ("peak_memory > 1%", False),
    ],
)
def test_a_change_is_a_condition(text: str, is_so: bool):
    assert parse_condition(text)(DEPLOY) is is_so


def test_an_answer_that_deploys_nothing_changes_nothing():
    assert parse_condition("mean_memory > -5%")(KEEP)
    assert parse_condition("mean_memory >= 0%")(replace(OPEN, standing=None))


@pytest.mark.parametrize("text", ["", "maybe", "heap > 1%", "mean_memory > 5", "mean_memory = 1%"])
def test_anything_else_is_one_error(text: str):
    with pytest.raises(SpecError, match=r"give deploy, keep, undecided, or a change such as"):
        parse_condition(text)


@pytest.mark.parametrize("answer", [DEPLOY, KEEP, OPEN])
def test_a_condition_on_what_is_not_measured_is_an_error_and_never_met(answer: Answer):
    condition = parse_condition("p99_latency > 5%")

    with pytest.raises(SpecError, match=r"no run measures p99_latency; .*: mean_memory, peak_mem"):
        condition(answer)


def test_what_is_measured_may_be_known_before_anything_runs():
    parse_condition("keep").check(())
    parse_condition("cpu_time > 5%").check([CPU])
    with pytest.raises(SpecError, match="no run measures p99_latency"):
        parse_condition("p99_latency > 5%").check([CPU])


def test_quantities_of_services_are_named_as_files_name_them():
    for name in ("cpu/request", "requests/s", "p99.9_latency"):
        with pytest.raises(SpecError, match=f"no run measures {name}"):
            parse_condition(f"{name} > 1%")(DEPLOY)


def test_all_conditions_that_hold_are_named():
    conditions = {text: parse_condition(text) for text in ("keep", "mean_memory > -5%", "deploy")}

    with pytest.raises(ConditionVerdict, match="'keep' and --fail-if 'mean_memory > -5%' hold: K"):
        refuse(conditions, KEEP)
