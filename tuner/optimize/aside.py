"""What no longer holds is moved aside in its run folder, and a new file is begun: nothing is lost.

A comparison of one winner becomes ``reduced-1.jsonl`` once another one has won; all that other
constraints chose and proved, and what proved an answer that is searched on, goes to ``before-1``.
"""

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path

from tuner.output import writing


def move_aside(path: Path) -> None:
    """Give a file a number that is free: ``reduced.jsonl`` becomes ``reduced-1.jsonl``.

    Raises:
        OutputError: its folder cannot be written.
    """
    with writing(path.parent):
        path.rename(_first_free(lambda n: path.with_name(f"{path.stem}-{n}{path.suffix}")))


def move_to_before(run: Path, patterns: Iterable[str]) -> None:
    """Move files of a run folder, those that are there, to ``before-1`` or a later one.

    Raises:
        OutputError: it cannot be written.
    """
    left = [path for pattern in patterns for path in run.glob(pattern)]
    if not left:
        return
    folder = _first_free(lambda n: run / f"before-{n}")
    with writing(run):
        folder.mkdir()
        for path in left:
            path.rename(folder / path.name)


def last_before(run: Path) -> Path | None:
    """Return the folder that `move_to_before` made last; None where it made none."""
    made = (run / f"before-{n}" for n in itertools.count(1))
    found = list(itertools.takewhile(Path.exists, made))
    return found[-1] if found else None


def _first_free(names: Callable[[int], Path]) -> Path:
    return next(path for path in map(names, itertools.count(1)) if not path.exists())
