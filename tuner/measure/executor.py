"""Evaluate many configurations at a time: the interface, and the cores of this machine.

A campaign knows only `Executor`; those that it may name are in `tuner.registry.EXECUTORS`.
An executor takes configurations one by one, when there is room for them, so that what is
to be evaluated next may depend on what has ended.

`LocalExecutor`: one worker thread per core; an evaluation is a process of its own, so threads
only wait.  Every evaluation is pinned to the core of its worker and no two run
on the same core.

Outcomes are handed out as they end, so that nothing measured waits behind a slow
neighbour; each carries the index of its configuration, and a caller that needs an order
that does not depend on chance sorts by it.

A `TunerError` out of the evaluator means that the machine failed, not the
configuration.  It is tried again, a few times, and every failure is reported.  So
is an evaluation that reached its time limit, once: the limit is one of CPU time,
but a machine whose caches and memory are busy needs more of it for the same work.
"""

import concurrent.futures
import contextlib
import itertools
import os
import queue
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, Self

from tuner.errors import MissingToolError, SpecError, TraceError, TunerError
from tuner.measure.evaluation import Evaluation, Evaluator, Gate, GatedEvaluator, GateOf, evaluated
from tuner.records import Configuration, Status
from tuner.store import ClusterMachine

MAX_ATTEMPTS = 3
"""Failures of the machine at one configuration before they count as permanent."""

TIMEOUT_ATTEMPTS = 2
"""Time-outs of one configuration before the last is a result."""

_IN_HAND = 2
"""Configurations taken for each worker, so that none waits for the caller."""

_SIGNAL_INTERVAL_S = 0.5
"""Longest time a Ctrl-C may go unnoticed."""

_KILL_INTERVAL_S = 0.05
"""Time between two rounds of killing while workers still wait for a child."""

_PERMANENT = (MissingToolError, SpecError, TraceError)
"""Failures that no second attempt can mend, here or on a machine that has proved to be alike."""


class Tries:
    """The attempts at one configuration that do not count, and whether there is another."""

    def __init__(self) -> None:
        """Start before the first attempt."""
        self.failures: list[str] = []
        """What went wrong, in order."""
        self._n_failed = 0
        self._n_timed_out = 0

    def goes_on_after(self, why: str, error: TunerError | None = None) -> bool:
        """Take note that the machine failed; return whether it is tried again.

        Args:
            why: in words.
            error: what was raised; None where nothing was heard.
        """
        self.failures.append(why)
        self._n_failed += 1
        return self._n_failed < MAX_ATTEMPTS and not isinstance(error, _PERMANENT)

    def goes_on_after_time_out(self, reason: str) -> bool:
        """Take note of a time-out; return whether it is tried again, else it is the result."""
        self._n_timed_out += 1
        if self._n_timed_out == TIMEOUT_ATTEMPTS:
            return False
        self.failures.append(reason)
        return True


@dataclass(frozen=True)
class Attempts:
    """The attempts at one configuration, and how it fared in the end."""

    index: int
    """Its place among the configurations handed in."""
    configuration: Configuration
    outcome: Evaluation | None
    """None when every attempt failed for a reason that is not the configuration's."""
    failures: tuple[str, ...] = ()
    """What went wrong in the attempts that do not count, in order, then the incidents of the
    one that does."""
    error: TunerError | None = None
    """The last failure when `outcome` is None."""
    machine: str | None = None
    """Where it was evaluated; None for this machine."""


class Executor(Protocol):
    """Evaluates configurations on some cores, here or elsewhere."""

    @property
    def n_workers(self) -> int:
        """Evaluations at a time, as far as known."""
        ...

    @property
    def runs_ahead(self) -> bool:
        """True when proposals should not wait for evaluations that are slow or lost.

        They then depend on which evaluation ended first.
        """
        ...

    @property
    def is_gated(self) -> bool:
        """True when `run` heeds gates."""
        ...

    @property
    def machines(self) -> Mapping[str, ClusterMachine]:
        """The machines of a cluster, by `Attempts.machine`; none for this machine alone."""
        ...

    def run(
        self, configurations: Iterable[Configuration], gate_of: GateOf | None = None
    ) -> Iterator[Attempts]:
        """Evaluate the configurations and yield their outcomes as they end.

        Args:
            configurations: each is taken when there is room for it.  After `stop` no
                further one is taken, and those that have not begun yield nothing.
            gate_of: says what is not worth counting, asked when one is taken; None counts
                everything.
        """
        ...

    def stop(self) -> None:
        """Begin no further evaluation; those that run go on to their end."""
        ...

    @property
    def is_stopping(self) -> bool:
        """True after `stop`."""
        ...


class LocalExecutor:
    """Runs an evaluator on several cores of this machine; use it in a ``with``."""

    runs_ahead = False
    """Proposals do not depend on the number of workers."""
    machines: Mapping[str, ClusterMachine] = MappingProxyType({})
    """All is measured on this one."""

    def __init__(self, evaluator: Evaluator, cpus: Sequence[int]) -> None:
        """Start no thread yet.

        Args:
            evaluator: called from several threads at once.
            cpus: numbers of the cores to use, one worker each, all distinct.

        Raises:
            ValueError: no core is given, or one twice.
        """
        if not cpus or len(set(cpus)) != len(cpus):
            raise ValueError(f"cores must be given, and each once: {list(cpus)}")
        self.n_workers = len(cpus)
        self._evaluator = evaluator
        self._free_cpus: queue.SimpleQueue[int] = queue.SimpleQueue()
        for cpu in cpus:
            self._free_cpus.put(cpu)
        self._threads: set[int] = set()
        """Of the workers, by the kernel's numbers."""
        self._pool = concurrent.futures.ThreadPoolExecutor(
            len(cpus), "evaluate", lambda: self._threads.add(threading.get_native_id())
        )
        self._stopping = threading.Event()

    @property
    def is_gated(self) -> bool:
        """See `Executor.is_gated`."""
        return isinstance(self._evaluator, GatedEvaluator)

    def run(
        self, configurations: Iterable[Configuration], gate_of: GateOf | None = None
    ) -> Iterator[Attempts]:
        """See `Executor.run`."""
        waiting = enumerate(configurations)
        pending: set[concurrent.futures.Future[Attempts | None]] = set()
        try:
            while True:
                n = _IN_HAND * self.n_workers - len(pending)
                pending |= self._submitted(waiting, n, gate_of)
                if not pending:
                    return
                # A signal that arrives just before the main thread goes to sleep on a lock is
                # handled only when it wakes up; an endless wait could make that very late.
                ended, pending = concurrent.futures.wait(
                    pending, _SIGNAL_INTERVAL_S, concurrent.futures.FIRST_COMPLETED
                )
                for outcome in (future.result() for future in ended):
                    if outcome is not None:
                        yield outcome
        finally:
            for future in pending:
                future.cancel()

    def _submitted(
        self, waiting: Iterator[tuple[int, Configuration]], n: int, gate_of: GateOf | None
    ) -> set[concurrent.futures.Future[Attempts | None]]:
        """Hand the next configurations to the workers, at most `n`, none after `stop`."""
        if self._stopping.is_set():
            return set()
        some = itertools.islice(waiting, n)
        return {
            self._pool.submit(self._evaluate, index, one, gate_of(one) if gate_of else None)
            for index, one in some
        }

    def stop(self) -> None:
        """Begin no further evaluation; those that run go on to their end."""
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        """True after `stop` or `kill`."""
        return self._stopping.is_set()

    def kill(self) -> None:
        """Begin no further evaluation, and end those that run by SIGKILL.

        What other threads of this process started goes on.
        """
        self.stop()
        _kill_children(list(self._threads))

    def __enter__(self) -> Self:
        """Return the executor itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        """Wait for the running evaluations; on an exception, kill them first."""
        if kind is not None:
            self.kill()
            # A worker may have started one more process just now.  Who has a core runs; the
            # futures do not say, as a Ctrl-C may come while they are being submitted.
            while self._free_cpus.qsize() < self.n_workers:
                time.sleep(_KILL_INTERVAL_S)
                _kill_children(list(self._threads))
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _evaluate(
        self, index: int, configuration: Configuration, gate: Gate | None
    ) -> Attempts | None:
        """Evaluate one configuration in a worker thread; None when it is to stop."""
        cpu = self._free_cpus.get()
        tries = Tries()
        try:
            if self._stopping.is_set():
                return None
            while True:
                try:
                    evaluation = evaluated(self._evaluator, configuration, cpu, gate)
                except TunerError as error:
                    if not tries.goes_on_after(str(error), error) or self._stopping.is_set():
                        return Attempts(index, configuration, None, tuple(tries.failures), error)
                else:
                    has_timed_out = evaluation.status is Status.TIMED_OUT
                    reason = str(evaluation.reason)
                    if not (has_timed_out and tries.goes_on_after_time_out(reason)):
                        failures = (*tries.failures, *evaluation.incidents)
                        return Attempts(index, configuration, evaluation, failures)
                    if self._stopping.is_set():
                        return None
        finally:
            self._free_cpus.put(cpu)


def measuring_cpus(n_workers: int | None = None) -> list[int]:
    """Return the cores to measure on: the first hardware thread of each allowed core.

    Two hardware threads of one core would share its caches, so one worker per core.

    Args:
        n_workers: how many are wanted; None for all there are, or as many as a container may use.

    Raises:
        SpecError: there are fewer cores than workers wanted, or less than one is wanted.
    """
    allowed = sorted(os.sched_getaffinity(0))
    cores: dict[str, int] = {}
    for cpu in allowed:
        cores.setdefault(_siblings(cpu), cpu)
    cpus = list(cores.values())
    # Asking for more than there are cores is a choice to share them.
    choice = cpus if n_workers is None or n_workers <= len(cpus) else allowed
    if n_workers is not None and not 1 <= n_workers <= len(choice):
        message = f"{n_workers} workers: this process may use {len(allowed)} cores; give 1 to "
        message += f"{len(allowed)} with --workers, or nothing for one per core"
        raise SpecError(message)
    return choice[: n_workers or cores_of_quota()]


def cores_of_quota(
    root: Path = Path("/sys/fs/cgroup"), groups: Path = Path("/proc/self/cgroup")
) -> int | None:
    """Return how many cores' time this process may take; None for any.

    The smallest quota counts: of its control group, of those that hold it, or of the container.
    Less than one core counts as one.  Source: cpu.max of cgroup v2, cpu.cfs_quota_us of v1; see
    Documentation/admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst of Linux, and cgroups(7).

    Args:
        root: where control groups are mounted.
        groups: lists those of this process.
    """
    files = {"": ("cpu.max",), "cpu": ("cpu.cfs_quota_us", "cpu.cfs_period_us")}
    found = []
    for controller, names in files.items():
        for folder in _control_groups(root / controller, groups, controller):
            with contextlib.suppress(OSError, ValueError):
                words = " ".join((folder / name).read_text(encoding="ascii") for name in names)
                quota, period = words.split()
                if quota not in {"max", "-1"}:
                    found.append(max(1, int(quota) // int(period)))
    return min(found, default=None)


def _control_groups(root: Path, groups: Path, controller: str) -> list[Path]:
    """Return the folders of this process's control group, and of all that hold it.

    Args:
        root: where the groups of the controller are mounted.
        groups: lists those of this process.
        controller: of cgroup v1; empty for v2.
    """
    paths = [root]
    with contextlib.suppress(OSError):
        for line in groups.read_text(errors="surrogateescape").splitlines():
            _, controllers, path = line.split(":", 2)
            if controller in controllers.split(","):
                inside = Path(path.lstrip("/"))
                paths += [root / one for one in (inside, *inside.parents)]
    return paths


def _siblings(cpu: int) -> str:
    """Return a text that is the same for all hardware threads of one core."""
    path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return str(cpu)


def _kill_children(threads: Iterable[int]) -> None:
    """Kill every child that these threads of this process started, with its whole process group.

    Source: /proc/<pid>/task/<tid>/children of proc(5).
    """
    for thread in threads:
        path = Path(f"/proc/self/task/{thread}/children")
        try:
            children = path.read_text(encoding="ascii").split()
        except OSError:  # the thread has ended
            continue
        for pid in map(int, children):
            with contextlib.suppress(ProcessLookupError):
                group = os.getpgid(pid)
                if group == os.getpgid(0):
                    os.kill(pid, signal.SIGKILL)
                else:
                    os.killpg(group, signal.SIGKILL)
