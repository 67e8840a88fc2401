"""The folder that `-o` names for the files of a run."""

from collections.abc import Collection
from pathlib import Path

from tuner.errors import OutputError, StoreError


def check_run_folder(folder: Path, name: str, *, is_campaign: bool = False) -> None:
    """Refuse a folder in which a run's files would lie among others; hidden ones do not count.

    Args:
        folder: new, empty, or of a run that was begun.
        name: of the run, for the folder that is proposed.
        is_campaign: the run is one of `tune`.

    Raises:
        OutputError: it holds something, and nothing that a run begins with.
        StoreError: it holds a campaign, and the run is of a program, or the other way round.
    """
    from tuner.store import STORE_NAME

    found = [one.name for one in folder.iterdir()] if folder.is_dir() else []
    others = sorted(name for name in found if not name.startswith("."))
    has_store = STORE_NAME in found
    is_begun = _is_begun(found)
    if not others or (has_store if is_campaign else is_begun):
        return
    if has_store or is_begun:
        what = "a campaign of `malloc-tuner tune`" if has_store else "a run of a program"
        raise StoreError(f"{folder}: holds {what}; name another folder with -o")
    raise OutputError(
        f"{folder}: holds {others[0]}, which is not a run's; name a folder for the run's own "
        f"files, such as -o {folder / 'runs' / name}"
    )


def _is_begun(names: Collection[str]) -> bool:
    """Return whether files are such as runs of a program begin with."""
    from tuner.optimize.used_time import TIME_FILE
    from tuner.runs import REFERENCE_FILE, REQUEST_FILE

    return not {REQUEST_FILE, REFERENCE_FILE, TIME_FILE}.isdisjoint(names)
