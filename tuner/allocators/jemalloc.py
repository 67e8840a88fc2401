"""jemalloc: configured by MALLOC_CONF, read back by mallctl.

A search adds abort_conf:true, which makes jemalloc stop at anything it does not
understand; an exported file must not carry it, because an upgrade that drops an option
would then stop the service.

opt.* shows most values after clipping, but echoes some wishes: those are read where they
act (`_WHERE_IT_ACTS`, narenas, tcache_max) or follow from the wish by jemalloc's arithmetic.
slab_sizes has no option to read; the slab of every bin shows its effect.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tuner.allocators.base import Allocator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.allocators.probe import ProbeReport
    from tuner.records import Value

_LEAST_CLASS: Final = 8
"""Least size class, in bytes.  Source: jemalloc(3), SIZE CLASSES."""
_LG_SLAB_REGIONS_MAX: Final = 9
"""log2 of the greatest number of blocks in a slab: page (2^12) over least block (2^3).
Source: jemalloc include/jemalloc/internal/sc.h, SC_LG_SLAB_MAXREGS."""

_LEAST_SLOTS: Final = 2
"""Of a small size in the thread cache; the number is even.  Source: jemalloc src/tcache.c,
tcache_ncached_max_compute."""
_MOST_DELAY_ITEMS: Final = 255
"""Blocks of a size by which the clean-up of a thread cache can be delayed.  Source: jemalloc
src/tcache.c, tcache_gc_item_delay_compute."""
_WHERE_IT_ACTS: Final = {
    "background_thread": "background_thread",
    "dirty_decay_ms": "arenas.dirty_decay_ms",
    "muzzy_decay_ms": "arenas.muzzy_decay_ms",
    "tcache": "thread.tcache.enabled",
    "tcache_max": "arenas.tcache_max",
}
"""Setting -> name of mallctl with the value in use."""

_SLABS = re.compile(r"(?P<low>\d+)-(?P<high>\d+):(?P<pages>\d+)")


class Jemalloc(Allocator):
    """Adapter of jemalloc 5."""

    def version_of(self, report: ProbeReport) -> str:
        """Return the version without the commit: 5.3.0."""
        return str(report.of("jemalloc").get("version", "")).partition("-")[0]

    def effective(self, report: ProbeReport) -> dict[str, Value]:
        """Return every option with the value in use; slab_sizes as one text for all bins."""
        seen = report.of("jemalloc")
        values: dict[str, Value] = {
            k.removeprefix("opt."): v for k, v in seen.items() if k.startswith("opt.")
        }
        values |= {name: seen[key] for name, key in _WHERE_IT_ACTS.items() if key in seen}
        values |= _computed(values, max(seen["bin_block_bytes"]))
        if "arenas.narenas" in seen and values.get("percpu_arena") == "disabled":
            has_huge_arena = bool(values.get("oversize_threshold"))
            values["narenas"] = seen["arenas.narenas"] - has_huge_arena
        slabs = _slab_text(seen, int(report.data["page_size_bytes"]))
        return {**values, "slab_sizes": slabs}

    def agrees(self, setting: str, asked: Value, effective: Value, report: ProbeReport) -> bool:
        """Compare slab sizes bin by bin, of which a wish may concern some, and size classes."""
        if setting == "slab_sizes":
            return _slabs_are(str(asked), report)
        if setting == "tcache_max":
            return int(asked) >= _LEAST_CLASS and size_class(int(asked)) == effective
        return super().agrees(setting, asked, effective, report)


def size_class(n_bytes: int) -> int:
    """Return the size class that holds a request.

    Source: jemalloc(3), SIZE CLASSES: four classes per doubling, at least 16 bytes apart.

    Example:
        >>> size_class(4000), size_class(8), size_class(150)
        (4096, 8, 160)
    """
    if n_bytes <= _LEAST_CLASS:
        return _LEAST_CLASS
    step = max(16, 1 << ((n_bytes - 1).bit_length() - 3))
    return -(-n_bytes // step) * step


def _computed(values: Mapping[str, Value], largest_small: int) -> dict[str, Value]:
    """Return what jemalloc makes of options that mallctl only repeats.

    Args:
        values: options by name.
        largest_small: greatest block that has a bin, in bytes.
    """
    found: dict[str, Value] = {}
    for name in ("tcache_nslots_small_max", "tcache_nslots_small_min"):
        if name in values:
            odd = int(values[name]) % 2
            even = int(values[name]) + (odd if name.endswith("min") else -odd)
            found[name] = max(_LEAST_SLOTS, even)
    delay = int(values.get("tcache_gc_delay_bytes", 0))
    if delay // largest_small > _MOST_DELAY_ITEMS:
        found["tcache_gc_delay_bytes"] = _MOST_DELAY_ITEMS * largest_small
    elif delay < _LEAST_CLASS:
        found["tcache_gc_delay_bytes"] = 0
    return found


def expected_slab(block_bytes: int, pages: int, page_bytes: int) -> int:
    """Return the slab size in bytes that jemalloc gives a bin when asked for some pages.

    At least one block must fit, and at most 512 blocks may.

    Source: jemalloc src/sc.c, sc_data_update_sc_slab_size.
    """
    least = -(-block_bytes // page_bytes)
    most = (block_bytes << _LG_SLAB_REGIONS_MAX) // page_bytes
    return min(max(pages, least), most) * page_bytes


def _slabs_are(asked: str, report: ProbeReport) -> bool:
    """Return whether every bin has the slab asked for, and one of each number of pages unclamped.

    Args:
        asked: ranges of block sizes, joined by ``|``; a later one wins where two meet.
        report: what the probe saw.
    """
    page = int(report.data["page_size_bytes"])
    ranges = [_SLABS.fullmatch(text) for text in asked.split("|")]
    seen = report.of("jemalloc")
    slabs = dict(zip(seen["bin_block_bytes"], seen["bin_slab_bytes"], strict=True))
    wanted: dict[int, int] = {}
    for match in ranges:
        if match is None:
            return False
        low, high, pages = (int(match[name]) for name in ("low", "high", "pages"))
        wanted |= {block: pages for block in slabs if low <= block <= high}
    as_asked = all(slabs[b] == expected_slab(b, pages, page) for b, pages in wanted.items())
    shown = {pages for block, pages in wanted.items() if slabs[block] == pages * page}
    return as_asked and bool(wanted) and shown == {*wanted.values()}


def _slab_text(seen: Mapping[str, list[int]], page_bytes: int) -> str:
    """Return "1-14336:P" if P pages per slab explain what all bins have, else say so."""
    blocks, slabs = seen["bin_block_bytes"], seen["bin_slab_bytes"]
    pages = max(slabs) // page_bytes
    pairs = zip(blocks, slabs, strict=True)
    if all(slab == expected_slab(block, pages, page_bytes) for block, slab in pairs):
        return f"1-{blocks[-1]}:{pages}"
    return "slabs of several sizes"
