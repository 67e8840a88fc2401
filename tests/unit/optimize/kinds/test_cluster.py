"""Runs of the program on other machines."""

from pathlib import Path

import pytest

from tests.unit.optimize.kinds.test_program import watched
from tuner.allocators import get_allocator, locate_all
from tuner.compare.plan import Step
from tuner.optimize.kinds import cluster
from tuner.optimize.kinds.cluster import ProgramKit, run_step
from tuner.optimize.proof.machines import Scene
from tuner.optimize.request import Request
from tuner.optimize.tuned import AS_IS
from tuner.records import Configuration


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
