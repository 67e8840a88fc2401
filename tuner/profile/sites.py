"""The call-site model: a workload from what heap profilers keep of each call site.

A heap profiler sums over the run: for each call site how many blocks of how many bytes,
how long they lived together, how many were alive at the peak and at the end.  When each
block came and went is lost and is guessed here, within what the sums say:

- Sites begin in the order in which the profiler met them, where the file keeps it.  A site
  whose only block was never freed has its moment exactly; others lie between these.  No
  site begins later than leaves time for its lifetimes, given the most blocks it had alive at
  once, nor, if it is alive at the peak, than the peak.
- What was never freed is born evenly from the site's beginning on, around the mean moment
  that its lifetimes give where they do.
- What was freed comes in cohorts, evenly over the rest of the run: as many blocks as the
  site ever had alive at once are alive together, then die, each after the mean lifetime.
  Where the heap would pass the peak, cohorts are made smaller; sites alive at the peak are
  placed first, then those that hold most.
- Blocks are moved so that at the moment of the peak exactly those are alive that the
  profile says.

Guarantees: blocks and bytes of every site, those alive at the peak, and the blocks alive at
the end are those of the profile; same profile, same blocks.
Limits: everything else is a guess; hence the level `SITES`, which all outputs call of low
fidelity.  One thread, no reallocs.

Source: the idea is Langdon's (github.com/wblangdon/rand_malloc); what the sums bound is
elementary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tuner.output import scratch_folder
from tuner.profile.fit import FitOptions, fit
from tuner.trace.file import EVENT, MAX_LIFE_NS, Api, Events, Op, Trace, write_trace
from tuner.trace.lives import Ints
from tuner.units import show_size

SITES: Final = "call sites"
"""Level of the profiles made here; rand_malloc knows it by this name."""

MOST_BLOCKS: Final = 10_000_000
"""More blocks than this are not laid out: 5 GB would be needed."""

ASSUMED: Final = (
    "order: sites begin in the order of the file, blocks of a site come in even cohorts",
    "lifetimes: every block of a site that was freed lived equally long",
    "sizes: blocks of a site alike, but for those alive at the peak or at the end",
    "threads: there is one",
)
"""What is assumed of every profile; sentences."""

_KEPT_SHARE: Final = 0.9
"""Most of a site's lifetimes that blocks never freed take from those that were freed."""

_MOST_SHOWN: Final = 50
_SHOWN: Final = ("blocks", "total_bytes", "most_blocks", "peak_blocks", "peak_bytes", "end_blocks")
"""Sites, by bytes, and their sums that a profile shows for review."""

_CROWDING: Final = (1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.0)
"""Sizes of cohorts that are tried, over the most blocks a site ever had alive."""
_BINS: Final = 2048
"""Parts of the run in which room below the peak is looked for."""

_MUCH_ABOVE: Final = 1.01
"""Peak of the model over that of the file that has to be said."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sites:
    """What a profiler knows of each call site, in the order of the file.

    Arrays have shape (n_sites,) and no negative values.
    """

    blocks: Ints
    """Blocks ever allocated, above 0."""
    total_bytes: Ints
    """Bytes of all of them."""
    lifetime: Floats
    """Sum of the lifetimes of all, in units of time; until the end for what was not freed."""
    most_blocks: Ints
    """Most blocks ever alive at once."""
    peak_blocks: Ints
    """Blocks alive at the peak of the whole program."""
    peak_bytes: Ints
    end_blocks: Ints
    """Blocks never freed."""
    end_bytes: Ints
    peak_time: float
    """When the program had most bytes alive, in units of time since its start."""
    end_time: float
    """When it ended."""
    ns_per_unit: float
    """Length of a unit of time."""
    is_ordered: bool
    """True when sites stand in the order of their first allocation."""
    assumed: tuple[str, ...] = ()
    """What had to be assumed beyond `ASSUMED`; sentences."""

    def flaw(self) -> str | None:
        """Return what contradicts itself, as a sentence, or None."""
        alive = np.maximum.reduce([self.most_blocks, self.peak_blocks, self.end_blocks])
        alive_bytes = np.maximum(self.peak_bytes, self.end_bytes)
        end_ns = self.end_time * self.ns_per_unit
        has_times = 0 <= self.peak_time <= self.end_time and 0 < end_ns <= MAX_LIFE_NS
        flaws = {
            "no call site that allocated": len(self.blocks) == 0 or (self.blocks <= 0).any(),
            f"more than {MOST_BLOCKS:,} blocks; this model cannot hold them": (
                self.blocks.sum(dtype=np.float64) > MOST_BLOCKS
            ),
            "a call site with more blocks alive than it ever allocated": (
                (alive > self.blocks).any()
            ),
            "a call site with more bytes alive than it ever allocated": (
                (alive_bytes > self.total_bytes).any()
            ),
            "a peak that is not between start and end, or an end that no program reaches": (
                not has_times
            ),
            "a call site whose blocks live longer than the run": (
                (self.lifetime > self.blocks * self.end_time).any()
            ),
        }
        return next((text for text, is_so in flaws.items() if is_so), None)


@dataclass(frozen=True)
class Layout:
    """Every block of the model; arrays of shape (n_blocks,), by site."""

    size: Ints
    birth: Floats
    """In units of time."""
    death: Floats
    """Later than the birth; infinite for what is never freed."""
    n_crowded: int
    """Sites for whose largest cohorts there was no room below the peak."""

    def peak_bytes(self) -> int:
        """Return the most bytes alive at once."""
        order, is_birth = self._order()
        which = order % len(self.size)
        change = np.where(is_birth, self.size[which], -self.size[which])
        return int(np.cumsum(change).max(initial=0))

    def _order(self) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return births (n) and deaths (n + number) in order of time, deaths first."""
        n = len(self.size)
        freed = np.flatnonzero(np.isfinite(self.death))
        numbers = np.concatenate([np.arange(n), n + freed])
        times = np.concatenate([self.birth, self.death[freed]])
        order = numbers[np.lexsort([numbers < n, times])]
        return order, order < n

    def events(self, ns_per_unit: float) -> Events:
        """Return the events of these blocks, one slot each, dtype `EVENT`."""
        order, is_birth = self._order()
        which = order % len(self.size)
        slot = np.empty(len(self.size), np.int64)
        slot[which[is_birth]] = np.arange(len(self.size))
        times = np.where(is_birth, self.birth[which], self.death[which])
        events = np.zeros(len(order), EVENT)
        events["op"] = np.where(is_birth, Op.MALLOC, Op.FREE)
        events["api"] = np.where(is_birth, Api.MALLOC, Api.FREE)
        events["size"] = np.where(is_birth, self.size[which], 0)
        events["slot"] = slot[which]
        events["time_ns"] = np.maximum(times * ns_per_unit, 0).astype(np.uint64)
        return events


def first_births(sites: Sites) -> Floats:
    """Return when each site begins, in units of time; see the head of this file.

    Example: of three sites the moment of the second is known, 60 before the end.

        >>> ones, zeros = np.ones(3, np.int64), np.zeros(3, np.int64)
        >>> sites = Sites(ones, ones, np.array([5.0, 60, 5]), ones, zeros, zeros,
        ...               np.array([0, 1, 0]), np.array([0, 1, 0]), 50, 100, 1, True)
        >>> first_births(sites).tolist()
        [20.0, 40.0, 70.0]
    """
    n = len(sites.blocks)
    if not sites.is_ordered:
        return np.zeros(n)
    # Lifetimes together are the blocks alive summed over time, which are never more than most.
    known_most = np.maximum(sites.most_blocks, sites.peak_blocks)
    most = np.where(sites.most_blocks > 0, known_most, sites.blocks)
    latest = sites.end_time - sites.lifetime / most
    latest = np.where(sites.peak_blocks > 0, np.minimum(latest, sites.peak_time), latest)
    latest = np.minimum.accumulate(np.maximum(latest, 0)[::-1])[::-1]
    known = np.flatnonzero((sites.blocks == 1) & (sites.end_blocks == 1))
    at = np.concatenate([[-1], known, [n]])
    times = np.concatenate([[0], latest[known], [sites.end_time]])
    begins: Floats = np.minimum(np.interp(np.arange(n), at, times), latest)
    return begins


def lay_out(sites: Sites) -> Layout:
    """Place every block of a profile; see the head of this file.

    Args:
        sites: without a `Sites.flaw`.
    """
    columns = [
        column.tolist()
        for column in (
            sites.blocks, sites.total_bytes, sites.lifetime, sites.most_blocks, sites.peak_blocks,
            sites.peak_bytes, sites.end_blocks, sites.end_bytes, first_births(sites),
            _phases(sites),
        )
    ]  # fmt: skip
    rows = [_Site(*row) for row in zip(*columns, strict=True)]
    room = _Room(int(sites.peak_bytes.sum()), sites.peak_time, sites.end_time)
    weight = sites.lifetime * sites.total_bytes / sites.blocks
    placed: list[_Blocks | None] = [None] * len(rows)
    n_crowded = 0
    for number in np.lexsort([-weight, sites.peak_blocks == 0]).tolist():
        placed[number], is_crowded = room.place(rows[number])
        n_crowded += is_crowded
    parts = [blocks for blocks in placed if blocks is not None]
    size = np.concatenate([blocks.size for blocks in parts])
    birth = np.concatenate([blocks.birth for blocks in parts])
    death = np.concatenate([blocks.death for blocks in parts])
    return Layout(size, birth, np.maximum(death, np.nextafter(birth, np.inf)), n_crowded)


@dataclass(frozen=True)
class _Blocks:
    """The blocks of one site, as in `Layout`."""

    size: Ints
    birth: Floats
    death: Floats


class _Room:
    """What is alive over time, in `_BINS` even parts, as sites are placed one by one."""

    def __init__(self, most_bytes: int, peak: float, end: float) -> None:
        self.most_bytes = most_bytes
        self.peak = peak
        self.end = end
        self.live_bytes: Floats = np.zeros(_BINS)

    def place(self, site: _Site) -> tuple[_Blocks, bool]:
        """Place a site, its cohorts as large as there is room for.

        Returns:
            Its blocks, and whether there was room for less than it ever had alive.
        """
        best: tuple[float, float] | None = None
        for crowding in _CROWDING:
            blocks = _place(site, self.peak, self.end, crowding)
            change = self._change(blocks)
            excess = float((self.live_bytes + change).max()) - self.most_bytes
            if best is None or excess < best[0]:
                best = excess, crowding
                chosen, chosen_change = blocks, change
            if excess <= 0:
                break
        self.live_bytes += chosen_change
        return chosen, best is not None and best[1] < 1

    def _change(self, blocks: _Blocks) -> Floats:
        """Return the bytes alive at the end of each part."""
        scale = _BINS / self.end
        born = np.minimum(blocks.birth * scale, _BINS - 1).astype(np.int64)
        change = np.bincount(born, blocks.size, _BINS)
        freed = np.isfinite(blocks.death)
        died = np.minimum(blocks.death[freed] * scale, _BINS - 1).astype(np.int64)
        change -= np.bincount(died, blocks.size[freed], _BINS)
        live: Floats = np.cumsum(change)
        return live


@dataclass(frozen=True)
class _Site:
    """One site of `Sites`, with its beginning."""

    blocks: int
    total_bytes: int
    lifetime: float
    most_blocks: int
    peak_blocks: int
    peak_bytes: int
    end_blocks: int
    end_bytes: int
    begin: float
    phase: float
    """Where in its gap a cohort begins, 0..1; 0 where the begin of the site is known."""

    @property
    def both_blocks(self) -> int:
        """Blocks alive at the peak that are never freed; as many as can be."""
        return min(self.peak_blocks, self.end_blocks)


def _place(site: _Site, peak: float, end: float, crowding: float) -> _Blocks:
    """Return the blocks of one site.

    Args:
        site: the site.
        peak: when the program has most bytes alive.
        end: when it ends.
        crowding: share of its most blocks that are in a cohort, 0..1.
    """
    kept = _kept_births(site, peak, end)
    n_freed = site.blocks - site.end_blocks
    life = max(0.0, site.lifetime - float((end - kept).sum())) / max(1, n_freed)
    freed = _cohorts(n_freed, site, life, end, crowding)
    n_crossing = site.peak_blocks - site.both_blocks
    freed, crosses = _cross_peak(freed, n_crossing, life, site.begin, peak, end)
    death = np.minimum(freed + life, end)
    death = np.where(crosses, np.maximum(death, np.nextafter(peak, np.inf)), death)
    death = np.where(~crosses & (freed <= peak), np.minimum(death, peak), death)
    at_peak = np.concatenate([np.arange(len(kept)) < site.both_blocks, crosses])
    return _Blocks(
        _sizes(site, at_peak),
        np.concatenate([kept, freed]),
        np.concatenate([np.full(len(kept), np.inf), death]),
    )


def _even(n: int, phase: float = 0) -> Floats:
    """Return n numbers evenly inside 0..1: in the middles of their shares, or at a phase."""
    even: Floats = (np.arange(n) + (phase or 0.5)) / max(n, 1)
    return even


def _phases(sites: Sites) -> Floats:
    """Return the phase of each site: spread evenly where nothing is known of the order.

    Source: the multiples of the golden ratio, the sequence of least discrepancy of its kind.
    """
    golden = (math.sqrt(5) - 1) / 2
    numbers = np.arange(1, len(sites.blocks) + 1, dtype=np.float64)
    phases: Floats = np.mod(numbers * (0.0 if sites.is_ordered else golden), 1.0)
    return phases


def _kept_births(site: _Site, peak: float, end: float) -> Floats:
    """Return when the blocks are born that are never freed; those alive at the peak first."""
    n, n_before = site.end_blocks, site.both_blocks
    if n == site.blocks:
        mean = end - site.lifetime / n
        births = np.minimum(site.begin + 2 * (mean - site.begin) * _even(n, site.phase), end)
    else:
        from_peak = max(site.begin, peak)
        births = np.concatenate(
            [
                site.begin + (peak - site.begin) * _even(n_before, site.phase),
                from_peak + (end - from_peak) * _even(n - n_before, site.phase),
            ]
        )
        ages = end - births
        births = end - ages * min(1.0, _KEPT_SHARE * site.lifetime / max(ages.sum(), 1.0))
    births[:n_before] = np.minimum(births[:n_before], peak)
    births[n_before:] = np.maximum(births[n_before:], np.nextafter(peak, np.inf))
    return births


def _cohorts(n: int, site: _Site, life: float, end: float, crowding: float) -> Floats:
    """Return births of n blocks in even cohorts, each alive together at one moment."""
    of_one = max(1, min(n, round(crowding * site.most_blocks)))
    n_cohorts = -(-n // of_one)
    last = max(site.begin, end - life)
    gap = (last - site.begin) / max(1, n_cohorts)
    number = np.arange(n)
    starts = site.begin + (number // of_one + site.phase) * gap
    births = starts + number % of_one / of_one * min(life, gap)
    return np.minimum(births, last)


def _cross_peak(  # noqa: PLR0917 - moments and what lies between
    births: Floats, n_wanted: int, life: float, begin: float, peak: float, end: float
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Move births so that just as many blocks as wanted are alive at the peak.

    Those nearest to it are moved in; those too many are spread over the time before and behind.

    Returns:
        Births and which of the blocks are alive at the peak.
    """
    begin = min(begin, peak)
    low = max(peak - life, begin)
    distance = np.maximum(low - births, births - peak)  # 0 or less: alive at the peak
    chosen = np.zeros(len(births), np.bool_)
    chosen[np.argsort(distance, kind="stable")[:n_wanted]] = True
    moved = births.copy()
    enter = chosen & ((births <= peak - life) | (births > peak))
    moved[enter] = low + (peak - low) * _even(int(enter.sum()))
    leave = np.flatnonzero(~chosen & (births <= peak) & ((births + life > peak) | (births == peak)))
    before, behind = low - begin, end - peak
    n_before = round(len(leave) * before / (before + behind)) if before else 0
    moved[leave[:n_before]] = begin + before * _even(n_before)
    moved[leave[n_before:]] = peak + behind * _even(len(leave) - n_before)
    moved[leave[n_before:]] = np.maximum(moved[leave[n_before:]], np.nextafter(peak, np.inf))
    return moved, chosen


def _sizes(site: _Site, at_peak: npt.NDArray[np.bool_]) -> Ints:
    """Return sizes that add up: those at the peak, those never freed, the rest."""
    size = np.zeros(site.blocks, np.int64)
    is_kept = (np.arange(site.blocks) < site.end_blocks) & ~at_peak
    is_rest = ~is_kept & ~at_peak
    left = site.total_bytes - (site.peak_bytes if site.peak_blocks else 0)
    kept_bytes = left
    if is_rest.any():
        kept_bytes = min(left, site.end_bytes * int(is_kept.sum()) // max(1, site.end_blocks))
    groups = ((at_peak, site.peak_bytes), (is_kept, kept_bytes), (is_rest, left - kept_bytes))
    for chosen, total in groups:
        n = int(chosen.sum())
        if n:
            size[chosen] = total // n + (np.arange(n) < total % n)
    return size


def _peak_above(file_bytes: int, model_bytes: int) -> list[str]:
    """Return a sentence where the model has clearly more alive than the program ever had."""
    if model_bytes <= _MUCH_ABOVE * file_bytes:
        return []
    here, there = show_size(model_bytes), show_size(file_bytes)
    return [f"peak: {here} here, at another moment than that of the file, which had {there}"]


def make_profile(
    sites: Sites, metadata: Mapping[str, Any], options: FitOptions | None = None
) -> dict[str, Any]:
    """Return a profile of level `SITES`, as docs/formats.md describes it.

    Args:
        sites: without a `Sites.flaw`.
        metadata: of the profile.
        options: how fine it is.

    Raises:
        OutputError: no room for a temporary trace.
    """
    layout = lay_out(sites)
    peak_bytes = int(sites.peak_bytes.sum())
    with scratch_folder() as folder:
        path = folder / "sites.trace"
        write_trace(path, layout.events(sites.ns_per_unit), metadata)
        with Trace(path) as trace:
            profile = fit(trace, options)
            model_peak_bytes = trace.totals.peak_live_bytes
    largest = np.argsort(-sites.total_bytes, kind="stable")[:_MOST_SHOWN]
    shown = {name: getattr(sites, name)[largest].tolist() for name in _SHOWN}
    profile["level"] = SITES
    profile["source"].pop("trace", None)
    profile["source"] |= {
        "sites": len(sites.blocks),
        "blocks": int(sites.blocks.sum()),
        "peak_live_bytes": peak_bytes,
        "model_peak_live_bytes": model_peak_bytes,
        "crowded_sites": layout.n_crowded,
        "assumed": [*ASSUMED, *sites.assumed, *_peak_above(peak_bytes, model_peak_bytes)],
        "largest_sites": shown,
    }
    return profile
