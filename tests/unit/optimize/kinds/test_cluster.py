"""Runs of the program on other machines."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.measure.test_workers import Dask, Future
from tests.unit.optimize.kinds.test_program import watched
from tuner.allocators import get_allocator, locate_all
from tuner.compare.apart import Handout
from tuner.compare.plan import Course, Once, Step
from tuner.measure import workers
from tuner.measure.executor import MAX_ATTEMPTS
from tuner.measure.remote import prove
from tuner.optimize.kinds import cluster
from tuner.optimize.kinds.cluster import Machines, ProgramKit, Ran, run_step
from tuner.optimize.proof.machines import Scene
from tuner.optimize.quantities import CPU
from tuner.optimize.request import Request
from tuner.optimize.tuned import AS_IS, Reference, Sample
from tuner.records import Configuration, Outcome


@pytest.mark.parametrize(("is_proof", "aslr"), [(True, "on"), (False, "off")])
def test_what_proves_something_runs_elsewhere_as_it_is_deployed(
    monkeypatch: pytest.MonkeyPatch, *, is_proof: bool, aslr: str
):
    files = locate_all([get_allocator("glibc")])
    program, seen = watched(files)
    reference = program.examine()
    monkeypatch.setattr(cluster, "tuned_of", lambda *_: program)
    kit = ProgramKit("kit", Request(("app",), 60.0, ("glibc",)), files, {}, Path())
    candidates = {"huge": Configuration.of("glibc", {"hugetlb": 1})}
    seen.clear()

    run_step(kit, Scene(reference, candidates, is_proof=is_proof), Step(0, 0, None, AS_IS))

    assert [one.aslr for one in seen] == [aslr]


class Unheard(Future):
    """A call that never ends."""

    def add_done_callback(self, done: Callable[[Future], None]) -> None:
        del done


class Deadly(Dask):
    """Every run of one subject takes its worker down; the next one is on the next machine."""

    def __init__(self, subject: str, machines: Sequence[str]) -> None:
        self.names = itertools.cycle(machines)
        super().__init__((next(self.names), frozenset({0})))
        self.subject = subject
        self.n_died = 0

    def submit(
        self, function: Callable[..., object], *words: Any, workers: Sequence[str], **how: object
    ) -> Future:
        if function is prove:
            return super().submit(function, *words, workers=workers, **how)
        if words[-1].subject != self.subject:
            return Future(Ran(Outcome.succeeded({CPU: 1e9})))
        self.n_died += 1
        proof = self.there.pop(workers[0])
        self.there[f"tcp://again-{self.n_died}"] = replace(proof, machine=next(self.names))
        return Unheard(None)


@pytest.mark.parametrize("machines", [("north",), ("north", "south")])
def test_what_takes_its_worker_down_fails_the_third_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machines: Sequence[str]
):
    """On the machine that comes back as on others, where its whole round is made anew."""
    for name in ("_LOOK_S", "_TRY_S", "_WAKE_S"):
        monkeypatch.setattr(workers, name, 0.001 if name == "_WAKE_S" else 0.0)
    monkeypatch.setattr(cluster, "_AWAY_S", 0.0)
    dask = Deadly("a", machines)
    monkeypatch.setattr(workers, "_connected", lambda _: dask)
    kit = cast("ProgramKit", SimpleNamespace(name="kit", most_per_machine=1, identity=dict))
    reference = Reference(("app",), {CPU: 1e9}, 0, None, None, 1.0, 30.0)
    course: Course[None, Sample] = Course(AS_IS)
    steps = tuple(Step(0, at, None, subject) for at, subject in enumerate((AS_IS, "a", "b")))
    made_on: dict[str, str] = {}

    with Machines(kit, "tcp://scheduler", reference, tmp_path) as found:
        found.make(
            Handout(Once(steps), course, lambda _: None, lambda _, sample: sample),
            lambda: Scene(reference, {}),
            lambda step, machine: made_on.update({step.subject: machine}),
        )

    assert {key[2]: one.reason for key, one in course.samples.items()} == {
        AS_IS: None, "a": "its worker was lost", "b": None,
    }  # fmt: skip
    assert dask.n_died == MAX_ATTEMPTS
    assert len(set(made_on.values())) == 1
