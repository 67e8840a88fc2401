"""Settings that are known from elsewhere to give memory back: they run whatever emulation says."""

from functools import reduce
from typing import Final

from tuner.records import Configuration

COPIED: Final = (
    Configuration.of("glibc", {"arena_max": 2}),
    Configuration.of("jemalloc", {"background_thread": True}),
    Configuration.of("jemalloc", {"dirty_decay_ms": 1000, "narenas": 2}),
    Configuration.of("jemalloc", {"background_thread": True, "dirty_decay_ms": 1000, "narenas": 2}),
)
"""What people copy: MALLOC_ARENA_MAX=2, jemalloc's background thread, the line of Rails' template
with and without it."""

_HOLD_LITTLE: Final = {"kept_percent": 0, "merge_percent": 0, "timer": 200}
_GIVE_BACK_SOON: Final = {"fall_percent": 100, "purge_delay": 5}
"""What is freed goes early whatever remains; for services with one thread, such as Redis."""
_HOLD_FOR_SECONDS: Final = {"purge_delay": 2000, "timer": 1000}
"""What comes back with the next requests takes no page faults, what rests goes all the same."""
_FINE: Final = {"class_steps": 8, "coarse_steps": 8}
"""Size classes between which less is lost inside blocks."""

LARGE_BACK: Final = Configuration.of("glibc", {"mmap_threshold": 262144})
"""For processes whose large blocks differ in size: glibc raises the threshold with each that is
freed, and holds more."""

KNOWN: Final = (
    COPIED[0],
    COPIED[-1],
    Configuration.of("jemalloc", {"narenas": 1}),
    Configuration.of("exgen", {**_FINE, **_HOLD_LITTLE, **_GIVE_BACK_SOON}),
    LARGE_BACK,
    Configuration.of("exgen", _HOLD_FOR_SECONDS),
    Configuration.of("exgen", {"purge_delay": 200, **_HOLD_LITTLE}),
    Configuration.of("glibc", {"arena_max": 1}),
    Configuration.of("exgen", {"timer": 1000}),
    Configuration.of("jemalloc", {"dirty_decay_ms": 1000, "narenas": 1}),
    Configuration.of("jemalloc", {"dirty_decay_ms": 200}),
    Configuration.of("jemalloc", {"dirty_decay_ms": 0}),
    *COPIED[1:-1],
    Configuration.of("glibc", {"arena_max": 1, "mmap_threshold": 262144}),
    Configuration.of("tcmalloc", {"aggressive_decommit": True}),
    Configuration.of("mimalloc", {"decommit_delay": 500, "segment_decommit_delay": 500}),
    Configuration.of("mimalloc", {"purge_delay": 100}),
)
"""What people copy, and what gives more memory back: tried before anything else, the first four in
any case.  The fifth is for processes with one thread, such as PostgreSQL's.

Emulation sees neither copy-on-write nor every idle process, for which these were made.
"""

_ARENAS: Final = frozenset({"arena_max", "narenas"})
"""Settings of how many arenas threads share."""

OF_THREADS: Final = tuple(
    one for one in KNOWN if one.as_dict.keys() <= _ARENAS | {"mmap_threshold"}
)
"""Of these, what shares arenas among threads or gives large blocks back: for programs that end.

Emulation knows their threads by the order of their calls alone.
"""

LEAN: Final = (
    Configuration.of("exgen", {"merge_percent": 0, "purge_delay": 0}),
    Configuration.of("exgen", {"merge_percent": 0, "purge_delay": 0, **_FINE}),
    Configuration.of("exgen", {"huge_pages": "never", "purge_delay": 0, **_FINE}),
    Configuration.of(
        "exgen",
        {
            "huge_pages": "always",
            "merge_percent": 0,
            "purge_delay": 0,
            "purge_how": "free",
            **_FINE,
        },
    ),
)
"""What is freed goes back at once, for programs that end: many do before a delay is over.  Without
huge pages no rest of one is resident; with them and `free`, Linux splits one of which a part is
freed, and takes what holds zeros.  Emulation sees little of either.

The search has it from emulation as well, but mostly with `purge_how=free`, which takes fewer faults
and whose pages stay in the peak of the process.
"""


def known_for_program(n_threads: int | None) -> tuple[Configuration, ...]:
    """Return what is known to suit a program that ends.

    Args:
        n_threads: greatest number at once; None: not known.
    """
    return (*([LARGE_BACK] if n_threads == 1 else OF_THREADS), *LEAN)


def known_for(n_threads: int | None) -> tuple[Configuration, ...]:
    """Return what is known to suit a service, each once.

    Args:
        n_threads: greatest number in one of its processes; None: not known.  One thread has one
            arena, whatever the bound: what is left of a setting without it runs.

    Example:
        >>> [str(one) for one in known_for(1) if one.allocator == "glibc"]
        ['glibc mmap_threshold=262144']
    """
    if n_threads != 1:
        return KNOWN
    without = (reduce(Configuration.without, _ARENAS, one) for one in KNOWN)
    return tuple(one for one in dict.fromkeys(without) if not one.is_default)
