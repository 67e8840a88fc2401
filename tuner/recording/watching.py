"""A thread that looks at a program again and again while it is recorded."""

import abc
import signal
import threading
from types import TracebackType
from typing import Self


class Watching(abc.ABC):
    """Looks from here to the end of the block."""

    def __init__(self, first_s: float) -> None:
        """Prepare.

        Args:
            first_s: seconds until the first look.
        """
        self._first_s = first_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @abc.abstractmethod
    def look(self) -> float | None:
        """Look, and return the seconds until the next time; None where there is none."""

    def _watch(self) -> None:
        # Signals are for the thread that waits for the program.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        wait_s: float | None = self._first_s
        while wait_s is not None and not self._is_over.wait(wait_s):
            wait_s = self.look()

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End."""
        self._is_over.set()
        self._thread.join()
