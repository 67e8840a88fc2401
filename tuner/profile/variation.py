"""Vary a profile: longer, busier, with more threads or larger blocks, on a heap that has aged.

Each factor says what becomes of the live curve, and the tests hold it to that:

    size        the curve times the factor
    threads     what each worker thread has alive, for as many workers
    intensity   the curve times the factor, over the same time
    length      the same curve, level stretches longer or shorter
    aged        the curve plus what the prologue leaves alive

They apply in this order.  The same profile and variation give the same text everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from tuner.errors import SpecError
from tuner.output import scratch_folder
from tuner.profile.file import is_profile, read_profile, write_profile
from tuner.profile.fit import fit
from tuner.profile.model import FREED, Life, Model, Window, take_apart
from tuner.profile.plateaus import scale_length
from tuner.profile.scaling import scale_intensity, scale_sizes, scale_threads, starts
from tuner.profile.trust import USED
from tuner.trace.file import MAX_SIZE, Op, Trace
from tuner.trace.lives import Ints, Lives, find_lives

LEAST_FACTOR: Final = 1 / 1000
MOST_FACTOR: Final = 1000.0
"""Ends of the range of every factor."""

MOST_THREADS: Final = 1024

MOST_EVENTS: Final = 1 << 28
"""Of a profile, as rand_malloc takes it."""

_LITTER_SEED = 1
_LARGEST_LITTER = 1 / 64
"""Greatest block of the prologue, as a share of all it allocates."""


@dataclass(frozen=True)
class Variation:
    """What to change; the defaults change nothing.

    Raises:
        SpecError: a value is out of its range.
    """

    length: float = 1.0
    """Times as many allocations, by windows in which the live curve is level."""
    intensity: float = 1.0
    """Times as many lives in the same time."""
    threads: int | None = None
    """Threads in all; None: as they are."""
    size: float = 1.0
    """Times the size of every block."""
    aged_bytes: int = 0
    """Allocated before the workload begins, in sizes of the workload."""
    aged_share: float = 0.5
    """Share of them that stays alive to the end, in the range 0 to 1, ends included."""

    def __post_init__(self) -> None:
        """Check every range."""
        for name in ("length", "intensity", "size"):
            value = getattr(self, name)
            if not LEAST_FACTOR <= value <= MOST_FACTOR:
                raise SpecError(
                    f"--{name} {value:g}: a factor from {LEAST_FACTOR:g} to {MOST_FACTOR:g}"
                )
        if self.threads is not None and not 1 <= self.threads <= MOST_THREADS:
            raise SpecError(f"--threads {self.threads}: from 1 to {MOST_THREADS}")
        if self.aged_bytes < 0 or not 0.0 <= self.aged_share <= 1.0:
            raise SpecError("--aged: from 0 bytes up, of which a share of 0 to 1 stays")

    @property
    def changes(self) -> dict[str, Any]:
        """What it changes, by name; empty when nothing."""
        plain = asdict(Variation())
        return {name: value for name, value in asdict(self).items() if value != plain[name]}


def vary(path: Path, variation: Variation) -> dict[str, Any]:
    """Return the members of a varied profile.

    Args:
        path: the profile.
        variation: what to change.

    Raises:
        TraceError: the file is no profile, or damaged.
        SpecError: the profile cannot be varied that way; says why.
    """
    members = read_profile(path)
    with Trace(path) as generated:
        peak_bytes = generated.totals.peak_live_bytes
        events = generated.read_all()
    _check_size(len(events) * variation.intensity * variation.length)
    model = take_apart(members)
    lives = find_lives(events)
    changes = _changes(model, lives)
    if variation.size != 1.0:
        model = scale_sizes(model, variation.size)
    if variation.threads is not None:
        model = scale_threads(model, variation.threads)
    if variation.intensity != 1.0:
        peak = peak_bytes * variation.size
        model = scale_intensity(model, variation.intensity, round(peak))
    if variation.length != 1.0:
        model = scale_length(model, variation.length, changes, peak_bytes)
    if variation.aged_bytes:
        model = _aged(model, variation.aged_bytes, variation.aged_share)
    _check_size(sum(life.count * (1 + len(life.codes)) for life in model.lives))
    Model.check_size(sum(life.count if life.is_fixed else 1 for life in model.lives))
    if (largest := max((life.largest for life in model.lives), default=0)) > MAX_SIZE:
        raise SpecError(
            f"a block of {largest:,} bytes; one has at most {MAX_SIZE:,}: vary it by less"
        )
    if not model.lives:
        raise SpecError("nothing is left: every life falls away; give larger factors")
    return _with_source(model.members(), variation)


def _check_size(n_events: float) -> None:
    """Refuse what would take hours, and would be too large in the end."""
    if n_events > MOST_EVENTS:
        raise SpecError(
            f"{n_events:,.0f} events; a profile has at most {MOST_EVENTS:,}: vary it by less"
        )


def shrink(path: Path, fidelity: float) -> dict[str, Any]:
    """Return the members of a smaller profile that stands for a workload in a search.

    Args:
        path: a profile, or a trace, which is fitted first.
        fidelity: allocations of the shrunk workload over those of the whole, above 0, below 1.

    Raises:
        TraceError: the file cannot be read.
        SpecError: nothing would be left.
    """
    wanted = Variation(intensity=fidelity)
    if is_profile(path):
        return vary(path, wanted)
    with scratch_folder() as folder:
        whole = folder / "whole.profile.json"
        with Trace(path) as trace:
            write_profile(whole, fit(trace))
        return vary(whole, wanted)


def _with_source(members: Mapping[str, Any], variation: Variation) -> dict[str, Any]:
    source = dict(members.get("source") or {})
    source["varied"] = [*(source.get("varied") or []), variation.changes]
    facts = members.get("metadata") or {}
    metadata = {name: value for name, value in facts.items() if name not in USED}
    changed = {"source": source, "metadata": metadata}
    return {key: changed.get(key, value) for key, value in members.items()}


def _changes(model: Model, lives: Lives) -> Ints:
    """Return how much more is alive behind the last allocation of each window than before it."""
    ticks = np.array(starts(model.allocations()))
    before = np.concatenate([[0], lives.live_bytes])
    n_lives = len(lives.births)
    begins = np.append(lives.births, len(lives.tick))[np.minimum(ticks[:-1], n_lives)]
    ends = lives.births[np.maximum(ticks[1:], 1) - 1] + 1
    found: Ints = np.where(np.diff(ticks) > 0, before[ends] - before[begins], 0)
    return found


def _aged(model: Model, n_bytes: int, share: float) -> Model:
    """Put a prologue in front that leaves holes: allocate, then free all but a share at random.

    Source: the littering of Berger et al. (github.com/plasma-umass/Littering, README), which
        fragments the heap by the program's own sizes before the program begins.
    """
    rng = np.random.default_rng(_LITTER_SEED)
    numbers: Counter[int] = Counter()
    for life in model.lives:
        if 0 < life.kind[2] <= max(1, n_bytes * _LARGEST_LITTER):
            numbers[life.kind[2]] += life.count
    sizes = np.array(sorted(numbers) or [min(n_bytes, 64)], np.int64)
    weights = np.array([numbers[int(size)] or 1 for size in sizes], np.float64)
    counts = (weights * (n_bytes / (weights @ sizes))).astype(np.int64)
    # Sizes too rare for a block of their own are drawn, so that all bytes are spent.
    missing = n_bytes - int(counts @ sizes)
    while missing >= int(sizes[0]):
        fitting = sizes[sizes <= missing]
        drawn = int(rng.choice(fitting, p=weights[: len(fitting)] / weights[: len(fitting)].sum()))
        counts[np.searchsorted(sizes, drawn)] += 1
        missing -= drawn
    return _behind(model, _litter(sizes, counts, share, model.parts), int(counts.sum()))


def _litter(sizes: Ints, counts: Ints, share: float, parts: int) -> list[Life]:
    lives = []
    rest = 0.5
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        rest += count * share
        n_kept = min(int(rest), count)
        rest -= n_kept
        keeps = (int(Op.MALLOC), 0, size, 0)
        if n_kept:
            lives.append(Life(0, keeps, (), n_kept))
        if count > n_kept:
            lives.append(Life(0, (*keeps, FREED, 0), (parts + 1,), count - n_kept))
    return lives


def _behind(model: Model, litter: list[Life], n_blocks: int) -> Model:
    """Return the model behind two windows, one that allocates and one that frees."""
    n_freed = sum(life.count for life in litter if life.is_freed)
    begin_ns, end_ns = model.windows[0].time_ns, model.head["duration_ns"]
    n_allocations = max(1, sum(model.allocations()))
    half_ns = (end_ns - begin_ns) * n_blocks // n_allocations
    prologue = [Window(begin_ns, n_blocks, 500), Window(begin_ns + half_ns, n_freed, 500)]
    windows = [replace(window, time_ns=window.time_ns + 2 * half_ns) for window in model.windows]
    lives = [replace(life, window=life.window + len(prologue)) for life in model.lives]
    return Model(model.lasting(end_ns + 2 * half_ns), [*prologue, *windows], litter + lives)
