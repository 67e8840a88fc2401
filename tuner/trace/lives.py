"""From the events of a trace to the lives of its blocks.

A life is what happens to one block: its allocation, reallocs, perhaps a free.  Time is
counted in ticks: the n-th allocation of the process happens at tick n, anything else
between two allocations.  So a life's length says how much was allocated meanwhile,
which stays right when other lives are moved about.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tuner.trace.file import Events, Op

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Lives:
    """The lives of a trace; a life is numbered by its allocation."""

    tick: Ints
    """Allocations before each event; shape (n_events,)."""
    life: Ints
    """Number of each event's life, -1 for thread events; shape (n_events,)."""
    births: Ints
    """Index of the event that begins each life; shape (n_lives,)."""
    steps: Ints
    """Indices of the reallocs and frees, by life, then in order; shape (n_steps,)."""
    first_step: Ints
    """Where each life's steps begin in `steps`, and their end; shape (n_lives + 1,)."""
    largest: Ints
    """Greatest size each life ever has; shape (n_lives,)."""
    live_bytes: Ints
    """Requested bytes alive after each event; shape (n_events,)."""


def find_lives(events: Events) -> Lives:
    """Sort the events of a whole trace by life.

    Args:
        events: shape (n_events,), dtype `tuner.trace.file.EVENT`.
    """
    op = events["op"]
    is_birth = op <= Op.ALIGNED
    is_heap = op <= Op.FREE
    tick: Ints = np.cumsum(is_birth) - is_birth
    births = np.flatnonzero(is_birth)
    # By slot, in order; thread events, which have none, go last.
    order = np.argsort(np.where(is_heap, events["slot"], 2**32 - 1), kind="stable")
    size = np.where(is_heap, events["size"], 0).astype(np.int64)[order]
    started = np.maximum.accumulate(np.where(is_birth[order], np.arange(len(order)), 0))
    life = np.empty(len(events), np.int64)
    life[order] = tick[order[started]] if len(order) else 0
    life[~is_heap] = -1
    delta = np.empty(len(events), np.int64)
    delta[order] = size - np.where(is_birth[order], 0, np.concatenate([[0], size[:-1]]))
    delta[~is_heap] = 0
    largest = np.zeros(len(births), np.int64)
    np.maximum.at(largest, life[is_heap], events["size"][is_heap].astype(np.int64))
    is_step = (op == Op.REALLOC) | (op == Op.FREE)
    steps = np.flatnonzero(is_step)
    steps = steps[np.argsort(life[steps], kind="stable")]
    first_step = np.searchsorted(life[steps], np.arange(len(births) + 1))
    return Lives(tick, life, births, steps, first_step, largest, np.cumsum(delta))
