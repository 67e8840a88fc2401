"""Programs inside simulated machines: what is missing is run, each once, and kept in a journal.

A simulation repeats itself to the last count, so there are no rounds, and several may run at once
without disturbing each other.  A run's record carries the digest of all that decides its result,
and serves every later session that asks for the same; a session is a line of the journal too, and
says which runs it shows.  A run that failed is not tried again as long as nothing that decides its
result has changed; one that was stopped at its time limit is.  Format: docs/formats.md.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from tuner.compare.journal import Journal, read_journal
from tuner.compare.loop import Observer, compare
from tuner.compare.plan import Once, Step
from tuner.errors import ProgramError, StoreError
from tuner.measure.gem5_inside import InsideRun, InsideTask, RunsInside
from tuner.measure.gem5_stats import parse_statistics
from tuner.measure.program import PRELOAD
from tuner.records import Status
from tuner.validate.inside_counts import Counts, counts_of

HEADER: Final = {"kind": "header", "schema": "malloc-tuner.gem5-inside", "version": 1}

_MALLOC = re.compile(r"lib.*malloc.*\.so.*")
"""Name of a library that brings an allocator."""


@dataclass(frozen=True)
class InsideRecord:
    """One run of one program on one machine under one subject."""

    identity: str
    """Digest of all that decides the result."""
    task: str
    """Name of program and machine, for people."""
    label: str
    """Of the subject."""
    status: Status
    reason: str | None
    """Why there are no counts; None when there are."""
    output: str | None
    """SHA-256 of what the program printed."""
    counts: Counts | None


@dataclass(frozen=True)
class ShownRun:
    """One cell of a session's tables."""

    program: str
    machine: str
    label: str
    """Of the subject."""
    run: str
    """Identity of the run."""
    start: str
    """Identity of the start that is subtracted."""


@dataclass(frozen=True)
class InsideSession:
    """What was compared on which programs."""

    subjects: tuple[Mapping[str, Any], ...]
    """The baseline first: ``label``, ``configuration`` (a key, or None), ``roles``, and what
    else identifies it."""
    shown: tuple[ShownRun, ...]
    facts: Mapping[str, Any]
    """``objectives``, the names of those that decide; versions and commands, for readers."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The subjects, the baseline first."""
        return tuple(subject["label"] for subject in self.subjects)


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
            shown = tuple(ShownRun(*row) for row in record["shown"])
            self.session = InsideSession(tuple(record["subjects"]), shown, record["facts"])
            return
        values = {field.name: record[field.name] for field in fields(InsideRecord)}
        counts = values["counts"]
        values["status"] = Status(values["status"])
        values["counts"] = None if counts is None else Counts.from_record(counts)
        self.runs[values["identity"]] = InsideRecord(**values)


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
class _Job:
    task: InsideTask
    guest: Guest


class _Inside:
    """Runs jobs, and keeps their records by identity."""

    def __init__(
        self,
        found: InsideJournal,
        file: Journal,
        jobs: Mapping[str, _Job],
        gem5: RunsInside,
        timeout_s: float | None,
    ) -> None:
        self._found = found
        self._file = file
        self._jobs = jobs
        self._gem5 = gem5
        self._timeout_s = timeout_s

    def __call__(self, step: Step[str]) -> InsideRecord:
        """Run a job."""
        task, guest = self._jobs[step.task].task, self._jobs[step.task].guest
        record = InsideRecord(
            step.task, task.name, guest.label, Status.REFUSED, guest.refusal, None, None
        )
        if guest.refusal is not None:
            return record
        run = self._gem5.run(task, guest.label, guest.environment, self._timeout_s)
        status, reason, counts = judge_inside(run, guest)
        output = hashlib.sha256(run.output).hexdigest() if status is Status.OK else None
        return replace(record, status=status, reason=reason, output=output, counts=counts)

    def kept(self) -> Iterator[tuple[tuple[int, str, str], InsideRecord]]:
        """Yield what need not run again."""
        for identity, job in self._jobs.items():
            run = self._found.runs.get(identity)
            if run is not None and run.status is not Status.TIMED_OUT:
                yield (0, identity, job.guest.label), run

    def keep(self, step: Step[str], sample: InsideRecord) -> None:
        """Append a run."""
        self._file.append({"kind": "run", **asdict(sample)})
        self._found.runs[step.task] = sample


def run_inside(
    journal: InsideJournal,
    tasks: Sequence[InsideTask],
    guests: Sequence[Guest],
    *,
    gem5: RunsInside,
    facts: Mapping[str, Any],
    timeout_s: float | None,
    n_workers: int,
    stop: Callable[[], None],
    observer: Observer[str, InsideRecord] | None = None,
) -> InsideSession:
    """Run what is missing and return the session.

    Args:
        journal: what was run before; takes what is run now.
        tasks: programs on machines, with their starts.
        guests: the subjects, the baseline first.
        gem5: runs programs.
        facts: ``objectives``, the names of those that decide; versions and commands, for
            readers.
        timeout_s: limit of one run; None for none.
        n_workers: simulations at once, at least 1.
        stop: ends all that run; called when one of them cannot be kept, and on Ctrl-C.
        observer: is called at every run.

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
            whole, start = (_identity(gem5, part, guest) for part in (task, task.start))
            jobs |= {start: _Job(task.start, guest), whole: _Job(task, guest)}
            shown.append(ShownRun(task.program, task.machine.stem, guest.label, whole, start))
    session = InsideSession(tuple(guest.record for guest in guests), tuple(shown), facts)
    with Journal(journal.path, HEADER) as file:
        if session != journal.session:
            file.append({**asdict(session), "kind": "session", "shown": _rows(session)})
            journal.session = session
        run = _Inside(journal, file, jobs, gem5, timeout_s)
        steps = tuple(
            Step(0, place, identity, job.guest.label)
            for place, (identity, job) in enumerate(jobs.items())
        )
        compare(Once(steps), run, run, observer, workers=n_workers, stop=stop)
    return session


def judge_inside(found: InsideRun, guest: Guest) -> tuple[Status, str | None, Counts | None]:
    """Return whether a run is what it should be, and what it counted.

    Args:
        found: a run.
        guest: what should have run.
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


def _identity(gem5: RunsInside, task: InsideTask, guest: Guest) -> str:
    identity = gem5.identity(task, guest.environment)
    if guest.refusal is not None:  # it depends on the settings, which are in the environment
        identity = hashlib.sha256(f"{identity}{guest.refusal}".encode()).hexdigest()[:32]
    return identity


def _rows(session: InsideSession) -> list[list[str]]:
    return [[s.program, s.machine, s.label, s.run, s.start] for s in session.shown]
