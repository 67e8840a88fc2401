"""What is said of the cost of recording services."""

from typing import Any

import pytest

from benchmarks.service_recording import PLAIN, RECORDED, lines, targets


def part(ratio: float, cpu: float = 1.0) -> dict[str, Any]:
    return {
        "rows": [
            {
                "task": "redis",
                "subject": subject,
                "round": number,
                "status": "ok",
                "reason": None,
                "rate": (1000.0 + number) * (ratio if subject == RECORDED else 1.0),
                "cpu": 1e5 * (cpu if subject == RECORDED else 1.0),
                **({"spool_bytes_per_request": 82.0} if subject == RECORDED else {}),
            }
            for number in range(6)
            for subject in (PLAIN, RECORDED)
        ]
    }


@pytest.mark.parametrize(
    ("all_ratios", "is_met"), [((1.05, 1.08, 1.4), True), ((1.05, 1.11, 1.4), False)]
)
def test_the_cpu_time_of_the_median_service_counts(all_ratios: tuple[float, ...], *, is_met: bool):
    """The rate is that of the load, whatever the recorder takes."""
    names = ("redis", "nginx", "puma")
    parts = {name: part(1.0, ratio) for name, ratio in zip(names, all_ratios, strict=True)}

    cpu, rate = targets(parts)

    assert cpu.is_met is is_met
    assert "the most 1.400" in cpu.note
    assert rate.is_met


def test_a_service_that_does_not_keep_up_is_a_miss():
    _, rate = targets({"redis": part(1.0), "nginx": part(0.8), "puma": part(1.0)})

    assert rate.value == pytest.approx(0.8)
    assert not rate.is_met


def test_a_service_whose_rounds_span_the_limit_leaves_doubt():
    kept = part(0.91)
    for row in kept["rows"]:
        row["rate"] *= 1.0 + 0.02 * (row["round"] % 2) * (1 if row["subject"] == PLAIN else -1)

    _, rate = targets({"redis": kept, "puma": part(1.0)})

    assert not rate.is_met
    assert not rate.is_missed


def test_what_failed_is_a_miss_and_not_left_out():
    crashed = part(1.0)
    crashed["rows"][-1] |= {"status": "failed", "reason": "killed by SIGSEGV"}
    parts = {"redis": crashed, "puma": part(1.0)}

    *_, without = targets(parts)

    assert (without.what, without.value) == ("runs without a result", 1)
    assert without.is_missed
    assert "no result: redis, recorded: killed by SIGSEGV" in list(lines(parts))
    assert "without a result" not in str([*targets({"puma": part(1.0)})])


def test_each_service_has_a_row_and_what_is_not_known_a_dash():
    text = "\n".join(lines({"redis": part(0.95)}))

    assert "-5.0 % (-5.0 .. -5.0)" in text
    assert "82" in text
    assert text.count(" - ") == 1
