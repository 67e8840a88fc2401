"""One kind of file that can be imported: a module that knows it has one `Format`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tuner.importers.heap import ImportedHeap
from tuner.importers.source import Source
from tuner.profile.sites import Sites


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
    level: str | None = None
    """What its trace is called that is a model of its own, of low fidelity; None for any other."""
    read_events: Callable[[Source, ImportedHeap], None] | None = None
    """Puts the calls of the file into a heap, of which a trace is made."""
    read_sites: Callable[[Source], tuple[Sites, str]] | None = None
    """Returns call sites, of which a profile is made, and the command if it is known."""
