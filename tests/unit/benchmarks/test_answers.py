"""What is said of answers on input that was not tuned on."""

from __future__ import annotations

from typing import Any

from benchmarks.answers import OURS, lines, summary, targets
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.optimize.tuned import AS_IS

USUAL = {MEAN: 1e6, PEAK: 2e6, CPU: 1e9}


def part(**changed: float) -> dict[str, Any]:
    names = {"mean": MEAN, "peak": PEAK, "cpu": CPU}
    share = {names[name]: value for name, value in changed.items()}
    rows = [
        {
            "task": "lua-objects",
            "subject": subject,
            "round": number,
            "status": "ok",
            "reason": None,
            **{
                name: value * (1.0 + 0.001 * number) * (share.get(name, 1.0) if ours else 1.0)
                for name, value in USUAL.items()
            },
        }
        for number in range(10)
        for subject, ours in ((AS_IS, False), (OURS, True))
    ]
    head = {"decision": "deploy", "sentence": "Deploy x.", "seconds": 60.0, "used_s": 50.0}
    return {**head, "subjects": {OURS: "key"}, "rows": rows}


def test_an_answer_that_gains_meets_the_targets() -> None:
    parts = {"lua-objects": part(mean=0.9)}

    assert all(target.is_met for target in targets(parts))
    text = "\n".join(lines(parts))
    assert "lua-objects: Deploy x. (50 of 60 s)" in text
    assert "-10.0 % (-10.0 .. -10.0)" in text


def test_an_answer_that_costs_misses_them() -> None:
    beyond, memory = targets({"lua-objects": part(mean=0.9, cpu=1.05)})

    assert not beyond.is_met
    assert memory.is_met
    assert not list(targets({"lua-objects": part(peak=1.02)}))[1].is_met


def test_without_a_deployed_setting_nothing_is_shown() -> None:
    kept = part(mean=0.9)

    assert summary({"lua-objects": kept}) == "reached: 1 settings to deploy for 1 programs"
    nothing = {**kept, "subjects": {}}
    assert summary({"lua-objects": nothing}).startswith("not shown yet: 0 settings")
