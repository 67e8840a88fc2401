"""gperftools tcmalloc: configured by TCMALLOC_* variables, read back by its extension interface.

The thread-cache limit and aggressive decommit have readers.  The release rate and the brk
switch are read from the library's flag variables; a build that hides those leaves them
unproven.  The transfer batch is measured, up to 64 objects; beyond, "at least 64".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tuner.allocators.base import Allocator

if TYPE_CHECKING:
    from tuner.allocators.probe import ProbeReport
    from tuner.records import Value

_BATCH_SEEN_MAX: Final = 64
"""Greatest transfer batch the probe can see: 64 KiB of 1024-byte blocks."""


class Tcmalloc(Allocator):
    """Adapter of gperftools' minimal tcmalloc."""

    def version_of(self, report: ProbeReport) -> str:
        """Return the version in "gperftools 2.10"."""
        return str(report.of("tcmalloc").get("version", "")).removeprefix("gperftools").strip()

    def effective(self, report: ProbeReport) -> dict[str, Value]:
        """Return properties, visible flags and the measured batch."""
        seen = report.of("tcmalloc")
        values: dict[str, Value | None] = {
            "max_total_thread_cache_bytes": seen["tcmalloc.max_total_thread_cache_bytes"],
            "aggressive_decommit": bool(seen["tcmalloc.aggressive_memory_decommit"]),
            "transfer_num_obj": seen["transfer_batch"],
            "release_rate": seen["release_rate"],
            "skip_sbrk": seen["skip_sbrk"],
        }
        return {name: value for name, value in values.items() if value is not None}

    def agrees(self, setting: str, asked: Value, effective: Value, report: ProbeReport) -> bool:
        """Compare batches only as far as they can be seen."""
        del report
        if setting == "transfer_num_obj":
            return min(int(asked), _BATCH_SEEN_MAX) == effective
        return asked == effective
