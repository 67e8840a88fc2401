"""What is said of the cost of recording services."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.service_recording import PLAIN, RECORDED, lines, targets


def part(ratio: float) -> dict[str, Any]:
    return {
        "rows": [
            {
                "task": "redis",
                "subject": subject,
                "round": number,
                "status": "ok",
                "reason": None,
                "rate": (1000.0 + number) * (ratio if subject == RECORDED else 1.0),
                "cpu": 1e5,
                **({"spool_bytes_per_request": 82.0} if subject == RECORDED else {}),
            }
            for number in range(6)
            for subject in (PLAIN, RECORDED)
        ]
    }


@pytest.mark.parametrize(
    ("all_ratios", "is_met"), [((0.95, 0.92, 0.7), True), ((0.95, 0.89, 0.7), False)]
)
def test_the_median_service_counts(all_ratios: tuple[float, ...], *, is_met: bool) -> None:
    names = ("redis", "nginx", "puma")
    parts = {name: part(ratio) for name, ratio in zip(names, all_ratios, strict=True)}

    (target,) = targets(parts)

    assert target.is_met is is_met
    assert "the least 0.700" in target.note


def test_each_service_has_a_row_and_what_is_not_known_a_dash() -> None:
    text = "\n".join(lines({"redis": part(0.95)}))

    assert "-5.0 % (-5.0 .. -5.0)" in text
    assert "82" in text
    assert text.count(" - ") == 1
