"""Read heap profiles of valgrind's DHAT: JSON, version 2, one record per call site.

Fields have the names DHAT gives them; of a run, ``tg`` and ``te`` are when the peak and the end
were, and ``tu`` is the unit.  Sites stand in the order in which DHAT met them.

Source: valgrind's dhat/dh_main.c, which describes the format in a comment; checked against
what valgrind 3.19 writes.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from pydantic import BaseModel

from tuner.importers.format import ALL_MALLOC, Format
from tuner.importers.source import BadCallError, Count, Source
from tuner.profile.sites import Sites

_NS: Final = {"instrs": 1.0, "ms": 1e6}
"""Length of DHAT's units in ns; of an instruction it is a guess."""


class _Site(BaseModel):
    tbk: Count
    tb: Count
    tl: Count
    mbk: Count
    gbk: Count
    gb: Count
    ebk: Count
    eb: Count
    fs: tuple[Count, ...] = ()
    """Numbers of the frames, innermost first."""


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
    used = [site for site in document.pps if site.tbk]

    def column(name: str) -> np.ndarray:
        return np.array([getattr(site, name) for site in used], np.int64)

    sites = Sites(
        blocks=column("tbk"),
        total_bytes=column("tb"),
        lifetime=column("tl").astype(np.float64),
        most_blocks=column("mbk"),
        peak_blocks=column("gbk"),
        peak_bytes=column("gb"),
        end_blocks=column("ebk"),
        end_bytes=column("eb"),
        peak_time=float(document.tg),
        end_time=float(document.te),
        ns_per_unit=_NS[document.tu],
        is_ordered=True,
        assumed=("time: an instruction takes 1 ns",) if document.tu == "instrs" else (),
    )
    flaw = sites.flaw()
    if flaw:
        raise BadCallError(flaw)
    return sites, document.cmd, [site.fs for site in used]


FORMAT: Final = Format(
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
