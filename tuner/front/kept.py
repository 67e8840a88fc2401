"""Named picks of a run: ``RUN/picks/<name>.json``, and the names that need no file.

A pick is a promise: what was validated under a name is what is exported under
it.  Therefore a file holds the trial's number *and* its configuration, and a
file that no longer fits the store is an error.  ``balanced``, ``knee``,
``no-regret`` and ``best-<objective>`` are computed when there is no file of that
name.

Layer: above `picks`.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tuner.errors import SelectionError, SpecError, StoreError
from tuner.front.picks import BALANCED, WHY_ABSENT, Pick, first_pick, standard_picks
from tuner.front.whole import campaign_whole
from tuner.output import write_text
from tuner.records import Configuration
from tuner.runs import Run

SCHEMA = "malloc-tuner.pick"
VERSION = 1
"""Schema and version of a pick file; docs/formats.md describes it."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

RECOMMENDED = "recommended"
"""Name of the pick that `malloc-tuner optimize` answers with, or that a validation proved."""

_TRIAL = re.compile(r"trial-([0-9]+)")
"""What tables call a trial."""

_TAKEN = re.compile(
    rf"picks|best|front|default|dominated|{RECOMMENDED}|as-it-is|[0-9]+|.+-default|{_TRIAL.pattern}"
)
"""Words of ``--points``, and what tables call something else."""


def check_pick_name(name: str) -> str:
    """Return a name that is safe as a file name.

    Raises:
        SpecError: it is empty, too long or holds other characters.
    """
    if not _NAME.fullmatch(name):
        raise SpecError(
            f"pick name {name!r}: use 1 to 64 letters, digits, dots, dashes or underscores, "
            "the first one a letter or digit"
        )
    return name


def check_new_name(name: str, trial: int) -> str:
    """Return a name under which a trial can be kept, and found again.

    Args:
        name: of the pick.
        trial: its number.

    Raises:
        SpecError: it is not safe, see `check_pick_name`, or it means something else.
    """
    if _TAKEN.fullmatch(check_pick_name(name)) and name != f"trial-{trial}":
        message = f"pick name {name!r}: it means something else in --points or in tables; "
        raise SpecError(message + "choose another")
    return name


def pick_path(run: Run, name: str) -> Path:
    """Return where a named pick is kept."""
    return run.folder / "picks" / f"{name}.json"


def save_pick(run: Run, pick: Pick) -> Path:
    """Write a pick into its run and return the file.

    Raises:
        SpecError: its name cannot be one, see `check_new_name`.
        OutputError: the folder cannot be written.
    """
    path = pick_path(run, check_new_name(pick.name, pick.trial.number))
    document = {
        "schema": SCHEMA,
        "version": VERSION,
        "name": pick.name,
        "campaign": run.campaign.name,
        "trial": pick.trial.number,
        "allocator": pick.trial.configuration.allocator,
        "settings": pick.trial.configuration.as_dict,
        "rule": pick.rule,
    }
    write_text(path, json.dumps(document, indent=2) + "\n")
    return path


def saved_picks(run: Run) -> Iterator[Pick]:
    """Yield the picks kept in a run, by name.

    Raises:
        StoreError: a file is damaged or does not fit the store.
    """
    for path in sorted((run.folder / "picks").glob("*.json")):
        yield _read(run, path)


def all_picks(run: Run) -> list[Pick]:
    """Return the standard picks, replaced and followed by those kept in the run.

    Raises:
        StoreError: a file is damaged or does not fit the store.
    """
    picks = {pick.name: pick for pick in _standard(run)}
    picks |= {pick.name: pick for pick in saved_picks(run)}
    return list(picks.values())


def find_pick(run: Run, name: str) -> Pick:
    """Return the pick of a name: a kept one, else a standard one, else ``trial-N``.

    Raises:
        SelectionError: there is neither; the message lists the names there are.
        StoreError: the file is damaged or does not fit the store.
    """
    path = pick_path(run, check_pick_name(name))
    if path.is_file():
        return _read(run, path)
    if found := _TRIAL.fullmatch(name):
        return pick_of_trial(run, int(found[1]))
    standard = {pick.name: pick for pick in _standard(run)}
    if name not in standard:
        known = ", ".join(pick.name for pick in all_picks(run)) or "none: no trial is feasible"
        why = f" ({WHY_ABSENT[name]})" if name in WHY_ABSENT and standard else ""
        raise SelectionError(f"{run.folder}: has no pick {name!r}{why}; picks: {known}")
    return standard[name]


def first_name(run: Run) -> str:
    """Return the name of the pick that is meant when none is named, see `first_pick`."""
    first = first_pick(_standard(run))
    return first.name if first else BALANCED


def pick_of_trial(run: Run, number: int) -> Pick:
    """Return the pick of a trial the user names by number.

    Raises:
        SelectionError: there is no such trial, or it did not succeed.
    """
    trial = run.trial(number)
    if trial.measurement is None:
        raise SelectionError(f"trial {number} has no numbers: {trial.reason}")
    return Pick(f"trial-{number}", trial, f"trial {number}, named by the user")


def _standard(run: Run) -> list[Pick]:
    campaign = run.campaign
    whole = campaign_whole(campaign, run.trials)
    return standard_picks(run.trials, campaign.objectives, campaign.baseline, whole)


def _read(run: Run, path: Path) -> Pick:
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if (document["schema"], document["version"]) != (SCHEMA, VERSION):
            raise StoreError(
                f"{path}: is not a pick of version {VERSION}; remove it and pick again"
            )
        configuration = Configuration.of(document["allocator"], document["settings"])
        number, rule = int(document["trial"]), str(document["rule"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path}: is damaged ({error!r}); remove it and pick again") from error
    trial = run.trial(number)
    if trial.configuration != configuration:
        raise StoreError(
            f"{path}: names trial {number} as {configuration}, but the store has "
            f"{trial.configuration}; the pick is of another campaign: remove it and pick again"
        )
    return Pick(path.stem, trial, rule)
