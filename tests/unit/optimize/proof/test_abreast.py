"""Runs of a search on several cores at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest

from tests.unit.optimize.proof.test_duets import REFERENCE, Bound
from tuner.compare.plan import Step
from tuner.optimize.proof import abreast
from tuner.optimize.proof.abreast import Abreast, abreast_on, cores_abreast
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.optimize.tuned import AS_IS, Reference, Runs, Sample, Tuned
from tuner.records import Outcome, Status

LONG_S = 30.0


class Placed(Bound):
    """Something of which each bound one is another."""

    def on_core(self, core: int) -> Bound:
        return Bound()


def step(subject: str, number: int = 0) -> Step[None]:
    return Step(number, 0, None, subject)


class Cores:
    """A program that may fail beside itself, and how many of its runs are under way."""

    def __init__(self, failing: Status | None = None) -> None:
        self._failing = failing
        self._lock = threading.Lock()
        self._together = threading.Barrier(2)
        self._n_now = 0
        self.most_alone = 0
        self.alone: list[str] = []

    def on_core(self, one: Step[None]) -> Outcome[Sample]:
        with self._lock:
            self._n_now += 1
        try:
            self._together.wait(LONG_S)
            if self._failing and one.subject == "a":
                return Outcome.did_not_succeed(self._failing, "beside another")
            return Outcome.succeeded({MEAN: 1.0})
        finally:
            with self._lock:
                self._n_now -= 1

    def by_itself(self, one: Step[None]) -> Outcome[Sample]:
        with self._lock:
            self._n_now += 1
            self.most_alone = max(self.most_alone, self._n_now)
            self.alone.append(one.subject)
        with self._lock:
            self._n_now -= 1
        return Outcome.succeeded({MEAN: 2.0})


def run_of(cores: Cores) -> tuple[Abreast, dict[str, Outcome[Sample]]]:
    both = Abreast(cores.by_itself, [cores.on_core, cores.on_core])
    with ThreadPoolExecutor(2) as pool:
        names = ("a", AS_IS)
        return both, dict(zip(names, pool.map(both.runs, map(step, names)), strict=True))


def test_runs_are_made_at_the_same_time():
    cores = Cores()

    _, found = run_of(cores)

    assert {name: one.good for name, one in found.items()} == {"a": {MEAN: 1.0}, AS_IS: {MEAN: 1.0}}
    assert cores.alone == []


def test_what_fails_beside_others_runs_alone_and_so_do_all_from_then_on():
    cores = Cores(Status.FAILED)

    both, found = run_of(cores)
    later = both.runs(step(AS_IS, 1))

    assert found["a"].good == {MEAN: 2.0}
    assert later.good == {MEAN: 2.0}
    assert cores.alone == ["a", AS_IS]
    assert cores.most_alone == 1


def test_a_setting_that_hangs_does_not_hang_twice():
    cores = Cores(Status.TIMED_OUT)

    _, found = run_of(cores)

    assert found["a"].status is Status.TIMED_OUT
    assert cores.alone == []


@pytest.mark.parametrize(
    ("fields", "cpu", "n_cores"),
    [
        ({}, None, 2),
        ({}, 0, 0),
        ({"n_threads": 2}, None, 2),
        ({"n_threads": 2, "wall_s": REFERENCE.wall_s / 1.3}, None, 0),
        ({"is_busy": False}, None, 0),
        ({"values": {MEAN: 1e6, PEAK: 1e18, CPU: 1e9}}, None, 0),
    ],
)
def test_only_a_program_that_computes_on_one_core_has_others_beside(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, object], cpu: int | None, n_cores: int
):
    monkeypatch.setattr(abreast, "measuring_cpus", lambda: [0, 1])
    reference = Reference(**{**REFERENCE.__dict__, **fields})

    assert len(cores_abreast(cast("Tuned", Bound()), reference, cpu)) == n_cores
    assert cores_abreast(cast("Tuned", object()), reference, cpu) == []


@pytest.mark.parametrize(("n_threads", "core"), [(1, 0), (2, None)])
def test_a_program_with_threads_is_bound_to_no_core(
    monkeypatch: pytest.MonkeyPatch, n_threads: int, core: int | None
):
    monkeypatch.setattr(abreast, "measuring_cpus", lambda: [0, 1])
    reference = Reference(**{**REFERENCE.__dict__, "n_threads": n_threads})
    program = cast("Tuned", Placed())
    made: list[Tuned] = []

    def runs_of(one: Tuned) -> Runs:
        made.append(one)
        return Cores().by_itself

    cores = cores_abreast(program, reference, None)
    abreast_on(cores, program, runs_of)

    assert cores[0] == core
    assert sum(one is program for one in made) == (3 if core is None else 1)
