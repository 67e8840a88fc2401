"""glibc malloc: configured by GLIBC_TUNABLES, read back from the loader and by its behaviour.

``ld.so --list-tunables`` shows what the loader accepted.  It is the truth for most
thresholds and arenas, but it also shows values that malloc refuses afterwards (tcache_count,
tcache_max, mxfast, mmap_threshold before 2.35), so those are taken from what the probe
observed.  Values outside the range that the loader declares are dropped by it and therefore
differ in the list.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tuner.allocators.base import Allocator, Mismatch
from tuner.allocators.probe import ProbeReport, Tunable, list_tunables, run_probe
from tuner.config import parse_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.records import Configuration, Value

_PREFIX: Final = "glibc.malloc."
_NEVER: Final = 2**64 - 1
"""How the loader prints -1, "never", of a size."""
_CHUNK_HEADER: Final = 8
_CHUNK_MIN: Final = 32
_CHUNK_ALIGN: Final = 16
"""Layout of chunks on 64-bit machines.  Source: glibc malloc/malloc.c, MALLOC_ALIGNMENT."""
_HUGE_PAGE_BYTES: Final = 2 << 20
_PROBED_LG: Final = range(12, 31)
"""log2 of the blocks with which the probe looks for the mmap threshold."""
_SMALL_TCACHE_MAX: Final = 1032
_LARGE_TCACHE_SINCE: Final = "2.42"
_FREEZING: Final = frozenset({"top_pad", "trim_threshold", "mmap_threshold"})
"""Settings that switch the dynamic thresholds off merely by being set."""
_HUGE_PAGES: Final = "glibc.malloc.hugetlb=1"
_CHANCES: Final = 8
"""Runs in which hugetlb=1 may show its effect: glibc 2.36 compares the machine's mode with a
text whose last byte it did not write, so that it takes effect or not by what lay on the stack."""
_LISTED: Final = (
    "trim_threshold",
    "mmap_threshold",
    "top_pad",
    "tcache_unsorted_limit",
    "arena_max",
    "hugetlb",
)
"""Settings for which the loader's list is the truth."""


class Glibc(Allocator):
    """Adapter of the C library's own malloc; the library is the running system's."""

    def observe(self, environment: Mapping[str, str]) -> ProbeReport:
        """Run the probe, and add what the loader says it accepted."""
        report = run_probe(environment)
        for _ in range(_CHANCES):
            if _HUGE_PAGES not in environment.get("GLIBC_TUNABLES", "") or _has_huge_end(report):
                break
            report = run_probe(environment)
        tunables = list_tunables(report.data["loader"], environment)
        listed = {
            name.removeprefix(_PREFIX): tunable
            for name, tunable in tunables.items()
            if name.startswith(_PREFIX)
        }
        return replace(report, data={**report.data, "tunables": listed})

    def version_of(self, report: ProbeReport) -> str:
        """Return the version of the C library, if its malloc is in use."""
        return str(report.data["glibc_version"]) if report.of("glibc") else ""

    def effective(self, report: ProbeReport) -> dict[str, Value]:
        """Return listed and observed values; ``dynamic``: whether thresholds move."""
        seen, listed = report.of("glibc"), report.of("tunables")
        values: dict[str, Value] = {
            name: _signed(listed[name]) for name in _LISTED if name in listed
        }
        values |= _refused_mmap_threshold(report)
        if seen.get("top_after_growth_bytes") is not None:
            values["top_pad"] = _top_pad(report)
        if seen["tcache_count"] is not None:
            values["tcache_count"] = seen["tcache_count"]
        values["tcache_max"] = seen["tcache_max_bytes"]
        values["mxfast"] = max(0, seen["fast_chunk_max_bytes"] - _CHUNK_HEADER)
        values["dynamic"] = seen["dynamic"]
        if "hugetlb" in values:
            values["hugetlb"] = int(_has_huge_end(report))
        return values

    def agrees(self, setting: str, asked: Value, effective: Value, report: ProbeReport) -> bool:
        """Compare as malloc rounds: to chunks of 16 bytes and to whole pages."""
        asked_number = int(asked)
        if setting == "mxfast":
            chunk = (asked_number + _CHUNK_HEADER) // _CHUNK_ALIGN * _CHUNK_ALIGN
            largest: int = report.of("glibc")["fast_chunk_max_bytes"]
            return largest == (chunk if chunk >= _CHUNK_MIN else 0)
        if setting == "tcache_max":
            return self._tcache_max_agrees(asked_number, int(effective), report)
        if setting in _LISTED:
            is_listed = _accepted(report.of("tunables").get(setting), asked_number)
            return is_listed and self._behaves(setting, asked_number, report)
        return asked == effective

    def mismatches(self, configuration: Configuration, report: ProbeReport) -> list[Mismatch]:
        """Compare every setting, and check that static thresholds really are static."""
        problems = super().mismatches(configuration, report)
        freezing = [(n, v) for n, v in configuration.settings if n in _FREEZING]
        if freezing and not problems and self.effective(report)["dynamic"]:
            name, value = freezing[0]
            problems.append(Mismatch(name, value, "the dynamic threshold"))
        return problems

    def _behaves(self, setting: str, asked: int, report: ProbeReport) -> bool:
        """Check what the list does not separate: 0 from unset, huge pages from a dead switch."""
        seen = report.of("glibc")
        if setting == "hugetlb":  # reserved huge pages, modes from 2 on, are no resident memory
            return asked == int(_has_huge_end(report))
        if setting == "top_pad" and seen["top_after_growth_bytes"] is not None:
            surplus: int = seen["top_after_growth_bytes"] - _CHUNK_MIN - asked
            step = int(report.data["page_size_bytes"])
            return 0 <= surplus < (_HUGE_PAGE_BYTES if _has_huge_steps(report) else step)
        return setting != "mmap_threshold" or not _refused_mmap_threshold(report)

    def _tcache_max_agrees(self, asked: int, effective: int, report: ProbeReport) -> bool:
        if report.of("glibc")["tcache_count"] == 0:
            return asked <= _SMALL_TCACHE_MAX  # off: nothing to observe, malloc's own check
        chunk = -(-(asked + _CHUNK_HEADER) // _CHUNK_ALIGN) * _CHUNK_ALIGN
        if asked <= _SMALL_TCACHE_MAX:
            return chunk >= _CHUNK_MIN and effective == chunk - _CHUNK_HEADER
        # Large bins: blocks above the mmap threshold cannot be observed, smaller ones can.
        has_large = parse_version(self.version_of(report)) >= parse_version(_LARGE_TCACHE_SINCE)
        return has_large and effective > _SMALL_TCACHE_MAX


def _signed(tunable: Tunable) -> int:
    return -1 if tunable.value == _NEVER else tunable.value


def _accepted(tunable: Tunable | None, asked: int) -> bool:
    """Return whether the loader took a value; -1 means the greatest size."""
    if tunable is None:
        return False
    wanted = _NEVER if asked == -1 else asked
    return tunable.value == wanted and tunable.minimum <= wanted <= tunable.maximum


def _refused_mmap_threshold(report: ProbeReport) -> dict[str, Value]:
    """Return the threshold that was observed, to a power of two, if the listed one is not in use.

    Source: glibc 2.34 malloc/malloc.c, do_set_mmap_threshold and sysmalloc.
    """
    listed = report.of("tunables").get("mmap_threshold")
    observed: int | None = report.of("glibc")["least_mmapped_power_of_two"]
    if not listed or not listed.value or observed is None:
        return {}
    blocks = (1 << lg for lg in _PROBED_LG)
    expected = next((block for block in blocks if block + _CHUNK_ALIGN >= listed.value), None)
    return {} if observed == expected else {"mmap_threshold": observed}


def _has_huge_end(report: ProbeReport) -> bool:
    return report.of("glibc").get("heap_end_is_huge_page_aligned") is True


def _has_huge_steps(report: ProbeReport) -> bool:
    tunable = report.of("tunables").get("hugetlb")
    return tunable is not None and tunable.value == 1


def _top_pad(report: ProbeReport) -> int:
    """Return the pad in whole pages; the listed one where the heap grows in huge pages."""
    if _has_huge_steps(report):
        return int(report.of("tunables")["top_pad"].value)
    page = int(report.data["page_size_bytes"])
    left: int = report.of("glibc")["top_after_growth_bytes"] - _CHUNK_MIN
    return left // page * page
