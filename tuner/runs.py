"""One run folder as read: the campaign's record, its trials, re-measurements, validations.

`front`, `pick`, `export` and `report` all work on this one immutable value, so
that they agree on the baseline and on what counts as measured.  Reading is safe
while a campaign still writes.

Layer: above `store`, below `validate`, `report` and `export`.
"""

from __future__ import annotations

import contextlib
import json
import shlex
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.compare.journal import read_journal
from tuner.config import AllocatorFile, load_campaign
from tuner.config.campaign import allocator_files
from tuner.errors import SelectionError, StoreError
from tuner.records import Measurement, Trial
from tuner.store import CampaignRecord, Incident, Recheck, Store, ValidationRecord, store_path

REQUEST_FILE = "optimize.json"
REFERENCE_FILE = "reference.json"
MACHINES_FILE = "machines.json"
SELECTION_FILE = "selection.jsonl"
CONFIRMATION_FILE = "confirmation.jsonl"
CONFIRMATION_FILES = (CONFIRMATION_FILE, *(f"confirmation.{n}.jsonl" for n in range(2, 6)))
"""Of the first candidates, and of those that follow where these are all out."""
ANSWER_FILE = "answer.json"
"""What a run folder of `optimize` holds, the request also where it has no campaign."""

_CPU = "CPU time"


@dataclass(frozen=True)
class Run:
    """Everything a campaign has measured so far."""

    folder: Path
    """The run folder."""
    campaign: CampaignRecord
    """What was searched, how and where."""
    trials: tuple[Trial, ...]
    """Every trial, by number."""
    rechecks: tuple[Recheck, ...] = ()
    """Re-measurements of the front, by trial and repeat."""
    incidents: tuple[Incident, ...] = ()
    """Failures of the machine that were retried, and what may have moved a trial's numbers."""
    validations: tuple[ValidationRecord, ...] = ()
    """Validations on the real program with raw samples, oldest first."""

    def trial(self, number: int) -> Trial:
        """Return a trial by its number.

        Raises:
            SelectionError: the campaign has no trial of that number.
        """
        for trial in self.trials:
            if trial.number == number:
                return trial
        raise SelectionError(
            f"{self.folder}: has no trial {number}; it has {len(self.trials)}, from 0 on"
        )

    def remeasured(self) -> dict[int, tuple[Measurement, ...]]:
        """Return the successful re-measurements of every trial that has some, by its number."""
        found: dict[int, list[Measurement]] = defaultdict(list)
        for recheck in self.rechecks:
            if recheck.measurement is not None:
                found[recheck.trial].append(recheck.measurement)
        return {number: tuple(measurements) for number, measurements in found.items()}


def load_run(folder: Path) -> Run:
    """Read a run folder.

    Args:
        folder: the folder, or the store inside it.

    Raises:
        StoreError: there is no store, it is damaged, or it holds no trial yet.
        SelectionError: `optimize` has run the program alone here, so there are no trials.
    """
    path = store_path(folder)
    if not path.exists() and (path.parent / REQUEST_FILE).is_file():
        raise SelectionError(
            f"{path.parent}: nothing was emulated here; `malloc-tuner front "
            f"{shlex.quote(str(path.parent))}` and `report` show what the program itself measured"
        )
    with Store.open(path) as store, store.at_one_moment():
        run = run_with(store, store.trials())
    if not run.trials:
        raise StoreError(
            f"{run.folder}: no trial has ended yet; wait, or run `malloc-tuner tune` again"
        )
    return run


def run_with(store: Store, trials: Iterable[Trial]) -> Run:
    """Return the run of an open store, all of whose trials are known already."""
    return Run(
        store.path.parent,
        _as_it_ran(store.campaign(), store.path.parent),
        tuple(trials),
        tuple(store.rechecks()),
        tuple(store.incidents()),
        tuple(store.validations()),
    )


def _as_it_ran(record: CampaignRecord, folder: Path) -> CampaignRecord:
    """Return the record with the least CPU time of all runs of `optimize` as it is, not of one."""
    program = dict(record.workload.program)
    if (folder / MACHINES_FILE).exists():  # whose times differ
        return record
    try:
        first = least = json.loads((folder / REFERENCE_FILE).read_bytes())["values"][_CPU]
    except (OSError, ValueError, KeyError, TypeError):
        return record
    for path in map(folder.joinpath, (SELECTION_FILE, *CONFIRMATION_FILES)):
        with contextlib.suppress(StoreError, KeyError):
            content = read_journal(path)
            for one in content.records if content else ():
                if one["subject"] == "as it is" and one["values"]:
                    least = min(least, one["values"][_CPU])
    if "cost" in program and first:
        program["cost"] *= least / first
    return replace(record, workload=replace(record.workload, program=tuple(program.items())))


def search_spaces(folder: Path) -> dict[str, AllocatorFile]:
    """Return the search spaces of the campaign of a run folder, by allocator.

    Returns:
        Nothing where the folder has no campaign file: the shipped ones then hold.

    Raises:
        SpecError: the campaign file or one of its search spaces is wrong.
    """
    path = folder / "campaign.toml"
    return allocator_files(load_campaign(path)) if path.is_file() else {}
