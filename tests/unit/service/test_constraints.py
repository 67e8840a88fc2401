"""Constraints in the terms of a service."""

import pytest

from tuner.errors import SpecError
from tuner.service.constraints import parse_service_constraint


@pytest.mark.parametrize(
    ("text", "name", "share"),
    [
        ("p99 <= default * 1.05", "p99", 0.05),
        ("p99<=default+5%", "p99", 0.05),
        ("rate >= default * 0.98", "rate", 1.0 / 0.98 - 1.0),
        ("cpu <= default + 2 %", "cpu", 0.02),
    ],
)
def test_a_constraint_is_a_share_of_worsening(text: str, name: str, share: float):
    found = parse_service_constraint(text)

    assert found[0] == name
    assert found[1] == pytest.approx(share)


@pytest.mark.parametrize(
    "text",
    [
        "p98 <= default * 1.05",
        "growth <= default * 1.05",
        "p99 >= default * 0.9",
        "rate <= default * 1.1",
        "p99 <= default",
        "p99 <= default * 0.9",
        "p99 <= 5 ms",
    ],
)
def test_what_is_no_constraint_is_refused(text: str):
    with pytest.raises(SpecError, match="constraint"):
        parse_service_constraint(text)
