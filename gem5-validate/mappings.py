"""Which files a guest has mapped: its program's, its loader's, and the preloaded allocator.

In system-call emulation gem5 maps the files that its guest maps, into its own memory, and keeps
them until it ends.  So a library that the guest's loader did not find is not there, whatever
LD_PRELOAD says: the loader goes on without it and the guest ends well.

Source: gem5, src/sim/vma.cc, VMA::MappedFileBuffer.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path


def mapped_files() -> Counter:
    """Return every file mapped into this process, with the number of its mappings.

    What is mapped after the simulation more often than before was mapped by the guest.
    Files without a name, such as simulated memory, are left out.
    """
    with Path("/proc/self/maps").open() as lines:
        fields = (line.split(maxsplit=5) for line in lines)
        names = (f[5].rstrip("\n") for f in fields if len(f) > 5)  # noqa: PLR2004 - proc(5)
        return Counter(n for n in names if n.startswith("/") and not n.endswith(" (deleted)"))
