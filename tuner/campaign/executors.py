"""What evaluates the trials of a campaign: this machine, a Dask cluster, jobs of Slurm.

Each function is an entry of `tuner.registry.EXECUTORS`: it takes a `Demand`, and yields an
executor that is closed when its context ends.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tuner.errors import MissingToolError, SpecError, installing
from tuner.measure.emulator import Emulation
from tuner.measure.evaluation import Evaluator
from tuner.measure.executor import Executor, LocalExecutor, measuring_cpus
from tuner.records import Configuration
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
    """Use cores of this machine; see `LocalExecutor`."""
    cores = demand.where.cores(is_alone=demand.is_alone)
    with LocalExecutor(demand.evaluator, cores) as executor:
        yield executor


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
        on_note=demand.on_note,
    ) as executor:
        yield executor
