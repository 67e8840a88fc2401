"""CPU time and standard input of a program and its descendants, while it is recorded.

A thread looks every few milliseconds at which there are, more rarely where there are many; the CPU
clock of a process can be read until its parent has waited for it.  So of each all but the last few
milliseconds are known, and one that is shorter may be missed.

Source: clock_getcpuclockid(3) of glibc, for the number of the clock.
"""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_PROC: Final = Path("/proc")
_INTERVAL_S: Final = 0.002
_TIMES_A_LOOK: Final = 20.0
"""That a look takes, between two: the program keeps its cores."""

_OF_PROCESS: Final = 2
"""Kind of the clock: time on a core, of all threads."""


@dataclass(frozen=True)
class ProcessUse:
    """What a process was seen to use."""

    cpu_ns: int
    """Until it was last seen."""
    reads: str
    """What its standard input was, as the kernel names it: a file, or ``pipe:[7]``; else empty."""


class DescendantWatch:
    """Looks at a process and its descendants from here to the end of the block."""

    def __init__(self, pid: int) -> None:
        """Prepare to watch a process of this user."""
        self._pid = pid
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.found: dict[int, ProcessUse] = {}

    def look(self) -> None:
        """Take what each uses now."""
        for pid in (self._pid, *descendants(self._pid)):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                cpu_ns = time.clock_gettime_ns(((~pid) << 3) | _OF_PROCESS)
                reads = self.found[pid].reads if pid in self.found else ""
                with contextlib.suppress(OSError):  # it has ended, or is another user's now
                    reads = str((_PROC / str(pid) / "fd/0").readlink())
                self.found[pid] = ProcessUse(cpu_ns, reads)

    def _watch(self) -> None:
        signal.pthread_sigmask(
            signal.SIG_BLOCK, signal.valid_signals()
        )  # they end a wait elsewhere
        wait_s = _INTERVAL_S
        while not self._is_over.wait(wait_s):
            begun_s = time.thread_time()
            self.look()
            wait_s = max(_INTERVAL_S, _TIMES_A_LOOK * (time.thread_time() - begun_s))

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


def descendants(pid: int) -> Iterator[int]:
    """Find them as far as they live: each, and each thread, may end meanwhile."""
    threads: list[Path] = []
    with contextlib.suppress(OSError):
        threads.extend((_PROC / str(pid) / "task").iterdir())
    for thread in threads:
        words: list[str] = []
        with contextlib.suppress(OSError):
            words = (thread / "children").read_text(encoding="ascii").split()
        for child in map(int, words):
            yield child
            yield from descendants(child)
