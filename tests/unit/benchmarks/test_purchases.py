"""The gain of campaigns over single evaluations, from kept rows."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.purchases import lines, targets


def row(task: str, subject: str, each_s: float, volume: float = 2.0) -> dict[str, Any]:
    return {
        "task": task, "subject": subject, "round": 0, "status": "ok", "reason": None,
        "evaluations": 100, "uncounted": 60 if subject == "needed" else 0, "events": 5000,
        "each_s": each_s, "cpu_s": 100 * each_s, "wall_s": 50 * each_s, "volume": volume,
        "alone_s": 0.8 if subject == "needed" else None,
        "kept": 0.99 if subject == "needed" else None,
    }  # fmt: skip


def test_the_gain_is_the_geometric_mean_and_the_front_the_worst() -> None:
    rows = [row("demo", "all", 0.4), row("demo", "needed", 0.1, 1.9),
            row("server", "all", 0.1), row("server", "needed", 0.1)]  # fmt: skip

    found = {target.what: target.value for target in targets({"campaigns": rows})}

    assert found["evaluations in a second, in multiples"] == pytest.approx(8.0)
    assert found["least hypervolume of a front, of that with all counted"] == pytest.approx(0.99)
    table = list(lines({"campaigns": rows}))
    assert any("60%" in line and "8.00" in line and "4.00" in line for line in table)
    assert any("0.9900" in line and "0.9500" in line for line in table)


def test_a_failed_run_pairs_no_others() -> None:
    """The needed run of the second round is beside none, not beside that of the third."""
    rows = [
        {**row("demo", subject, 0.1, volume), "round": number}
        for number, volumes in enumerate([(2.0, 1.0), (4.0, 2.0), (8.0, 4.0)])
        for subject, volume in zip(("all", "needed"), volumes, strict=True)
    ]
    rows[2] |= {"status": "failed", "reason": "exit status 11", "volume": None}

    assert any("0.5000" in line for line in lines({"campaigns": rows}))


def test_a_campaign_that_failed_is_said_and_not_judged() -> None:
    rows = [row("demo", "all", 0.4), row("demo", "needed", 0.1), row("server", "all", 0.1)]
    rows.append({**row("server", "needed", 0.1), "status": "failed", "reason": "exit status 7"})

    text = list(lines({"campaigns": rows}))

    assert "no result: server, needed: exit status 7" in text
    assert not any(line.startswith("| server") for line in text)


def test_the_largest_workload_has_four_minutes() -> None:
    (target,) = targets({"large": [row("gem5", "needed", 1.0)]})

    assert (target.value, target.limit) == (50.0, 240.0)
