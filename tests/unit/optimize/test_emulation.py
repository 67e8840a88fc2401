"""The campaign of an optimisation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.optimize.emulation import campaign_spec, worthwhile
from tuner.records import Configuration


@pytest.mark.parametrize(
    ("program", "name"), [("/usr/bin/sort", "sort"), ("./my app.py", "my-app"), (None, "program")]
)
def test_it_is_named_after_the_program(tmp_path: Path, program: str | None, name: str) -> None:
    assert campaign_spec(tmp_path / "program.trace", ["glibc"], 1, 9, program).name == name


GAINS = {"arena_max": 0.02, "mxfast": 0.002, "tcache_count": 0.003, "trim_threshold": 0.0}
CHOSEN = Configuration.of("glibc", dict.fromkeys(GAINS, 1))


def loss(one: Configuration) -> float:
    """What is lost without settings, which do not depend on each other."""
    if one.is_default:
        return float("inf")
    return sum(gain for name, gain in GAINS.items() if name not in one.as_dict)


@pytest.mark.parametrize(
    ("worth", "most", "left"),
    [
        (0.0, 0.0, ["arena_max", "mxfast", "tcache_count"]),
        (0.0025, 0.01, ["arena_max"]),
        (0.0025, 0.0025, ["arena_max", "tcache_count"]),
        (0.1, 0.1, ["arena_max"]),
    ],
)
def test_settings_that_are_not_worth_their_words_go(
    worth: float, most: float, left: list[str]
) -> None:
    assert sorted(worthwhile(CHOSEN, loss, worth, most).as_dict) == left
