"""The first runs: what the program does as it is, kept in the run folder.

The held-out input is looked at then, too: that it cannot be run should show before the time is
spent.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

from tuner.errors import SpecError, TunerError
from tuner.measure.program import digest
from tuner.measure.warm import warm_memory
from tuner.optimize.tuned import Reference, Tuned
from tuner.optimize.view import View
from tuner.optimize.work import HELD_OUT_REFERENCE_FILE, REFERENCE_FILE
from tuner.output import write_text


def examine(run: Path, tuned: Tuned, view: View, *, is_begun: bool) -> Reference:
    """Return what the program does as it is, from the run folder if that is known.

    Args:
        run: the folder.
        tuned: the program.
        view: is shown what is to be known of it.
        is_begun: what the folder holds is of this optimisation.

    Raises:
        SpecError: the folder is of another state of the program's file.
        ProgramError: it fails, or does not do the same again.
        ProgramTimeoutError: it does not end in time.
        OutputError: the folder cannot be written.
        StoreError: what the folder holds is damaged.
    """
    path = run / REFERENCE_FILE
    if is_begun and path.exists():
        known = Reference.load(path)
        if known.file_sha256 not in ("", _digest(known)):
            what = f"runs of {known.command[0]} before its file changed"
            message = f"{run}: holds {what}; choose another -o"
            raise SpecError(message)
        return known
    view.begin("examining", None)
    warm_memory()
    made = tuned.examine()
    found = _kept(path, replace(made, file_sha256=_digest(made)))
    for note in found.notes:
        view.tell(f"note       {note}")
    return found


def examine_held_out(run: Path, tuned: Tuned, view: View, *, is_begun: bool) -> Reference:
    """Return what the program as it is does with the held-out input; see `examine`.

    What is to be known of it is said again in every call: it bears on all answers.
    """
    path = run / HELD_OUT_REFERENCE_FILE
    if is_begun and path.exists():
        found = Reference.load(path)
    else:
        view.begin("held-out input", None)
        try:
            found = _kept(path, tuned.examine())
        except TunerError as error:
            message = f"the held-out input: {error}"
            raise type(error)(message) from error
    for note in found.notes:
        view.tell(f"held out   {note}")
    return found


def _digest(reference: Reference) -> str:
    """Return what changes with the files of the programs; empty where none is found."""
    programs = [part.command[0] for part in reference.parts or (reference,)]
    found = "".join(digest(Path(file)) for file in map(shutil.which, programs) if file)
    return found and hashlib.sha256(found.encode()).hexdigest()


def _kept(path: Path, reference: Reference) -> Reference:
    write_text(path, json.dumps(reference.as_record(), indent=1) + "\n")
    return reference
