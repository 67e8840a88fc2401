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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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


class InsideRuns:
    """Runs tasks under guests, and keeps their records by identity."""

    def __init__(
        self,
        journal: InsideJournal,
        file: Journal,
        guests: Mapping[str, Guest],
        identities: Mapping[tuple[InsideTask, str], str],
        run: Callable[[InsideTask, Guest], Outcome[Gem5Run]],
    ) -> None:
        """Prepare.

        Args:
            journal: what was run before; takes what is run now.
            file: of the journal.
            guests: by label.
            identities: of each task under each guest.
            run: runs a program inside.
        """
        self._runs = journal.runs
        self._file = file
        self._guests = guests
        self._identities = identities
        self._run = run

    def __call__(self, step: Step[InsideTask]) -> Outcome[Counted]:
        """Run a task."""
        guest = self._guests[step.subject]
        if guest.refusal is not None:
            return Outcome.did_not_succeed(Status.REFUSED, guest.refusal)
        return judge_inside(self._run(step.task, guest), guest)

    def kept(self) -> Iterator[tuple[tuple[int, InsideTask, str], Outcome[Counted]]]:
        """Yield what need not run again."""
        for (task, label), identity in self._identities.items():
            run = self._runs.get(identity)
            if run is not None and run.status is not Status.TIMED_OUT:
                yield (0, task, label), run.outcome

    def keep(self, step: Step[InsideTask], sample: Outcome[Counted]) -> None:
        """Append a run."""
        found = sample.good
        run = InsideRecord(
            self._identities[step.task, step.subject],
            str(step.task),
            step.subject,
            sample.status,
            sample.reason,
            found.output if found else None,
            found.counts if found else None,
        )
        self._file.append({"kind": "run", **_RUN.dump_python(run, mode="json")})
        self._runs[run.identity] = run


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
    observer: Observer[InsideTask, Counted] | None = None,
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
    identities: dict[tuple[InsideTask, str], str] = {}
    shown = []
    for task in tasks:
        for guest in guests:
            whole, start = (_identity(gem5, part, guest) for part in (task, task.start or task))
            identities[task.start or task, guest.label] = start
            identities[task, guest.label] = whole
            shown.append(ShownRun(task.program, task.machine.stem, guest.label, whole, start))
    subjects = tuple(guest.subject for guest in guests)
    wanted = InsideSession(subjects, tuple(shown), {**facts, "objectives": list(objectives)})
    record = _SESSION.dump_python(wanted, mode="json")
    session = _SESSION.validate_python(record)
    steps = tuple(Step(0, place, *key) for place, key in enumerate(identities))
    with Journal(journal.path, HEADER) as file:
        if session != journal.session:
            file.append({"kind": "session", **record})
            journal.session = session
        run = InsideRuns(
            journal,
            file,
            {guest.label: guest for guest in guests},
            identities,
            lambda task, guest: gem5.run(task, guest.label, guest.environment, timeout_s),
        )
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
