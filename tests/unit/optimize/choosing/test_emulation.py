"""The campaign of an optimisation."""

from pathlib import Path

import pytest

from tuner.optimize.choosing.emulation import campaign_spec
from tuner.optimize.kinds.known import LEAN
from tuner.optimize.quantities import CPU, MEAN, PEAK


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
