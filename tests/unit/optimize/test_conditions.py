"""Conditions of a build."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.optimize.test_answer import DEPLOY, KEEP, OPEN
from tuner.errors import SpecError
from tuner.optimize.conditions import parse_condition


def test_a_decision_is_a_condition() -> None:
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
def test_a_change_is_a_condition(text: str, is_so: bool) -> None:
    assert parse_condition(text)(DEPLOY) is is_so


def test_an_answer_that_deploys_nothing_changes_nothing() -> None:
    assert parse_condition("mean_memory > -5%")(KEEP)
    assert parse_condition("mean_memory >= 0%")(replace(OPEN, standing=None))


@pytest.mark.parametrize("text", ["", "maybe", "heap > 1%", "mean_memory > 5", "mean_memory = 1%"])
def test_anything_else_is_one_error(text: str) -> None:
    with pytest.raises(SpecError, match=r"give deploy, keep, undecided, or a change such as"):
        parse_condition(text)
