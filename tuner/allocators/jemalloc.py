"""jemalloc: told by MALLOC_CONF, read back by mallctl.

A search adds abort_conf:true, which makes jemalloc stop at anything it does not
understand; an exported file must not carry it, because an upgrade that drops an option
would then stop the service.  opt.* shows values after clipping.  slab_sizes has no option
to read; the slab of every bin shows its effect.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Final

from tuner.allocators.base import Allocator
from tuner.records import value_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.allocators.probe import ProbeReport
    from tuner.records import Configuration, Value

_LG_SLAB_REGIONS_MAX: Final = 9
"""log2 of the greatest number of blocks in a slab: page (2^12) over least block (2^3).
Source: jemalloc include/jemalloc/internal/sc.h, SC_LG_SLAB_MAXREGS."""

_SLABS = re.compile(r"(?P<low>\d+)-(?P<high>\d+):(?P<pages>\d+)")


class Jemalloc(Allocator):
    """Adapter of jemalloc 5."""

    name: ClassVar[str] = "jemalloc"

    def render(self, configuration: Configuration, *, for_export: bool = False) -> dict[str, str]:
        """Return MALLOC_CONF; nothing for an exported default."""
        words = [f"{name}:{value_text(value)}" for name, value in configuration.settings]
        if not for_export:
            words.insert(0, "abort_conf:true")
        return {"MALLOC_CONF": ",".join(words)} if words else {}

    def version_of(self, report: ProbeReport) -> str:
        """Return the version without the commit: 5.3.0."""
        return str(report.of("jemalloc").get("version", "")).partition("-")[0]

    def effective(self, report: ProbeReport) -> dict[str, Value]:
        """Return opt.* by name; slab_sizes as one text for all bins."""
        seen = report.of("jemalloc")
        values = {k.removeprefix("opt."): v for k, v in seen.items() if k.startswith("opt.")}
        slabs = _slab_text(seen, int(report.data["page_size_bytes"]))
        return {**values, "slab_sizes": slabs}

    def agrees(self, setting: str, asked: Value, effective: Value, report: ProbeReport) -> bool:
        """Compare slab sizes bin by bin: what is asked may concern some of them only."""
        if setting == "slab_sizes":
            return _slabs_are(str(asked), report)
        return super().agrees(setting, asked, effective, report)


def expected_slab(block_bytes: int, pages: int, page_bytes: int) -> int:
    """Return the slab size in bytes that jemalloc gives a bin when asked for some pages.

    At least one block must fit, and at most 512 blocks may.

    Source: jemalloc src/sc.c, sc_data_update_sc_slab_size.
    """
    least = -(-block_bytes // page_bytes)
    most = (block_bytes << _LG_SLAB_REGIONS_MAX) // page_bytes
    return min(max(pages, least), most) * page_bytes


def _slabs_are(asked: str, report: ProbeReport) -> bool:
    """Tell whether every bin has the slab asked for, at least one of them unclamped."""
    page = int(report.data["page_size_bytes"])
    match = _SLABS.fullmatch(asked)
    seen = report.of("jemalloc")
    if match is None:
        return False
    pages = int(match["pages"])
    bins = [
        (block, slab)
        for block, slab in zip(seen["bin_block_bytes"], seen["bin_slab_bytes"], strict=True)
        if int(match["low"]) <= block <= int(match["high"])
    ]
    as_asked = all(slab == expected_slab(block, pages, page) for block, slab in bins)
    return as_asked and any(slab == pages * page for _, slab in bins)


def _slab_text(seen: Mapping[str, list[int]], page_bytes: int) -> str:
    """Return "1-14336:P" if P pages per slab explain what all bins have, else say so."""
    blocks, slabs = seen["bin_block_bytes"], seen["bin_slab_bytes"]
    pages = max(slabs) // page_bytes
    pairs = zip(blocks, slabs, strict=True)
    if all(slab == expected_slab(block, pages, page_bytes) for block, slab in pairs):
        return f"1-{blocks[-1]}:{pages}"
    return "slabs of several sizes"
