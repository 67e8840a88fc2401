"""What no longer holds is moved aside in its run folder, and a new file is begun: nothing is lost.

A comparison of one winner becomes ``held-out-1.jsonl`` once another one has won; all that other
constraints chose and proved goes to ``before-1``.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

from tuner.errors import OutputError


def move_aside(path: Path) -> None:
    """Give a file a number that is free: ``held-out.jsonl`` becomes ``held-out-1.jsonl``.

    Raises:
        OutputError: its folder cannot be written.
    """
    names = (path.with_name(f"{path.stem}-{n}{path.suffix}") for n in itertools.count(1))
    with _writing(path.parent):
        path.rename(next(name for name in names if not name.exists()))


def move_to_before(run: Path, names: Iterable[str]) -> None:
    """Move files of a run folder, those that are there, to ``before-1`` or a later one.

    Raises:
        OutputError: it cannot be written.
    """
    left = [run / name for name in names if (run / name).exists()]
    if not left:
        return
    folders = (run / f"before-{number}" for number in itertools.count(1))
    folder = next(one for one in folders if not one.exists())
    with _writing(run):
        folder.mkdir()
        for path in left:
            path.rename(folder / path.name)


@contextlib.contextmanager
def _writing(run: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"{run}: cannot be written ({error.strerror}); choose another -o"
        raise OutputError(message) from error
