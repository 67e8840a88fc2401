"""Counted work beside CPU time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tests.unit.optimize.test_answer import DEPLOY, OPEN
from tuner.errors import MissingToolError
from tuner.optimize.counted import COUNTED_FILE, changes_of_work, disagreement
from tuner.optimize.judgement import Gain, Rules
from tuner.optimize.quantities import CPU
from tuner.optimize.request import Request
from tuner.optimize.tuned import AS_IS, Reference, Tuned
from tuner.optimize.work import Watch, Work
from tuner.records import Configuration

REFERENCE = Reference(("app",), {}, 0, None, None, wall_s=0.1, timeout_s=30.0)
COUNTED = {"instructions": -0.04, "page faults": 0.09}
SETTING = {"mimalloc": Configuration("mimalloc")}


class Counting:
    """Counts what it is given."""

    def __init__(self, counts: Mapping[str, int | None]) -> None:
        self._counts = counts
        self.n_counts = self.n_kernel = 0

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

    def count_kernel(
        self, candidates: Mapping[str, Configuration], reference: Reference, label: str
    ) -> Mapping[str, int]:
        del candidates, reference
        self.n_kernel += 1
        return {"page faults": 100, "system calls": 50 if label == AS_IS else 40}


def work(folder: Path, tuned: Counting, seconds: float = 600.0) -> Work:
    request = Request(("app",), seconds, ("glibc",))
    return Work(folder, request, cast("Tuned", tuned), Watch(seconds, lambda: 0.0))


def test_a_change_is_counted_once_and_kept(tmp_path: Path) -> None:
    tuned = Counting({AS_IS: 1000, "mimalloc": 960})

    for _ in range(2):
        changes = changes_of_work(work(tmp_path, tuned), REFERENCE, "mimalloc", SETTING)
        assert changes == pytest.approx(
            {"instructions": -0.04, "page faults": 0.0, "system calls": -0.2}
        )
    assert (tuned.n_counts, tuned.n_kernel) == (2, 2)


def test_counts_of_an_earlier_version_are_instructions(tmp_path: Path) -> None:
    (tmp_path / COUNTED_FILE).write_text('{"as it is": 1000, "mimalloc": 900}')
    tuned = Counting({})

    changes = changes_of_work(work(tmp_path, tuned), REFERENCE, "mimalloc", SETTING)

    assert changes["instructions"] == pytest.approx(-0.1)
    assert tuned.n_counts == 0


@pytest.mark.parametrize("counts", [{}, {AS_IS: 1000, "mimalloc": None}])
def test_what_cannot_be_counted_is_not_known(
    tmp_path: Path, counts: Mapping[str, int | None]
) -> None:
    changes = changes_of_work(work(tmp_path, Counting(counts)), REFERENCE, "mimalloc", SETTING)

    assert changes.keys() == {"page faults", "system calls"}


def test_counting_keeps_to_its_share_of_the_time(tmp_path: Path) -> None:
    tuned = Counting({AS_IS: 1000, "mimalloc": 960})

    some = changes_of_work(work(tmp_path, tuned, 20.0), REFERENCE, "mimalloc", SETTING)
    none = changes_of_work(work(tmp_path / "none", tuned, 1.0), REFERENCE, "mimalloc", SETTING)

    assert some.keys() == {"page faults", "system calls"}
    assert (none, tuned.n_counts) == ({}, 0)


def test_it_is_said_where_work_and_time_disagree() -> None:
    faster = {CPU: Gain(0.04, 0.02, 0.06)}

    more = {"instructions": 0.03}

    assert "page faults or the kernel" in (disagreement(faster, more, Rules()) or "")
    assert disagreement(faster, {"instructions": -0.03}, Rules()) is None
    assert disagreement({CPU: Gain(0.04, -0.02, 0.06)}, more, Rules()) is None
    assert disagreement(faster, {}, Rules()) is None


def test_the_reason_is_looked_for_in_the_kernel() -> None:
    faster = {CPU: Gain(0.04, 0.02, 0.06)}
    more = {"instructions": 0.03, "page faults": -0.6, "system calls": 0.1}

    said = disagreement(faster, more, Rules())

    assert said is not None
    assert ": page faults change by -60.0 %, and caches may differ." in said
    same = {**more, "page faults": 0.001}
    assert "neither page faults nor system calls go with the time" in str(
        disagreement(faster, same, Rules())
    )


def test_an_answer_shows_what_was_counted() -> None:
    deploy = "\n".join(replace(DEPLOY, counted=COUNTED).lines())
    still_open = "\n".join(replace(OPEN, counted=COUNTED).lines())

    assert ["instructions", "-4.0", "%", "counted"] in [line.split() for line in deploy.split("\n")]
    assert ["page", "faults", "+9.0", "%", "counted"] in [
        line.split() for line in deploy.split("\n")
    ]
    assert ", instructions -4.0 %, page faults +9.0 %" in " ".join(still_open.split())
    assert replace(DEPLOY, counted=COUNTED).as_record()["counted"]["page_faults"] == 0.09
