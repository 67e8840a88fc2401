"""Synthetic traces for tests of the emulator: every kind of event, any number of threads."""

import random
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tuner.trace.file import EVENT, Api, Events, Op, Trace, write_trace

_API = {
    Op.MALLOC: Api.MALLOC,
    Op.CALLOC: Api.CALLOC,
    Op.ALIGNED: Api.POSIX_MEMALIGN,
    Op.REALLOC: Api.REALLOC,
    Op.FREE: Api.FREE,
    Op.THREAD_START: Api.THREAD,
    Op.THREAD_EXIT: Api.THREAD,
}


@dataclass
class TraceMaker:
    """Collect events in global order and write them as a trace.

    Slots are given as the format wants it: a freed slot is used again only by the
    thread that freed it, a new one is the next unused number.
    """

    step_ns: int = 1000
    _events: list[tuple[int, ...]] = field(default_factory=list)
    _n_slots: int = 0
    _freed: dict[int, list[int]] = field(default_factory=dict)
    _time_ns: int = 0

    def _add(
        self, op: Op, thread: int, slot: int, size: int, *, align_log2: int = 0, touch: int = 0
    ) -> None:
        row = (self._time_ns, size, slot, thread, thread, op, _API[op], align_log2, 0, touch, 0)
        self._events.append(row)
        self._time_ns += self.step_ns

    def pause(self, duration_ns: int) -> None:
        """Let time pass without an event."""
        self._time_ns += duration_ns

    def allocate(
        self,
        size: int,
        *,
        thread: int = 0,
        op: Op = Op.MALLOC,
        align_log2: int = 0,
        untouched: int | None = None,
    ) -> int:
        """Allocate a block of which so many pages stay untouched; return its slot."""
        freed = self._freed.setdefault(thread, [])
        slot = freed.pop() if freed else self._n_slots
        self._n_slots = max(self._n_slots, slot + 1)
        self._add(op, thread, slot, size, align_log2=align_log2, touch=_touch(untouched))
        return slot

    def reallocate(
        self, slot: int, size: int, *, thread: int = 0, untouched: int | None = None
    ) -> None:
        self._add(Op.REALLOC, thread, slot, size, touch=_touch(untouched))

    def free(self, slot: int, *, thread: int = 0) -> None:
        self._add(Op.FREE, thread, slot, 0)
        self._freed.setdefault(thread, []).append(slot)

    def start(self, thread: int) -> None:
        self._add(Op.THREAD_START, thread, 0, 0)

    def exit(self, thread: int) -> None:
        self._add(Op.THREAD_EXIT, thread, 0, 0)

    def write(self, path: Path, life: tuple[int | None, int | None] = (None, None)) -> Path:
        """Write the trace of a process with that start and end; return its path."""
        write_trace(path, np.array(self._events, dtype=EVENT), {"made_by": "test"}, life=life)
        return path


def _touch(untouched: int | None) -> int:
    return 0 if untouched is None else untouched + 1


def _untouched(size: int) -> int | None:
    """Choose how many pages are not touched; of half of the sizes that is not known."""
    draw = random.Random(size)
    return None if draw.random() < 0.5 else draw.randrange(size // 4096 + 1)


def _size(rng: random.Random) -> int:
    """Draw a size: mostly small, now and then up to 200 KiB, sometimes 0."""
    kind = rng.random()
    if kind < 0.7:
        return rng.randrange(256)
    return rng.randrange(8192 if kind < 0.97 else 200 * 1024)


def write_mixed_trace(path: Path, n_threads: int, n_steps: int, seed: int = 1) -> Path:
    """Write a trace of all operations, with frees across threads, exits and restarts.

    Args:
        path: the file.
        n_threads: threads; every other one exits after 30 % and is back after 60 %.
        n_steps: about how many events.
        seed: of the random choices.
    """
    rng = random.Random(seed)
    maker = TraceMaker()
    live: list[list[int]] = [[] for _ in range(n_threads)]
    running = [True] + [False] * (n_threads - 1)
    n_started = 1
    for step in range(n_steps):
        thread = (step // 7 + rng.randrange(2)) % n_threads
        is_gap = 0.3 <= step / n_steps < 0.6 and thread % 2 == 1
        if running[thread] and is_gap:
            maker.exit(thread)
            running[thread] = False
        if is_gap or thread > n_started or not all(running[:thread:2]):
            continue
        if not running[thread]:
            maker.start(thread)
            running[thread] = True
            n_started = max(n_started, thread + 1)
        _step(maker, live, thread, rng)
    return maker.write(path)


def _step(maker: TraceMaker, live: list[list[int]], thread: int, rng: random.Random) -> None:
    """Do one random operation, on the block of another thread one time in four."""
    blocks = live[rng.randrange(len(live)) if rng.random() < 0.25 else thread]
    kind = rng.random()
    if kind < 0.5 or not blocks:
        op = rng.choices([Op.MALLOC, Op.CALLOC, Op.ALIGNED], [8, 1, 1])[0]
        align_log2 = rng.randrange(4, 13) if op is Op.ALIGNED else 0
        size = _size(rng)
        block = maker.allocate(
            size, thread=thread, op=op, align_log2=align_log2, untouched=_untouched(size)
        )
        live[thread].append(block)
    elif kind < 0.57:
        slot, size = rng.choice(blocks), 1 + _size(rng)
        maker.reallocate(slot, size, thread=thread, untouched=_untouched(size))
    else:
        maker.free(blocks.pop(rng.randrange(len(blocks))), thread=thread)


def load(path: Path, seed: int = 1) -> Events:
    """Return the events of a trace, which must be whole, or those that a profile makes."""
    with Trace(path, seed) as trace:
        assert trace.totals.is_complete
        return trace.read_all()
