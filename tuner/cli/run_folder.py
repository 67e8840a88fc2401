"""The folder that `-o` names for the files of a run."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from tuner.errors import OutputError


def check_run_folder(folder: Path, name: str) -> None:
    """Refuse a folder in which a run's files would lie among others; hidden ones do not count.

    Args:
        folder: new, empty, or of a run that was begun.
        name: of the run, for the folder that is proposed.

    Raises:
        OutputError: it holds something, and nothing that a run begins with.
    """
    found = [one.name for one in folder.iterdir()] if folder.is_dir() else []
    others = sorted(name for name in found if not name.startswith("."))
    if others and not _is_begun(found):
        message = (
            f"{folder}: holds {others[0]}, which is not a run's; name a folder for the run's own "
            f"files, such as -o {folder / 'runs' / name}"
        )
        raise OutputError(message)


def _is_begun(names: Collection[str]) -> bool:
    """Return whether files are such as a run begins with."""
    from tuner.optimize.request import REQUEST_FILE
    from tuner.optimize.used_time import TIME_FILE
    from tuner.optimize.work import REFERENCE_FILE
    from tuner.store import STORE_NAME

    return not {STORE_NAME, REQUEST_FILE, REFERENCE_FILE, TIME_FILE}.isdisjoint(names)
