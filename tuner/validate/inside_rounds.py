"""Run programs inside simulated machines: what is missing in the journal, each once.

A simulation repeats itself to the last count, so there are no rounds, and several may run at
once without disturbing each other.  A run that fails is one record with its reason, and is
not tried again as long as nothing that decides its result has changed; one that was stopped
at its time limit is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.errors import InterruptedCampaign, ProgramError
from tuner.measure.gem5_inside import InsideRun, RunsInside, Task
from tuner.measure.program import PRELOAD
from tuner.records import Status
from tuner.validate.gem5_stats import parse_statistics
from tuner.validate.inside_counts import Counts, counts_of
from tuner.validate.inside_journal import InsideJournal, InsideRecord, InsideSession, ShownRun

_MALLOC = re.compile(r"lib.*malloc.*\.so.*")
"""Name of a library that brings an allocator."""


@dataclass(frozen=True)
class Guest:
    """One subject as programs inside meet it."""

    label: str
    environment: Mapping[str, str]
    """Of the guest, ``LD_PRELOAD`` included, equally long for all subjects."""
    refusal: str | None
    """Why the allocator did not take the settings; None when it did."""
    record: Mapping[str, Any]
    """What a session keeps of it: ``label``, ``configuration``, ``roles``, ..."""


@dataclass(frozen=True)
class InsideObserver:
    """Who is told what happens."""

    on_plan: Callable[[int], None]
    """So many runs are missing."""
    on_run: Callable[[InsideRecord], None]
    """A run ended and is in the journal."""


@dataclass(frozen=True)
class _Job:
    identity: str
    task: Task
    guest: Guest


def run_inside(
    journal: InsideJournal,
    tasks: Sequence[Task],
    guests: Sequence[Guest],
    *,
    gem5: RunsInside,
    facts: Mapping[str, Any],
    timeout_s: float | None,
    n_workers: int,
    stop: Callable[[], None],
    observer: InsideObserver,
) -> InsideSession:
    """Run what is missing and return the session.

    Args:
        journal: where runs are kept.
        tasks: programs on machines, with their starts.
        guests: the subjects, the baseline first.
        gem5: runs programs.
        facts: ``objectives``, the names of those that decide; versions and commands, for
            readers.
        timeout_s: limit of one run; None for none.
        n_workers: simulations at once, at least 1.
        stop: ends all that run; called when one of them cannot be kept, and on Ctrl-C.
        observer: is told of every run.

    Raises:
        ProgramError: gem5 cannot be started.
        OutputError: there is no room.
        InterruptedCampaign: Ctrl-C; what was measured is kept.
    """
    jobs: dict[str, _Job] = {}
    shown = []
    for task in tasks:
        for guest in guests:
            if task.start is None:
                message = f"{task.name}: is a start"
                raise ValueError(message)
            whole, start = (_job(gem5, part, guest) for part in (task, task.start))
            jobs |= {start.identity: start, whole.identity: whole}
            names = (task.program, task.machine.stem, guest.label)
            shown.append(ShownRun(*names, whole.identity, start.identity))
    session = InsideSession(tuple(guest.record for guest in guests), tuple(shown), facts)
    journal.begin(session)
    missing = [job for job in jobs.values() if _is_missing(journal, job)]
    observer.on_plan(len(missing))

    def keep(run: InsideRecord) -> None:
        journal.add(run)
        observer.on_run(run)

    try:
        _run_all(missing, _runner(gem5, timeout_s), keep, n_workers, stop)
    except KeyboardInterrupt as event:
        message = "interrupted; every run so far is kept: the same command goes on from there"
        raise InterruptedCampaign(message) from event
    return session


def judge_inside(found: InsideRun, guest: Guest) -> tuple[Status, str | None, Counts | None]:
    """Tell whether a run is what it should be, and what it counted.

    Args:
        found: a run.
        guest: who should have run.
    """
    if found.timed_out:
        return Status.TIMED_OUT, found.failure, None
    if found.failure is not None:
        return Status.FAILED, found.failure, None
    preload = guest.environment.get(PRELOAD)
    if preload and not found.has_mapped(preload):
        reason = f"{preload} was not loaded: is the program statically linked?"
        return Status.REFUSED, reason, None
    wanted = Path(preload).resolve() if preload else None
    files = [Path(path).resolve() for path in found.guest_files]
    brought = [str(p) for p in files if _MALLOC.fullmatch(p.name) and p != wanted]
    if brought:
        reason = f"the program brings {', '.join(brought)}; its malloc is not the one to measure"
        return Status.REFUSED, reason, None
    try:
        return Status.OK, None, counts_of(parse_statistics(found.statistics or "", "stats.txt"))
    except ProgramError as error:
        return Status.FAILED, str(error), None


def _job(gem5: RunsInside, task: Task, guest: Guest) -> _Job:
    identity = gem5.identity(task, guest.environment)
    if guest.refusal is not None:  # it depends on the settings, which are in the environment
        identity = hashlib.sha256(f"{identity}{guest.refusal}".encode()).hexdigest()[:32]
    return _Job(identity, task, guest)


def _is_missing(journal: InsideJournal, job: _Job) -> bool:
    run = journal.runs.get(job.identity)
    return run is None or run.status is Status.TIMED_OUT


def _runner(gem5: RunsInside, timeout_s: float | None) -> Callable[[_Job], InsideRecord]:
    def run(job: _Job) -> InsideRecord:
        guest = job.guest
        names = (job.identity, job.task.name, guest.label)
        if guest.refusal is not None:
            return InsideRecord(*names, Status.REFUSED, guest.refusal, None, None)
        found = gem5.run(job.task, guest.label, guest.environment, timeout_s)
        status, reason, counts = judge_inside(found, guest)
        output = hashlib.sha256(found.output).hexdigest() if status is Status.OK else None
        return InsideRecord(*names, status, reason, output, counts)

    return run


def _run_all(
    jobs: Sequence[_Job],
    run: Callable[[_Job], InsideRecord],
    keep: Callable[[InsideRecord], None],
    n_workers: int,
    stop: Callable[[], None],
) -> None:
    with ThreadPoolExecutor(n_workers) as pool:
        pending = {pool.submit(run, job) for job in jobs}
        try:
            while pending:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                # Whatever ended well is kept before a failure of another is raised.
                for future in sorted(done, key=lambda one: one.exception() is not None):
                    keep(future.result())
        except BaseException:
            for future in pending:
                future.cancel()
            stop()
            raise
