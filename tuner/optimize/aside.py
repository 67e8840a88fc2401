"""What no longer holds is moved aside in its run folder, and a new file is begun: nothing is lost.

A comparison of one winner becomes ``reduced-1.jsonl`` once another one has won; all that other
constraints chose and proved, and what proved an answer that is searched on, goes to ``before-1``.
"""

import itertools
import re
import shutil
from collections.abc import Callable, Iterable
from filecmp import cmp as same
from pathlib import Path

from tuner.output import writing
from tuner.runs import ANSWER_FILE

_BEFORE = re.compile(r"before-[0-9]+")


def move_aside(path: Path) -> None:
    """Give a file a number that is free: ``reduced.jsonl`` becomes ``reduced-1.jsonl``.

    Raises:
        OutputError: its folder cannot be written.
    """
    with writing(path.parent):
        path.rename(_first_free(lambda n: path.with_name(f"{path.stem}-{n}{path.suffix}")))


def move_to_before(run: Path, patterns: Iterable[str], *, copied: str = "") -> None:
    """Move files of a run folder, those that are there, to ``before-1`` or a later one.

    Args:
        run: the folder.
        patterns: of the files' names.
        copied: name of a file that also stays, until another takes its place.

    Raises:
        OutputError: it cannot be written.
    """
    left = [path for pattern in patterns for path in run.glob(pattern)]
    if not (left or copied):
        return
    folder = _first_free(lambda n: run / f"before-{n}")
    with writing(run):
        folder.mkdir()
        if copied:
            shutil.copyfile(run / copied, folder / copied)
        for path in left:
            path.rename(folder / path.name)


def last_before(run: Path) -> Path | None:
    """Return the folder that `move_to_before` made last; None where it made none."""
    made = (run / f"before-{n}" for n in itertools.count(1))
    found = list(itertools.takewhile(Path.exists, made))
    return found[-1] if found else None


def is_searched_on(run: Path) -> bool:
    """Return whether the answer of a run folder stands until there is another: it was copied."""
    folder, path = last_before(run), run / ANSWER_FILE
    kept = folder / ANSWER_FILE if folder else path
    return kept != path and kept.is_file() and path.is_file() and same(kept, path, shallow=False)


def run_of(folder: Path) -> Path:
    """Return the run folder that a folder of `move_to_before` lies in; any other one itself."""
    return folder.parent if _BEFORE.fullmatch(folder.name) else folder


def _first_free(names: Callable[[int], Path]) -> Path:
    return next(path for path in map(names, itertools.count(1)) if not path.exists())
