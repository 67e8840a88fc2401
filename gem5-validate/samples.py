"""Memory at fixed ticks of simulated time, so that a mean over it repeats from run to run.

Host time depends on what else the computer does, and on the allocator; simulated time does not.
How long a simulation is, is not known before: samples are taken every `FIRST_TICKS`, and
whenever there are `CAPACITY` of them every second one is dropped and the interval doubles.
What is left is what fixed intervals of the last length would have given.

Sampled is resident anonymous memory less what was freed lazily: MADV_FREE leaves pages to a
process until the kernel wants them.

Limits: the begin, before the first tick, has no part in a mean over simulated time.  Decay that
waits for host time still falls between other ticks when the computer is busy.

Source: proc(5), /proc/pid/smaps_rollup.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from pathlib import Path

FIRST_TICKS = 1_000_000
"""First interval between samples: a microsecond of a simulated machine, as gem5 counts."""
CAPACITY = 128
"""Most samples, even."""

ROLLUP = Path("/proc/self/smaps_rollup")


class Samples:
    """Samples at equal distances in simulated time."""

    def __init__(self, measure: Callable[[], int]) -> None:
        """Begin at tick 0.

        Args:
            measure: returns what is sampled.
        """
        self.interval_ticks = FIRST_TICKS
        self.values: list[int] = []
        """At 1, 2, 3 ... intervals."""
        self._measure = measure

    def add(self) -> None:
        """Take a sample; an interval has passed since the last one, or since tick 0."""
        self.values.append(self._measure())
        if len(self.values) == CAPACITY:
            self.values = self.values[1::2]
            self.interval_ticks *= 2

    @property
    def next_tick(self) -> int:
        """Tick at which the next sample is due."""
        return (len(self.values) + 1) * self.interval_ticks


class OwnMemory:
    """Resident anonymous memory of this process."""

    def __init__(self) -> None:
        """Prepare; nothing is allocated by malloc afterwards."""
        self._page = mmap.mmap(-1, mmap.PAGESIZE)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._page))
        self._libc = ctypes.CDLL(None)
        self._text = bytearray(4096)
        self._file = os.open(ROLLUP, os.O_RDONLY | os.O_CLOEXEC)

    def anonymous_bytes(self) -> int:
        """Return resident anonymous bytes less lazily freed ones."""
        self._empty_batches()
        length = os.preadv(self._file, [self._text], 0)
        fields = dict(line.split(b":", 1) for line in bytes(self._text[:length]).splitlines()[1:])
        return 1024 * (kib(fields[b"Anonymous"]) - kib(fields.get(b"LazyFree", b"0 kB")))

    def _empty_batches(self) -> None:
        """Have the kernel count pages that were freed lazily just now.

        It notes them in batches of each processor, which locking a page empties
        (mlock_vma_pages_range in mm/mlock.c, Linux 5.18 and later).
        """
        where, length = ctypes.c_void_p(self._address), ctypes.c_size_t(mmap.PAGESIZE)
        self._libc.mlock(where, length)
        self._libc.munlock(where, length)


def kib(field: bytes) -> int:
    """Return the number of a field in kB."""
    return int(field.split()[0])
