"""A campaign that starts from what an earlier one found on the workload that is most like its own.

Two workloads are as far apart as the sizes of their blocks and their threads: the earth mover's
distance, in powers of two, between the sizes of all requests (the mean of counted by request and
weighted by bytes), plus the difference of the logarithms of the numbers of threads.  The front of
the nearest campaign becomes seed configurations, evaluated right after the defaults.

Guarantee: seeds are chosen when a campaign is begun and kept in its store, so one that goes on has
the same, whatever other campaigns there are by then.
Limits: campaigns whose trace is gone or has changed are passed over; so are settings that the new
space lacks, such as those about threads for a workload of one.

Source: Werman, Peleg, Rosenfeld, "A distance metric for multidimensional histograms", Computer
Vision, Graphics, and Image Processing 32(3), 1985 (in one dimension the earth mover's distance is
the area between the cumulative shares).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from tuner.errors import SpecError, StoreError, TraceError
from tuner.front.dominance import front
from tuner.profile.file import workload_sha256
from tuner.records import Configuration, Trial
from tuner.runs import Run, load_run
from tuner.space import Space
from tuner.store import Store
from tuner.trace.file import Op, Trace
from tuner.trace.info import N_LOG2_BINS, log2_bins

MOST_SEEDS: Final = 8
"""Configurations that are taken over."""

_SIZED: Final = (Op.MALLOC, Op.CALLOC, Op.ALIGNED, Op.REALLOC)


@dataclass(frozen=True)
class Shape:
    """What a workload asks for."""

    requests: npt.NDArray[np.float64]
    """Share of the requests by power of two of the size, (`N_LOG2_BINS`,)."""
    bytes: npt.NDArray[np.float64]
    """Share of the requested bytes, likewise."""
    n_threads: int
    """At least 1."""


@dataclass(frozen=True)
class WarmStart:
    """What a campaign starts from."""

    folder: Path
    """Run folder of the earlier campaign."""
    distance: float
    """Between the workloads, in powers of two; 0 for the same one."""
    seeds: tuple[Configuration, ...]
    n_considered: int
    """Campaigns whose workload was compared."""

    def __str__(self) -> str:
        """Say what is done."""
        settings = "setting" if len(self.seeds) == 1 else "settings"
        campaigns = "campaign" if self.n_considered == 1 else "campaigns"
        return (
            f"starts from {len(self.seeds)} {settings} of {self.folder.name}, the nearest of "
            f"{self.n_considered} earlier {campaigns} (distance {self.distance:.2f})"
        )


def shape_of(path: Path) -> Shape:
    """Read what a trace or profile asks for.

    Raises:
        TraceError: it cannot be read.
    """
    requests, sizes = np.zeros(N_LOG2_BINS), np.zeros(N_LOG2_BINS)
    with Trace(path, is_streamed=True) as trace:
        for events in trace.batches():
            sized = events["size"][np.isin(events["op"], _SIZED)]
            bins = log2_bins(sized)
            requests += np.bincount(bins, minlength=N_LOG2_BINS)
            sizes += np.bincount(bins, sized.astype(np.float64), minlength=N_LOG2_BINS)
        n_threads = trace.read_totals().n_threads
    return Shape(_shares(requests), _shares(sizes), max(1, n_threads))


def _shares(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(weights / max(1.0, float(weights.sum())))


def distance(one: Shape, other: Shape) -> float:
    """Return how far two workloads are apart, in powers of two.

    Example:
        >>> spike = np.eye(N_LOG2_BINS)
        >>> distance(Shape(spike[5], spike[5], 1), Shape(spike[7], spike[6], 2))
        2.5
    """
    pairs = ((one.requests, other.requests), (one.bytes, other.bytes))
    moved = [float(np.abs(np.cumsum(mine) - np.cumsum(theirs)).sum()) for mine, theirs in pairs]
    return math.fsum(moved) / len(moved) + abs(math.log2(one.n_threads / other.n_threads))


def warm_start(
    folders: Iterable[Path],
    trace: Path,
    spaces: Sequence[Space],
    objectives: Sequence[str],
    *,
    most: int = MOST_SEEDS,
) -> WarmStart | None:
    """Return what to start from; None where no earlier campaign has anything for this one.

    Args:
        folders: run folders, and folders of run folders.
        trace: the new campaign's.
        spaces: the new campaign's; settings outside are left out.
        objectives: the new campaign's; a campaign with others is passed over.
        most: configurations that are taken over, from 1 up.

    Raises:
        SpecError: a folder is not there, or cannot be read.
        TraceError: `trace` cannot be read.
    """
    own = shape_of(trace)
    found: list[tuple[float, str, Run]] = []
    for folder in _runs_in(folders):
        with contextlib.suppress(StoreError, TraceError, OSError):
            run = load_run(folder)
            other = Path(run.campaign.trace_path)
            if set(run.campaign.objectives) != set(objectives):
                continue
            if workload_sha256(other) == run.campaign.trace_sha256:
                found.append((distance(own, shape_of(other)), str(folder), run))
    for apart, _, run in sorted(found, key=lambda one: one[:2]):
        seeds = tuple(_spread(_inside(front(run.trials), spaces), most))
        if seeds:
            return WarmStart(run.folder, apart, seeds, len(found))
    return None


def _runs_in(folders: Iterable[Path]) -> list[Path]:
    """Return the run folders among and directly below some folders.

    Raises:
        SpecError: one of them is not there, or cannot be read.
    """
    found: dict[Path, None] = {}
    for folder in folders:
        try:
            below = [] if Store.exists(folder) else sorted(folder.iterdir())
        except OSError as error:
            raise SpecError(
                f"warm_start: {folder}: {error.strerror}; name runs, or a folder of them"
            ) from error
        for one in (folder, *below):
            with contextlib.suppress(OSError):
                if Store.exists(one):
                    found[one] = None
    return list(found)


def _inside(trials: Iterable[Trial], spaces: Sequence[Space]) -> list[Configuration]:
    """Return the settings of a front as far as they lie in a space, by their first objective."""
    ordered = sorted(trials, key=lambda trial: trial.objectives or ())
    found = (_adapted(space, trial.configuration) for trial in ordered for space in spaces)
    return list(dict.fromkeys(one for one in found if one is not None))


def _adapted(space: Space, configuration: Configuration) -> Configuration | None:
    """Return a configuration without what a space lacks; None where nothing is left."""
    levels = {gene.name: gene.levels for gene in space.parameters}
    owner = configuration.allocator
    kept = {
        name: value
        for name, value in configuration.as_dict.items()
        if value in levels.get(f"{owner}.{name}", ())
    }
    if owner not in space.allocators or not kept:
        return None
    adapted = Configuration.of(owner, kept)
    return adapted if space.genome_of(adapted) is not None else None


def _spread(configurations: Sequence[Configuration], most: int) -> list[Configuration]:
    """Return at most so many, evenly along the front, its ends among them if there are two."""
    if len(configurations) <= most:
        return list(configurations)
    places = np.linspace(0, len(configurations) - 1, most).round().astype(int)
    return [configurations[place] for place in places.tolist()]
