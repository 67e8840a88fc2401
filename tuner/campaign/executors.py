"""What evaluates the trials of a campaign: this machine, a Dask cluster, jobs of Slurm.

Each function is an entry of `tuner.registry.EXECUTORS`: it takes a `Demand`, and yields an
executor that is closed when its context ends.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tuner.errors import MissingToolError, SpecError, StoreError, installing
from tuner.measure.emulator import Emulation
from tuner.measure.evaluation import Evaluator, GateOf
from tuner.measure.executor import Attempts, Executor, LocalExecutor, measuring_cpus
from tuner.records import Configuration, Measurement
from tuner.registry import EXECUTORS
from tuner.store import Store

_SUBMIT: Final = "sbatch"
"""Command of Slurm that starts a job."""


@dataclass(frozen=True)
class Where:
    """Which machines do it."""

    executor: str = "local"
    """A name of `EXECUTORS`."""
    workers: int | None = None
    """Evaluations at a time on this machine, jobs of Slurm; None for the usual number."""
    scheduler: str | None = None
    """Address of Dask's scheduler."""

    def cores(self, *, is_alone: bool) -> list[int]:
        """Return the cores of this machine to evaluate on.

        Args:
            is_alone: True where time is measured; see `Demand.is_alone`.

        Raises:
            SpecError: there are fewer than workers.
        """
        n_workers = self.workers if self.executor == "local" else None
        return measuring_cpus(n_workers or (1 if is_alone else None))


@dataclass(frozen=True)
class Demand:
    """What is to be evaluated, and where."""

    store: Store
    """Of the campaign."""
    evaluator: Evaluator
    """On this machine."""
    emulations: Sequence[Emulation]
    """What it measures with, one per workload."""
    is_alone: bool
    """True where time is measured: one evaluation at a time on a machine."""
    where: Where
    on_note: Callable[[str], None]


def check_executor(where: Where, *, is_alone: bool = False) -> None:
    """Refuse what does not go together, before anything is begun.

    Args:
        where: which machines do it.
        is_alone: True where time is measured; see `Demand.is_alone`.

    Raises:
        SpecError: an unknown name, or an option that is missing or would be ignored.
    """
    name, workers, scheduler = where.executor, where.workers, where.scheduler
    if name not in EXECUTORS:
        raise SpecError(f"--executor {name}: choose among {', '.join(EXECUTORS)}")
    if scheduler is not None and name != "dask":
        raise SpecError(f"--scheduler does not apply with --executor {name}; use --executor dask")
    if name == "dask" and scheduler is None:
        raise SpecError(
            "--executor dask needs --scheduler tcp://HOST:8786; `dask scheduler` starts one"
        )
    if name == "dask" and workers is not None:
        raise SpecError(
            "--workers does not apply with --executor dask: all of its workers are used"
        )
    if name == "local" and is_alone and workers not in (None, 1):
        message = f"--workers {workers} does not apply where time is measured: one evaluation at a "
        raise SpecError(message + "time; leave it out, --threads free and p99_latency otherwise")
    if name == "local":
        measuring_cpus(workers)


@contextlib.contextmanager
def on_this_machine(demand: Demand) -> Iterator[Executor]:
    """Use cores of this machine; see `LocalExecutor`.

    Where a cluster took part before, its `run` raises a StoreError unless this machine is alike.
    """
    cores = demand.where.cores(is_alone=demand.is_alone)
    has_machines = bool(demand.store.machines())
    with (
        _AfterCluster(demand, cores) if has_machines else LocalExecutor(demand.evaluator, cores)
    ) as executor:
        yield executor


class _AfterCluster(LocalExecutor):
    """Goes on here with a campaign of a cluster; what needs no evaluation needs no proof."""

    def __init__(self, demand: Demand, cores: Sequence[int]) -> None:
        super().__init__(demand.evaluator, cores)
        self._demand = demand
        self._is_alike = False

    def run(
        self, configurations: Iterable[Configuration], gate_of: GateOf | None = None
    ) -> Iterator[Attempts]:
        return super().run(self._proved_first(configurations), gate_of)

    def _proved_first(self, configurations: Iterable[Configuration]) -> Iterator[Configuration]:
        for configuration in configurations:
            if not self._is_alike:
                self._prove()
                self._is_alike = True
            yield configuration

    def _prove(self) -> None:
        """Measure the default, and compare it with that of the first machine.

        Raises:
            StoreError: its numbers are others, or times of the cluster would be mixed with ours.
        """
        from tuner.measure.cluster import unlike  # noqa: PLC0415 - rarely needed

        store = self._demand.store
        begun = _begun_here(store)
        if begun is None and self._demand.is_alone:
            raise self._refused("times here cannot be compared with those there")
        first = begun or store.machines()[0].default
        for ended in super().run([Configuration(store.campaign().baseline)]):
            found = ended.outcome.good if ended.outcome is not None else None
            if found is None:
                why = ended.error or (ended.outcome and ended.outcome.reason)
                raise self._refused(f"here the default fails: {why}")
            if words := "; ".join(unlike(first, found)):
                raise self._refused(f"the default here: {words}")

    def _refused(self, why: str) -> StoreError:
        return StoreError(
            f"{self._demand.store.path}: was evaluated on a cluster, and {why}; go on there with "
            "--executor, or choose a new run folder with -o"
        )


def _begun_here(store: Store) -> Measurement | None:
    """Return what the default measured where a campaign was begun without a cluster.

    Times are relative to it.  None: it was begun on a cluster, or not at all.
    """
    if (0, 0) in store.places():
        return None
    return next((trial.measurement for trial in store.trials() if trial.number == 0), None)


@contextlib.contextmanager
def on_dask(demand: Demand) -> Iterator[Executor]:
    """Use the workers of a scheduler, running or started; see `ClusterExecutor`, `scheduler_of`.

    Raises:
        MissingToolError: Dask is not installed, or no scheduler answers.
        SpecError: the configuration of dask-jobqueue lacks something.
    """
    with scheduler_of(demand.where) as address, _connected(demand, str(address)) as executor:
        yield executor


@contextlib.contextmanager
def scheduler_of(where: Where) -> Iterator[str | None]:
    """Yield the address of a scheduler of Dask; None where this machine is to do it alone.

    With ``slurm``, jobs with a worker each are started, and ended with the context.  Queue, cores
    and memory of a job stand in the configuration of dask-jobqueue.

    Raises:
        SpecError: that configuration lacks something.
        MissingToolError: dask-jobqueue is not installed, or Slurm is not here.
    """
    if where.executor != "slurm":
        yield where.scheduler
        return
    try:
        import dask_jobqueue  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingToolError(
            f"dask-jobqueue is not installed: {installing('cluster')}"
        ) from error
    if shutil.which(_SUBMIT) is None:  # dask-jobqueue would wait for jobs that never begin
        raise MissingToolError(
            f"{_SUBMIT} is not on this machine: start this where jobs of Slurm are submitted"
        )
    try:
        cluster: Any = dask_jobqueue.SLURMCluster()
    except (ValueError, TypeError) as error:
        raise SpecError(f"dask-jobqueue: {error}; see docs/how-to/cluster.md") from error
    with cluster:
        cluster.scale(jobs=where.workers or 1)
        yield cluster.scheduler_address


@contextlib.contextmanager
def _connected(demand: Demand, address: str) -> Iterator[Executor]:
    from tuner.measure.cluster import ClusterExecutor  # noqa: PLC0415 - needs an extra
    from tuner.measure.remote import EmulationKit  # noqa: PLC0415 - likewise

    if not demand.store.knows_machines:
        message = f"{demand.store.path}: of an older malloc-tuner, which kept no machines; choose "
        raise SpecError(message + "a new run folder with -o")
    with ClusterExecutor(
        EmulationKit.of(demand.emulations, 1 if demand.is_alone else None),
        address,
        Configuration(demand.store.campaign().baseline),
        machines=demand.store.machines(),
        begun=_begun_here(demand.store),
        on_note=demand.on_note,
    ) as executor:
        yield executor
