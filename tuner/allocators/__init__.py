"""Adapters of the allocators: where they are, their settings, and what took effect.

`get_allocator` gives the adapter of a name; an `Allocator` locates its library, offers its
search parameters, renders a configuration to environment variables and reads back whether
every setting took effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tuner.allocators.base import Allocator, Installation, Mismatch
from tuner.allocators.facts import HostFacts, WorkloadFacts
from tuner.config import AllocatorChoice, shipped_allocator_file
from tuner.errors import SpecError
from tuner.registry import ALLOCATORS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tuner.config import AllocatorFile

__all__ = [
    "Allocator",
    "HostFacts",
    "Installation",
    "Located",
    "Mismatch",
    "WorkloadFacts",
    "all_allocators",
    "get_allocator",
    "libc_malloc",
    "locate_all",
]

Located = Mapping[str, tuple[Allocator, Installation]]
"""Adapter and installation of every allocator by name, in the order given."""


def get_allocator(name: str, file: AllocatorFile | None = None) -> Allocator:
    """Return the adapter of an allocator.

    Args:
        name: ``jemalloc``, or ``jemalloc:/opt/lib/libjemalloc.so`` for a library of one's own.
        file: search space to use instead of the shipped one.

    Raises:
        SpecError: there is no such allocator; says which there are.
    """
    try:
        choice = AllocatorChoice.parse(name)
    except ValueError as error:
        raise SpecError(f"allocator {name!r}: {error}") from error
    adapter: Allocator = ALLOCATORS[choice.name].load()(
        file or shipped_allocator_file(choice.name), choice.library
    )
    return adapter


def locate_all(adapters: Iterable[Allocator]) -> Located:
    """Return adapter and installation of every allocator by name, in the order given.

    Raises:
        MissingToolError: a library is not on this machine; names the package.
    """
    return {adapter.name: (adapter, adapter.locate()) for adapter in adapters}


def libc_malloc() -> str:
    """Return the file of the C library.

    A program linked against jemalloc, say, uses it wherever nothing is preloaded.  Preloading the
    C library, which is there anyway, makes its malloc the first one found.

    Source: ld.so(8), search order of symbols.
    """
    return str(get_allocator("glibc").observe({}).malloc_from)


def all_allocators() -> tuple[Allocator, ...]:
    """Return one adapter of every allocator, in the order reports use."""
    return tuple(get_allocator(name) for name in ALLOCATORS)
