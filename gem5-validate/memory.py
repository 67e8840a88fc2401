"""What the resident memory of this process is made of, from the kernel's own tables.

    heap        anonymous memory that is none of the others: malloc's, and Python's arenas
    program     written pages of the executable and its libraries, and the stack
    preloaded   written pages of libraries that LD_PRELOAD brought: an allocator's own data
    simulated   pages of the shared memory object that backs simulated memory
    files       pages of files as they are on the disk: code, constants

heap + program + preloaded is the RssAnon of /proc/self/status.

Uninitialised data (bss) follow their file's mapping, as anonymous pages.  Without
address randomisation the heap of brk(2) follows those of the executable without a
gap, and the kernel shows both as one mapping; /proc/self/pagemap tells them apart.

Source: proc(5); Linux, Documentation/admin-guide/mm/pagemap.rst.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

PROC = Path("/proc/self")

_START_BRK_FIELD = 47
"""Of /proc/self/stat, counted from 1: where the heap of brk(2) begins."""

_PRESENT = 1 << 63
"""Bit of a page table entry that says the page is in memory."""


def kinds_of_memory(store: str | None) -> dict[str, int]:
    """Return resident bytes by kind.

    Args:
        store: name of the shared memory object of simulated memory; None for none.

    Lines are read one by one: a report must not enlarge what it reports.
    """
    kinds = dict.fromkeys(("heap", "program", "preloaded", "simulated", "files"), 0)
    preloaded = {
        os.path.realpath(path)
        for path in os.environ.get("LD_PRELOAD", "").replace(":", " ").split()
    }
    start_brk = read_start_brk()
    owner = ""  # file of the mapping before, as long as addresses go on without a gap
    end = 0
    with (PROC / "smaps").open() as lines:
        for line in lines:
            fields = line.split(maxsplit=5)
            if not fields[0].endswith(":"):
                start, stop = (int(part, 16) for part in fields[0].split("-"))
                path = fields[5].rstrip("\n") if len(fields) > 5 else ""  # noqa: PLR2004 - proc(5)
                is_bss = not path and start == end and owner.startswith("/")
                owner = owner if is_bss else path
                end = stop
            elif fields[0] == "Rss:":
                rss = int(fields[1]) * 1024
            elif fields[0] == "Anonymous:":
                anonymous = int(fields[1]) * 1024
                if store and store in owner:
                    kinds["simulated"] += rss
                    continue
                kinds["files"] += rss - anonymous
                if owner == "[heap]" and start < start_brk < stop:
                    bss = min(anonymous, n_present(start, start_brk) * os.sysconf("SC_PAGESIZE"))
                    kinds["program"] += bss
                    anonymous -= bss
                kinds[kind_of(owner, preloaded)] += anonymous
    return kinds


def kind_of(owner: str, preloaded: set[str]) -> str:
    """Return the kind of the anonymous pages of a mapping.

    Args:
        owner: its file, or the kernel's name for it; empty for a plain anonymous one.
        preloaded: files that LD_PRELOAD brought.
    """
    if owner in preloaded:
        return "preloaded"
    if owner.startswith(("/", "[stack")):
        return "program"
    return "heap"


def read_start_brk() -> int:
    """Return the address at which the heap of brk(2) begins; 0 when it is not told."""
    fields = (PROC / "stat").read_text().rpartition(")")[2].split()
    return int(fields[_START_BRK_FIELD - 3])  # those before are the pid and the name


def n_present(start: int, stop: int) -> int:
    """Return how many pages of a range of addresses are in memory."""
    page_bytes = os.sysconf("SC_PAGESIZE")
    first, last = start // page_bytes, -(-stop // page_bytes)
    with (PROC / "pagemap").open("rb", buffering=0) as pagemap:
        pagemap.seek(first * 8)
        entries = pagemap.read((last - first) * 8)
    return sum(1 for (entry,) in struct.iter_unpack("Q", entries) if entry & _PRESENT)
