"""Programs inside simulated machines: what is missing is run, each once, and kept in a journal.

A simulation repeats itself to the last count, so there are no rounds, and several may run at once
without disturbing each other.  A run's record carries the digest of all that decides its result,
and serves every later session that asks for the same; a session is a line of the journal too, and
says which runs it shows.  A run that failed is not tried again as long as nothing that decides its
result has changed; one that was stopped at its time limit is.

A line of kind "run" has the `identity`, `task`, `label`, `status`, `reason`, the SHA-256 of the
program's `output`, and `counts` by name, null what the machine has none of.  A line of kind
"session" has the `subjects`, the baseline first, `facts`, and in `shown` rows of program, machine,
label, and the identities of the run and of the start that is subtracted.  The last one is shown.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, TypeAdapter

from tuner.compare.journal import Journal, read_journal
from tuner.compare.loop import Observer, compare
from tuner.compare.plan import Once, Step
from tuner.errors import ProgramError, StoreError
from tuner.measure.gem5 import Gem5Run, statistics_of
from tuner.measure.gem5_inside import InsideTask, RunsInside
from tuner.measure.program import PRELOAD
from tuner.records import Outcome, Status
from tuner.validate.inside_counts import Counts, counts_of

HEADER: Final = {"kind": "header", "schema": "malloc-tuner.gem5-inside", "version": 1}

_MALLOC = re.compile(r"lib.*malloc.*\.so.*")
"""Name of a library that brings an allocator."""


@dataclass(frozen=True)
class Counted:
    """What one good run gave."""

    output: str
    """SHA-256 of what the program printed."""
    counts: Counts


@dataclass(frozen=True)
class InsideRecord:
    """One run of one program on one machine under one subject; a line of the journal."""

    identity: str
    """Digest of all that decides the result."""
    task: str
    """Name of program and machine, for people."""
    label: str
    """Of the subject."""
    status: Status
    reason: str | None
    """Why it is not OK; None when it is."""
    output: str | None
    counts: Counts | None
    """As in `Counted`; None when the run is not OK."""

    @property
    def outcome(self) -> Outcome[Counted]:
        """How it ended."""
        found = None
        if self.output is not None and self.counts is not None:
            found = Counted(self.output, self.counts)
        return Outcome(self.status, self.reason, found)


class ShownRun(NamedTuple):
    """One cell of a session's tables."""

    program: str
    machine: str
    label: str
    """Of the subject."""
    run: str
    """Identity of the run."""
    start: str
    """Identity of the start that is subtracted."""


class InsideSubject(BaseModel):
    """What programs run under; further fields identify it: roles, trial, library, variables."""

    model_config = ConfigDict(frozen=True, extra="allow")

    label: str
    configuration: str | None = None
    """Key of a `Configuration`; None for what is no trial of a campaign."""


@dataclass(frozen=True)
class InsideSession:
    """What was compared on which programs; a line of the journal."""

    subjects: tuple[InsideSubject, ...]
    """The baseline first."""
    shown: tuple[ShownRun, ...]
    facts: Mapping[str, Any]
    """Objectives that decide; versions, machine and commands, which only people read."""

    @property
    def objectives(self) -> tuple[str, ...]:
        """Names of those that decide."""
        return tuple(self.facts["objectives"])

    @property
    def labels(self) -> tuple[str, ...]:
        """The subjects, the baseline first."""
        return tuple(subject.label for subject in self.subjects)


_RUN: Final = TypeAdapter(InsideRecord)
_SESSION: Final = TypeAdapter(InsideSession)


class InsideJournal:
    """The runs of a file, and its last session."""

    def __init__(self, path: Path) -> None:
        """Read what is there.

        Raises:
            StoreError: the file is damaged, or is none of these.
        """
        self.path = path
        self.runs: dict[str, InsideRecord] = {}
        """By identity."""
        self.session: InsideSession | None = None
        """The last one; None when there is none."""
        content = read_journal(path)
        if content is None:
            return
        if {name: content.header.get(name) for name in HEADER} != HEADER:
            message = f"{path}: is damaged, or not of version {HEADER['version']}; move it away"
            raise StoreError(message)
        content.decode(self._take)

    def _take(self, record: Mapping[str, Any]) -> None:
        if record["kind"] == "session":
            self.session = _SESSION.validate_python(record)
            return
        run = _RUN.validate_python(record)
        self.runs[run.identity] = run


@dataclass(frozen=True)
class Guest:
    """One subject as programs inside meet it."""

    subject: InsideSubject
    environment: Mapping[str, str]
    """Of the guest, ``LD_PRELOAD`` included, equally long for all subjects."""
    refusal: str | None
    """Why the allocator did not take the settings; None when it did."""

    @property
    def label(self) -> str:
        """Of the subject."""
        return self.subject.label


@dataclass(frozen=True)
class InsideJob:
    """One run to make; two of the same identity are one."""

    identity: str
    """Digest of all that decides the result."""
    task: InsideTask = field(compare=False)
    guest: Guest = field(compare=False)

    def __str__(self) -> str:
        """Name of program and machine."""
        return self.task.name


class InsideRuns:
    """Runs jobs, and keeps their records by identity."""

    def __init__(
        self,
        found: InsideJournal,
        file: Journal,
        jobs: Collection[InsideJob],
        gem5: RunsInside,
        timeout_s: float | None,
    ) -> None:
        """Prepare; see `run_inside`."""
        self._found = found
        self._file = file
        self._jobs = jobs
        self._gem5 = gem5
        self._timeout_s = timeout_s

    def __call__(self, step: Step[InsideJob]) -> Outcome[Counted]:
        """Run a job."""
        guest = step.task.guest
        if guest.refusal is not None:
            return Outcome.did_not_succeed(Status.REFUSED, guest.refusal)
        run = self._gem5.run(step.task.task, guest.label, guest.environment, self._timeout_s)
        return judge_inside(run, guest)

    def kept(self) -> Iterator[tuple[tuple[int, InsideJob, str], Outcome[Counted]]]:
        """Yield what need not run again."""
        for job in self._jobs:
            run = self._found.runs.get(job.identity)
            if run is not None and run.outcome.status is not Status.TIMED_OUT:
                yield (0, job, job.guest.label), run.outcome

    def keep(self, step: Step[InsideJob], sample: Outcome[Counted]) -> None:
        """Append a run."""
        found = sample.good
        run = InsideRecord(
            step.task.identity,
            str(step.task),
            step.subject,
            sample.status,
            sample.reason,
            found.output if found else None,
            found.counts if found else None,
        )
        self._file.append({"kind": "run", **_RUN.dump_python(run, mode="json")})
        self._found.runs[run.identity] = run


def run_inside(
    journal: InsideJournal,
    tasks: Sequence[InsideTask],
    guests: Sequence[Guest],
    *,
    gem5: RunsInside,
    objectives: Sequence[str],
    facts: Mapping[str, Any],
    timeout_s: float | None,
    n_workers: int,
    stop: Callable[[], None],
    observer: Observer[InsideJob, Counted] | None = None,
) -> InsideSession:
    """Run what is missing and return the session.

    Args:
        journal: what was run before; takes what is run now.
        tasks: programs on machines, with their starts.
        guests: the subjects, the baseline first.
        gem5: runs programs.
        objectives: names of those that decide.
        facts: versions and commands, for readers of the file.
        timeout_s: limit of one run; None for none.
        n_workers: simulations at once, at least 1.
        stop: ends all that run; called when one of them cannot be kept, and on Ctrl-C.
        observer: is called at every run.

    Raises:
        ProgramError: gem5 cannot be started.
        OutputError: there is no room.
        InterruptedCampaign: Ctrl-C; what was measured is kept.
    """
    jobs: dict[InsideJob, None] = {}
    shown = []
    for task in tasks:
        for guest in guests:
            if task.start is None:
                message = f"{task.name}: is a start"
                raise ValueError(message)
            whole, start = (_identity(gem5, part, guest) for part in (task, task.start))
            jobs |= {InsideJob(start, task.start, guest): None, InsideJob(whole, task, guest): None}
            shown.append(ShownRun(task.program, task.machine.stem, guest.label, whole, start))
    subjects = tuple(guest.subject for guest in guests)
    wanted = InsideSession(subjects, tuple(shown), {**facts, "objectives": list(objectives)})
    record = _SESSION.dump_python(wanted, mode="json")
    session = _SESSION.validate_python(record)
    with Journal(journal.path, HEADER) as file:
        if session != journal.session:
            file.append({"kind": "session", **record})
            journal.session = session
        run = InsideRuns(journal, file, jobs, gem5, timeout_s)
        steps = tuple(Step(0, place, job, job.guest.label) for place, job in enumerate(jobs))
        compare(Once(steps), run, run, observer, workers=n_workers, stop=stop)
    return session


def judge_inside(found: Outcome[Gem5Run], guest: Guest) -> Outcome[Counted]:
    """Return whether a run is what it should be, and what it counted.

    Args:
        found: a run.
        guest: what should have run.
    """
    if found.good is None:
        return Outcome(found.status, found.reason, None)
    preload = guest.environment.get(PRELOAD)
    wanted = Path(preload).resolve() if preload else None
    result = found.good.result
    files = [Path(path).resolve() for path in (result.guest_files if result else ())]
    if wanted and wanted not in files:
        reason = f"{preload} was not loaded: is the program statically linked?"
        return Outcome.did_not_succeed(Status.REFUSED, reason)
    brought = [str(p) for p in files if _MALLOC.fullmatch(p.name) and p != wanted]
    if brought:
        reason = f"the program brings {', '.join(brought)}; its malloc is not the one to measure"
        return Outcome.did_not_succeed(Status.REFUSED, reason)
    try:
        counts = counts_of(statistics_of(found.good))
    except ProgramError as error:
        return Outcome.did_not_succeed(Status.FAILED, str(error))
    output = hashlib.sha256(found.good.guest_output).hexdigest()
    return Outcome.succeeded(Counted(output, counts))


def _identity(gem5: RunsInside, task: InsideTask, guest: Guest) -> str:
    identity = gem5.identity(task, guest.environment)
    if guest.refusal is not None:  # it depends on the settings, which are in the environment
        identity = hashlib.sha256(f"{identity}{guest.refusal}".encode()).hexdigest()[:32]
    return identity
