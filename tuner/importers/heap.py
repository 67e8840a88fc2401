"""Turn calls with addresses into events with slots that obey the rules of a trace.

Other tools name blocks by address (or by a number); a trace wants dense slots,
each used again only by the thread that freed it (docs/formats.md).

An address that is allocated while it is live means that a free is missing, or
that two threads were written down in the wrong order.  The block is freed there
and then; if its free follows within `INVERSION_EVENTS`, it was the order, and
the late free is dropped.  If the address is then allocated once more while it is
live, a free was missing: the dropped one was of the block that is freed now.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable
from typing import Any, Final

import numpy as np

from tuner.importers.source import BadCallError
from tuner.trace.file import EVENT, MAX_LIFE_NS, MAX_SIZE, Api, Events, Op

MAX_THREADS: Final = 65536
MAX_ALIGN_LOG2: Final = 40
"""Limits of the format; ``rand_malloc/trace/trace.h``."""

_UNKNOWN: Final = (0, 0, 0)
"""Behind the alignment of an event: no tool records what of a block was touched."""

INVERSION_EVENTS: Final = 1000
_BATCH: Final = 1 << 16
_PAGE_BYTES: Final = 4096
"""Alignment of valloc and pvalloc."""

NULL: Final = 0
"""Name of no block."""

FREES: Final = frozenset({Api.FREE, Api.FREE_SIZED, Api.DELETE, Api.DELETE_ARRAY})
"""Functions that free and return nothing."""
OF_BLOCKS: Final = FREES | {Api.REALLOC}
"""Functions that are given a block."""


class ImportedHeap:
    """The heap of a program whose calls are known one by one."""

    def __init__(self, write: Callable[[Events], None], step_ns: int, seed: int = 1) -> None:
        """Begin with an empty heap.

        Args:
            write: takes the finished events, in order.
            step_ns: time between events as long as `at` is not called.
            seed: of what the file leaves to chance.
        """
        self.seed = seed
        self._write = write
        self._step_ns = step_ns
        self._rows: list[tuple[int, ...]] = []
        self._time_ns = 0
        self._slots: dict[Hashable, int] = {}
        """Live blocks: the tool's name of it -> slot."""
        self._free_slots: defaultdict[int, list[int]] = defaultdict(list)
        """Thread -> slots it freed."""
        self._n_slots = 0
        self._threads: dict[Hashable, int] = {}
        self._early_frees: dict[Hashable, int] = {}
        """Block that was freed because its address came again -> number of the event."""
        self._n_early = 0
        """Such frees whose own one did not come."""
        self._dropped_frees: set[Hashable] = set()
        """Live blocks with a free that was dropped because it seemed to be a late one."""
        self.command = ""
        """Of the program, as a shell would take it; empty if the file lacks it."""
        self.facts: dict[str, Any] = {}
        """What else the metadata say of this import; see docs/formats.md."""
        self.lost: list[str] = []
        """What this file lacks throughout, beside what its format always does; sentences."""
        self.missed: Counter[str] = Counter()
        """How many of what, named in the plural, stand in the file but not in the trace."""
        self.has_times = False
        """True once the file had a time."""
        self.n_events = 0
        """Events so far."""
        self.n_foreign = 0
        """Frees and reallocs of blocks that were never seen; frees are dropped."""
        self.n_inverted = 0
        """Events of different threads in the wrong order, repaired."""

    def at(self, time_ns: int) -> None:
        """Set the clock, in ns since the start; it never goes back."""
        self.has_times = True
        self._time_ns = max(self._time_ns, time_ns)

    def losses(self) -> list[str]:
        """Return what was lost in this file, beside what its format always loses."""
        counts = +self.missed
        counts["frees and reallocs of blocks that were allocated before the start"] = self.n_foreign
        counts["frees missing where an address was allocated again"] = self._n_early
        return [*self.lost, *(f"{what}: {count:,}" for what, count in counts.items() if count)]

    def call(
        self,
        api: Api,
        *,
        old: Hashable = NULL,
        new: Hashable = NULL,
        size: int = 0,
        alignment: int = 0,
        thread: Hashable = 0,
    ) -> None:
        """Take a call of the program.

        Frees of `NULL` are passed over, calls that failed are counted; so are frees of blocks
        that were never seen, and their reallocs, which are allocations.

        Args:
            api: the function.
            old: what a free or a realloc was given: the tool's name of it, usually its address;
                of no matter for other functions.
            new: what the function returned, `NULL` if it failed; may be `old`.
            size: requested bytes.
            alignment: bytes, rounded up to a power of two as allocators do; 0 for an allocation
                without.
            thread: what the tool calls the thread.

        Raises:
            BadCallError: the size, the alignment or the time is impossible, or there are too many
                threads.
        """
        old = old if api in OF_BLOCKS else NULL
        has_old, has_failed = old != NULL, new == NULL
        if api in FREES or (has_failed and has_old and not size):  # realloc(p, 0) is a free
            if has_old:
                self._take_free(old, api, thread)
        elif has_failed:
            self.missed["allocations that failed"] += 1
        else:
            self._take_block(api, old, new, size, alignment, self._lane(thread))

    def _take_block(  # noqa: PLR0917 - those of `call`
        self, api: Api, old: Hashable, new: Hashable, size: int, alignment: int, lane: int
    ) -> None:
        slot = self._slots.pop(old, None)
        self._dropped_frees.discard(old)
        if new in self._slots:
            self._free_early(new, lane)
        op = Op.REALLOC
        if slot is None:
            self.n_foreign += old != NULL
            slot = self._take_slot(lane)
            alignment = _PAGE_BYTES if api in {Api.VALLOC, Api.PVALLOC} else alignment
            op = Op.CALLOC if api is Api.CALLOC else Op.ALIGNED if alignment else Op.MALLOC
        self._slots[new] = slot
        self._add(op, api, slot, lane, _size(size), _log2(alignment))

    def _take_free(self, block: Hashable, api: Api, thread: Hashable) -> None:
        since = self._early_frees.get(block)
        if since is not None and self.n_events - since <= INVERSION_EVENTS:
            del self._early_frees[block]
            self._n_early -= 1
            self.n_inverted += 1
            if block in self._slots:
                self._dropped_frees.add(block)
        elif block in self._slots:
            self._free(block, self._lane(thread), api)
        else:
            self.n_foreign += 1

    def _free_early(self, block: Hashable, lane: int) -> None:
        """Free a live block whose address comes again."""
        was_freed = block in self._dropped_frees
        self._free(block, lane, Api.FREE)
        self._n_early += 1
        if was_freed:
            self.n_inverted -= 1
        else:
            self._early_frees[block] = self.n_events

    def _free(self, block: Hashable, lane: int, api: Api) -> None:
        slot = self._slots.pop(block)
        self._dropped_frees.discard(block)
        self._free_slots[lane].append(slot)
        self._add(Op.FREE, api, slot, lane)

    def _take_slot(self, lane: int) -> int:
        if self._free_slots[lane]:
            return self._free_slots[lane].pop()
        self._n_slots += 1
        return self._n_slots - 1

    def _lane(self, thread: Hashable) -> int:
        """Return the number of a thread, which starts with its first call."""
        lane = self._threads.get(thread)
        if lane is None:
            lane = self._threads[thread] = len(self._threads)
            if lane >= MAX_THREADS:
                raise BadCallError(f"more than {MAX_THREADS} threads")
            if lane:
                self._add(Op.THREAD_START, Api.THREAD, 0, lane)
        return lane

    def _add(  # noqa: PLR0917 - the fields of an event
        self, op: Op, api: Api, slot: int, lane: int, size: int = 0, align_log2: int = 0
    ) -> None:
        if self._time_ns > MAX_LIFE_NS:
            raise BadCallError(
                f"{self._time_ns / 1e9:.0f} s since the start: no program runs that long"
            )
        self._rows.append((self._time_ns, size, slot, lane, lane, op, api, align_log2, *_UNKNOWN))
        self.n_events += 1
        if not self.has_times:
            self._time_ns += self._step_ns
        if len(self._rows) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Hand over the events that are still held back."""
        if self._rows:
            self._write(np.array(self._rows, EVENT))
            self._rows = []


def _size(size: int) -> int:
    if not 0 <= size <= MAX_SIZE:
        raise BadCallError(f"{size} bytes: no block is that large")
    return size


def _log2(alignment: int) -> int:
    log2 = max(0, alignment - 1).bit_length()
    if log2 > MAX_ALIGN_LOG2:
        raise BadCallError(f"alignment {alignment}: the greatest is 2^{MAX_ALIGN_LOG2}")
    return log2
