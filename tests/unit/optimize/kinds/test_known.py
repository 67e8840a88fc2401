"""Settings that are known from elsewhere."""

import pytest

from tuner.allocators import get_allocator, locate_all
from tuner.errors import SpecError
from tuner.optimize.choosing.direct import space_of
from tuner.optimize.kinds.known import KNOWN, OF_THREADS
from tuner.optimize.quantities import SERVICE_NAMES
from tuner.optimize.tuned import Reference, label_of
from tuner.records import Configuration


@pytest.mark.parametrize("known", KNOWN, ids=label_of)
def test_what_is_known_lies_in_what_is_searched(known: Configuration):
    """A search leaves out settings that its space does not have."""
    located = locate_all([get_allocator(known.allocator)])
    adapter, installation = located[known.allocator]
    try:
        adapter.configuration(known.as_dict, installation.version)
    except SpecError as error:
        pytest.skip(f"another version of the library: {error}")
    values = dict.fromkeys((SERVICE_NAMES["mean"], SERVICE_NAMES["floor"]), 1e8)
    reference = Reference(("server",), values, 8, None, None, wall_s=30.0, timeout_s=60.0)

    space = space_of(located, reference, [known.allocator])

    assert space.decode(space.encode(known)) == known


def test_of_threads_is_what_shares_arenas_or_gives_large_blocks_back():
    """What waits for a while gives nothing back before a program ends."""
    assert Configuration.of("glibc", {"arena_max": 1}) in OF_THREADS
    assert Configuration.of("glibc", {"arena_max": 1, "mmap_threshold": 262144}) in OF_THREADS
    assert Configuration.of("jemalloc", {"narenas": 1}) in OF_THREADS
    assert not any("decay" in name for one in OF_THREADS for name in one.as_dict)
