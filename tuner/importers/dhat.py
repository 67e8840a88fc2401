"""Read heap profiles of valgrind's DHAT: JSON, version 2, one record per call site.

Fields used, by the names DHAT gives them: of a site ``tb``/``tbk`` bytes and blocks in all,
``tl`` sum of lifetimes, ``mbk`` most blocks at once, ``gb``/``gbk`` at the peak, ``eb``/``ebk``
at the end; of the run ``tg`` and ``te``, when the peak and the end were, and ``tu``, the unit.
Sites stand in the order in which DHAT met them.

Source: valgrind's dhat/dh_main.c, which describes the format in a comment; checked against
what valgrind 3.19 writes.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
from pydantic import BaseModel

from tuner.importers.format import Format
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
    acc: Any = None
    """Accesses to each byte, where they were counted."""


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


def _read(source: Source) -> tuple[Sites, str]:
    document = source.document(_Document)
    return _sites(document), document.cmd


def read_stacks(source: Source) -> tuple[Sites, list[tuple[int, ...]], list[bool]]:
    """Return the call sites of a file, their stacks, and which have counts of accesses.

    A stack is the numbers of its frames, innermost first.

    Raises:
        BadCallError: the file is malformed, of another version, or not of a run of the heap
            with lifetimes.
    """
    document = source.document(_Document)
    sites = _sites(document)
    flaw = sites.flaw()
    if flaw:
        raise BadCallError(flaw)
    used = [site for site in document.pps if site.tbk]
    return sites, [site.fs for site in used], ["acc" in site.model_fields_set for site in used]


def _sites(document: _Document) -> Sites:
    def column(name: str) -> np.ndarray:
        return np.array([getattr(site, name) for site in document.pps if site.tbk], np.int64)

    return Sites(
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


FORMAT: Final = Format(
    name="dhat",
    title="valgrind --tool=dhat",
    lost=(
        "times: when each block came and went; of lifetimes there is one sum for each call site",
        "threads: they are not separated",
        "realloc: free and malloc instead",
        "calloc and aligned allocations: all are malloc",
        "what was touched: the file has it, but a profile cannot",
    ),
    recognise=lambda start: b'"dhatFileVersion"' in start[:200],
    read_sites=_read,
)
