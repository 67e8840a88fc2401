"""What a simulated machine counted while a program ran, and the metrics made of it.

Misses are those that demand accesses of the cores caused and that asked the next level for a
line: further accesses to a line that is already on its way, and prefetches, are not among them.
So they compare with hardware counters of lines brought in.  Cycles are elapsed cycles of
the machine's clock, whatever each core did; instructions are committed, over all cores.

Source: gem5, src/mem/cache/base.cc (demandMshrMisses), src/arch/x86/tlb.cc,
src/mem/mem_interface.cc, src/mem/coherent_xbar.cc (snoopTraffic); names of requestors,
src/cpu/base.cc.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from tuner.errors import ProgramError, SpecError
from tuner.measure.gem5_stats import Statistics
from tuner.metrics import INSIDE

Counts = Mapping[str, int | None]
"""Counts of one run, or the difference of two, by name.  What a machine has none of is None;
``lines_moved``, sent from the caches of one core to those of another, is absent in older journals.
"""

_CACHES: Final = {
    "l1d_misses": "l1dcaches", "l1i_misses": "l1icaches", "l2_misses": "l2caches",
    "l3_misses": "l3cache",
}  # fmt: skip
_SUMS: Final = {
    "dtlb_misses": r"board\.processor\..*\.mmu\.dtb\.(rd|wr)Misses",
    "itlb_misses": r"board\.processor\..*\.mmu\.itb\.(rd|wr)Misses",
    "dram_bytes": r"board\.memory\.(.*\.)?bytes(Read|Written)::total",
}
_MOVED: Final = r"board\.cache_hierarchy\.(membus|l3bus)\.snoopTraffic"
_LINE_BYTES: Final = 64


def counts_of(statistics: Statistics) -> Counts:
    """Return what a run counted.

    Raises:
        ProgramError: the statistics lack instructions or time: no processor was simulated.
    """
    instructions = statistics.number("simInsts")
    ticks, period = statistics.number("simTicks"), statistics.number("board.clk_domain.clock")
    if not instructions or not ticks or not period:
        message = "stats.txt: holds no instructions or no time; was a processor simulated?"
        raise ProgramError(message)
    has_cores = statistics.number("board.processor.cores1.core.numCycles") is not None
    moved_bytes = _sum(statistics, _MOVED) if has_cores else None
    return {
        "instructions": int(instructions),
        "cycles": round(ticks / period),
        **{name: _cache_misses(statistics, level) for name, level in _CACHES.items()},
        **{name: _sum(statistics, pattern) for name, pattern in _SUMS.items()},
        "lines_moved": None if moved_bytes is None else moved_bytes // _LINE_BYTES,
    }


def beyond(whole: Counts, start: Counts) -> Counts:
    """Return what a run counted beyond its start.

    Raises:
        ProgramError: the start took no fewer instructions or cycles than the whole.
    """
    # A later run may find in a cache what the start alone had to fetch at its end.
    found = {
        name: None if value is None or (below := start.get(name)) is None else max(value - below, 0)
        for name, value in whole.items()
    }
    if not found["instructions"] or not found["cycles"]:
        message = (
            f"the start alone takes {start['instructions']} instructions in {start['cycles']} "
            f"cycles, the whole run {whole['instructions']} in {whole['cycles']}; give the program "
            "more to do"
        )
        raise ProgramError(message)
    return found


def metric_values(counts: Counts, start: Counts) -> dict[str, float | None]:
    """Return the values of all metrics of `INSIDE`, by name.

    Args:
        counts: beyond the start.
        start: what was subtracted.
    """
    instructions, cycles = counts["instructions"] or 0, counts["cycles"] or 0
    per_thousand = {
        name.replace("_misses", "_mpki"): None if n is None else n * 1000.0 / instructions
        for name, n in counts.items()
        if name.endswith("_misses")
    }
    found = {
        **counts,
        **per_thousand,
        "ipc": instructions / cycles,
        "start": start["instructions"],
    }
    return {name: found.get(name) for name in INSIDE}


def check_objectives(names: Iterable[str]) -> None:
    """Refuse what is no metric of programs inside.

    Raises:
        SpecError: one is none.
    """
    for name in names:
        if name not in INSIDE:
            allowed = ", ".join(INSIDE)
            message = f"{name!r} is no objective inside a simulated machine; allowed: {allowed}"
            raise SpecError(message)


def _cache_misses(statistics: Statistics, level: str) -> int | None:
    """Sum the lines that the cores' own accesses asked for, over all caches of a level."""
    part = f"board.cache_hierarchy.{level}"
    if not any(name.startswith(part) for name in statistics.values):
        return None
    # A level that misses nothing has other statistics.
    return _sum(statistics, rf"{re.escape(part)}\d*\.demandMshrMisses::processor\..*") or 0


def _sum(statistics: Statistics, pattern: str) -> int | None:
    """Sum all statistics of matching names; None when there is none."""
    names = filter(re.compile(pattern).fullmatch, statistics.values)
    values = [value for name in names if (value := statistics.number(name)) is not None]
    return round(sum(values)) if values else None
