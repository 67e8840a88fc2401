"""What the resident memory of this process is made of, from the kernel's own tables.

    heap        anonymous memory that is none of the others: malloc's
    python      arenas of Python's objects, which it maps by itself and not through malloc
    program     variables of the executable and its libraries, and the stack
    preloaded   variables of libraries that LD_PRELOAD brought: an allocator's own data
    simulated   pages of the shared memory object that backs simulated memory
    files       pages of files as they are on the disk: code, constants

heap + python + program + preloaded is the RssAnon of /proc/self/status.

Variables are the written pages of a file's mapping, which /proc/self/smaps has, and those
without a value in the file (bss), which are plain anonymous memory behind it: the kernel joins
them with a heap that follows without a gap.  Where they lie stands in the file's program
headers, and /proc/self/pagemap shows which of these pages are in memory.

Source: proc(5); elf(5), Elf64_Phdr; Linux, Documentation/admin-guide/mm/pagemap.rst.
"""

from __future__ import annotations

import os
import re
import struct
import sys
import tempfile
from pathlib import Path

PROC = Path("/proc/self")
PAGE_BYTES = os.sysconf("SC_PAGESIZE")

_PRESENT = 1 << 63
"""Bit of a page table entry that says the page is in memory."""

_ELF_MAGIC = b"\x7fELF\x02\x01"
"""Of a 64-bit little-endian file."""
_PT_LOAD = 1

_ARENAS = re.compile(rb"^(\d+) arenas \* (\d+) bytes/arena", re.MULTILINE)
_UNUSED_POOLS = re.compile(rb"^(\d+) unused pools \* (\d+) bytes", re.MULTILINE)
"""Lines of Python's report on its arenas."""


def kinds_of_memory(store: str | None) -> dict[str, int]:
    """Return resident bytes by kind.

    Args:
        store: name of the shared memory object of simulated memory; None for none.

    Lines are read one by one: a report must not enlarge what it reports.
    """
    kinds = dict.fromkeys(("heap", "python", "program", "preloaded", "simulated", "files"), 0)
    kinds["python"] = arena_bytes()
    kinds["heap"] -= kinds["python"]
    preloads = os.environ.get("LD_PRELOAD", "").replace(":", " ").split()
    preloaded = {os.path.realpath(path) for path in preloads}
    starts: dict[str, int] = {}  # where the first byte of each file is mapped
    path = ""
    rss = 0
    with (PROC / "smaps").open() as lines:
        for line in lines:
            fields = line.split(maxsplit=5)
            if not fields[0].endswith(":"):
                path = fields[5].rstrip("\n") if len(fields) > 5 else ""  # noqa: PLR2004 - proc(5)
                if path.startswith("/") and int(fields[2], 16) == 0:
                    starts.setdefault(path, int(fields[0].split("-")[0], 16))
            elif fields[0] == "Rss:":
                rss = int(fields[1]) * 1024
            elif fields[0] == "Anonymous:":
                anonymous = int(fields[1]) * 1024
                if store and store in path:
                    kinds["simulated"] += rss
                else:
                    kinds["files"] += rss - anonymous
                    kinds[kind_of(path, preloaded)] += anonymous
    for file, start in starts.items():
        n_bytes = bss_bytes(file, start)
        kinds["heap"] -= n_bytes
        kinds[kind_of(file, preloaded)] += n_bytes
    return kinds


def zero_pages() -> tuple[int, int]:
    """Return how many pages of no file are in memory, and how many of these hold only zeros.

    The kernel can put one common page in the place of all that hold only zeros, when it splits
    a huge page.
    """
    nothing = bytes(PAGE_BYTES)
    page = bytearray(PAGE_BYTES)
    n_pages = n_zero = 0
    with (
        (PROC / "maps").open() as lines,
        (PROC / "mem").open("rb", buffering=0) as memory,
        (PROC / "pagemap").open("rb", buffering=0) as pagemap,
    ):
        for line in lines:
            fields = line.split(maxsplit=5)
            name = fields[5].rstrip("\n") if len(fields) > 5 else ""  # noqa: PLR2004 - proc(5)
            if not fields[1].startswith("rw") or name not in ("", "[heap]"):
                continue
            begin, end = (int(text, 16) for text in fields[0].split("-"))
            for address in range(begin, end, PAGE_BYTES):
                pagemap.seek(address // PAGE_BYTES * 8)
                if not int.from_bytes(pagemap.read(8), "little") & _PRESENT:
                    continue
                memory.seek(address)
                memory.readinto(page)
                n_pages += 1
                n_zero += page == nothing
    return n_pages, n_zero


def arena_bytes() -> int:
    """Return the bytes of Python's arenas that it has used."""
    with tempfile.TemporaryFile() as report:
        sys.stderr.flush()
        kept = os.dup(2)
        os.dup2(report.fileno(), 2)  # it writes to the file of that number and nowhere else
        try:
            sys._debugmallocstats()  # noqa: SLF001 - a public function, despite its name
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        report.seek(0)
        text = report.read()
    arenas, unused = _ARENAS.search(text), _UNUSED_POOLS.search(text)
    if not arenas:
        return 0
    free = int(unused[1]) * int(unused[2]) if unused else 0
    return int(arenas[1]) * int(arenas[2]) - free


def kind_of(path: str, preloaded: set[str]) -> str:
    """Return the kind of the anonymous pages of a mapping.

    Args:
        path: its file, or the kernel's name for it; empty for a plain anonymous one.
        preloaded: files that LD_PRELOAD brought.
    """
    if path in preloaded:
        return "preloaded"
    return "program" if path.startswith(("/", "[stack")) else "heap"


def bss_bytes(path: str, start: int) -> int:
    """Return the resident bytes of a file's variables behind its mapping; 0 if it is no program.

    Args:
        path: the file.
        start: address at which its first byte is mapped.
    """
    try:
        headers = load_headers(Path(path))
    except OSError:  # such as a file that was removed
        return 0
    if not headers:
        return 0
    bias = start - headers[0][0] // PAGE_BYTES * PAGE_BYTES
    n_pages = 0
    for address, file_bytes, memory_bytes in headers:
        first = -(-(bias + address + file_bytes) // PAGE_BYTES)
        last = -(-(bias + address + memory_bytes) // PAGE_BYTES)
        n_pages += n_present(first, last) if last > first else 0
    return n_pages * PAGE_BYTES


def load_headers(path: Path) -> list[tuple[int, int, int]]:
    """Return address, bytes in the file and bytes in memory of every part that is loaded.

    Returns:
        Nothing when the file is no 64-bit program or library.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        head = file.read(64)
        if len(head) < 64 or not head.startswith(_ELF_MAGIC):  # noqa: PLR2004 - size of the header
            return []
        (offset,) = struct.unpack_from("<Q", head, 32)
        entry_bytes, n_entries = struct.unpack_from("<HH", head, 54)
        file.seek(offset)
        table = file.read(entry_bytes * n_entries)
    found = []
    for index in range(n_entries):
        kind, _, _, address, _, file_bytes, memory_bytes, _ = struct.unpack_from(
            "<IIQQQQQQ", table, index * entry_bytes
        )
        if kind == _PT_LOAD:
            found.append((address, file_bytes, memory_bytes))
    return found


def n_present(first: int, last: int) -> int:
    """Return how many pages are in memory, from the first to before the last."""
    with (PROC / "pagemap").open("rb", buffering=0) as pagemap:
        pagemap.seek(first * 8)
        entries = pagemap.read((last - first) * 8)
    return sum(1 for (entry,) in struct.iter_unpack("Q", entries) if entry & _PRESENT)
