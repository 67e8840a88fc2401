"""Naive models of a trace, for comparison: what allocator studies used before recording.

All see a program as objects, each with a size and a lifetime in allocations; a realloc ends
one object and begins another, threads are one, and the clock runs evenly.  They differ in
what they remember:

- mean: sizes and lifetimes uniform around their means (MEAN of Zorn and Grunwald,
  TOMACS 4(1), 1994);
- CDF: sizes and lifetimes drawn from their distributions, independently of each other
  (their CDF model);
- joint: the very objects, in random order;
- birth-death: for each size its rate and its mean number alive, whence the mean lifetime by
  Little's law; lifetimes exponential, births at random, the heap full at the start (as
  fleetbench models a fleet);
- classic: every object of a size has that size's mean lifetime; sizes take turns until they
  run out (as Langdon's rand_malloc does with call sites, which a trace does not hold).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from tuner.trace.file import EVENT, Api, Events, Op, Trace, write_trace

Ints = npt.NDArray[np.int64]

FOREVER: Final = -1
"""Lifetime of what is never freed."""


@dataclass(frozen=True)
class Objects:
    """Objects in the order of their allocation; arrays of shape (n_objects,)."""

    size: Ints
    """Requested bytes."""
    life: Ints
    """Allocations from the object's own to its free, or `FOREVER`."""

    def ages(self) -> Ints:
        """Return the lifetimes, with the age at the end for what is never freed."""
        last = np.arange(len(self.life) - 1, -1, -1)
        return np.where(self.life == FOREVER, last, self.life)


def find_objects(events: Events) -> Objects:
    """Return the objects of a trace.

    Args:
        events: the whole trace, dtype `EVENT`.
    """
    heap = events[events["op"] <= Op.FREE]
    is_begin = heap["op"] != Op.FREE
    tick = np.cumsum(is_begin) - is_begin
    order = np.argsort(heap["slot"], kind="stable")
    is_ended = np.zeros(len(order), np.bool_)
    is_ended[:-1] = (heap["slot"][order][1:] == heap["slot"][order][:-1]) & (
        heap["op"][order][1:] > Op.ALIGNED
    )
    ends = tick[np.roll(order, -1)]
    life = np.empty(len(order), np.int64)
    life[order] = np.where(is_ended, ends - tick[order] - 1, FOREVER)
    return Objects(heap["size"][is_begin].astype(np.int64), life[is_begin])


def mean(objects: Objects, rng: np.random.Generator) -> Objects:
    """Draw sizes and lifetimes uniformly around their means."""
    n = len(objects.size)
    size = rng.integers(0, 2 * round(objects.size.mean()), n, endpoint=True)
    life = rng.integers(0, 2 * round(objects.ages().mean()), n, endpoint=True)
    return Objects(size, life)


def cdf(objects: Objects, rng: np.random.Generator) -> Objects:
    """Draw sizes and lifetimes from their distributions, each for itself."""
    n = len(objects.size)
    return Objects(rng.choice(objects.size, n), rng.choice(objects.life, n))


def joint(objects: Objects, rng: np.random.Generator) -> Objects:
    """Put the objects into random order."""
    order = rng.permutation(len(objects.size))
    return Objects(objects.size[order], objects.life[order])


def birth_death(objects: Objects, rng: np.random.Generator) -> Objects:
    """Let objects of each size be born and die at the rates of the trace."""
    n = len(objects.size)
    sizes, of_size, n_births = np.unique(objects.size, return_inverse=True, return_counts=True)
    n_live = np.bincount(of_size, objects.ages()) / n
    mean_life = n_live / (n_births / n)
    full = np.repeat(np.arange(len(sizes)), np.rint(n_live).astype(np.int64))
    drawn = np.concatenate([rng.permutation(full), rng.choice(len(sizes), n, p=n_births / n)])
    life = np.rint(rng.exponential(mean_life[drawn])).astype(np.int64)
    life[: len(full)] += len(full) - 1 - np.arange(len(full))  # alive when it begins
    return Objects(sizes[drawn], life)


def classic(objects: Objects, _rng: np.random.Generator) -> Objects:
    """Give each size its mean lifetime, and let sizes take turns."""
    _, first, of_size, n_births = np.unique(
        objects.size, return_index=True, return_inverse=True, return_counts=True
    )
    mean_life = np.rint(np.bincount(of_size, objects.ages()) / n_births).astype(np.int64)
    by_size = np.argsort(of_size, kind="stable")
    turn = np.empty(len(of_size), np.int64)
    turn[by_size] = np.arange(len(of_size)) - np.repeat(np.cumsum(n_births) - n_births, n_births)
    order = np.lexsort([first[of_size], turn])
    return Objects(objects.size[order], mean_life[of_size[order]])


MODELS: Final[dict[str, Callable[[Objects, np.random.Generator], Objects]]] = {
    "mean": mean,
    "CDF": cdf,
    "joint": joint,
    "birth-death": birth_death,
    "classic": classic,
}
"""Name of a model -> what makes new objects of those of a trace."""


def objects_to_events(objects: Objects, duration_ns: int) -> Events:
    """Return the events of objects: each is allocated in its turn, and freed when it is due.

    Args:
        objects: what is still alive after the last allocation is freed then, unless `FOREVER`.
        duration_ns: time over which the events are spread evenly.
    """
    n = len(objects.size)
    dies = np.flatnonzero(objects.life != FOREVER)
    # A free stands before the allocation whose number is its tick; the oldest goes first.
    due = np.minimum(dies + 1 + objects.life[dies], n)
    order = np.lexsort(
        [
            np.concatenate([np.arange(n), dies]),
            np.concatenate([np.ones(n), np.zeros(len(dies))]),
            np.concatenate([np.arange(n), due]),
        ]
    )
    number = np.concatenate([np.arange(n), dies])[order]
    is_birth = order < n
    events = np.zeros(len(order), EVENT)
    events["op"] = np.where(is_birth, Op.MALLOC, Op.FREE)
    events["api"] = np.where(is_birth, Api.MALLOC, Api.FREE)
    events["size"] = np.where(is_birth, objects.size[number], 0)
    events["slot"] = _slots(number, is_birth, n)
    events["time_ns"] = np.linspace(0, duration_ns, len(order)).astype(np.uint64)
    return events


def _slots(number: Ints, is_birth: npt.NDArray[np.bool_], n_objects: int) -> Ints:
    """Return the slot of each event: the one freed last, or a new one."""
    free: list[int] = []
    of_object = [0] * n_objects
    slots = []
    n_slots = 0
    for which, begins in zip(number.tolist(), is_birth.tolist(), strict=True):
        if not begins:
            free.append(of_object[which])
        elif free:
            of_object[which] = free.pop()
        else:
            of_object[which], n_slots = n_slots, n_slots + 1
        slots.append(of_object[which])
    return np.array(slots, np.int64)


def write_naive(model: str, trace: Path, output: Path, seed: int) -> None:
    """Write a trace that a naive model makes of a trace.

    Args:
        model: key of `MODELS`.
        trace: what is modelled; not a profile.
        output: the trace to write.
        seed: of the model's draws; classic draws nothing.

    Raises:
        TraceError: the trace cannot be read.
        OutputError: the output cannot be written.
    """
    with Trace(trace) as opened:
        objects, duration_ns = find_objects(opened.read_all()), opened.totals.duration_ns
    made = MODELS[model](objects, np.random.default_rng(seed))
    metadata = {"tool": "benchmarks/naive_models.py", "model": model, "seed": seed}
    write_trace(output, objects_to_events(made, duration_ns), metadata)
