"""Connections to the file of a store, and SQLite's errors as ours."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path

from tuner.errors import OutputError, StoreError, what_is_wrong
from tuner.store.schema import APPLICATION_ID, READABLE_VERSIONS, SCHEMA_VERSION

_BUSY_S = 10.0
"""How long a reader waits for SQLite's own short locks."""


def connect(path: Path, *, writable: bool) -> sqlite3.Connection:
    """Open a file.

    Raises:
        StoreError, OutputError: it is damaged, locked, or cannot be written.
    """
    with translated(path, writable=writable):
        if writable:
            return _connect_writing(path)
        return _connect_reading(path)


def _connect_writing(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
    try:
        # Full synchronisation: a trial that was committed survives a power cut.
        for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {setting}")
    except (sqlite3.Error, UnicodeDecodeError):
        connection.close()
        raise
    return connection


def _connect_reading(path: Path) -> sqlite3.Connection:
    # The last one to close removes the write-ahead log and its index, if it may write.
    may_write = all(os.access(place, os.W_OK) for place in (path, path.parent))
    uri = path.resolve().as_uri() + ("?mode=rw" if may_write else "?mode=ro")
    connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None)
    try:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("SELECT 1 FROM sqlite_schema")
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # A folder that may not be written cannot hold the index of the write-ahead
        # log.  Without a log nothing is missing from the file itself.
        connection.close()
        log = path.with_name(path.name + "-wal")
        has_log = log.exists() and log.stat().st_size > 0
        if has_log or not isinstance(error, sqlite3.OperationalError):
            raise
        uri = path.resolve().as_uri() + "?mode=ro&immutable=1"
        connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None)
    return connection


def is_unfinished(path: Path) -> bool:
    """Return whether the file is one that a process killed inside `create` left behind."""
    try:
        with contextlib.closing(connect(path, writable=False)) as connection:
            return not connection.execute("SELECT 1 FROM sqlite_schema").fetchall()
    except (StoreError, sqlite3.DatabaseError):
        return False


def check_layout(path: Path, connection: sqlite3.Connection, *, writable: bool) -> None:
    """Refuse a file of another program or layout; one to be written also with damaged pages.

    Raises:
        StoreError: it is one.
    """
    with translated(path, writable=writable):
        identifier = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if identifier != APPLICATION_ID:
            raise StoreError(
                f"{path}: not a store of malloc-tuner; give the run folder of a campaign"
            )
        if version not in READABLE_VERSIONS:
            raise StoreError(
                f"{path}: has store version {version}, this malloc-tuner knows {SCHEMA_VERSION}; "
                "use the malloc-tuner that wrote it, or start a new run folder"
            )
        if writable:
            verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if verdict != "ok":
                raise sqlite3.DatabaseError(verdict)


_REFUSALS = ("full", "readonly", "disk i/o", "unable to open")
"""Words of SQLite's messages that mean: the file system refused."""


@contextlib.contextmanager
def translated(path: Path, *, writable: bool) -> Iterator[None]:
    """Turn errors of SQLite into ours."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise StoreError(f"{path}: the record contradicts the store: {error}") from error
    except sqlite3.DatabaseError as error:
        text = str(error)
        if isinstance(error, sqlite3.OperationalError):
            is_refused = any(word in text.lower() for word in _REFUSALS)
            if is_refused and not writable:
                raise StoreError(
                    f"{path}: cannot be read ({text}); look at its permissions and at the disk"
                ) from error
            if is_refused:
                raise OutputError(
                    f"{path}: cannot be written ({text}); make room or permissions, then run the "
                    "same command again: everything measured so far is kept"
                ) from error
            if "locked" in text:
                raise StoreError(
                    f"{path}: locked by another program; close it and try again"
                ) from error
        raise _damaged(path, text) from error
    except UnicodeDecodeError as error:  # of a message that quotes the file
        raise _damaged(path, str(error)) from error


@contextlib.contextmanager
def decoding(path: Path) -> Iterator[None]:
    """Call a row damaged that makes no record; its pages may be whole."""
    try:
        yield
    except (zlib.error, ValueError, LookupError, TypeError, AttributeError) as error:
        raise _damaged(path, _in_one_line(error)) from error


def _in_one_line(error: Exception) -> str:
    """Return what is wrong; pydantic writes a line for each thing that is."""
    return what_is_wrong(error).partition("\n")[0]


def _damaged(path: Path, why: str) -> StoreError:
    return StoreError(f"{path}: damaged ({why}); restore it from a copy, or start a new run folder")
