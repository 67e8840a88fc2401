"""What is said of how emulation ranks settings on services."""

from collections.abc import Sequence
from typing import Any

import pytest

from benchmarks.service_emulation import REAL, lines, ranked_of, targets


def part(
    emulated: Sequence[float | None], mean: Sequence[float], idle: Sequence[float]
) -> dict[str, Any]:
    labels = [f"jemalloc narenas={n}" for n in range(len(emulated))]
    rows = [
        {
            "task": "redis",
            "subject": label,
            "round": number,
            "status": "ok",
            "reason": None,
            REAL["under load"]: mean[at] * (1.0 + 0.0001 * number),
            REAL["idle"]: idle[at],
        }
        for number in range(3)
        for at, label in enumerate(labels)
    ]
    return {
        "allocators": dict.fromkeys(labels, "jemalloc"),
        "emulated": {phase: dict(zip(labels, emulated, strict=True)) for phase in REAL},
        "rows": rows,
    }


def test_tau_is_of_the_settings_of_one_allocator():
    kept = part([1.0, 2.0, 3.0, 4.0], [10.0, 11.0, 12.0, 13.0], [13.0, 12.0, 11.0, 10.0])

    load, idle = ranked_of({"redis": kept})

    assert load.tau == pytest.approx(1.0)
    assert idle.tau == pytest.approx(-1.0)
    assert idle.n_settings == 4
    assert idle.spread == pytest.approx(0.3)
    assert [target.is_met for target in targets({"redis": kept})] == [True, False]


def test_where_nothing_differs_there_is_nothing_to_rank():
    kept = part([1.0, 2.0, 3.0], [10.0, 10.1, 10.15], [10.0, 10.0, 10.0])

    assert [one.tau for one in ranked_of({"redis": kept})] == [None, None]
    assert list(targets({"redis": kept})) == []
    assert "\n".join(lines({"redis": kept})).count(" - ") == 2


def test_settings_that_failed_in_emulation_are_left_out():
    kept = part([1.0, None, 3.0, 4.0], [10.0, 1.0, 12.0, 13.0], [10.0, 1.0, 12.0, 13.0])

    load, _ = ranked_of({"redis": kept})

    assert load.n_settings == 3
    assert load.tau == pytest.approx(1.0)
