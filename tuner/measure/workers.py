"""The workers of a Dask cluster: which are there, which may be used, and what runs on them.

Dask carries calls and results; what runs where is decided by `Workers`, so that only so much runs
on a machine at a time, a worker is used only after it has proved to be alike, and whatever is lost
is known.  For each worker:

    prove ──▶ send the files that are missing ──▶ a first call, once a machine ──▶ use

Guarantees: every call runs under a key of its own (Dask takes equal calls for one) and without
retries of Dask's; a task whose call was lost is reported, once; a worker is used, prepared, or left
out with a reason, for as long as it is there.
Limits: a call whose worker is cut off may run to its end unheard.

Source: distributed.dask.org, Client and Future.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import queue
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Self, TypeVar

from tuner.errors import MissingToolError, ProgramError, TunerError, installing
from tuner.measure.remote import Proof, SharedKit, prove, receive

_LOOK_S: Final = 1.0
"""Time between two looks for workers that came or went."""
_WAKE_S: Final = 0.5
"""Longest time a Ctrl-C may go unnoticed."""
_ANSWER_S: Final = 20.0
"""Time that the scheduler has to answer."""
_RETRY_S: Final = 1.0
"""Time between two attempts to reach the scheduler."""
_AHEAD: Final = 4
"""A worker gets one task more, to have at hand, for so many at a time."""
PATIENCE_S: Final = 600.0
"""Time without a scheduler before all ends, to be continued."""
_TRY_S: Final = 10.0
"""Time after which workers of which none can be used are an error."""

_LOSSES: Final = frozenset({"KilledWorker", "FutureCancelledError", "CancelledError"})
"""Names of Dask's errors, and of those beside them, that say that a call was lost."""

OnNote = Callable[[str], None]
TaskT = TypeVar("TaskT")


@dataclass
class Worker:
    """One worker process."""

    address: str
    n_threads: int
    proof: Proof | None = None
    n_slots: int = 0
    """Tasks at a time; 0 until it is used."""

    @property
    def machine(self) -> str:
        """Name of its host; once it has proved."""
        assert self.proof is not None  # noqa: S101 - proved before
        return self.proof.machine

    @property
    def cpus(self) -> frozenset[int]:
        """The cores that it measures on; once it has proved."""
        assert self.proof is not None  # noqa: S101 - proved before
        return self.proof.cpus


@dataclass
class Call(Generic[TaskT]):
    """One call that runs on a worker."""

    future: Any
    worker: Worker
    task: TaskT | None = None
    """What it does; None for what prepares a worker."""
    then: Callable[[Any], None] | None = None
    """Called with the result of what prepares a worker."""
    found: Any = None
    """The result, when it has arrived already."""

    def result(self) -> Any:  # noqa: ANN401 - whatever was called returns
        """Return the result of a call that ended.

        Raises:
            LostError: nothing will be heard of it.
            TunerError: the call failed, such as on a worker without malloc-tuner.
        """
        return self.found or _result(self.future)


class LostError(Exception):
    """Nothing will be heard of a call."""


class Workers(ABC, Generic[TaskT]):
    """The workers of a scheduler, for one kit; use it in a ``with``."""

    def __init__(
        self,
        kit: SharedKit,
        address: str,
        *,
        on_note: OnNote = lambda _: None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Connect to the scheduler.

        Args:
            kit: what the workers need.
            address: of the scheduler: ``tcp://host:8786``.
            on_note: called with what happens to workers.
            patience_s: time without a scheduler before all ends.

        Raises:
            MissingToolError: Dask is not installed, or no scheduler answers there.
        """
        self.kit, self._address = kit, address
        self._on_note, self._patience_s = on_note, patience_s
        self._identity = dict(kit.identity())
        self._left_out: dict[str, str] = {}
        """Worker -> why it is not used."""
        self._workers: dict[str, Worker] = {}
        self._calls: dict[str, Call[TaskT]] = {}
        self._done: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.slots: collections.deque[Worker] = collections.deque()
        """Workers that can take a task, once for each."""
        self._first_calls: dict[str, list[Worker]] = {}
        """Machine whose first call is made -> its workers, which wait."""
        self._stopping = threading.Event()
        self._looked_s, self._begun_s = 0.0, time.monotonic()
        self._has_waited = False
        self._client = _connected(address)

    # What the kinds of tasks decide

    @abstractmethod
    def is_admitted(self, machine: str) -> bool:
        """Return whether a machine has made its first call."""

    @abstractmethod
    def first_call(self) -> tuple[Any, ...]:
        """Return the function and the arguments of a machine's first call."""

    @abstractmethod
    def admit(self, proof: Proof, found: Any) -> str:  # noqa: ANN401 - what the call returned
        """Take the result of a machine's first call; return why it is not used, or nothing."""

    @abstractmethod
    def lost(self, task: TaskT, why: str, *, by_worker: bool) -> None:
        """Take note that nothing will be heard of a task; the worker or the connection is gone."""

    # What they use

    @property
    def n_workers(self) -> int:
        """Tasks at a time, on all workers in use."""
        return sum(worker.n_slots for worker in self._workers.values())

    @property
    def is_stopping(self) -> bool:
        """True once `stop` was called."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Hand out no more."""
        self._stopping.set()

    @property
    def is_preparing(self) -> bool:
        """Whether a worker is about to be used."""
        return any(call.task is None for call in self._calls.values())

    @property
    def is_idle(self) -> bool:
        """Whether no task runs."""
        return not any(call.task for call in self._calls.values())

    @property
    def machines_here(self) -> set[str]:
        """Names of the machines in use now."""
        return {one.machine for one in self._workers.values() if one.n_slots}

    def begin(self, task: TaskT, *words: object) -> None:
        """Run a function with its arguments for a task, on the next free worker."""
        self._call(self.slots.popleft(), *words).task = task

    def ended(self) -> list[Call[TaskT]]:
        """Wait for calls to end, for a moment; return those of tasks."""
        try:
            keys = [self._done.get(timeout=_WAKE_S)]
        except queue.Empty:
            return []
        with contextlib.suppress(queue.Empty):
            while True:
                keys.append(self._done.get_nowait())
        self._fetch(keys)
        found = []
        for key in keys:
            call = self._calls.pop(key, None)
            if call is None:
                continue  # given up before
            if call.task is None:
                self._prepared(call)
                continue
            if self._workers.get(call.worker.address) is call.worker:
                self.slots.append(call.worker)
            found.append(call)
        return found

    def leave_out(self, worker: Worker, why: str) -> None:
        """Use a worker no more."""
        self._workers.pop(worker.address, None)
        self.slots = collections.deque(one for one in self.slots if one is not worker)
        self._left_out[worker.address] = why
        self._on_note(f"worker {worker.address} is not used: {why}")

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Forget what runs, and leave the cluster as it is."""
        self._forget_calls()
        _close(self._client)

    # Workers come and go

    def keep_up(self) -> None:
        """Take note of workers that came or went, and of a scheduler that is gone.

        Raises:
            MissingToolError: no worker can be used, or the scheduler stays away.
        """
        now_s = time.monotonic()
        if now_s - self._looked_s < _LOOK_S:
            return
        try:
            present = self._client.sync(self._client.scheduler.ncores, callback_timeout=_ANSWER_S)
        except Exception:  # noqa: BLE001 - Dask has no one error for a connection that is gone
            self._reconnect()
            return
        self._looked_s = time.monotonic()
        for address in self._workers.keys() - present.keys():
            self._drop(self._workers.pop(address))
        for address in self._left_out.keys() - present.keys():
            del self._left_out[address]
        for address in present.keys() - self._workers.keys() - self._left_out.keys():
            worker = self._workers[address] = Worker(address, present[address])
            self._call(worker, prove, self.kit).then = self._proved
        self._check_usable(present)

    def _check_usable(self, present: Mapping[str, int]) -> None:
        """Raise when no worker can be used; say when there is none."""
        if self.slots or self._calls or time.monotonic() - self._begun_s < _TRY_S:
            return
        if self._left_out and not self._workers:
            lines = "".join(f"\n  {address}: {why}" for address, why in self._left_out.items())
            raise MissingToolError(f"no worker of {self._address} can be used:{lines}")
        if not present and not self._has_waited:
            self._has_waited = True
            self._on_note(f"waiting for workers: dask worker {self._address} starts one")

    def _drop(self, worker: Worker) -> None:
        """Give back what a lost worker was doing, and its place on the machine."""
        self._on_note(f"worker {worker.address} is gone")
        self.slots = collections.deque(one for one in self.slots if one is not worker)
        for key, call in [*self._calls.items()]:
            if call.worker is not worker:
                continue
            del self._calls[key]
            _cancel(call.future)
            if call.task is None:
                self._prepared(replace(call, future=None))
            else:
                self.lost(call.task, f"worker {worker.address} was lost", by_worker=True)
        for waiting in self._first_calls.values():
            if worker in waiting:
                waiting.remove(worker)
        for other in [*self._workers.values()]:
            if worker.n_slots and other.proof and other.machine == worker.machine:
                self._use(other)

    def _reconnect(self) -> None:
        """Wait for a scheduler; all that ran is lost.

        Raises:
            MissingToolError: it stays away.
        """
        why = f"the connection to {self._address} was lost"
        self._on_note(f"{why}; waiting for it")
        for call in self._calls.values():
            if call.task is not None:
                self.lost(call.task, why, by_worker=False)
        self._forget_calls()
        self._workers.clear()
        self.slots.clear()
        self._first_calls.clear()
        self._left_out.clear()
        _close(self._client)
        end_s = time.monotonic() + self._patience_s
        while not self.is_stopping:
            try:
                self._client = _connected(self._address)
            except MissingToolError as error:
                if time.monotonic() > end_s:
                    raise MissingToolError(
                        f"{error}, for {self._patience_s:.0f} s; all that was measured is kept: "
                        "run the same command again to continue"
                    ) from error
                time.sleep(_RETRY_S)
            else:
                self._begun_s = time.monotonic()
                return

    # Preparing a worker

    def _prepared(self, call: Call[TaskT]) -> None:
        assert call.then is not None  # noqa: S101 - what prepares a worker goes on
        try:
            found = call.result()
        except (LostError, TunerError) as error:
            if call.then == self._first_made:
                self._make_elsewhere(call.worker)
            if not isinstance(error, LostError):
                self.leave_out(call.worker, str(error))
            elif self._workers.get(call.worker.address) is call.worker:
                # The next look finds it as if it had just come.
                del self._workers[call.worker.address]
                self._on_note(f"worker {call.worker.address} did not answer; it is asked again")
            return
        call.then((call.worker, found))

    def _proved(self, given: tuple[Worker, Proof]) -> None:
        worker, proof = given
        worker.proof = proof
        names = dict.fromkeys([*self._identity, *proof.identity])
        different = [
            f"{name} is {proof.identity.get(name)}, here {self._identity.get(name)}"
            for name in names
            if proof.identity.get(name) != self._identity.get(name)
        ]
        if different:
            self.leave_out(worker, f"{proof.machine}: {'; '.join(different)}")
        else:
            self._send((worker, None))

    def _send(self, given: tuple[Worker, None]) -> None:
        """Send the next file that a worker lacks, or go on."""
        worker, _ = given
        proof = worker.proof
        assert proof is not None  # noqa: S101 - proved before
        if not proof.missing:
            self._join(worker)
            return
        sha256, *rest = proof.missing
        worker.proof = replace(proof, missing=tuple(rest))
        call = self._call(worker, receive, sha256, self.kit.content(sha256))
        call.then = self._send

    def _join(self, worker: Worker) -> None:
        """Use a worker once the first call of its machine was made."""
        machine = worker.machine
        if self.is_admitted(machine):
            self._use(worker)
        elif machine in self._first_calls:
            self._first_calls[machine].append(worker)
        else:
            self._first_calls[machine] = [worker]
            self._call(worker, *self.first_call()).then = self._first_made

    def _make_elsewhere(self, lost: Worker) -> None:
        """Make the first call on the next worker of a machine."""
        waiting = self._first_calls.pop(lost.machine, [])
        for worker in waiting:
            if worker is not lost:
                self._join(worker)

    def _first_made(self, given: tuple[Worker, Any]) -> None:
        worker, found = given
        assert worker.proof is not None  # noqa: S101 - proved before
        why = self.admit(worker.proof, found)
        for one in self._first_calls.pop(worker.machine, []):
            if why:
                self.leave_out(one, f"{worker.machine}: {why}")
            else:
                self._use(one)

    def _use(self, worker: Worker) -> None:
        """Give a worker the places that its machine has left."""
        proof = worker.proof
        assert proof is not None  # noqa: S101 - proved before
        others = (one for one in self._workers.values() if one.proof and one is not worker)
        taken = sum(one.n_slots for one in others if self._share_places(one, worker))
        before = worker.n_slots
        worker.n_slots = max(before, min(worker.n_threads, proof.n_cores - taken))
        # A few more wait on workers with many threads, for whichever of them is free first.
        n_more = (worker.n_slots + worker.n_slots // _AHEAD) - (before + before // _AHEAD)
        self.slots.extend([worker] * n_more)
        if not before or n_more:
            full = "waits, other workers of this machine use its cores"
            words = f"{worker.n_slots} at a time" if worker.n_slots else full
            self._on_note(f"worker {worker.address} on {proof.machine}: {words}")

    def _share_places(self, one: Worker, other: Worker) -> bool:
        """Return whether what one worker runs takes places from the other.

        Jobs on one machine may have cores of their own.
        """
        if one.machine != other.machine:
            return False
        return self.kit.most_per_machine is not None or not one.cpus.isdisjoint(other.cpus)

    # Dask

    def _fetch(self, keys: Iterable[str]) -> None:
        """Get the results of calls that succeeded all at once; what fails is got one by one.

        A worker that died with its results would be waited for without end.
        """
        calls = [self._calls[key] for key in keys if key in self._calls]
        calls = [call for call in calls if call.future.status == "finished"]
        gather = functools.partial(self._client.gather, asynchronous=True)
        with contextlib.suppress(Exception):
            found = self._client.sync(
                gather, [call.future for call in calls], callback_timeout=_ANSWER_S
            )
            for call, result in zip(calls, found, strict=True):
                call.found = result

    def _call(self, worker: Worker, *words: Any) -> Call[TaskT]:
        """Run a function with its arguments on a worker, once."""
        key = f"malloc-tuner-{uuid.uuid4().hex}"
        future = self._client.submit(
            *words, key=key, workers=[worker.address], pure=False, retries=0
        )
        call: Call[TaskT] = Call(future, worker)
        self._calls[key] = call
        future.add_done_callback(lambda _: self._done.put(key))
        return call

    def _forget_calls(self) -> None:
        for call in self._calls.values():
            _cancel(call.future)
        self._calls.clear()


def _connected(address: str) -> Any:  # noqa: ANN401 - a client of Dask's
    try:
        from distributed import Client  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingToolError(f"Dask is not installed: {installing('cluster')}") from error
    try:
        made: Any = Client
        return made(address, timeout=_ANSWER_S / 4, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise MissingToolError(f"{address}: no scheduler of Dask answers") from error


def _close(client: Any) -> None:  # noqa: ANN401 - a client of Dask's
    with contextlib.suppress(Exception):
        client.close(timeout=2.0)


def _cancel(future: Any) -> None:  # noqa: ANN401 - a future of Dask's
    with contextlib.suppress(Exception):
        future.cancel()


def _result(future: Any) -> Any:  # noqa: ANN401 - whatever was called returns
    """Return the result of a call that ended, or raise as `result` does."""
    if future is None or future.status in {"cancelled", "lost"}:
        raise LostError
    has_failed = future.status == "error"
    try:
        return future.result(timeout=_ANSWER_S)
    except TunerError:
        raise
    except Exception as error:
        # What was called may raise an OSError too, and then the connection is as good as before.
        is_cut = isinstance(error, OSError) and not has_failed
        if is_cut or type(error).__name__ in _LOSSES:
            raise LostError from error
        raise ProgramError(f"{type(error).__name__}: {error}") from error
