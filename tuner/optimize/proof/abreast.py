"""Runs of a search on several cores at the same time, one on each.

They choose and prove nothing: that each core has its own noise costs them less than half of their
number.  What fails beside others runs again alone; if that is fine, all run alone from then on.
A program with threads that take turns, or of which one computes, is bound to no core: what an
allocator does may depend on how many there are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Final

from tuner.compare.loop import ignore
from tuner.compare.plan import Step
from tuner.measure.executor import measuring_cpus
from tuner.optimize.proof.duets import (
    RunsOnCores,
    computes_within,
    free_bytes,
    keeps_one_core,
)
from tuner.optimize.quantities import PEAK
from tuner.optimize.tuned import AS_IS, Reference, Runs, Sample, Tuned
from tuner.records import Outcome, Status

_SHARE_OF_MEMORY: Final = 0.5
"""Of what is free, that all runs at once may take if each takes what the program does as it is."""

_ONE_CORE: Final = 1.1
"""Of the elapsed time, that CPU time of a program with threads may be: more, and they compute at
the same time."""


class Abreast:
    """Makes each run on a core that is free."""

    def __init__(
        self, alone: Runs, on_cores: Sequence[Runs], stop: Callable[[], None] = ignore
    ) -> None:
        """Prepare.

        Args:
            alone: makes one run, wherever the system puts it.
            on_cores: the same on each core that may be used.
            stop: ends the runs that are under way.
        """
        self.stop = stop
        self.n_cores = len(on_cores)
        self._alone = alone
        self._free: SimpleQueue[Runs] = SimpleQueue()
        for runs in on_cores:
            self._free.put(runs)
        self._turn = threading.Lock()
        self._is_usable = True

    def runs(self, step: Step[None]) -> Outcome[Sample]:
        """Make a run; see `Runs`.  As many threads as there are cores may call it at once."""
        if self._is_usable:
            core = self._free.get()
            try:
                found = core(step)
            finally:
                self._free.put(core)
            hangs = found.status is Status.TIMED_OUT and step.subject != AS_IS
            if found.good is not None or hangs:
                return found
        found = self._with_no_other(step)
        self._is_usable &= found.good is None
        return found

    def _with_no_other(self, step: Step[None]) -> Outcome[Sample]:
        with self._turn:
            cores = [self._free.get() for _ in range(self.n_cores)]
        try:
            return self._alone(step)
        finally:
            for core in cores:
                self._free.put(core)


def abreast_on(
    cores: Sequence[int | None], tuned: Tuned, runs_of: Callable[[Tuned], Runs]
) -> Abreast | None:
    """Return what makes runs on some cores; None without cores, or where none can be had.

    Args:
        cores: see `cores_abreast`.
        tuned: what runs.
        runs_of: from it, or it on a core, to what makes its runs.
    """
    if not cores or not isinstance(tuned, RunsOnCores):
        return None
    on_cores = [runs_of(tuned if core is None else tuned.on_core(core)) for core in cores]
    return Abreast(runs_of(tuned), on_cores, tuned.stop)


def cores_abreast(tuned: Tuned, reference: Reference, cpu: int | None) -> list[int | None]:
    """Return the cores on each of which a run may be made at the same time; none: one by one.

    Args:
        tuned: what runs.
        reference: the program as it is; one that waits, or computes in threads or children at the
            same time, runs alone.
        cpu: core that was asked for; None where any will do.

    Returns:
        None for a core that the system chooses: the program has threads.
    """
    is_bound = keeps_one_core(reference)
    is_fit = is_bound or computes_within(_ONE_CORE, reference)
    if cpu is not None or not isinstance(tuned, RunsOnCores) or not is_fit:
        return []
    n_fitting = int(_SHARE_OF_MEMORY * free_bytes() / reference.values[PEAK])
    cores = measuring_cpus()[:n_fitting]
    return [core if is_bound else None for core in cores] if len(cores) > 1 else []
