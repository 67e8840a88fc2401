"""CPU time and standard input of a program and its descendants, while it is recorded.

A thread looks every few milliseconds at which there are, more rarely where there are many; the CPU
clock of a process can be read until its parent has waited for it.  So of each all but the last few
milliseconds are known, and one that is shorter may be missed.

Source: clock_getcpuclockid(3) of glibc, for the number of the clock.
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tuner.recording.watching import Watching

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


class DescendantWatch(Watching):
    """Looks at a process and its descendants from here to the end of the block."""

    def __init__(self, pid: int) -> None:
        """Prepare to watch a process of this user."""
        super().__init__(_INTERVAL_S)
        self._pid = pid
        self.found: dict[int, ProcessUse] = {}

    def look(self) -> float:
        """Take what each uses now, and return the seconds until the next time."""
        begun_s = time.thread_time()
        for pid in (self._pid, *descendants(self._pid)):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                cpu_ns = time.clock_gettime_ns(((~pid) << 3) | _OF_PROCESS)
                reads = self.found[pid].reads if pid in self.found else ""
                with contextlib.suppress(OSError):  # it has ended, or is another user's now
                    reads = str((_PROC / str(pid) / "fd/0").readlink())
                self.found[pid] = ProcessUse(cpu_ns, reads)

        return max(_INTERVAL_S, _TIMES_A_LOOK * (time.thread_time() - begun_s))


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
