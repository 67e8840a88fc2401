"""How configurations are emulated: the options of a replay, and the prices that make its cost.

Both are kept in the record of a campaign: numbers of other options or prices cannot be compared.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from tuner.records import Measurement

Interval = tuple[float, float]
"""Lowest and highest plausible value, in this order."""


@dataclass(frozen=True)
class EmulationOptions:
    """How every evaluation of a campaign is run; equal options give comparable numbers."""

    instrument: str = "auto"
    """auto, perf, qemu, cachegrind or none."""
    threads: Literal["baton", "free"] = "baton"
    """baton: deterministic; free: contention and latency, and no instruction count."""
    thp: Literal["never", "keep"] = "keep"
    """Transparent huge pages: as the machine is set, or off."""
    touch: Literal["recorded", "all", "ends", "none", "zeros"] = "recorded"
    """Which pages of a block are written; recorded: those the program touched, all where that is
    not known; zeros: all, every other block with zeros."""
    seed: int = 1
    """Seed of the contents of blocks."""
    timeout_s: float = 60.0
    """CPU seconds of one replay; one that hangs is stopped after ten times as much elapsed time."""
    curve_points: int = 200
    """Points of the heap's curve."""
    with_latency: bool = False
    """Under baton: add a free-running replay for the latency percentiles."""
    count: Literal["all", "needed"] = "all"
    """Which evaluations of a campaign's search count instructions; needed: those that could be
    on the front.  All in campaigns that were begun before the option existed."""
    combine: Literal["mean", "worst"] = "mean"
    """What a figure of several workloads is: their geometric mean, or the worst of them, each
    relative to the baseline's default."""
    seeds: int = 1
    """Traces that are generated of each profile, with other seeds; at least 1."""


@dataclass(frozen=True)
class Calibration:
    """Prices on one machine."""

    c_fault: float
    """Instructions that take as long as one minor page fault, at least 0."""
    c_syscall: float
    """Instructions that take as long as one memory system call, at least 0."""
    ns_per_instruction: float | None = None
    """For the record: nanoseconds of one instruction."""
    c_page: float = 0.0
    """Instructions that take as long as zeroing a page that comes with a huge page, at least 0;
    0 where there are no huge pages, and in campaigns that were begun without this price."""
    c_fault_interval: Interval | None = None
    """Where c_fault lay in the draws; None in campaigns that were begun without it, as below."""
    c_page_interval: Interval | None = None
    c_syscall_interval: Interval | None = None
    n_draws: int | None = None
    """Measurements that the prices are medians of."""
    n_busy: int | None = None
    """Of them, those that were taken while others kept the processors busy."""

    def cost(
        self, instructions: float | None, faults: float, syscalls: float | None, pages: float = 0
    ) -> float | None:
        """Return ``instructions + c_fault * faults + c_page * pages + c_syscall * syscalls``.

        Args:
            instructions: of the allocator.
            faults: minor page faults.
            syscalls: memory system calls.
            pages: that came with a huge page, without a fault of their own.

        Returns:
            None when instructions or system calls were not counted.

        Source: docs/decisions/measuring.md.

        Example:
            >>> Calibration(c_fault=1000.0, c_syscall=500.0).cost(10, 2, 1)
            2510.0
            >>> Calibration(c_fault=1000.0, c_syscall=500.0, c_page=300.0).cost(10, 2, 1, 3)
            3410.0
        """
        if instructions is None or syscalls is None:
            return None
        kernel = self.c_fault * faults + self.c_page * pages + self.c_syscall * syscalls
        return instructions + kernel

    def cost_of(self, counted: Measurement, pages: float = 0) -> float | None:
        """Return the cost of what a measurement counted; `pages` as in `cost`."""
        faults = counted.value("faults")
        return self.cost(counted["instructions"], faults, counted["syscalls"], pages)

    def as_record(self) -> dict[str, object]:
        """Return the prices for JSON; those that are not known are left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def ends(self) -> tuple[Calibration, ...]:
        """Return the prices at the low and at the high ends of their intervals.

        All prices share their divisor, the time of an instruction, so they are low or high
        together.  Empty when an interval is not known.
        """
        intervals = (self.c_fault_interval, self.c_page_interval, self.c_syscall_interval)
        if None in intervals:
            return ()
        sides = zip(*(interval for interval in intervals if interval), strict=True)
        return tuple(
            Calibration(fault, syscall, self.ns_per_instruction, page)
            for fault, page, syscall in sides
        )

    def describe(self) -> str:
        """Return the prices with their intervals in words, for people."""
        pages = _priced(self.c_page, self.c_page_interval)
        parts = [
            f"a page fault costs {_priced(self.c_fault, self.c_fault_interval)} instructions",
            f"a page that comes with a huge one {pages}" if self.c_page else "",
            f"a memory system call {_priced(self.c_syscall, self.c_syscall_interval)}",
        ]
        busy = f", {self.n_busy} of them on a busy machine" if self.n_busy else ""
        drawn = f" (median of {self.n_draws} calibrations{busy})" if self.n_draws else ""
        return ", ".join(filter(None, parts)) + drawn


def _priced(price: float, interval: Interval | None) -> str:
    if interval is None:
        return f"{price:,.0f}"
    return f"{price:,.0f} ({interval[0]:,.0f} to {interval[1]:,.0f})"
