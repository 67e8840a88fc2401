"""Named picks of a run: ``RUN/picks/<name>.json``, and the names that need no file.

A pick is a promise: what was validated under a name is what is exported under
it.  Therefore a file holds the trial's number *and* its configuration, and a
file that no longer fits the store is an error.  ``balanced``, ``knee``,
``no-regret`` and ``best-<objective>`` are computed when there is no file of that
name.  ``recommended`` is what `optimize` deploys, never a file.

Layer: above `picks`.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from tuner.errors import SelectionError, SpecError, StoreError, what_is_wrong
from tuner.front.picks import BALANCED, Pick, first_pick, standard_picks, why_absent
from tuner.front.whole import campaign_whole
from tuner.metrics import OF_OPTIMIZE
from tuner.output import write_text
from tuner.records import Configuration, Trial
from tuner.runs import ANSWER_FILE, Run
from tuner.store.subject import Subject

SCHEMA = "malloc-tuner.pick"
VERSION = 1
"""Schema and version of a pick file; docs/formats.md describes it."""

ANSWER_SCHEMA = "malloc-tuner.answer"
ANSWER_VERSION = 1
"""Those of what `optimize` answers."""

_T = TypeVar("_T")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

RECOMMENDED = "recommended"
"""Name of the pick that `malloc-tuner optimize` answers with, or that a validation proved."""

PROVEN = "new runs of the program proved it better"
"""Rule of that pick."""

_TRIAL = re.compile(r"trial-([0-9]+)")
"""What tables call a trial."""

_MOST_DIGITS = 9
"""Of the number of a trial; Python reads no more than some thousand."""

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
    """Return the pick of a name: `answered_pick`, a kept or a standard one, or ``trial-N``.

    Raises:
        SelectionError: there is none; the message lists the names there are.
        StoreError: the file is damaged or does not fit the store.
    """
    path = pick_path(run, check_pick_name(name))
    if name == RECOMMENDED and (answered := answered_pick(run)) is not None:
        return answered
    if path.is_file():
        return _read(run, path)
    if found := _TRIAL.fullmatch(name):
        return pick_of_trial(run, int(found[1]))
    standard = {pick.name: pick for pick in _standard(run)}
    if name not in standard:
        known = ", ".join(pick.name for pick in picks_of(run)) or "none: no trial is feasible"
        absent = why_absent(name, run.campaign.objectives) if standard else None
        why = f" ({absent})" if absent else ""
        if name == RECOMMENDED:
            found_nothing = "`malloc-tuner optimize` deployed nothing here"
            if deployed_subject(run) is not None:
                found_nothing = "no trial stands behind what `malloc-tuner optimize` deploys"
            why = f" ({found_nothing})"
        raise SelectionError(f"{run.folder}: has no pick {name!r}{why}; picks: {known}")
    return standard[name]


def find_configuration(run: Run, name: str) -> Configuration:
    """Return what a name stands for: what is deployed, to the last setting, or as `find_pick`."""
    deployed = deployed_subject(run) if name == RECOMMENDED else None
    return deployed.configuration if deployed else find_pick(run, name).trial.configuration


def deployed_subject(run: Run) -> Subject | None:
    """Return what `optimize` deploys, as a validation runs it; None where it does not.

    Raises:
        StoreError: its answer is damaged.
    """
    return read_answer(run.folder, _deployed)


def _deployed(record: dict[str, Any]) -> Subject | None:
    if record["decision"] != "deploy" or not record["configuration"]:
        return None
    configuration = Configuration.from_key(record["configuration"])
    trial, changes = record["trial"], record["changes"] or {}
    known = [key for key in changes if trial is None and key in OF_OPTIMIZE]
    expected = sorted((OF_OPTIMIZE[key], 1.0 + changes[key]["change"]) for key in known)
    return Subject(RECOMMENDED, configuration, trial, (RECOMMENDED,), tuple(expected))


def read_answer(folder: Path, read: Callable[[dict[str, Any]], _T]) -> _T | None:
    """Return what a function makes of the answer of a run folder; None where there is none.

    Raises:
        StoreError: the file is damaged, or of another version.
    """
    path = folder / ANSWER_FILE
    if not path.is_file():
        return None
    again = f"repeat `malloc-tuner optimize {shlex.quote(str(folder))}`"
    try:
        record = json.loads(path.read_bytes())
        if (record["schema"], record["version"]) != (ANSWER_SCHEMA, ANSWER_VERSION):
            raise StoreError(f"{path}: is not an answer of version {ANSWER_VERSION}; {again}")
        return read(record)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{path}: damaged ({what_is_wrong(error)}); {again}") from error


def answered_pick(run: Run) -> Pick | None:
    """Return the trial of what is deployed, else the one with its settings and more; or None."""
    subject = deployed_subject(run)
    if subject is None or subject.trial is None:
        return None
    trial = trial_behind(run, subject.configuration, subject.trial)
    kept = subject.configuration.as_dict
    less = "".join(f" {n}={v}" for n, v in trial.configuration.settings if n not in kept)
    rule = PROVEN + (f", without{less}" if less else "")
    return Pick(RECOMMENDED, trial, rule)


def trial_behind(run: Run, deployed: Configuration, number: int) -> Trial:
    """Return the trial of what is deployed, else the one of this number, which it was made of."""
    return measured_trial(run.trials, deployed) or run.trial(number)


def deployed_pick(run: Run) -> Pick | None:
    """Return the trial of what is deployed, to the last setting; None where none has numbers."""
    subject = deployed_subject(run)
    trial = measured_trial(run.trials, subject.configuration) if subject else None
    return Pick(RECOMMENDED, trial, PROVEN) if trial else None


def measured_trial(trials: Iterable[Trial], found: Configuration) -> Trial | None:
    """Return the trial that has numbers of a configuration; None where none has."""
    return next((one for one in trials if one.measurement and one.configuration == found), None)


def picks_of(run: Run) -> list[Pick]:
    """Return what is deployed, if a trial is behind it, then all picks."""
    return [*filter(None, [answered_pick(run)]), *all_picks(run)]


def first_name(run: Run) -> str:
    """Return the name of the pick that is meant when none is named, see `first_pick`."""
    first = first_pick(_standard(run))
    return first.name if first else BALANCED


def pick_of_trial(run: Run, number: int) -> Pick:
    """Return the pick of a trial the user names by number.

    Raises:
        SelectionError: there is no such trial, it did not succeed, or it was not counted.
    """
    trial = run.trial(number)
    if trial.measurement is None:
        raise trial.without_numbers()
    return Pick(f"trial-{number}", trial, f"trial {number}, named by the user")


def named_point(run: Run, word: str) -> Pick:
    """Return the point that a word names: the number of a trial, or else as `find_pick`.

    Raises:
        SelectionError: there is no such pick or trial, or it did not succeed.
        StoreError: the file of a pick is damaged or does not fit the store.
    """
    if not (word.isascii() and word.isdecimal()):
        return find_pick(run, word)
    digits = word.lstrip("0")
    if len(digits) > _MOST_DIGITS:
        raise SelectionError(
            f"{run.folder}: has no trial of {len(digits)} digits; it has {len(run.trials)}, "
            "from 0 on"
        )
    return pick_of_trial(run, int(digits or "0"))


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
    trial = next((one for one in run.trials if one.number == number), None)
    if trial is None or trial.configuration != configuration:
        found = trial and trial.configuration
        raise StoreError(
            f"{path}: names trial {number} as {configuration}, but the store has {found or 'none'};"
            " the pick is of another campaign: remove it and pick again"
        )
    return Pick(path.stem, trial, rule)
