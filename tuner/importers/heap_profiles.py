"""Read heap profiles, which keep sums of each call site.

Text of jemalloc and gperftools holds what was alive when it was written and, in brackets, what was
ever allocated (jemalloc only with ``prof_accum:true``); neither has lifetimes, both may be samples:

- jemalloc, ``heap_v2/BYTES``: stacks ``@ 0x...``, below each ``t*: blocks: bytes [blocks:
  bytes]`` and lines of single threads;
- gperftools, ``heap profile: blocks: bytes [blocks: bytes] @ KIND``: one line per site, KIND
  ``heapprofile`` (all blocks) or ``heap_v2/BYTES`` (a sample).

A sample of mean distance BYTES catches a block of s bytes with probability
1 - exp(-s / BYTES); numbers are divided by it, s being the site's mean size.

JSON of valgrind's DHAT, version 2, has lifetimes.  Fields have DHAT's names; of a run, ``tg`` and
``te`` are when the peak and the end were, and ``tu`` is the unit.  Sites stand in the order in
which DHAT met them.

Source: jemalloc's src/prof_data.c, gperftools' src/heap-profile-table.cc and valgrind's
dhat/dh_main.c (checked against what 3.19 writes); the correction is that of a Poisson process.
"""

import itertools
import re
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import BaseModel, Field

from tuner.importers.format import ALL_MALLOC, Format
from tuner.importers.source import BadCallError, Count, Source, matched
from tuner.profile.sites import Sites

# jemalloc and gperftools

_LOST: Final = (
    "times: the file is of one moment; the heap grows evenly up to it",
    "lifetimes: when blocks that were freed by then came and went",
    "threads: they are not separated",
    "realloc, calloc and aligned allocations: all are malloc",
)

_COUNTS: Final = r"(\d{1,18}): +(\d{1,18}) +\[ *(\d{1,18}): +(\d{1,18})\]"
_HEAD: Final = re.compile(
    rf"(?:heap profile: +{_COUNTS} +@ +(?:heapprofile|heap|(?=heap_v2)))?(?:heap_v2/(\d{{1,18}}))?",
    re.ASCII,
)
"""Counts of all sites together, which jemalloc has in a line of their own, and the distance."""
_LINE: Final = re.compile(rf"@.*|t\d+:.*|(?:t\*: +)?{_COUNTS}(?: @(?: 0x[0-9a-fA-F]+)*)?", re.ASCII)
"""One without counts says nothing."""
_END: Final = "MAPPED_LIBRARIES:"

_STEP_NS: Final = 1000
"""Time between two allocations; neither file has it."""
_MOST_SITES: Final = 1_000_000

_BRIEF: Final = 0.01
"""Share of the run that a freed block lives, unless its site allocates sooner again."""


def _read(source: Source) -> tuple[Sites, str]:
    """Return sites that grow evenly up to the moment of the profile."""
    lines = itertools.takewhile(lambda line: line != _END, source.stripped_lines())
    head = matched(_HEAD, next(lines, ""), "heap_v2/BYTES or heap profile: counts @ kind")
    wanted = "a stack @ or counts blocks: bytes [blocks: bytes]"
    found = (matched(_LINE, line, wanted).groups() for line in lines)
    counts = [*itertools.islice((one for one in found if one[0]), _MOST_SITES + 2)]
    if len(counts) > _MOST_SITES + 1:
        raise BadCallError(f"more than {_MOST_SITES:,} call sites")
    # Live blocks and bytes of each site, and those ever allocated.
    rows = np.array(counts if head[1] else counts[1:], np.float64).reshape(-1, 4)
    lacks_ever = (rows[:, 2] < rows[:, 0]) | (rows[:, 3] < rows[:, 1])
    rows[lacks_ever, 2:] = rows[lacks_ever, :2]  # jemalloc without prof_accum
    rows = rows[rows[:, 2] > 0]
    if distance := int(head[5] or 0):
        caught = -np.expm1(-rows[:, 3] / rows[:, 2] / distance)
        rows /= np.where(caught > 0, caught, 1)[:, None]
    rows = rows.round()
    if rows.size and rows.max() >= 2**53:
        raise BadCallError("more bytes than any program can have had")
    live_blocks, live_bytes, blocks, total_bytes = rows.T.astype(np.int64)
    end = float(max(1, blocks.sum()))
    n_freed = blocks - live_blocks
    was_freed = n_freed > 0
    alive = (live_blocks, live_bytes)
    sites = Sites(
        blocks,
        total_bytes,
        live_blocks * (end / 2) + np.minimum(n_freed * _BRIEF, was_freed) * end,
        live_blocks + was_freed,
        *alive,  # at the peak
        *alive,  # at the end
        peak_time=end,
        end_time=end,
        ns_per_unit=_STEP_NS,
        is_ordered=False,
        assumed=(
            f"time: {_STEP_NS} ns from one allocation to the next",
            "peak: it is the moment of the profile, and nothing is freed after it",
            f"lifetimes: a freed block lived {_BRIEF:.0%} of the run, or until its site's next",
        ),
    )
    return sites, ""


# DHAT

_NS: Final = {"instrs": 1.0, "ms": 1e6}
"""Length of DHAT's units in ns; of an instruction it is a guess."""


class _Site(BaseModel):
    """The columns of `Sites`, and numbers of the frames, innermost first."""

    blocks: Count = Field(alias="tbk")
    total_bytes: Count = Field(alias="tb")
    lifetime: Annotated[int, Field(strict=True, ge=0, lt=2**64)] = Field(alias="tl")
    most_blocks: Count = Field(alias="mbk")
    peak_blocks: Count = Field(alias="gbk")
    peak_bytes: Count = Field(alias="gb")
    end_blocks: Count = Field(alias="ebk")
    end_bytes: Count = Field(alias="eb")
    frames: tuple[Count, ...] = Field(alias="fs", default=())


_COLUMN_TYPES: Final = {"lifetime": np.float64}
"""Of columns that are not whole numbers: a sum over blocks goes up to valgrind's 64 bits."""


class _Document(BaseModel):
    """A run of the heap, with lifetimes of blocks."""

    dhatFileVersion: Literal[2]  # noqa: N815 - DHAT's name
    mode: Literal["heap"]
    bklt: Literal[True]
    tu: Literal["instrs", "ms"]
    tg: Count
    te: Count
    cmd: str = ""
    pps: list[_Site]


def read_stacks(source: Source) -> tuple[Sites, str, list[tuple[int, ...]]]:
    """Return the call sites of a file, its command, and the frames of each site.

    Frames are numbers, innermost first.

    Raises:
        BadCallError: the file is malformed, of another version, or not of a run of the heap
            with lifetimes.
    """
    document = source.document(_Document)
    used = [site for site in document.pps if site.blocks]
    columns: dict[str, Any] = {
        name: np.array([getattr(site, name) for site in used], _COLUMN_TYPES.get(name, np.int64))
        for name in _Site.model_fields
        if name != "frames"
    }
    sites = Sites(
        **columns,
        peak_time=float(document.tg),
        end_time=float(document.te),
        ns_per_unit=_NS[document.tu],
        is_ordered=True,
        assumed=("time: an instruction takes 1 ns",) if document.tu == "instrs" else (),
    )
    if flaw := sites.flaw():
        raise BadCallError(flaw)
    return sites, document.cmd, [site.frames for site in used]


JEMALLOC: Final = Format(
    name="jemalloc-heap",
    title="heap profile of jemalloc",
    lost=(*_LOST, "what was freed before, unless prof_accum:true was set"),
    recognise=lambda start: start.startswith(b"heap_v2/"),
    read_sites=_read,
)
GPERFTOOLS: Final = Format(
    name="gperftools-heap",
    title="heap profile of gperftools",
    lost=_LOST,
    recognise=lambda start: start.startswith(b"heap profile:"),
    read_sites=_read,
)
DHAT: Final = Format(
    name="dhat",
    title="valgrind --tool=dhat",
    lost=(
        "times: when each block came and went; of lifetimes there is one sum for each call site",
        "threads: they are not separated",
        "realloc: free and malloc instead",
        ALL_MALLOC,
        "what was touched: the file has it, but a profile cannot",
    ),
    recognise=lambda start: b'"dhatFileVersion"' in start[:200],
    read_sites=lambda source: read_stacks(source)[:2],
)
