"""One kind of file that can be imported: a module that knows it has one `Format`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tuner.importers.heap import ImportedHeap
from tuner.importers.source import Source
from tuner.profile.sites import Sites

ONE_THREAD: Final = "threads: all calls are those of one"
NO_THREAD_ENDS: Final = "the ends of threads: each lives to the end"
NO_REALLOC: Final = "realloc: each is a free and an allocation"
ALL_MALLOC: Final = "calloc and aligned allocations: all are malloc"
"""What several formats lack."""


@dataclass(frozen=True)
class Format:
    """How a kind of file is recognised and read; of the two readers it has one.

    A reader raises `BadCallError`; `Source.errors` adds the file and the place.
    """

    name: str
    """As in ``import --format``."""
    title: str
    """What wrote it."""
    lost: tuple[str, ...]
    """What the file lacks, or this reader cannot use."""
    recognise: Callable[[bytes], object]
    """True of the start of such a file, unpacked."""
    read_events: Callable[[Source, ImportedHeap], None] | None = None
    """Puts the calls of the file into a heap, of which a trace is made."""
    read_sites: Callable[[Source], tuple[Sites, str]] | None = None
    """Returns call sites, of which a profile is made, and the command if it is known."""
