"""What is said of an answer for gem5."""

from typing import Any

import pytest

from benchmarks.gem5_answer import PART, lines, targets
from tuner.optimize.tuned import AS_IS


def parts(heap: float, cpu: float) -> dict[str, Any]:
    """Return six rounds of two simulations, with what the answer needs of each."""
    rows = [
        {
            "task": task,
            "subject": subject,
            "round": number,
            "status": "ok",
            "reason": None,
            "mean_heap": size * (heap if subject == "answer" else 1.0) + number,
            "cpu_ns": 10 * size * (cpu if subject == "answer" else 1.0) + number,
        }
        for task, size in (("sort", 1_000), ("tree", 90_000))
        for subject in (AS_IS, "answer")
        for number in range(6)
    ]
    return {PART: {"sentence": "Deploy exgen.", "seconds": 60.0, "used_s": 31.4, "rows": rows}}


@pytest.mark.parametrize(
    ("heap", "cpu", "met"), [(0.9, 0.8, [True] * 2), (0.99, 0.8, [False, True])]
)
def test_both_limits_are_held_over_all_simulations(heap: float, cpu: float, met: list[bool]):
    found = list(targets(parts(heap, cpu)))

    assert [one.is_met for one in found] == met
    assert [one.is_missed for one in found] == [not one for one in met]
    assert found[0].value == pytest.approx(heap, abs=0.001)


def test_every_simulation_has_a_row():
    text = "\n".join(lines(parts(0.9, 0.8)))

    assert "Deploy exgen. (31.4 of 60 s)" in text
    assert "-10.0%" in text
    assert "-20.0%" in text
    assert "tree" in text


def test_an_answer_to_keep_what_is_there_shows_no_target():
    kept = parts(0.9, 0.8)
    kept[PART]["rows"] = [row for row in kept[PART]["rows"] if row["subject"] == AS_IS]

    assert list(targets(kept)) == []
