"""Campaigns on a Dask cluster of real processes, whatever becomes of them.

Nothing measured is lost, and nothing is counted twice, when a worker, the scheduler or the
coordinator is killed, and when the network is cut.
"""

import contextlib
import functools
import itertools
import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doubles import synthetic
from tests.doubles.cluster import Cluster, SyntheticKit, free_port, pids_in
from tests.doubles.fork_server import FORK_SERVER
from tests.doubles.waiting import wait_until
from tuner.campaign.progress import Listener
from tuner.campaign.runner import Runner
from tuner.campaign.setup import make_spaces
from tuner.errors import MissingToolError
from tuner.measure.cluster import ClusterExecutor
from tuner.records import Configuration, Trial
from tuner.store import Store

pytest.importorskip("distributed")

BUDGET = 60
DEFAULT = Configuration("glibc")


class At(Listener):
    """Does something once, when so many new trials have ended."""

    def __init__(self, n: int = 0, do: Callable[[], object] = lambda: None) -> None:
        self.left, self.do = n, do

    def trial_ended(self, trial: Trial, *, is_new: bool) -> None:
        self.left -= is_new
        if self.left == 0:
            self.do()


def run(folder: Path, address: str, listener: Listener | None = None, **kit: object) -> list[Trial]:
    """Run a campaign on a cluster, or go on with the one in the folder."""
    record = synthetic.record(budget=BUDGET)
    kit = {"delay_s": 0.02, **kit}
    made = SyntheticKit("campaign", folder.parent / "log", **kit)  # type: ignore[arg-type]
    with (
        synthetic.store_in(folder, record) as store,
        ClusterExecutor(made, address, DEFAULT, machines=store.machines()) as executor,
    ):
        spaces = make_spaces(synthetic.PARTS, record.search)
        return Runner(store, spaces, executor, listener or Listener()).run()


def check(folder: Path, trials: list[Trial]) -> Counter[str]:
    """Check that every trial counts once; return how often each was begun."""
    assert [trial.number for trial in trials] == list(range(BUDGET))
    assert len({trial.configuration for trial in trials}) == BUDGET
    with Store.open(folder) as store:
        assert store.trials() == trials
        (machine,) = store.machines()
        assert set(store.places().values()) == {machine.name}
        assert {number for number, repeat in store.places() if not repeat} == {*range(BUDGET)}
    log = (folder.parent / "log").read_text().splitlines()
    return Counter(line.split(maxsplit=2)[2] for line in log if line.startswith("begin"))


def test_two_workers_share_a_campaign(tmp_path: Path, cluster: Cluster):
    cluster.start_worker()
    cluster.start_worker()

    trials = run(tmp_path / "run", cluster.address, meet=2)

    begun = check(tmp_path / "run", trials)
    assert {begun[t.configuration.key] for t in trials if not t.configuration.is_default} <= {1, 2}
    assert len(pids_in(tmp_path / "log")) == 2


def test_a_killed_worker_takes_nothing_with_it(tmp_path: Path, cluster: Cluster):
    first = cluster.start_worker()
    cluster.start_worker()

    trials = run(tmp_path / "run", cluster.address, At(20, lambda: cluster.kill(first)))

    check(tmp_path / "run", trials)


def test_a_killed_scheduler_is_waited_for(tmp_path: Path, cluster: Cluster):
    cluster.start_worker()

    def restart() -> None:
        cluster.kill(cluster.scheduler)
        for worker in cluster.workers:
            cluster.kill(worker)
        cluster.start_scheduler()
        cluster.start_worker()

    trials = run(tmp_path / "run", cluster.address, At(20, restart))

    check(tmp_path / "run", trials)


class Wire:
    """Passes a port on to another until it is cut; a new wire can take its place."""

    def __init__(self, target: int) -> None:
        self.port, self._target = free_port(), target
        self._open: list[socket.socket] = []
        self.mend()

    def mend(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def cut(self) -> None:
        for one in (self._listening, *self._open):
            hang_up(one)
        self._open.clear()

    def _reaches(self, there: socket.socket) -> bool:
        return there.connect_ex(("127.0.0.1", self._target)) == 0

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                here, _ = listening.accept()
            except OSError:  # cut
                return
            there = socket.socket()
            wait_until(functools.partial(self._reaches, there))
            self._open += [here, there]
            for one, other in ((here, there), (there, here)):
                threading.Thread(target=_pump, args=(one, other), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    for one in (source, sink):
        hang_up(one)


def hang_up(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


def test_a_network_that_is_cut_is_waited_for(tmp_path: Path, cluster: Cluster):
    cluster.start_worker()
    wire = Wire(cluster.port)

    def cut() -> None:
        wire.cut()
        threading.Timer(1.0, wire.mend).start()

    trials = run(tmp_path / "run", f"tcp://127.0.0.1:{wire.port}", At(20, cut))
    wire.cut()

    check(tmp_path / "run", trials)


def _killed(folder: Path, address: str) -> None:
    run(folder, address, At(25, lambda: os.kill(os.getpid(), signal.SIGKILL)))


def test_a_killed_coordinator_goes_on_where_it_was(tmp_path: Path, cluster: Cluster):
    cluster.start_worker()
    process = FORK_SERVER.Process(target=_killed, args=(tmp_path / "run", cluster.address))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    with Store.open(tmp_path / "run") as store:
        before = store.trials()

    trials = run(tmp_path / "run", cluster.address)

    begun = check(tmp_path / "run", trials)
    assert len(before) == 25
    assert all(trial in trials for trial in before)
    n_rechecked = max(begun[t.configuration.key] for t in before if not t.configuration.is_default)
    assert n_rechecked <= 2, "once, and once again for the front"


def test_a_slow_evaluation_holds_nobody(tmp_path: Path, cluster: Cluster):
    """One of the first proposals ends after all others, which do not wait for it."""
    cluster.start_worker()
    cluster.start_worker()
    configurations = [Configuration.of("glibc", {"pad": n}) for n in range(30)]
    enough = tmp_path / "enough"
    kit = SyntheticKit("slow", tmp_path / "log", slow=(configurations[0].key, enough))
    order = []

    with ClusterExecutor(kit, cluster.address, DEFAULT) as executor:
        for ended in executor.run(configurations):
            order.append(ended.index)
            if len(order) == len(configurations) - 1:
                enough.touch()

    assert sorted(order) == list(range(30))
    assert order[-1] == 0


def test_a_worker_with_something_else_is_not_used(tmp_path: Path, cluster: Cluster):
    cluster.start_worker(environment={"CLUSTER_MARK": "new"})
    cluster.start_worker(environment={"CLUSTER_MARK": "old"})
    notes: list[str] = []
    os.environ["CLUSTER_MARK"] = "new"
    try:
        kit = SyntheticKit("alike", tmp_path / "log", marker="CLUSTER_MARK")
        with ClusterExecutor(kit, cluster.address, DEFAULT, on_note=notes.append) as executor:
            configurations = (Configuration.of("glibc", {"pad": n}) for n in itertools.count())
            # Workers are looked for while something runs.
            wait_until(lambda: list(executor.run([next(configurations)])) and len(notes) > 1)
            assert len(list(executor.run(list(itertools.islice(configurations, 10))))) == 10
    finally:
        del os.environ["CLUSTER_MARK"]

    assert any("is not used: " in note and "marker is old, here new" in note for note in notes)
    assert len(pids_in(tmp_path / "log")) == 1


def test_no_scheduler_is_one_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tuner.measure.workers._ANSWER_S", 2.0)
    kit = SyntheticKit("none", Path("/dev/null"))
    with pytest.raises(MissingToolError, match="no scheduler of Dask answers"):
        ClusterExecutor(kit, f"tcp://127.0.0.1:{free_port()}", DEFAULT)
