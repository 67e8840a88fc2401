"""Counted work beside CPU time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tests.unit.optimize.test_answer import DEPLOY, OPEN
from tuner.errors import MissingToolError
from tuner.optimize.counted import change_of_work, disagreement
from tuner.optimize.judgement import Gain, Rules
from tuner.optimize.quantities import CPU
from tuner.optimize.request import Request
from tuner.optimize.tuned import AS_IS, Reference, Tuned
from tuner.optimize.work import Watch, Work
from tuner.records import Configuration

REFERENCE = Reference(("app",), {}, 0, None, None, wall_s=0.1, timeout_s=30.0)
SETTING = {"mimalloc": Configuration("mimalloc")}


class Counting:
    """Counts what it is given."""

    def __init__(self, counts: Mapping[str, int | None]) -> None:
        self._counts = counts
        self.n_counts = 0

    def count(
        self,
        candidates: Mapping[str, Configuration],
        reference: Reference,
        label: str,
        timeout_s: float,
    ) -> int | None:
        del candidates, reference, timeout_s
        self.n_counts += 1
        if not self._counts:
            message = "cachegrind: not installed"
            raise MissingToolError(message)
        return self._counts[label]


def work(folder: Path, tuned: Counting, seconds: float = 600.0) -> Work:
    request = Request(("app",), seconds, ("glibc",))
    return Work(folder, request, cast("Tuned", tuned), Watch(seconds, lambda: 0.0))


def test_a_change_is_counted_once_and_kept(tmp_path: Path) -> None:
    tuned = Counting({AS_IS: 1000, "mimalloc": 960})

    for _ in range(2):
        change = change_of_work(work(tmp_path, tuned), REFERENCE, "mimalloc", SETTING)
        assert change == pytest.approx(-0.04)
    assert tuned.n_counts == 2


@pytest.mark.parametrize("counts", [{}, {AS_IS: 1000, "mimalloc": None}])
def test_what_cannot_be_counted_is_not_known(
    tmp_path: Path, counts: Mapping[str, int | None]
) -> None:
    assert change_of_work(work(tmp_path, Counting(counts)), REFERENCE, "mimalloc", SETTING) is None


def test_counting_keeps_to_its_share_of_the_time(tmp_path: Path) -> None:
    tuned = Counting({AS_IS: 1000, "mimalloc": 960})

    assert change_of_work(work(tmp_path, tuned, 20.0), REFERENCE, "mimalloc", SETTING) is None
    assert tuned.n_counts == 0


def test_it_is_said_where_work_and_time_disagree() -> None:
    faster = {CPU: Gain(0.04, 0.02, 0.06)}

    assert "page faults" in (disagreement(faster, 0.03, Rules()) or "")
    assert disagreement(faster, -0.03, Rules()) is None
    assert disagreement({CPU: Gain(0.04, -0.02, 0.06)}, 0.03, Rules()) is None
    assert disagreement(faster, None, Rules()) is None


def test_an_answer_shows_what_was_counted() -> None:
    deploy = "\n".join(replace(DEPLOY, counted=-0.04).lines())
    still_open = "\n".join(replace(OPEN, counted=-0.04).lines())

    assert ["instructions", "-4.0", "%", "counted"] in [line.split() for line in deploy.split("\n")]
    assert ", instructions -4.0 %" in still_open
