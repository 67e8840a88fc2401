"""Programs inside simulated machines: what is missing is run, each once, and kept in a journal.

A simulation repeats itself to the last count: there are no rounds, and several may run at once.
A run's record carries the digest of all that a session names of what decides its result, and those
of the files that the program had mapped.  It serves every later session that asks for the same, as
long as these files stay; a session is a line of the journal too, and says which runs it shows.
What failed is tried again when the first digest changes; what was stopped at its time limit or by a
signal, or found no room, at once.

A line of kind "run" has the `identity`, `task`, `label`, `status`, `reason`, the SHA-256 of the
program's `output`, `counts` by name, null what the machine has none of, and the SHA-256 of each of
the program's `files`; of two with one identity the later one counts.  A line of kind "session" has
the `subjects`, the baseline first, `facts`, and in `shown` rows of program, machine, label, and the
identities of the run and of the start that is subtracted.  The last one is shown.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tuner.compare.journal import Journal, JournalKeeper, Record, read_journal
from tuner.compare.loop import Observer, compare
from tuner.compare.plan import Once, Step
from tuner.errors import StoreError
from tuner.measure.gem5_inside import Counted, Gem5Inside, InsideTask, guest_environments
from tuner.records import Outcome, Status
from tuner.validate.setup import Prepared

HEADER: Final = {"kind": "header", "schema": "malloc-tuner.gem5-inside", "version": 1}

_REFUSAL: Final = "refusal"
"""In place of an environment: why the allocator did not take the settings."""

_OF_THE_MACHINE: Final = re.compile(r"gem5: (exit status 2\b|killed by)")
"""How the reason of a failure begins where gem5 left no result: it may go well another time."""


def read_inside(path: Path) -> tuple[dict[str, Outcome[Counted]], Record | None]:
    """Return the runs of a journal by their identities, and its last session.

    Raises:
        StoreError: the file is damaged, or is none of these.
    """
    content = read_journal(path)
    if content is None:
        return {}, None
    if {name: content.header.get(name) for name in HEADER} != HEADER:
        raise StoreError(f"{path}: is damaged, or not of version {HEADER['version']}; move it away")
    runs = dict(filter(None, content.decode(_read_run)))
    sessions = (record for record in reversed(content.records) if record["kind"] == "session")
    return runs, next(sessions, None)


def _read_run(record: Record) -> tuple[str, Outcome[Counted]] | None:
    """Return the identity and the outcome of a run; None for a session."""
    if record["kind"] == "session":
        return None
    status = Status(record["status"])
    found = Counted.model_validate(record) if status is Status.OK else None
    return record["identity"], Outcome(status, record["reason"], found)


class InsideRuns:
    """Runs tasks under subjects: the runner of this comparison."""

    def __init__(self, gem5: Gem5Inside, prepared: Sequence[Prepared]) -> None:
        """Take gem5 and the subjects; inside, their environments are equally long."""
        self.gem5 = gem5
        environments = guest_environments([entry.environment for entry in prepared])
        self.guests = {
            entry.subject.label: {_REFUSAL: entry.refusal} if entry.refusal else environment
            for entry, environment in zip(prepared, environments, strict=True)
        }

    def __call__(self, step: Step[InsideTask]) -> Outcome[Counted]:
        """Run it."""
        guest = self.guests[step.subject]
        if _REFUSAL in guest:
            return Outcome.did_not_succeed(Status.REFUSED, guest[_REFUSAL])
        return self.gem5.run(step.task, step.subject, guest)

    def record(self, step: Step[InsideTask], sample: Outcome[Counted]) -> Record:
        """Return the line of a run."""
        return {
            "kind": "run",
            "identity": self.gem5.identity(step.task, self.guests[step.subject]),
            "task": str(step.task),
            "label": step.subject,
            "status": sample.status.value,
            "reason": sample.reason,
            **(sample.good.model_dump() if sample.good else {}),
        }


def run_inside(
    path: Path,
    tasks: Sequence[InsideTask],
    prepared: Sequence[Prepared],
    *,
    gem5: Gem5Inside,
    facts: Mapping[str, Any],
    n_workers: int,
    observer: Observer[InsideTask, Counted] | None = None,
) -> None:
    """Run what is missing.

    Args:
        path: journal of what was run before; takes what is run now, and the session.
        tasks: programs on machines, with their starts.
        prepared: the subjects, the baseline first.
        gem5: runs programs; is stopped when a run cannot be kept, and on Ctrl-C.
        facts: the `objectives` that decide, versions and commands, for readers of the file.
        n_workers: simulations at once, at least 1.
        observer: is called at every run.

    Raises:
        StoreError: the journal is damaged, or is none of these.
        ProgramError: gem5 cannot be started.
        OutputError: there is no room.
        InterruptedCampaign: Ctrl-C; what was measured is kept.
    """
    known, last = read_inside(path)
    run = InsideRuns(gem5, prepared)
    missing: dict[str, tuple[InsideTask, str]] = {}
    shown = []
    for task, (label, guest) in itertools.product(tasks, run.guests.items()):
        both = [(one, gem5.identity(one, guest)) for one in (task, task.start or task)]
        for one, identity in both:
            if identity not in known or _must_run_again(known[identity], gem5):
                missing.setdefault(identity, (one, label))
        shown.append([task.program, task.machine.stem, label, *(identity for _, identity in both)])
    session = {
        "kind": "session",
        "subjects": [entry.subject.as_record() for entry in prepared],
        "shown": shown,
        "facts": facts,
    }
    steps = tuple(Step(0, n, *place) for n, place in enumerate(missing.values()))
    with Journal(path, HEADER) as journal:
        if json.dumps(session) != json.dumps(last):
            journal.append(session)
        keeper = JournalKeeper(journal, run.record, lambda _: None)
        compare(Once(steps), run, keeper, observer, workers=n_workers, stop=gem5.runner.stop)


def _must_run_again(known: Outcome[Counted], gem5: Gem5Inside) -> bool:
    """Return whether a run may go well another time, or a file of its program changed since."""
    if known.good is not None:
        return not gem5.is_current(known.good)
    is_of_machine = _OF_THE_MACHINE.match(known.reason or "") is not None
    return known.status is Status.TIMED_OUT or is_of_machine
