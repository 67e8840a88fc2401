"""The workers of a cluster, as the coordinator sees them; a stand-in takes the place of Dask."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.doubles import synthetic
from tests.doubles.machine import MACHINE
from tuner.errors import MissingToolError
from tuner.measure import workers
from tuner.measure.cluster import ClusterExecutor
from tuner.measure.remote import Kit, Measured, Proof, measure, prove
from tuner.measure.workers import Call, LostError, Worker, Workers
from tuner.records import Configuration, Measurement, Outcome, Status
from tuner.store import ClusterMachine

DEFAULT = Configuration("glibc")


class Silent:
    """A client to which nothing comes: the worker died with the result."""

    async def gather(self, _futures: object, *, asynchronous: bool) -> None:
        assert asynchronous
        await asyncio.Event().wait()

    def sync(
        self, made: Callable[..., Awaitable[Any]], *words: object, callback_timeout: float
    ) -> object:
        async def waited() -> object:
            return await asyncio.wait_for(made(*words), callback_timeout)

        return asyncio.run(waited())


def test_a_result_that_never_comes_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workers, "_ANSWER_S", 0.01)
    call: Call[str] = Call(SimpleNamespace(status="finished"), Worker("tcp://there:1", 1), "task")
    known = cast("Workers[str]", SimpleNamespace(_calls={"key": call}, _client=Silent()))

    Workers._fetch(known, ["key"])  # noqa: SLF001 - the wait itself

    assert call.found is None


class Future:
    """A call that has ended."""

    def __init__(self, outcome: object) -> None:
        self.outcome = outcome
        self.status = "error" if isinstance(outcome, Exception) else "finished"
        if isinstance(outcome, LostError):
            self.status = "lost"

    def result(self, timeout: float) -> object:
        assert timeout > 0.0
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def add_done_callback(self, done: Callable[[Future], None]) -> None:
        done(self)

    def cancel(self) -> None:
        self.status = "cancelled"


class Dask:
    """Workers that answer at once; each is on a machine and has cores."""

    def __init__(self, *machines: tuple[str, frozenset[int]]) -> None:
        self.there = {
            f"tcp://{number}": Proof(machine, MACHINE, len(cpus), cpus, {}, ())
            for number, (machine, cpus) in enumerate(machines)
        }
        self.instead: dict[str, list[Exception]] = {}
        """Worker -> what it answers first, instead of what it is."""
        self.scheduler = SimpleNamespace(ncores=object())
        self.n_looks = 0

    def sync(self, made: object, *_: object, callback_timeout: float) -> dict[str, int]:
        assert callback_timeout > 0.0
        if made is not self.scheduler.ncores:
            raise TimeoutError  # results are got one by one
        self.n_looks += 1
        if self.n_looks > 50:
            pytest.fail("it waits without end")
        return {address: len(proof.cpus) for address, proof in self.there.items()}

    def gather(self, *_: object, **__: object) -> None:
        """Take no part."""

    def submit(
        self, function: Callable[..., object], *_: object, workers: Sequence[str], **__: object
    ) -> Future:
        (address,) = workers
        if self.instead.get(address):
            return Future(self.instead[address].pop(0))
        if function is prove:
            return Future(self.there[address])
        assert function is measure
        return Future(Measured(Outcome.succeeded(synthetic.measure(DEFAULT))))

    def close(self, timeout: float) -> None:
        """Have nothing to close."""


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_LOOK_S", "_TRY_S"):
        monkeypatch.setattr(workers, name, 0.0)
    monkeypatch.setattr(workers, "_WAKE_S", 0.001)


def executor_on(
    dask: Dask,
    monkeypatch: pytest.MonkeyPatch,
    most: int | None = None,
    begun: Measurement | None = None,
) -> tuple[ClusterExecutor, list[str]]:
    """Return an executor on some workers, and the list of what it says."""
    notes: list[str] = []
    monkeypatch.setattr(workers, "_connected", lambda _: dask)
    kit = cast("Kit", SimpleNamespace(name="kit", most_per_machine=most, identity=dict))
    if most is not None:
        dask.there = {name: replace(one, n_cores=most) for name, one in dask.there.items()}
    executor = ClusterExecutor(kit, "tcp://scheduler", DEFAULT, begun=begun, on_note=notes.append)
    return executor, notes


def until(executor: ClusterExecutor, holds: Callable[[], bool]) -> None:
    while not holds():
        executor.keep_up()
        executor.ended()


TWO = (frozenset({0, 1}), frozenset({2, 3}))


def test_what_a_worker_cannot_read_is_said_and_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    """An error of the function that it ran is no loss of the connection."""
    dask = Dask(("a", TWO[0]))
    dask.instead["tcp://0"] = [PermissionError(13, "Permission denied", "/home/ann/app.trace")]
    executor, _ = executor_on(dask, monkeypatch)

    with pytest.raises(MissingToolError, match=r"PermissionError: .*/home/ann/app\.trace"):
        list(executor.run([DEFAULT]))


def test_a_worker_whose_answer_was_lost_is_asked_again(monkeypatch: pytest.MonkeyPatch):
    dask = Dask(("a", TWO[0]))
    dask.instead["tcp://0"] = [LostError(), LostError()]
    executor, notes = executor_on(dask, monkeypatch)

    (ended,) = executor.run([DEFAULT])

    assert ended.machine == "a"
    assert notes.count("worker tcp://0 did not answer; it is asked again") == 2


def test_a_first_evaluation_that_is_lost_is_made_again(monkeypatch: pytest.MonkeyPatch):
    class Forgetful(Dask):
        is_lost = False

        def submit(self, function: Callable[..., object], *words: object, **how: Any) -> Future:
            if function is measure and not self.is_lost:
                self.is_lost = True
                return Future(LostError())
            return super().submit(function, *words, **how)

    executor, _ = executor_on(Forgetful(("a", TWO[0])), monkeypatch)

    (ended,) = executor.run([DEFAULT])

    assert ended.failures == ()
    assert executor.n_workers == 2


@pytest.mark.parametrize(
    ("cpus", "most", "n_places"),
    [
        (TWO, None, 4),
        ((TWO[0], TWO[0]), None, 2),
        ((TWO[0], frozenset({1, 2})), None, 2),
        (TWO, 1, 1),
    ],
)
def test_jobs_of_one_machine_use_the_cores_that_each_was_given(
    cpus: Sequence[frozenset[int]], most: int | None, n_places: int, monkeypatch: pytest.MonkeyPatch
):
    """Where time is measured, one evaluation runs on the machine all the same."""
    executor, notes = executor_on(Dask(*(("a", one) for one in cpus)), monkeypatch, most)

    until(executor, lambda: sum(" on a: " in note for note in notes) == 2)

    assert executor.n_workers == n_places


def test_workers_that_are_gone_are_no_reason_to_end(monkeypatch: pytest.MonkeyPatch):
    """One could not be used and left; when the others leave too, more may come."""
    dask = Dask(("a", TWO[0]), ("b", TWO[0]))
    dask.instead["tcp://1"] = [ValueError("another version")]
    executor, notes = executor_on(dask, monkeypatch)
    until(executor, lambda: executor.n_workers == 2 and any("not used" in one for one in notes))

    gone, dask.there = dask.there, {}
    executor.keep_up()
    executor.keep_up()
    dask.there = gone  # and the one that could not be used is another now
    until(executor, lambda: executor.n_workers == 4)

    assert any("waiting for workers" in note for note in notes)


@pytest.mark.parametrize("nothing", [[], iter(())], ids=["a list", "proposals"])
def test_nothing_to_do_waits_for_no_worker(
    nothing: Iterable[Configuration], monkeypatch: pytest.MonkeyPatch
):
    executor, _ = executor_on(Dask(), monkeypatch)

    assert list(executor.run(nothing)) == []


def test_what_is_done_waits_for_no_worker(monkeypatch: pytest.MonkeyPatch):
    """All workers leave with the last result."""
    dask = Dask(("a", frozenset({0})))
    executor, _ = executor_on(dask, monkeypatch)

    def proposals() -> Iterator[Configuration]:
        yield DEFAULT
        assert not dask.there, "asked only when the first has ended"

    found = []
    for ended in executor.run(proposals()):
        found.append(ended)
        dask.there = {}

    assert len(found) == 1


def test_a_proposal_that_was_taken_before_there_was_a_worker_is_evaluated_once(
    monkeypatch: pytest.MonkeyPatch,
):
    executor, _ = executor_on(Dask(("a", TWO[0])), monkeypatch)

    assert [one.index for one in executor.run([DEFAULT] * 3)] == [0, 1, 2]


def test_a_machine_with_other_numbers_is_not_used(monkeypatch: pytest.MonkeyPatch):
    """Times may differ; what must repeat, by half a percent at most."""
    executor, _ = executor_on(Dask(), monkeypatch)
    known = synthetic.measure(DEFAULT)

    def admitted(name: str, heap: float) -> str:
        found = known.with_values(mean_heap=heap * known.value("mean_heap"), wall=1 + len(name))
        proof = Proof(name, MACHINE, 2, TWO[0], {}, ())
        return executor.admit(proof, Measured(Outcome.succeeded(found)))

    assert [admitted("a", 1.0), admitted("bb", 1.004), admitted("ccc", 0.996)] == ["", "", ""]
    assert admitted("d", 1.006).startswith("the default: mean heap is ")
    assert list(executor.machines) == ["a", "bb", "ccc"]


def test_machines_are_compared_with_the_one_that_began_without_them(
    monkeypatch: pytest.MonkeyPatch,
):
    known = synthetic.measure(DEFAULT).with_values(wall=1000)
    executor, _ = executor_on(Dask(), monkeypatch, begun=known)
    proof = Proof("a", MACHINE, 2, TWO[0], {}, ())

    def admitted(**changes: float) -> str:
        return executor.admit(proof, Measured(Outcome.succeeded(known.with_values(**changes))))

    assert admitted(mean_heap=1.006 * known.value("mean_heap")).startswith("the default: mean heap")
    assert admitted(wall=4000) == ""
    found = executor._relative(Outcome.succeeded(known), "a")  # noqa: SLF001 - as below
    assert found.values is not None
    assert found.values["wall"] == 250


def test_times_of_what_was_not_counted_are_relative_too(monkeypatch: pytest.MonkeyPatch):
    executor, _ = executor_on(Dask(), monkeypatch)
    known = synthetic.measure(DEFAULT).with_values(wall=1000)
    for name, wall in (("first", 1000), ("slow", 4000)):
        executor.machines[name] = ClusterMachine(name, MACHINE, known.with_values(wall=wall))
    uncounted = Outcome(Status.UNCOUNTED, "dominated", known, (), {"cost": 1.0})

    found = executor._relative(uncounted, "slow")  # noqa: SLF001 - what travels is tested elsewhere

    assert found.values is not None
    assert found.values["wall"] == 250
    assert (found.status, found.reason, found.bound) == (
        Status.UNCOUNTED, "dominated", {"cost": 1.0},
    )  # fmt: skip
