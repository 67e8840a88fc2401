"""The campaign of an optimisation."""

from pathlib import Path

import pytest

from tests.doubles import synthetic
from tuner.optimize.choosing import emulation
from tuner.optimize.choosing.emulation import campaign_spec, peak_constraints
from tuner.optimize.kinds.known import LEAN
from tuner.optimize.proof.judgement import Rules
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.records import Configuration, Measurement, Outcome


@pytest.mark.parametrize(
    ("program", "name"), [("/usr/bin/sort", "sort"), ("./my app.py", "my-app"), (None, "program")]
)
def test_it_is_named_after_the_program(tmp_path: Path, program: str | None, name: str):
    assert campaign_spec(tmp_path / "program.trace", ["glibc"], 1, 9, program).name == name


@pytest.mark.parametrize(
    ("goals", "objectives"),
    [
        ((MEAN, CPU), ["mean_heap", "cost"]),
        ((PEAK,), ["peak_heap", "cost"]),
        ((MEAN, PEAK, CPU), ["mean_heap", "peak_heap", "cost"]),
        ((CPU,), ["mean_heap", "cost"]),
    ],
)
def test_it_searches_for_the_goals(tmp_path: Path, goals: tuple[str, ...], objectives: list[str]):
    spec = campaign_spec(tmp_path / "program.trace", ["glibc"], 1, 9, goals=goals)

    assert list(spec.objectives) == objectives


def test_it_begins_with_known_settings_and_leaves_half_of_the_evaluations_for_others(
    tmp_path: Path,
):
    trace = tmp_path / "program.trace"

    assert campaign_spec(trace, ["exgen"], 1, 9, seeds=LEAN).seeds == LEAN
    assert campaign_spec(trace, ["exgen"], 1, 3, seeds=LEAN).seeds == LEAN[:1]
    assert campaign_spec(trace, ["exgen"], 1, 1, seeds=LEAN).seeds == ()


@pytest.mark.parametrize(
    ("rules", "peak_bytes", "constraints"),
    [
        (Rules(), 1e6, ("peak_heap <= 1055 KiB",)),
        (Rules(limits=((PEAK, 0.1),)), 1e6, ("peak_heap <= 1758 KiB",)),
        (Rules(goals=(PEAK,)), 1e6, ()),
        (Rules(guards=(MEAN, CPU)), 1e6, ()),
        (Rules(), None, ()),
    ],
)
def test_the_heap_may_grow_by_what_the_whole_peak_may(
    rules: Rules, peak_bytes: float | None, constraints: tuple[str, ...]
):
    values = {MEAN: 4e6, PEAK: 8e6, CPU: 1e9}

    assert peak_constraints(rules, values, peak_bytes) == constraints


@pytest.mark.parametrize(("counted", "has_cost"), [({}, True), ({"cost": None}, False)])
def test_a_default_without_a_cost_says_so(
    monkeypatch: pytest.MonkeyPatch, counted: dict[str, None], *, has_cost: bool
):
    class Evaluator:
        def evaluate(self, configuration: Configuration, cpu: int) -> Outcome[Measurement]:
            return Outcome.succeeded(synthetic.measure(configuration).with_values(**counted))

    monkeypatch.setattr(emulation, "_evaluator", lambda *_: Evaluator())

    spec = campaign_spec(Path("app.trace"), ["glibc"], 1, 9)

    assert emulation.first_default(spec).has_cost is has_cost
