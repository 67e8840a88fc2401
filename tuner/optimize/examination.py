"""The first runs: what the program does as it is, kept in the run folder.

The held-out input is looked at then, too: that it cannot be run should show before the time is
spent.
"""

from __future__ import annotations

import json
from pathlib import Path

from tuner.errors import TunerError
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
        ProgramError: it fails, or does not do the same again.
        ProgramTimeoutError: it does not end in time.
        OutputError: the folder cannot be written.
        StoreError: what the folder holds is damaged.
    """
    path = run / REFERENCE_FILE
    if is_begun and path.exists():
        return Reference.load(path)
    view.begin("examining", None)
    warm_memory()
    found = _kept(path, tuned.examine())
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


def _kept(path: Path, reference: Reference) -> Reference:
    write_text(path, json.dumps(reference.as_record(), indent=1) + "\n")
    return reference
