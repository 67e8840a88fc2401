"""One writer per store, by an advisory lock on a file beside it.

The kernel drops the lock when the process ends, however it ends, so a killed
campaign never leaves a stale lock; the file itself stays and holds the pid of
its last owner for the message that a second writer gets.

Limits: `fcntl.flock` does not work on some network file systems, where SQLite's
write-ahead log does not either; keep runs on a local disk.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from tuner.errors import OutputError, StoreError


class WriterLock:
    """Holds the right to write one store until `release`.

    Raises:
        StoreError: another process holds it.
        OutputError: the lock file cannot be made, or not be locked.
    """

    def __init__(self, store: Path) -> None:
        """Take the lock of the store at this path."""
        path = store.with_name(store.name + ".lock")
        self._descriptor = -1
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.read(self._descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            raise StoreError(
                f"{store}: locked by pid {owner}, which is writing to it; "
                "wait until it has ended, or stop it"
            ) from error
        except OSError as error:
            self.release()
            raise OutputError(
                f"{path}: cannot be created and locked ({error.strerror}); "
                "choose a run folder on a local disk that you may write to"
            ) from error
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
        except OSError:  # a full disk: the lock is held all the same, only its label is missing
            pass

    def release(self) -> None:
        """Give the lock back; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
