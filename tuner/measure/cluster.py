"""Evaluate on the workers of a Dask cluster.

One evaluation runs on each measuring core, and the default is measured once on every machine.  It
says two things of a machine.  Counted numbers must be those of the first machine, within 0.5 %, or
it is not used.  Times are multiplied by what the default took on the first machine over what it
took there.  The first machine is the one on which the campaign was begun, of the cluster or not.

Guarantee: an evaluation counts once, whatever becomes of its worker, of the scheduler and of the
network; what was not heard of is evaluated again, elsewhere or later, and noted.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tuner.errors import ProgramError, TunerError
from tuner.measure.evaluation import Evaluation, Gate, GateOf
from tuner.measure.executor import Attempts, Tries
from tuner.measure.remote import Kit, Measured, Proof, measure
from tuner.measure.workers import Call, LostError, OnNote, Workers
from tuner.metrics import METRICS, Kind
from tuner.records import Configuration, Measurement, Status
from tuner.stats import TIE
from tuner.store import ClusterMachine


@dataclass
class _Task:
    """One configuration that is to be evaluated."""

    index: int
    configuration: Configuration
    gate: Gate | None = None
    """As it was when the task was first handed out."""
    tries: Tries = field(default_factory=Tries)


class ClusterExecutor(Workers[_Task]):
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
        begun: Measurement | None = None,
        on_note: OnNote = lambda _: None,
    ) -> None:
        """Connect to the scheduler.

        Args:
            kit: what the workers evaluate with.
            address: of the scheduler: ``tcp://host:8786``.
            default: the configuration that is measured on every machine.
            machines: those of the campaign so far, the first one first.
            begun: what the default measured on the first machine, where that is none of a
                cluster; None: it is the first of `machines`.
            on_note: called with what happens to workers.

        Raises:
            MissingToolError: Dask is not installed, or no scheduler answers there.
        """
        super().__init__(kit, address, on_note=on_note)
        self._default = default
        self._begun = begun
        self.machines = {machine.name: machine for machine in machines}
        """Every machine that took part, the first one first."""
        self._again: collections.deque[_Task] = collections.deque()
        self._given_up: collections.deque[Attempts] = collections.deque()

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
            self.keep_up()
            is_over = self._hand_out(waiting)
            while self._given_up:
                yield self._given_up.popleft()
            if self.is_idle and (self.is_stopping or is_over):
                return
            for call in self.ended():
                attempts = self._judged(call)
                if attempts is not None:
                    yield attempts

    def _hand_out(self, waiting: Iterator[_Task]) -> bool:
        """Give every free slot a task; return whether none is left.

        While nothing runs it is asked without a free slot too: the end needs no worker.
        """
        while (self.slots or self.is_idle) and not self.is_stopping:
            task = self._again.popleft() if self._again else next(waiting, None)
            if task is None:
                return True
            if not self.slots:
                self._again.appendleft(task)
                return False
            self.begin(task, measure, self.kit, task.configuration, task.gate)
        return False

    # How evaluations end

    def lost(self, task: _Task, why: str, *, by_worker: bool) -> None:
        """See `Workers.lost`: it is evaluated again."""
        if not by_worker:
            task.tries.failures.append(why)
            self._again.append(task)
            return
        attempts = self._failed(task, why)
        if attempts is not None:
            self._given_up.append(attempts)

    def _judged(self, call: Call[_Task]) -> Attempts | None:
        """Return how an evaluation ended; None when it is tried again."""
        task = call.task
        assert task is not None  # noqa: S101 - `ended` returns those of tasks
        try:
            measured: Measured = call.result()
        except LostError:
            return self._failed(task, f"worker {call.worker.address} was lost")
        except TunerError as error:
            return self._failed(task, str(error))
        failure, evaluation = measured.error, measured.evaluation
        if evaluation is None:
            return self._failed(task, str(failure), failure)
        has_timed_out = evaluation.status is Status.TIMED_OUT
        if has_timed_out and task.tries.goes_on_after_time_out(str(evaluation.reason)):
            self._again.append(task)
            return None
        machine = call.worker.machine
        task.tries.failures += evaluation.incidents
        return self._ended(task, self._relative(evaluation, machine), machine=machine)

    def _failed(self, task: _Task, why: str, error: TunerError | None = None) -> Attempts | None:
        """Take note of a failed attempt; the evaluation is tried again, a few times."""
        if task.tries.goes_on_after(why, error):
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
        failures = tuple(task.tries.failures)
        return Attempts(task.index, task.configuration, evaluation, failures, error, machine)

    def _relative(self, evaluation: Evaluation, machine: str) -> Evaluation:
        """Return an evaluation with its times as if it had run on the first machine."""
        first, here = self._first, self.machines[machine].default
        found = evaluation.values
        if found is None or first is None or first is here:
            return evaluation
        times = {
            name: found[name] * first[name] / here[name]  # type: ignore[operator]
            for name, metric in METRICS.items()
            if metric.kind is Kind.NANOSECONDS and found[name] and first[name] and here[name]
        }
        whole = {n: round(v) if METRICS[n].is_whole else v for n, v in times.items()}
        return replace(evaluation, values=found.with_values(**whole))

    # Machines

    @property
    def _first(self) -> Measurement | None:
        """What the default measured on the first machine; None before there is one."""
        if self._begun is not None:
            return self._begun
        return next((machine.default for machine in self.machines.values()), None)

    def is_admitted(self, machine: str) -> bool:
        """See `Workers.is_admitted`."""
        return machine in self.machines

    def first_call(self) -> tuple[Any, ...]:
        """See `Workers.first_call`: measure the default."""
        return measure, self.kit, self._default

    def admit(self, proof: Proof, found: Measured) -> str:
        """See `Workers.admit`."""
        default = found.evaluation.good if found.evaluation else None
        if default is None:
            return f"the default: {found.error or (found.evaluation and found.evaluation.reason)}"
        if self._first is not None and (words := "; ".join(unlike(self._first, default))):
            return f"the default: {words}"
        self.machines[proof.machine] = ClusterMachine(proof.machine, proof.facts, default)
        return ""


def unlike(first: Measurement, here: Measurement) -> Iterator[str]:
    """Say in which repeatable numbers a machine differs from the first."""
    for name, metric in METRICS.items():
        one, other = first[name], here[name]
        if not metric.is_repeatable or metric.kind is Kind.NANOSECONDS or one is None:
            continue
        if other is None or abs(other - one) > TIE * max(one, other):
            yield f"{metric.label} is {other}, {one} on the first machine"
