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
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from tuner.compare.journal import Journal, Record, read_journal
from tuner.compare.loop import Observer, compare
from tuner.compare.plan import Once, Step
from tuner.errors import ProgramError, StoreError
from tuner.measure.gem5 import Gem5Run, statistics_of
from tuner.measure.gem5_inside import InsideTask, RunsInside, guest_environments
from tuner.measure.program import PRELOAD
from tuner.records import Outcome, Status
from tuner.validate.inside_counts import Counts, counts_of
from tuner.validate.setup import Prepared

HEADER: Final = {"kind": "header", "schema": "malloc-tuner.gem5-inside", "version": 1}

_MALLOC = re.compile(r"lib.*malloc.*\.so.*")
"""Name of a library that brings an allocator."""


@dataclass(frozen=True)
class Counted:
    """What one good run gave."""

    output: str
    """SHA-256 of what the program printed."""
    counts: Counts


_COUNTED: Final = TypeAdapter(Counted)


class InsideJournal:
    """The runs of a file, and its last session."""

    def __init__(self, path: Path) -> None:
        """Read what is there.

        Raises:
            StoreError: the file is damaged, or is none of these.
        """
        self.path = path
        self.runs: dict[str, Outcome[Counted]] = {}
        """By identity."""
        self.session: Record | None = None
        """The last one; None when there is none."""
        content = read_journal(path)
        if content is None:
            return
        if {name: content.header.get(name) for name in HEADER} != HEADER:
            message = f"{path}: is damaged, or not of version {HEADER['version']}; move it away"
            raise StoreError(message)
        content.decode(self._take)

    def _take(self, record: Record) -> None:
        if record["kind"] == "session":
            self.session = record
            return
        status = Status(record["status"])
        found = _COUNTED.validate_python(record) if status is Status.OK else None
        self.runs[record["identity"]] = Outcome(status, record["reason"], found)


@dataclass(frozen=True)
class _Keeper:
    """Keeps runs in a journal by their identities."""

    journal: InsideJournal
    file: Journal
    identities: Mapping[tuple[InsideTask, str], str]
    """Of each task under each subject."""

    def kept(self) -> Iterator[tuple[tuple[int, InsideTask, str], Outcome[Counted]]]:
        """Yield what need not run again."""
        for (task, label), identity in self.identities.items():
            run = self.journal.runs.get(identity)
            if run is not None and run.status is not Status.TIMED_OUT:
                yield (0, task, label), run

    def keep(self, step: Step[InsideTask], sample: Outcome[Counted]) -> None:
        """Append a run."""
        identity, found = self.identities[step.task, step.subject], sample.good
        record = {
            "kind": "run",
            "identity": identity,
            "task": str(step.task),
            "label": step.subject,
            "status": sample.status.value,
            "reason": sample.reason,
            "output": found.output if found else None,
            "counts": found.counts if found else None,
        }
        self.file.append(record)
        self.journal.runs[identity] = sample


@dataclass(frozen=True)
class InsideRuns:
    """Runs a task under a subject: the runner of this comparison."""

    gem5: RunsInside
    guests: Mapping[str, Prepared]
    """By label."""
    timeout_s: float | None

    def __call__(self, step: Step[InsideTask]) -> Outcome[Counted]:
        """Run it."""
        guest = self.guests[step.subject]
        if guest.refusal is not None:
            return Outcome.did_not_succeed(Status.REFUSED, guest.refusal)
        found = self.gem5.run(step.task, step.subject, guest.environment, self.timeout_s)
        return judge_inside(found, guest.environment)


def as_guests(prepared: Sequence[Prepared]) -> list[Prepared]:
    """Return subjects with the environments that they have inside, equally long for all."""
    environments = guest_environments([entry.environment for entry in prepared])
    return [
        replace(entry, environment=environment)
        for entry, environment in zip(prepared, environments, strict=True)
    ]


def run_inside(
    journal: InsideJournal,
    tasks: Sequence[InsideTask],
    guests: Sequence[Prepared],
    *,
    gem5: RunsInside,
    objectives: Sequence[str],
    facts: Mapping[str, Any],
    timeout_s: float | None,
    n_workers: int,
    stop: Callable[[], None],
    observer: Observer[InsideTask, Counted] | None = None,
) -> None:
    """Run what is missing.

    Args:
        journal: what was run before; takes what is run now, and the session.
        tasks: programs on machines, with their starts.
        guests: the subjects of `as_guests`, the baseline first.
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
            label, refusal = guest.subject.label, {"refusal": guest.refusal or ""}
            deciding = {**guest.environment, **(refusal if guest.refusal else {})}
            whole, start = (gem5.identity(one, deciding) for one in (task, task.start or task))
            identities[task.start or task, label] = start
            identities[task, label] = whole
            shown.append((task.program, task.machine.stem, label, whole, start))
    session = {
        "kind": "session",
        "subjects": [guest.subject.as_record() for guest in guests],
        "shown": shown,
        "facts": {**facts, "objectives": list(objectives)},
    }
    steps = tuple(Step(0, place, *key) for place, key in enumerate(identities))
    with Journal(journal.path, HEADER) as file:
        session = json.loads(json.dumps(session))  # as it is read again
        if session != journal.session:
            file.append(session)
            journal.session = session
        run = InsideRuns(gem5, {guest.subject.label: guest for guest in guests}, timeout_s)
        keeper = _Keeper(journal, file, identities)
        compare(Once(steps), run, keeper, observer, workers=n_workers, stop=stop)


def judge_inside(found: Outcome[Gem5Run], environment: Mapping[str, str]) -> Outcome[Counted]:
    """Return whether a run is what it should be, and what it counted.

    Args:
        found: a run.
        environment: of the guest that should have run.
    """
    if found.good is None:
        return Outcome(found.status, found.reason, None)
    preload = environment.get(PRELOAD)
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
