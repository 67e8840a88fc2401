"""Runs of a real program on several machines: pairs stay on one, whatever becomes of a machine.

The machines are workers of Dask, processes of their own that bear other names.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.cluster import Cluster
from tuner.allocators import get_allocator, locate_all
from tuner.cli.main import run as run_command
from tuner.compare.journal import read_journal
from tuner.compare.plan import Course, Rounds
from tuner.errors import MissingToolError, SpecError
from tuner.measure.executor import MAX_ATTEMPTS
from tuner.optimize.kinds import cluster as of_cluster
from tuner.optimize.kinds.cluster import Machines, kit_of
from tuner.optimize.kinds.making import tuned_of
from tuner.optimize.request import Request
from tuner.optimize.session import Session
from tuner.optimize.tuned import AS_IS, Reference, Sample
from tuner.optimize.view import View
from tuner.optimize.work import Watch, Work
from tuner.records import Configuration
from tuner.service.plan import ServicePlan

pytest.importorskip("distributed")
pytestmark = pytest.mark.end_to_end

COMMAND = (sys.executable, "-S", "-c", "print(len([bytes(600) for _ in range(20000)]))")
CANDIDATES = {
    label: Configuration.of("glibc", {"top_pad": pad}) for label, pad in (("a", 0), ("b", 1 << 20))
}
N_ROUNDS = 6
FILE = "confirmation.jsonl"


class After(View):
    """Does something once, when so many runs have ended."""

    def __init__(self, n: int = 0, do: Callable[[], object] = lambda: None) -> None:
        self.left, self.do = n, do

    def ran(self, label: str, reason: str | None, n_left: int | None) -> None:
        del label, reason, n_left
        self.left -= 1
        if self.left == 0:
            self.do()


def compared(
    folder: Path,
    cluster: Cluster | None,
    view: View | None = None,
    *,
    n_rounds: int = N_ROUNDS,
    command: tuple[str, ...] = COMMAND,
    n_machines: int = 1,
    **expected: Any,
) -> tuple[Course[None, Sample], list[Mapping[str, Any]], list[str]]:
    """Make rounds in a run folder; return what they showed, all that is kept, and what is said."""
    files = locate_all([get_allocator("glibc")])
    request = Request(command, 60.0, ("glibc",))
    tuned = tuned_of(request, files, {})
    notes: list[str] = []
    work = Work(folder, request, tuned, Watch(60.0, lambda: 0.0), view or View())
    reference: Reference = replace(tuned.examine(), **expected)
    plan = Rounds((AS_IS, *CANDIDATES), (None,), n_rounds)
    if cluster is None:
        course = work.compare(FILE, plan, CANDIDATES, reference)
    else:
        kit = kit_of(request, files, {})
        with Machines(kit, cluster.address, reference, folder, notes.append) as work.machines:
            work.machines.wait()
            while work.machines.n_workers < n_machines:  # of more than one none waits
                work.machines.keep_up()
                work.machines.ended()
            course = work.compare(FILE, plan, CANDIDATES, reference)
    content = read_journal(folder / FILE)
    assert content is not None
    return course, list(content.records), notes


def machines_by_round(records: list[Mapping[str, Any]]) -> dict[int, set[str]]:
    """Return the machines of the samples that count: the last one of each run."""
    last = {(one["round"], one["subject"]): one["machine"] for one in records}
    assert set(last) == {
        (number, label) for number in range(N_ROUNDS) for label in (AS_IS, *CANDIDATES)
    }
    found: dict[int, set[str]] = defaultdict(set)
    for (number, _), machine in last.items():
        found[number].add(machine)
    return found


def test_both_of_a_pair_run_on_one_machine(tmp_path: Path, cluster: Cluster):
    """Each machine has run the program as it is, and every sample names its machine."""
    for name in ("north", "south"):
        cluster.start_worker(machine=name)
        cluster.start_worker(machine=name)  # a machine runs one program at a time

    course, records, notes = compared(tmp_path / "run", cluster, n_machines=2)

    found = machines_by_round(records)
    assert all(len(machines) == 1 for machines in found.values())
    assert set.union(*found.values()) == {"north", "south"}
    assert len(records) == len(course.samples) == N_ROUNDS * 3
    kept = json.loads((tmp_path / "run" / "machines.json").read_text())["machines"]
    assert {one["name"] for one in kept} == {"north", "south"}
    assert all(one["values"]["CPU time"] > 0 and one["facts"]["kernel"] for one in kept)
    said = [note.rpartition(": ")[2] for note in notes]
    assert said.count("1 at a time") == 2
    assert said.count("waits, other workers of this machine use its cores") == 2


@pytest.mark.parametrize("is_back", [False, True])
def test_a_killed_machine_takes_nothing_with_it(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, is_back: bool
):
    """Its round is made on it if it comes back, else anew on another; what ran stays kept."""
    monkeypatch.setattr(of_cluster, "_AWAY_S", 60.0 if is_back else 0.0)
    first = cluster.start_worker(machine="north")
    cluster.start_worker(machine="south")

    def kill() -> None:
        cluster.kill(first)
        if is_back:
            cluster.start_worker(machine="north")

    course, records, _ = compared(tmp_path / "run", cluster, After(7, kill), n_machines=2)

    assert all(len(machines) == 1 for machines in machines_by_round(records).values())
    assert len(course.samples) == N_ROUNDS * 3
    n_again = len(records) - N_ROUNDS * 3
    assert n_again == 0 if is_back else n_again <= len(CANDIDATES)


def test_a_comparison_goes_on_elsewhere(tmp_path: Path, cluster: Cluster):
    """A round that was begun on another machine is made anew here, and whole ones are kept."""
    cluster.start_worker(machine="north")
    compared(tmp_path / "run", cluster, n_rounds=3)
    path = tmp_path / "run" / FILE
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]))

    course, records, _ = compared(tmp_path / "run", None)

    found = machines_by_round(records)
    assert [found[0], found[1]] == [{"north"}, {"north"}]
    assert all(
        len(machines) == 1 and machines != {"north"} for machines in list(found.values())[2:]
    )
    assert len(course.samples) == N_ROUNDS * 3
    assert len(records) == N_ROUNDS * 3 + 2


def test_a_machine_where_the_program_does_something_else_is_not_used(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tuner.measure.workers._TRY_S", 1.0)
    cluster.start_worker(machine="north")

    with pytest.raises(MissingToolError, match=r"north: the program as it is: prints something"):
        compared(tmp_path / "run", cluster, output_sha256="0" * 64)
    assert not (tmp_path / "run" / "machines.json").exists()


def test_a_program_that_fails_everywhere_is_not_tried_for_ever(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    """It runs as it is on each machine, and never again."""
    monkeypatch.setattr("tuner.measure.workers._TRY_S", 1.0)
    marker = tmp_path / "ran"
    text = (
        f"import os, sys; p = {str(marker)!r}; n = len(open(p).read()) if os.path.exists(p) else 0;"
        "open(p, 'a').write('x'); sys.exit(n > 4)"
    )
    for name in ("north", "south"):
        cluster.start_worker(machine=name)

    with pytest.raises(MissingToolError, match=r"no worker .* can be used"):
        compared(
            tmp_path / "run", cluster, command=(sys.executable, "-S", "-c", text), n_machines=2
        )
    assert len(marker.read_text()) <= 5 + 2 * MAX_ATTEMPTS


def test_the_command_runs_on_a_cluster(
    tmp_path: Path, cluster: Cluster, capfd: pytest.CaptureFixture[str]
):
    for name in ("north", "south"):
        cluster.start_worker(machine=name)
    options = ["--executor", "dask", "--scheduler", cluster.address, "--time", "20s"]
    options += ["--allocators", "glibc", "--evaluations", "8", "-o", str(tmp_path / "run")]

    assert run_command(["optimize", *options, "--", *COMMAND]) == 0

    out, err = capfd.readouterr()
    assert out.strip().startswith(("Deploy ", "Keep ", "Not decided "))
    assert "on north" in err or "on south" in err
    content = read_journal(tmp_path / "run" / "selection.jsonl")
    assert content is not None
    assert {one["machine"] for one in content.records} <= {"north", "south"}


def test_a_service_stays_on_this_machine(tmp_path: Path):
    from tuner.campaign.executors import Where

    request = Request(COMMAND, 60.0, ("glibc",), service=ServicePlan(COMMAND, "tcp:{port}", "load"))
    with pytest.raises(SpecError, match="a service runs on this machine only"):
        Session(tmp_path, request, where=Where("dask", None, "tcp://127.0.0.1:1"))
