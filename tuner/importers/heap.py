"""Turn calls with addresses into events with slots that obey the rules of a trace.

Other tools name blocks by address (or by a number); a trace wants dense slots,
each used again only by the thread that freed it (docs/formats.md).

An address that is allocated while it is live means that a free is missing, or
that two threads were written down in the wrong order.  The block is freed there
and then; if its free follows within `INVERSION_EVENTS`, it was the order, and
the late free is dropped.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Hashable
from typing import Final

import numpy as np

from tuner.importers.source import BadCallError
from tuner.trace.file import EVENT, Api, Events, Op

MAX_SIZE: Final = 1 << 47
MAX_THREADS: Final = 65536
MAX_ALIGN_LOG2: Final = 40
"""Limits of the format; ``rand_malloc/trace/trace.h``."""

MAX_COMMAND: Final = 2000
"""Characters of a command that are kept."""

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
        self._n_written = 0
        self._time_ns = 0
        self._slots: dict[Hashable, int] = {}
        """Live blocks: the tool's name of it -> slot."""
        self._free_slots: dict[int, list[int]] = {}
        """Thread -> slots it freed."""
        self._n_slots = 0
        self._threads: dict[Hashable, int] = {}
        self._early_frees: dict[Hashable, int] = {}
        """Block that was freed because its address came again -> number of the event."""
        self._also_lost: dict[str, int] = {}
        self._lost_by_all: list[str] = []
        self.argv: tuple[str, ...] = ()
        """Command of the program, if the file has it."""
        self.figures: dict[str, int] = {}
        """What the program that the file is for would print, if that is known."""
        self.has_times = False
        """True once the file had a time."""
        self.n_foreign = 0
        """Frees and reallocs of blocks that were never seen; frees are dropped."""
        self.n_inverted = 0
        """Events of different threads in the wrong order, repaired."""

    @property
    def n_events(self) -> int:
        """Events so far."""
        return self._n_written + len(self._rows)

    def take_command(self, text: str) -> None:
        """Take the command of the program, as a shell would; what is too long is left out."""
        self.argv = tuple(split_command(text))

    def at(self, time_ns: int) -> None:
        """Set the clock, in ns since the start; it never goes back."""
        self.has_times = True
        self._time_ns = max(self._time_ns, time_ns)

    def lose(self, what: str, n: int = 1) -> None:
        """Count something of the file that is not in the trace; `what` names it in the plural."""
        self._also_lost[what] = self._also_lost.get(what, 0) + n

    def lose_all(self, what: str) -> None:
        """Note something that this file lacks throughout."""
        self._lost_by_all.append(what)

    def losses(self) -> list[str]:
        """Return what was lost in this file, beside what its format always loses."""
        counts = dict(self._also_lost)
        if self.n_foreign:
            counts["frees and reallocs of blocks that were allocated before the start"] = (
                self.n_foreign
            )
        never_freed = len(self._early_frees)
        if never_freed:
            counts["frees that are missing: the address was allocated again"] = never_freed
        return [*self._lost_by_all, *(f"{count:,} {what}" for what, count in counts.items())]

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
            old: what a free or a realloc was given: the tool's name of it, usually its address.
            new: what the function returned, `NULL` if it failed; may be `old`.
            size: requested bytes.
            alignment: bytes, a power of two; 0 for an allocation without.
            thread: what the tool calls the thread.

        Raises:
            BadCallError: the size or the alignment is impossible, or there are too many threads.
        """
        has_old, has_failed = old != NULL, new == NULL
        if api in FREES or (has_failed and has_old and not size):  # realloc(p, 0) is a free
            if has_old:
                self._take_free(old, api, thread)
        elif has_failed:
            self.lose("allocations that failed")
        elif old in self._slots:
            self._reallocate(old, new, size, thread)
        else:
            self.n_foreign += has_old
            alignment = _PAGE_BYTES if api in {Api.VALLOC, Api.PVALLOC} else alignment
            self._allocate(new, size, api, thread, alignment)

    def _allocate(
        self, block: Hashable, size: int, api: Api, thread: Hashable, alignment: int
    ) -> None:  # fmt: skip
        if block in self._slots:
            self._free_early(block, self._lane(thread))
        lane = self._lane(thread)
        free_slots = self._free_slots.setdefault(lane, [])
        if free_slots:
            slot = free_slots.pop()
        else:
            slot, self._n_slots = self._n_slots, self._n_slots + 1
        self._slots[block] = slot
        op = Op.CALLOC if api is Api.CALLOC else Op.ALIGNED if alignment else Op.MALLOC
        self._add(op, api, slot, lane, _size(size), _log2(alignment))

    def _reallocate(self, old: Hashable, new: Hashable, size: int, thread: Hashable) -> None:
        lane = self._lane(thread)
        if new != old and new in self._slots:
            self._free_early(new, lane)
        slot = self._slots.pop(old)
        self._slots[new] = slot
        self._add(Op.REALLOC, Api.REALLOC, slot, lane, _size(size))

    def _take_free(self, block: Hashable, api: Api, thread: Hashable) -> None:
        since = self._early_frees.get(block)
        if since is not None and self.n_events - since <= INVERSION_EVENTS:
            del self._early_frees[block]
            self.n_inverted += 1
        elif block in self._slots:
            self._free(block, self._lane(thread), api)
        else:
            self.n_foreign += 1

    def _free_early(self, block: Hashable, lane: int) -> None:
        """Free a block whose address came again."""
        self._free(block, lane, Api.FREE)
        self._early_frees[block] = self.n_events

    def flush(self) -> None:
        """Hand over the events that are still held back."""
        if self._rows:
            self._write(np.array(self._rows, EVENT))
            self._n_written += len(self._rows)
            self._rows = []

    def _lane(self, thread: Hashable) -> int:
        """Return the number of a thread, which starts with its first call."""
        lane = self._threads.get(thread)
        if lane is None:
            lane = self._threads[thread] = len(self._threads)
            if lane >= MAX_THREADS:
                message = f"more than {MAX_THREADS} threads"
                raise BadCallError(message)
            if lane:
                self._add(Op.THREAD_START, Api.THREAD, 0, lane, 0)
        return lane

    def _free(self, block: Hashable, lane: int, api: Api) -> None:
        slot = self._slots.pop(block)
        self._free_slots.setdefault(lane, []).append(slot)
        self._add(Op.FREE, api, slot, lane, 0)

    def _add(self, op: Op, api: Api, slot: int, lane: int, size: int, align_log2: int = 0) -> None:  # noqa: PLR0917 - the fields of an event
        self._rows.append((self._time_ns, size, slot, lane, lane, op, api, align_log2, *_UNKNOWN))
        if not self.has_times:
            self._time_ns += self._step_ns
        if len(self._rows) >= _BATCH:
            self.flush()


def split_command(text: str) -> list[str]:
    """Return the words of a command as a shell would; what is too long is left out."""
    text = text[:MAX_COMMAND]
    try:
        return shlex.split(text)
    except ValueError:  # quotes that are not closed
        return text.split()


def _size(size: int) -> int:
    if not 0 <= size <= MAX_SIZE:
        message = f"{size} bytes: no block is that large"
        raise BadCallError(message)
    return size


def _log2(alignment: int) -> int:
    if not alignment:
        return 0
    if alignment & (alignment - 1) or alignment.bit_length() > MAX_ALIGN_LOG2 + 1:
        message = f"alignment {alignment}: not a power of two up to 2^{MAX_ALIGN_LOG2}"
        raise BadCallError(message)
    return alignment.bit_length() - 1
