"""Read heap profiles of jemalloc and of gperftools: text, one record per call site.

Both hold of each site the blocks and bytes alive when the profile was written and, in
brackets, those ever allocated (jemalloc only with ``prof_accum:true``); neither has
lifetimes, and both may be samples:

- jemalloc, ``heap_v2/BYTES``: stacks ``@ 0x...``, below each ``t*: blocks: bytes [blocks:
  bytes]`` and lines of single threads;
- gperftools, ``heap profile: blocks: bytes [blocks: bytes] @ KIND``: one line per site, KIND
  ``heapprofile`` (all blocks) or ``heap_v2/BYTES`` (a sample).

A sample of mean distance BYTES catches a block of s bytes with probability
1 - exp(-s / BYTES); numbers are divided by it, s being the site's mean size.

Source: jemalloc's src/prof_data.c and gperftools' src/heap-profile-table.cc write these; the
correction is that of a Poisson process, which both programs sample by.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from tuner.importers.format import Format
from tuner.importers.source import BadCallError, Source, matched
from tuner.profile.sites import Sites

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
_BRIEF: Final = 0.01
"""Share of the run that a freed block lives, unless its site allocates sooner again."""


def _read(source: Source) -> tuple[Sites, str]:
    lines = itertools.takewhile(lambda line: line != _END, source.stripped_lines())
    head = matched(_HEAD, next(lines, ""), "heap_v2/BYTES or heap profile: counts @ kind")
    wanted = "a stack @ or counts blocks: bytes [blocks: bytes]"
    found = (matched(_LINE, line, wanted).groups() for line in lines)
    counts = [one for one in found if one[0] is not None]
    return _sites(counts if head[1] else counts[1:], int(head[5] or 0)), ""


def _sites(counts: Sequence[Sequence[str]], distance: int) -> Sites:
    """Return sites that grow evenly up to the moment of the profile.

    Args:
        counts: live blocks and bytes of each site, and those ever allocated.
        distance: mean distance of samples in bytes, 0 for none.
    """
    rows = np.array(counts, np.float64).reshape(-1, 4)
    lacks_ever = (rows[:, 2] < rows[:, 0]) | (rows[:, 3] < rows[:, 1])
    rows[lacks_ever, 2:] = rows[lacks_ever, :2]  # jemalloc without prof_accum
    rows = rows[rows[:, 2] > 0]
    mean_bytes = rows[:, 3] / rows[:, 2]
    if distance:
        caught = -np.expm1(-mean_bytes / distance)
        rows /= np.where(caught > 0, caught, 1)[:, None]
    rows = rows.round()
    if rows.size and rows.max() >= 2**53:
        message = "more bytes than any program can have had"
        raise BadCallError(message)
    live_blocks, live_bytes, blocks, total_bytes = rows.T.astype(np.int64)
    end = float(max(1, blocks.sum()))
    n_freed = blocks - live_blocks
    was_freed = n_freed > 0
    return Sites(
        blocks=blocks,
        total_bytes=total_bytes,
        lifetime=live_blocks * (end / 2) + np.minimum(n_freed * _BRIEF, was_freed) * end,
        most_blocks=live_blocks + was_freed,
        peak_blocks=live_blocks,
        peak_bytes=live_bytes,
        end_blocks=live_blocks,
        end_bytes=live_bytes,
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
