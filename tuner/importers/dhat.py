"""Read heap profiles of valgrind's DHAT: JSON, version 2, one record per call site.

Fields used, by the names DHAT gives them: of a site ``tb``/``tbk`` bytes and blocks in all,
``tl`` sum of lifetimes, ``mbk`` most blocks at once, ``gb``/``gbk`` at the peak, ``eb``/``ebk``
at the end; of the run ``tg`` and ``te``, when the peak and the end were, and ``tu``, the unit.
Sites stand in the order in which DHAT met them.

Source: valgrind's dhat/dh_main.c, which describes the format in a comment; checked against
what valgrind 3.19 writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from tuner.importers.format import Format
from tuner.importers.source import BadCallError, Source
from tuner.profile.sites import Sites

_VERSION: Final = 2
_UNITS: Final = {"instrs": 1.0, "ms": 1e6}
"""Length of DHAT's units in ns; of an instruction it is a guess."""
_MOST: Final = 2**53
"""Larger numbers no run reaches; below it all are exact as floats."""

_FIELDS: Final = ("tbk", "tb", "tl", "mbk", "gbk", "gb", "ebk", "eb")


def _read(source: Source) -> tuple[Sites, str]:
    document = _load(source)
    command = document.get("cmd", "")
    return _sites(document), command if isinstance(command, str) else ""


def read_stacks(source: Source) -> tuple[Sites, list[tuple[int, ...]], list[bool]]:
    """Return the call sites of a file, their stacks, and which have counts of accesses.

    A stack is the numbers of its frames, innermost first.

    Raises:
        BadCallError: the file is malformed, of another version, or not of a run of the heap
            with lifetimes.
    """
    document = _load(source)
    stacks, has_accesses = [], []
    for number, site in enumerate(document["pps"]):
        frames = site.get("fs") if isinstance(site, dict) else None
        if not isinstance(frames, list) or not all(type(frame) is int for frame in frames):
            message = f"call site {number} (pps): fs is no list of numbers"
            raise BadCallError(message)
        if site.get("tbk") != 0:
            stacks.append(tuple(frames))
            has_accesses.append("acc" in site)
    sites = _sites(document)
    flaw = sites.flaw()
    if flaw:
        raise BadCallError(flaw)
    return sites, stacks, has_accesses


def _load(source: Source) -> dict[str, Any]:
    with source.open() as file:
        try:
            document = json.load(file)
        except (ValueError, RecursionError) as error:
            message = f"not JSON: {error}; was it cut off, or is it no DHAT profile?"
            raise BadCallError(message) from error
    _check(document)
    return document  # type: ignore[no-any-return]  # an object, as was checked


def _sites(document: Mapping[str, Any]) -> Sites:
    rows = np.array([_row(number, site) for number, site in enumerate(document["pps"])])
    rows = rows.reshape(-1, len(_FIELDS))
    rows = rows[rows[:, 0] > 0]
    column = dict(zip(_FIELDS, rows.T.astype(np.int64), strict=True))
    unit = document["tu"]
    return Sites(
        blocks=column["tbk"],
        total_bytes=column["tb"],
        lifetime=column["tl"].astype(np.float64),
        most_blocks=column["mbk"],
        peak_blocks=column["gbk"],
        peak_bytes=column["gb"],
        end_blocks=column["ebk"],
        end_bytes=column["eb"],
        peak_time=float(_number(document, "tg", "the file")),
        end_time=float(_number(document, "te", "the file")),
        ns_per_unit=_UNITS[unit],
        is_ordered=True,
        assumed=("time: an instruction takes 1 ns",) if unit == "instrs" else (),
    )


def _check(document: object) -> None:
    wrong = None
    if not isinstance(document, dict) or not isinstance(document.get("pps"), list):
        wrong = "no DHAT profile: it has no list of call sites (pps)"
    elif document.get("dhatFileVersion") != _VERSION:
        wrong = f"version {document.get('dhatFileVersion')!r} of DHAT's format; {_VERSION} is read"
    elif document.get("mode") != "heap" or document.get("bklt") is not True:
        wrong = "not recorded with --mode=heap, so there are no lifetimes of blocks"
    elif document.get("tu") not in _UNITS:
        wrong = f"unit of time {document.get('tu')!r}; {' and '.join(_UNITS)} are known"
    if wrong:
        raise BadCallError(wrong)


def _row(number: int, site: object) -> list[int]:
    if not isinstance(site, dict):
        message = f"call site {number} (pps) is not an object"
        raise BadCallError(message)
    return [_number(site, name, f"call site {number} (pps)") for name in _FIELDS]


def _number(members: Mapping[str, Any], name: str, where: str) -> int:
    value = members.get(name)
    if type(value) is not int or not 0 <= value < _MOST:
        message = f"{where}: {name} is {value!r}, not a whole number from 0 to 2^53"
        raise BadCallError(message)
    return value


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
