"""Evaluate on the workers of a Dask cluster.

Dask carries tasks and results; which worker gets which configuration is decided here, so that one
evaluation runs on each measuring core, a worker is used only after it has proved to be alike, and
whatever is lost is known.  For each worker:

    prove ──▶ send the workload, if it is missing ──▶ measure the default, once a machine ──▶ use

The default says two things of a machine.  Counted numbers must be those of the first machine,
within 0.5 %, or it is not used.  Times are multiplied by what the default took on the first machine
over what it took there.

Guarantees: an evaluation counts once, whatever becomes of its worker, of the scheduler and of the
network; what was not heard of is evaluated again, elsewhere or later, and noted.  Every task is
submitted under a key of its own (Dask takes equal calls for one) and without retries of Dask's.
Limits: an evaluation whose worker is cut off may run to its end unheard.

Source: distributed.dask.org, Client and Future.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from tuner.errors import MissingToolError, ProgramError, SpecError, TraceError, TunerError
from tuner.measure.evaluation import Evaluation, Gate, GateOf
from tuner.measure.executor import MAX_ATTEMPTS, TIMEOUT_ATTEMPTS, Attempts
from tuner.measure.remote import Kit, Measured, Proof, measure, prove, receive
from tuner.metrics import METRICS, Kind
from tuner.records import Configuration, Measurement, Outcome, Status
from tuner.stats import TIE
from tuner.store import ClusterMachine

_LOOK_S: Final = 1.0
"""Time between two looks for workers that came or went."""
_WAKE_S: Final = 0.5
"""Longest time a Ctrl-C may go unnoticed."""
_ANSWER_S: Final = 20.0
"""Time that the scheduler has to answer."""
_RETRY_S: Final = 1.0
"""Time between two attempts to reach the scheduler."""
_AHEAD: Final = 4
"""A worker gets one task more, to have at hand, for so many evaluations at a time."""
PATIENCE_S: Final = 600.0
"""Time without a scheduler before the campaign ends, to be continued."""
_TRY_S: Final = 10.0
"""Time after which workers of which none can be used are an error."""

_PERMANENT = (MissingToolError, SpecError, TraceError)
"""Failures that no other machine can mend: all have proved to be alike."""

OnNote = Callable[[str], None]


@dataclass
class _Worker:
    """One worker process."""

    address: str
    n_threads: int
    proof: Proof | None = None
    n_slots: int = 0
    """Evaluations at a time; 0 until it is used."""


@dataclass
class _Task:
    """One configuration that is to be evaluated."""

    index: int
    configuration: Configuration
    failures: list[str] = field(default_factory=list)
    gate: Gate | None = None
    """As it was when the task was first handed out."""
    n_failed: int = 0
    """Attempts that failed for a reason of the worker's."""
    n_timed_out: int = 0


@dataclass
class _Call:
    """One call that runs on a worker."""

    future: Any
    worker: _Worker
    task: _Task | None = None
    """What is evaluated; None for what prepares a worker."""
    then: Callable[[Any], None] | None = None
    """Called with the result of what prepares a worker."""
    result: Any = None
    """When it has arrived already."""


class _LostError(Exception):
    """Nothing will be heard of a call."""


class ClusterExecutor:
    """Runs a kit on every worker of a cluster; use it in a ``with``."""

    runs_ahead = True
    """Proposals do not wait for results."""
    is_gated = True
    """Where the kit's evaluator is."""

    def __init__(
        self,
        kit: Kit,
        address: str,
        default: Configuration,
        *,
        machines: Iterable[ClusterMachine] = (),
        on_note: OnNote = lambda _: None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Connect to the scheduler.

        Args:
            kit: what the workers evaluate with.
            address: of the scheduler: ``tcp://host:8786``.
            default: the configuration that is measured on every machine.
            machines: those of the campaign so far, the first one first.
            on_note: called with what happens to workers.
            patience_s: time without a scheduler before the campaign ends.

        Raises:
            MissingToolError: Dask is not installed, or no scheduler answers there.
        """
        self._kit, self._address, self._default = kit, address, default
        self._on_note, self._patience_s = on_note, patience_s
        self._identity = dict(kit.identity())
        self.machines = {machine.name: machine for machine in machines}
        """Every machine that took part, the first one first."""
        self._left_out: dict[str, str] = {}
        """Worker -> why it is not used."""
        self._workers: dict[str, _Worker] = {}
        self._calls: dict[str, _Call] = {}
        self._done: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._slots: collections.deque[_Worker] = collections.deque()
        self._again: collections.deque[_Task] = collections.deque()
        self._given_up: collections.deque[Attempts] = collections.deque()
        self._measuring: dict[str, list[_Worker]] = {}
        """Machine whose default is being measured -> its workers, which wait."""
        self._stopping = threading.Event()
        self._looked_s, self._begun_s = 0.0, time.monotonic()
        self._has_waited = False
        self._client = _connected(address)

    # What a campaign sees

    @property
    def n_workers(self) -> int:
        """See `Executor.n_workers`: cores of the workers in use."""
        return sum(worker.n_slots for worker in self._workers.values())

    @property
    def is_stopping(self) -> bool:
        """See `Executor.is_stopping`."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """See `Executor.stop`."""
        self._stopping.set()

    def run(
        self, configurations: Iterable[Configuration], gate_of: GateOf | None = None
    ) -> Iterator[Attempts]:
        """See `Executor.run`.

        Raises:
            MissingToolError: no worker can be used, or the scheduler stays away.
        """
        waiting = (
            _Task(index, one, gate=gate_of(one) if gate_of else None)
            for index, one in enumerate(configurations)
        )
        while True:
            self._keep_up()
            is_over = self._hand_out(waiting)
            while self._given_up:
                yield self._given_up.popleft()
            is_idle = not any(call.task for call in self._calls.values())
            if is_idle and (self.is_stopping or is_over):
                return
            yield from self._collected()

    def __enter__(self) -> Self:
        """Return the executor itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Forget what runs, and leave the cluster as it is."""
        self._forget_calls()
        _close(self._client)

    # Evaluations

    def _hand_out(self, waiting: Iterator[_Task]) -> bool:
        """Give every free slot a task; return whether none is left."""
        while self._slots and not self.is_stopping:
            task = self._again.popleft() if self._again else next(waiting, None)
            if task is None:
                return True
            worker = self._slots.popleft()
            call = self._call(worker, measure, self._kit, task.configuration, task.gate)
            call.task = task
        return False

    def _collected(self) -> Iterator[Attempts]:
        """Wait for calls to end and yield the evaluations among them."""
        try:
            keys = [self._done.get(timeout=_WAKE_S)]
        except queue.Empty:
            return
        with contextlib.suppress(queue.Empty):
            while True:
                keys.append(self._done.get_nowait())
        self._fetch(keys)
        for key in keys:
            call = self._calls.pop(key, None)
            if call is None:
                continue  # given up before
            if call.task is None:
                self._prepared(call)
                continue
            if self._workers.get(call.worker.address) is call.worker:
                self._slots.append(call.worker)
            attempts = self._judged(call, call.task)
            if attempts is not None:
                yield attempts

    def _fetch(self, keys: Iterable[str]) -> None:
        """Get the results of calls that succeeded all at once; what fails is got one by one."""
        calls = [self._calls[key] for key in keys if key in self._calls]
        calls = [call for call in calls if call.future.status == "finished"]
        with contextlib.suppress(Exception):
            found = self._client.gather([call.future for call in calls])
            for call, result in zip(calls, found, strict=True):
                call.result = result

    def _judged(self, call: _Call, task: _Task) -> Attempts | None:
        """Return how an evaluation ended; None when it is tried again."""
        try:
            measured: Measured = call.result or _result(call.future)
        except _LostError:
            return self._failed(task, f"worker {call.worker.address} was lost")
        except TunerError as error:
            return self._failed(task, str(error))
        failure, evaluation = measured.error, measured.evaluation
        if isinstance(failure, _PERMANENT):
            return self._ended(task, None, error=failure)
        if evaluation is None:
            return self._failed(task, str(failure), failure)
        if evaluation.status is Status.TIMED_OUT and task.n_timed_out + 1 < TIMEOUT_ATTEMPTS:
            task.n_timed_out += 1
            task.failures.append(str(evaluation.reason))
            self._again.append(task)
            return None
        assert call.worker.proof is not None  # noqa: S101 - it is used
        machine = call.worker.proof.machine
        task.failures += evaluation.incidents
        return self._ended(task, self._relative(evaluation, machine), machine=machine)

    def _failed(self, task: _Task, why: str, error: TunerError | None = None) -> Attempts | None:
        """Take note of a failed attempt; the evaluation is tried again, a few times."""
        task.failures.append(why)
        task.n_failed += 1
        if task.n_failed < MAX_ATTEMPTS:
            self._again.append(task)
            return None
        return self._ended(task, None, error=error or ProgramError(why))

    @staticmethod
    def _ended(
        task: _Task,
        evaluation: Evaluation | None,
        *,
        error: TunerError | None = None,
        machine: str | None = None,
    ) -> Attempts:
        if error is not None and not task.failures:
            task.failures.append(str(error))
        failures = tuple(task.failures)
        return Attempts(task.index, task.configuration, evaluation, failures, error, machine)

    def _relative(self, evaluation: Evaluation, machine: str) -> Evaluation:
        """Return an evaluation with its times as if it had run on the first machine."""
        first, here = next(iter(self.machines.values())).default, self.machines[machine].default
        found = evaluation.good
        if found is None or first is here:
            return evaluation
        times = {
            name: found[name] * first[name] / here[name]  # type: ignore[operator]
            for name, metric in METRICS.items()
            if metric.kind is Kind.NANOSECONDS and found[name] and first[name] and here[name]
        }
        whole = {n: round(v) if METRICS[n].is_whole else v for n, v in times.items()}
        return Outcome.succeeded(found.with_values(**whole), evaluation.incidents)

    # Workers

    def _keep_up(self) -> None:
        """Take note of workers that came or went, and of a scheduler that is gone."""
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
        for address in present.keys() - self._workers.keys() - self._left_out.keys():
            worker = self._workers[address] = _Worker(address, present[address])
            self._call(worker, prove, self._kit).then = self._proved
        self._check_usable(present)

    def _check_usable(self, present: Mapping[str, int]) -> None:
        """Raise when no worker can be used; say when there is none."""
        if self._slots or self._calls or time.monotonic() - self._begun_s < _TRY_S:
            return
        if self._left_out and not self._workers:
            lines = "".join(f"\n  {address}: {why}" for address, why in self._left_out.items())
            message = f"no worker of {self._address} can be used:{lines}"
            raise MissingToolError(message)
        if not present and not self._has_waited:
            self._has_waited = True
            self._on_note(f"waiting for workers: dask worker {self._address} starts one")

    def _drop(self, worker: _Worker) -> None:
        """Give back what a lost worker was evaluating."""
        self._on_note(f"worker {worker.address} is gone")
        self._slots = collections.deque(one for one in self._slots if one is not worker)
        for key, call in [*self._calls.items()]:
            if call.worker is not worker:
                continue
            del self._calls[key]
            _cancel(call.future)
            if call.task is None:
                self._prepared(replace(call, future=None))
                continue
            attempts = self._failed(call.task, f"worker {worker.address} was lost")
            if attempts is not None:
                self._given_up.append(attempts)
        for waiting in self._measuring.values():
            if worker in waiting:
                waiting.remove(worker)

    def _reconnect(self) -> None:
        """Wait for a scheduler; all that ran is evaluated again.

        Raises:
            MissingToolError: it stays away.
        """
        self._on_note(f"the connection to {self._address} was lost; waiting for it")
        for call in self._calls.values():
            if call.task is not None:
                call.task.failures.append(f"the connection to {self._address} was lost")
                self._again.append(call.task)
        self._forget_calls()
        self._workers.clear()
        self._slots.clear()
        self._measuring.clear()
        self._left_out.clear()
        _close(self._client)
        end_s = time.monotonic() + self._patience_s
        while not self.is_stopping:
            try:
                self._client = _connected(self._address)
            except MissingToolError as error:
                if time.monotonic() > end_s:
                    message = (
                        f"{error}, for {self._patience_s:.0f} s; all that was measured is kept: "
                        "run the same command again to continue"
                    )
                    raise MissingToolError(message) from error
                time.sleep(_RETRY_S)
            else:
                self._begun_s = time.monotonic()
                return

    # Preparing a worker

    def _prepared(self, call: _Call) -> None:
        assert call.then is not None  # noqa: S101 - what prepares a worker goes on
        try:
            found = _result(call.future)
        except (_LostError, TunerError) as error:
            if call.then == self._default_measured:
                self._measure_elsewhere(call.worker)
            if not isinstance(error, _LostError):
                self._leave_out(call.worker, str(error))
            return
        call.then((call.worker, found))

    def _proved(self, given: tuple[_Worker, Proof]) -> None:
        worker, proof = given
        worker.proof = proof
        names = dict.fromkeys([*self._identity, *proof.identity])
        different = [
            f"{name} is {proof.identity.get(name)}, here {self._identity.get(name)}"
            for name in names
            if proof.identity.get(name) != self._identity.get(name)
        ]
        if different:
            self._leave_out(worker, f"{proof.machine}: {'; '.join(different)}")
        else:
            self._send((worker, None))

    def _send(self, given: tuple[_Worker, None]) -> None:
        """Send the next file that a worker lacks, or go on."""
        worker, _ = given
        proof = worker.proof
        assert proof is not None  # noqa: S101 - proved before
        if not proof.missing:
            self._join(worker)
            return
        sha256, *rest = proof.missing
        worker.proof = replace(proof, missing=tuple(rest))
        call = self._call(worker, receive, sha256, self._kit.content(sha256))
        call.then = self._send

    def _join(self, worker: _Worker) -> None:
        """Use a worker once the default was measured on its machine."""
        assert worker.proof is not None  # noqa: S101 - proved before
        machine = worker.proof.machine
        if machine in self.machines:
            self._use(worker)
        elif machine in self._measuring:
            self._measuring[machine].append(worker)
        else:
            self._measuring[machine] = [worker]
            call = self._call(worker, measure, self._kit, self._default)
            call.then = self._default_measured

    def _measure_elsewhere(self, lost: _Worker) -> None:
        """Measure the default on the next worker of a machine."""
        assert lost.proof is not None  # noqa: S101 - proved before
        waiting = self._measuring.pop(lost.proof.machine, [])
        for worker in waiting:
            if worker is not lost:
                self._join(worker)

    def _default_measured(self, given: tuple[_Worker, Measured]) -> None:
        worker, measured = given
        proof = worker.proof
        assert proof is not None  # noqa: S101 - proved before
        found = measured.evaluation.good if measured.evaluation else None
        why = str(measured.error or (measured.evaluation and measured.evaluation.reason))
        if found is not None:
            first = next(iter(self.machines.values()), None)
            why = "; ".join(_unlike(first.default, found)) if first else ""
        waiting = self._measuring.pop(proof.machine, [])
        if found is None or why:
            for one in waiting:
                self._leave_out(one, f"{proof.machine}: the default: {why}")
            return
        self.machines[proof.machine] = ClusterMachine(proof.machine, proof.facts, found)
        for one in waiting:
            self._use(one)

    def _use(self, worker: _Worker) -> None:
        proof = worker.proof
        assert proof is not None  # noqa: S101 - proved before
        taken = sum(
            one.n_slots
            for one in self._workers.values()
            if one.proof is not None and one.proof.machine == proof.machine
        )
        worker.n_slots = max(0, min(worker.n_threads, proof.n_cores - taken))
        # A few more wait on workers with many threads, for whichever of them is free first.
        self._slots.extend([worker] * (worker.n_slots + worker.n_slots // _AHEAD))
        self._on_note(
            f"worker {worker.address} on {proof.machine}: {worker.n_slots} evaluations at a time"
        )

    def _leave_out(self, worker: _Worker, why: str) -> None:
        self._workers.pop(worker.address, None)
        self._left_out[worker.address] = why
        self._on_note(f"worker {worker.address} is not used: {why}")

    # Dask

    def _call(self, worker: _Worker, function: Callable[..., object], *arguments: object) -> _Call:
        """Run a function on a worker, once."""
        key = f"malloc-tuner-{uuid.uuid4().hex}"
        future = self._client.submit(
            function, *arguments, key=key, workers=[worker.address], pure=False, retries=0
        )
        call = self._calls[key] = _Call(future, worker)
        future.add_done_callback(lambda _: self._done.put(key))
        return call

    def _forget_calls(self) -> None:
        for call in self._calls.values():
            _cancel(call.future)
        self._calls.clear()


def _unlike(first: Measurement, here: Measurement) -> Iterator[str]:
    """Say in which repeatable numbers a machine differs from the first."""
    for name, metric in METRICS.items():
        one, other = first[name], here[name]
        if not metric.is_repeatable or metric.kind is Kind.NANOSECONDS or one is None:
            continue
        if other is None or abs(other - one) > TIE * max(one, other):
            yield f"{metric.label} is {other}, {one} on the first machine"


def _connected(address: str) -> Any:  # noqa: ANN401 - a client of Dask's
    try:
        from distributed import Client  # noqa: PLC0415 - an extra
    except ImportError as error:
        message = "Dask is not installed: pip install 'malloc-tuner[cluster]'"
        raise MissingToolError(message) from error
    try:
        made: Any = Client
        return made(address, timeout=_ANSWER_S / 4, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        message = f"{address}: no scheduler of Dask answers"
        raise MissingToolError(message) from error


def _close(client: Any) -> None:  # noqa: ANN401 - a client of Dask's
    with contextlib.suppress(Exception):
        client.close(timeout=2.0)


def _cancel(future: Any) -> None:  # noqa: ANN401 - a future of Dask's
    with contextlib.suppress(Exception):
        future.cancel()


def _result(future: Any) -> Any:  # noqa: ANN401 - whatever was called returns
    """Return the result of a call that ended.

    Raises:
        _LostError: nothing will be heard of it.
        TunerError: the call failed, such as on a worker without malloc-tuner.
    """
    if future is None or future.status in {"cancelled", "lost"}:
        raise _LostError
    try:
        return future.result(timeout=_ANSWER_S)
    except TunerError:
        raise
    except (OSError, TimeoutError, concurrent.futures.CancelledError) as error:
        raise _LostError from error
    except Exception as error:
        if type(error).__name__ in {"KilledWorker", "FutureCancelledError", "CancelledError"}:
            raise _LostError from error
        message = f"{type(error).__name__}: {error}"
        raise ProgramError(message) from error
