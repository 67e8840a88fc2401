"""What machine and workload allow: the facts that decide which settings can act at all.

A search should not spend evaluations on settings that cannot have an effect, so every
parameter names what it requires and `missing_requirement` says what is not there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tuner.config.allocator_file import Requirement

_THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")

LONG_RUNNING_NS: Final = 10 * 10**9
"""A run is long if it outlives jemalloc's default decay time, 10 s.  Source: jemalloc(3)."""

LARGE_FREED_BYTES: Final = 2 << 30
"""tcmalloc releases nothing by rate before about 2 GiB of spans were freed.  Source: gperftools
src/page_heap.cc; the first frees arm a delay of 2^18 pages of 8 KiB."""


@dataclass(frozen=True)
class HostFacts:
    """The machine a configuration is for."""

    thp_mode: str
    """always, madvise or never; ``never`` also where huge pages are switched off for the run."""
    n_cpus: int
    """Cores a program may use, at least 1."""
    page_size_bytes: int
    """Size of a page, 4096 on x86-64."""

    @classmethod
    def detect(cls) -> HostFacts:
        """Return the facts of this machine; a kernel without huge pages counts as never."""
        try:
            words = _THP.read_text(encoding="ascii")
        except OSError:
            words = "[never]"
        mode = words[words.find("[") + 1 : words.find("]")]
        return cls(mode, len(os.sched_getaffinity(0)), os.sysconf("SC_PAGE_SIZE"))


@dataclass(frozen=True)
class WorkloadFacts:
    """The workload a configuration is for."""

    n_threads: int
    """Threads that allocate, at least 1."""
    duration_ns: int
    """How long the process lived, as far as the trace knows it."""
    freed_bytes: int | None = None
    """All bytes freed over the run; None = not known, which counts as little."""
    is_fork: bool = False
    """True when a process of it began with a fork, in which an allocator has no threads of its own.
    Source: fork(2); jemalloc issue 2125."""

    @property
    def is_long_running(self) -> bool:
        """True when time-based settings of seconds can act."""
        return self.duration_ns >= LONG_RUNNING_NS


def missing_requirement(
    requirements: Iterable[Requirement], host: HostFacts, workload: WorkloadFacts
) -> str | None:
    """Return why a parameter cannot act here, or None if it can.

    Example:
        >>> host = HostFacts("madvise", 2, 4096)
        >>> missing_requirement(["threads"], host, WorkloadFacts(1, 0))
        'the workload has one thread'
    """
    thp = f"transparent huge pages are in mode {host.thp_mode}"
    reasons = {
        "threads": (workload.n_threads > 1, "the workload has one thread"),
        "thp": (host.thp_mode != "never", thp),
        "thp=madvise": (host.thp_mode == "madvise", thp),
        "long_running": (workload.is_long_running, "the workload lasts less than 10 s"),
        "own_threads": (not workload.is_fork, "threads of an allocator do not survive a fork"),
        "frees_over_2_gib": (
            (workload.freed_bytes or 0) >= LARGE_FREED_BYTES,
            "the workload frees less than 2 GiB",
        ),
    }
    return next((text for key in requirements for ok, text in [reasons[key]] if not ok), None)
