"""What a simulated machine counted while a program ran, and the objectives made of it.

Misses are those that demand accesses of the cores caused and that asked the next level for a
line: further accesses to a line that is already on its way, and prefetches, are not among them.
So they compare with hardware counters of lines brought in.  Cycles are elapsed cycles of
the machine's clock, whatever each core did.

Source: gem5, src/mem/cache/base.cc (demandMshrMisses), src/arch/x86/tlb.cc,
src/mem/mem_interface.cc, src/mem/coherent_xbar.cc (snoopTraffic); names of requestors,
src/cpu/base.cc.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tuner.errors import ProgramError, SpecError
from tuner.measure.gem5_stats import Statistics

_THOUSAND = 1000.0
_LINE_BYTES = 64


@dataclass(frozen=True)
class Counts:
    """Counts of one run, or the difference of two.  What a machine has none of is None."""

    instructions: int
    """Committed, over all cores."""
    cycles: int
    """Elapsed."""
    l1d_misses: int | None
    l1i_misses: int | None
    l2_misses: int | None
    """Of data and instructions."""
    l3_misses: int | None
    dtlb_misses: int | None
    itlb_misses: int | None
    dram_bytes: int | None
    """Read from and written to memory."""
    lines_moved: int | None = None
    """Sent from the caches of one core to those of another; None in older journals."""

    def minus(self, start: Counts) -> Counts:
        """Return what a run counted beyond its start.

        Raises:
            ProgramError: the start took more instructions or cycles than the whole.
        """
        mine, theirs = asdict(self), asdict(start)
        # A later run may find in a cache what the start alone had to fetch at its end.
        found: dict[str, Any] = {
            name: None if None in (mine[name], theirs[name]) else max(mine[name] - theirs[name], 0)
            for name in mine
        }
        if self.instructions <= start.instructions or self.cycles <= start.cycles:
            message = (
                f"the start alone takes {start.instructions} instructions in {start.cycles} cycles,"
                f" the whole run {self.instructions} in {self.cycles}; give the program more to do"
            )
            raise ProgramError(message)
        return Counts(**found)


@dataclass(frozen=True)
class InsideObjective:
    """One number of a program inside a machine, against which a campaign is validated."""

    name: str
    label: str
    """For table heads."""
    extract: Callable[[Counts], float | None]
    more_is_better: bool = False
    digits: int = 2
    """After the point."""
    divisor: float = 1.0
    """What a value is divided by for the unit in `label`."""

    def show(self, counts: Counts) -> str:
        """Write the value in the unit of the label; a dash when the machine has none."""
        value = self.extract(counts)
        return "-" if value is None else f"{value / self.divisor:,.{self.digits}f}"


def _per_thousand(name: str) -> Callable[[Counts], float | None]:
    def extract(counts: Counts) -> float | None:
        value: int | None = getattr(counts, name)
        return None if value is None else value * _THOUSAND / counts.instructions

    return extract


INSIDE_OBJECTIVES: Mapping[str, InsideObjective] = {
    objective.name: objective
    for objective in (
        InsideObjective("l1d_mpki", "L1D MPKI", _per_thousand("l1d_misses")),
        InsideObjective("l1i_mpki", "L1I MPKI", _per_thousand("l1i_misses")),
        InsideObjective("l2_mpki", "L2 MPKI", _per_thousand("l2_misses")),
        InsideObjective("l3_mpki", "L3 MPKI", _per_thousand("l3_misses")),
        InsideObjective("dtlb_mpki", "DTLB MPKI", _per_thousand("dtlb_misses")),
        InsideObjective("itlb_mpki", "ITLB MPKI", _per_thousand("itlb_misses")),
        InsideObjective(
            "l1d_misses", "k L1D misses", lambda c: c.l1d_misses, digits=1, divisor=_THOUSAND
        ),
        InsideObjective(
            "l2_misses", "k L2 misses", lambda c: c.l2_misses, digits=1, divisor=_THOUSAND
        ),
        InsideObjective(
            "dram_bytes", "DRAM, KiB", lambda c: c.dram_bytes, digits=0, divisor=1024.0
        ),
        InsideObjective("lines_moved", "lines moved", lambda c: c.lines_moved, digits=0),
        InsideObjective(
            "ipc", "IPC", lambda c: c.instructions / c.cycles, more_is_better=True, digits=3
        ),
        InsideObjective(
            "instructions", "k instr.", lambda c: c.instructions, digits=0, divisor=_THOUSAND
        ),
        InsideObjective("cycles", "k cycles", lambda c: c.cycles, digits=0, divisor=_THOUSAND),
    )
}
"""Every objective by name, in the order of tables."""


def find_inside_objective(name: str) -> InsideObjective:
    """Return the objective of that name.

    Raises:
        SpecError: there is none.
    """
    if name not in INSIDE_OBJECTIVES:
        allowed = ", ".join(INSIDE_OBJECTIVES)
        message = f"{name!r} is no objective inside a simulated machine; allowed: {allowed}"
        raise SpecError(message)
    return INSIDE_OBJECTIVES[name]


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
    return Counts(
        instructions=int(instructions),
        cycles=round(ticks / period),
        l1d_misses=_cache_misses(statistics, "l1dcaches"),
        l1i_misses=_cache_misses(statistics, "l1icaches"),
        l2_misses=_cache_misses(statistics, "l2caches"),
        l3_misses=_cache_misses(statistics, "l3cache"),
        dtlb_misses=_sum(statistics, r"board\.processor\..*\.mmu\.dtb\.(rd|wr)Misses"),
        itlb_misses=_sum(statistics, r"board\.processor\..*\.mmu\.itb\.(rd|wr)Misses"),
        dram_bytes=_sum(statistics, r"board\.memory\.(.*\.)?bytes(Read|Written)::total"),
        lines_moved=_lines_moved(statistics),
    )


def _lines_moved(statistics: Statistics) -> int | None:
    """Return the lines that one core's caches answered with to another's; None on one core."""
    if statistics.number("board.processor.cores1.core.numCycles") is None:
        return None
    moved_bytes = _sum(statistics, r"board\.cache_hierarchy\.(membus|l3bus)\.snoopTraffic")
    return None if moved_bytes is None else moved_bytes // _LINE_BYTES


def _cache_misses(statistics: Statistics, level: str) -> int | None:
    """Sum the lines that the cores' own accesses asked for, over all caches of a level."""
    name = rf"board\.cache_hierarchy\.{level}\d*\.demandMshrMisses::processor\..*"
    found = _sum(statistics, name)
    has_level = any(n.startswith(f"board.cache_hierarchy.{level}") for n in statistics.values)
    return 0 if found is None and has_level else found


def _sum(statistics: Statistics, pattern: str) -> int | None:
    """Sum all statistics of matching names; None when there is none."""
    values = list(_matching(statistics, re.compile(pattern)))
    return round(sum(values)) if values else None


def _matching(statistics: Statistics, pattern: re.Pattern[str]) -> Iterator[float]:
    for name in statistics.values:
        value = statistics.number(name) if pattern.fullmatch(name) else None
        if value is not None:
            yield value
