"""One to three levels of classic caches, each core with its own L1 and L2, the L3 shared.

    core - L1I, L1D - bus - L2 - bus - L3 - memory bus - memory

Page walks enter below the L1 caches, at the L2 where there is one.
"""

from __future__ import annotations

from dataclasses import dataclass

import m5.objects
from gem5.components.boards.abstract_board import AbstractBoard
from gem5.components.cachehierarchies.classic.abstract_classic_cache_hierarchy import (
    AbstractClassicCacheHierarchy,
)
from gem5.isas import ISA
from m5.objects import BadAddr, Cache, L2XBar, Port, SystemXBar

_TARGETS_PER_MSHR = 20
"""Accesses that may wait for one outstanding line, as in gem5's own cache classes."""


@dataclass(frozen=True)
class CacheSpec:
    """One cache."""

    size: str
    """With its unit: ``32KiB``; size / 64 / assoc must be a power of two."""
    assoc: int
    latency: int
    """Cycles of a hit."""
    mshrs: int
    """Lines that may be outstanding."""
    prefetcher: str
    """Class of gem5; empty for none."""

    def build(self) -> Cache:
        """Return a new cache of gem5."""
        cache = Cache(
            size=self.size,
            assoc=self.assoc,
            tag_latency=self.latency,
            data_latency=self.latency,
            response_latency=1,
            mshrs=self.mshrs,
            tgts_per_mshr=_TARGETS_PER_MSHR,
        )
        if self.prefetcher:
            cache.prefetcher = getattr(m5.objects, self.prefetcher)()
        return cache


class ClassicCaches(AbstractClassicCacheHierarchy):
    """The hierarchy of a board."""

    def __init__(self, levels: dict[str, CacheSpec]) -> None:
        """Keep the levels: l1i, l1d, and perhaps l2 and l3."""
        super().__init__()
        self._levels = dict(levels)
        self.membus = SystemXBar(width=64)
        self.membus.badaddr_responder = BadAddr()
        self.membus.default = self.membus.badaddr_responder.pio
        self.membus.max_routing_table_size = 2048

    def get_mem_side_port(self) -> Port:
        """Return the ports towards memory."""
        return self.membus.mem_side_ports

    def get_cpu_side_port(self) -> Port:
        """Return the ports towards the cores."""
        return self.membus.cpu_side_ports

    def incorporate_cache(self, board: AbstractBoard) -> None:
        """Put the caches between the cores and the memory of a board."""
        board.connect_system_port(self.membus.cpu_side_ports)
        for _, port in board.get_memory().get_mem_ports():
            self.membus.mem_side_ports = port
        shared = self._shared_bus()
        cores = board.get_processor().get_cores()
        self.l1icaches = [self._levels["l1i"].build() for _ in cores]
        self.l1dcaches = [self._levels["l1d"].build() for _ in cores]
        below = [shared] * len(cores)
        if "l2" in self._levels:
            self.l2caches = [self._levels["l2"].build() for _ in cores]
            self.l2buses = [L2XBar() for _ in cores]
            for cache, bus in zip(self.l2caches, self.l2buses):  # noqa: B905 - strict= is Python 3.10's
                bus.mem_side_ports = cache.cpu_side
                shared.cpu_side_ports = cache.mem_side
            below = list(self.l2buses)
        for index, core in enumerate(cores):
            bus = below[index]
            core.connect_icache(self.l1icaches[index].cpu_side)
            core.connect_dcache(self.l1dcaches[index].cpu_side)
            self.l1icaches[index].mem_side = bus.cpu_side_ports
            self.l1dcaches[index].mem_side = bus.cpu_side_ports
            core.connect_walker_ports(bus.cpu_side_ports, bus.cpu_side_ports)
            if board.get_processor().get_isa() == ISA.X86:
                core.connect_interrupt(self.membus.mem_side_ports, self.membus.cpu_side_ports)
            else:
                core.connect_interrupt()

    def _shared_bus(self) -> L2XBar | SystemXBar:
        """Return the bus below what each core has alone."""
        if "l3" not in self._levels:
            return self.membus
        self.l3bus = L2XBar()
        self.l3cache = self._levels["l3"].build()
        self.l3bus.mem_side_ports = self.l3cache.cpu_side
        self.membus.cpu_side_ports = self.l3cache.mem_side
        return self.l3bus
