"""Strategies compared on recorded campaigns, without measuring.

The trials of a run are a table from genomes to results.  A strategy is asked and told as in a
campaign; what it proposes is answered by the trial of the nearest genome of the same allocator.
The other choice, to let strategies propose recorded genomes only, would take the place of their
own variation and so of what is compared.  The denser the recorded trials, the more proposals are
answered by their own trial; how many were is part of the result.

Distance: a setting that both leave alone or set alike adds nothing; on a scale the share of it
that lies between; everything else adds 1.

Guarantee: the same points, strategy and seed give the same course.
Limits: a point that was never recorded cannot be found, and plateaus are larger than they are.
Points are densest where the search that recorded them went, which favours strategies like it;
record with ``--strategy random``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from tuner import zstd
from tuner.errors import SelectionError, StoreError
from tuner.front.dominance import hypervolume, reference_point
from tuner.output import write_bytes
from tuner.records import Trial
from tuner.runs import Run, load_run
from tuner.search import Told, make_strategy, population_for
from tuner.space import ALLOCATOR, Genome, Parameter, Space

SCHEMA: Final = "malloc-tuner.points"
VERSION: Final = 2
"""Of the file."""
_PACKING_LEVEL: Final = 19
"""Written once, read often."""

MARKS: Final = (50, 100, 200, 300, 500, 1000)
"""Evaluations after which scores are taken."""


@dataclass(frozen=True)
class Points:
    """The trials of a run as a table."""

    name: str
    """Of the campaign."""
    objectives: tuple[str, ...]
    space: Space
    genomes: tuple[Genome, ...]
    values: tuple[tuple[float, ...] | None, ...]
    """Objectives of each genome; None where it failed."""
    violations: tuple[float, ...]
    reference: tuple[float, ...]
    """Of the hypervolume."""
    n_uncounted: int = 0
    """Trials that are not among them, since their instructions were not counted."""
    n_outside: int = 0
    """Seeds that are not among them, since they lie off the levels of the space."""


@dataclass(frozen=True)
class Replayed:
    """One search on recorded points."""

    strategy: str
    seed: int
    scores: dict[int, float]
    """Evaluations -> hypervolume over that of all recorded points."""
    exact: float
    """Share of the proposals that were recorded themselves."""


def recorded_points(run: Run) -> Points:
    """Return the trials of a run as a table.

    Raises:
        SelectionError: it has too little to search: no reference, or no space.
    """
    record = run.campaign
    defaults = [trial for trial in run.trials if trial.configuration.is_default]
    reference = record.reference or reference_point(defaults)
    if reference is None or not record.space:
        raise SelectionError(
            f"{run.folder}: no default succeeded, or the space was not kept; nothing to replay"
        )
    space = _space(record.space, tuple(record.allocators))
    known = [(space.genome_of(t.configuration), t) for t in run.trials if _is_known(t)]
    rows = [(genome, trial) for genome, trial in known if genome is not None]
    return Points(
        record.name,
        record.objectives,
        space,
        tuple(genome for genome, _ in rows),
        tuple(trial.objectives for _, trial in rows),
        tuple(trial.violation for _, trial in rows),
        reference,
        len(run.trials) - len(known),
        len(known) - len(rows),
    )


def _is_known(trial: Trial) -> bool:
    return trial.objectives is not None or trial.has_failed


def _space(genes: Iterable[Parameter], allocators: tuple[str, ...]) -> Space:
    """Return the joint space of recorded genes, those of separate searches too."""
    allocator = Parameter(ALLOCATOR, allocators, ordered=False)
    return Space((allocator, *(gene for gene in genes if gene.name != ALLOCATOR)))


def _is_packed(source: Path) -> bool:
    """Return whether a file is packed by zstd, as none of a run folder is, or says it is."""
    try:
        with source.open("rb") as file:
            return file.read(len(zstd.MAGIC)) == zstd.MAGIC or source.suffix == ".zst"
    except IsADirectoryError:
        return False
    except OSError:
        return source.suffix == ".zst"


def read_points(source: Path) -> Points:
    """Read a run folder, or a file of `save_points`.

    Raises:
        StoreError: there is neither, or it is damaged.
        SelectionError: see `recorded_points`.
    """
    if not _is_packed(source):
        return recorded_points(load_run(source))
    try:
        found = json.loads(zstd.decompress(source.read_bytes()))
        if (found["schema"], found["version"]) != (SCHEMA, VERSION):
            raise StoreError(f"{source}: is no file of points of version {VERSION}")
        points = Points(
            found["name"],
            tuple(found["objectives"]),
            _space(map(Parameter.from_record, found["space"]), tuple(found["allocators"])),
            tuple(zip(*found["genomes"], strict=True)),
            tuple(None if v is None else tuple(v) for v in found["values"]),
            tuple(found["violations"]),
            tuple(found["reference"]),
            found.get("n_uncounted", 0),
            found.get("n_outside", 0),
        )
        _check(points)
    except (OSError, ValueError, KeyError, TypeError, zstd.ZstdError) as error:
        raise StoreError(
            f"{source}: cannot be read as points ({error}); `replay RUN --save` writes them"
        ) from error
    return points


def _check(points: Points) -> None:
    """Raise ValueError where a search would end in the middle: what no genome or result can be."""
    n_levels, n_objectives = points.space.n_levels, len(points.objectives)
    rows = list(zip(points.genomes, points.values, points.violations, strict=True))
    if not rows or len(points.reference) != n_objectives:
        raise ValueError("the points, or their reference, are missing")
    for genome, values, excess in rows:
        Told(genome, values, excess)
        is_inside = all(0 <= level < n for level, n in zip(genome, n_levels, strict=True))
        if not is_inside or (values is not None and len(values) != n_objectives):
            raise ValueError(f"{genome} lies outside the space, or lacks objectives")


def save_points(points: Points, file: Path) -> None:
    """Write points compactly: a few bytes a trial.

    Raises:
        OutputError: the file cannot be written.
    """
    document = {
        "schema": SCHEMA,
        "version": VERSION,
        "name": points.name,
        "objectives": points.objectives,
        "allocators": points.space.allocators,
        "space": [one.as_record() for one in points.space.parameters],
        "genomes": list(zip(*points.genomes, strict=True)),
        "values": points.values,
        "violations": points.violations,
        "reference": points.reference,
        "n_uncounted": points.n_uncounted,
        "n_outside": points.n_outside,
    }
    content = json.dumps(document, separators=(",", ":")).encode()
    write_bytes(file, zstd.compress(content, level=_PACKING_LEVEL))


class Nearest:
    """Finds the recorded genome that is nearest to a proposal."""

    def __init__(self, points: Points) -> None:
        """Prepare the table."""
        self._space = points.space
        self._places = {genome: place for place, genome in enumerate(points.genomes)}
        self._levels = np.array(points.genomes, dtype=np.float64)
        self._active = np.array([points.space.active(genome) for genome in points.genomes])
        spans = [max(1, one.n_levels - 1) if one.ordered else 0 for one in points.space.parameters]
        self._spans = np.array(spans, dtype=np.float64)
        self._allocator = [p.name for p in points.space.parameters].index(ALLOCATOR)

    def find(self, genome: Genome) -> tuple[int, bool]:
        """Return the place of the nearest recorded genome, and whether it is the same."""
        if genome in self._places:
            return self._places[genome], True
        active = np.array(self._space.active(genome))
        gaps = np.abs(self._levels - np.array(genome, dtype=np.float64))
        along = np.where(self._spans > 0, gaps / np.maximum(self._spans, 1.0), gaps > 0)
        both = self._active & active
        distance = np.where(both, along, self._active ^ active).sum(axis=1)
        # Another allocator answers only where its own has no trial at all.
        distance += len(genome) * (gaps[:, self._allocator] > 0)
        return int(np.argmin(distance)), False


def replay(points: Points, strategy: str, seed: int, budget: int) -> Replayed:
    """Search recorded points with one strategy.

    Args:
        points: the table.
        strategy: of `tuner.registry.STRATEGIES`.
        seed: of the strategy.
        budget: proposals.

    Raises:
        SpecError: there is no such strategy.
        SelectionError: no recorded point is feasible, so that nothing can be found.
    """
    space, nearest = points.space, Nearest(points)
    whole = _volume(points, range(len(points.genomes)))
    if not whole:
        raise SelectionError(
            f"{points.name}: no trial holds every constraint and is better than the worst default "
            "somewhere; there is nothing to search for"
        )
    search = make_strategy(
        strategy,
        space,
        len(points.objectives),
        population=population_for(budget, strategy),
        seed=seed,
        initial=list(space.defaults()),
    )
    places: list[int] = []
    n_exact = 0
    while len(places) < budget and (genomes := search.ask()):
        told = []
        for genome in genomes:
            place, is_exact = nearest.find(genome)
            places.append(place)
            n_exact += is_exact
            told.append(Told(genome, points.values[place], points.violations[place]))
        search.tell(told)
    marks = [*(mark for mark in MARKS if mark < budget), budget]
    scores = {mark: _volume(points, places[:mark]) / whole for mark in marks}
    return Replayed(strategy, seed, scores, n_exact / max(1, len(places)))


def _volume(points: Points, places: Sequence[int]) -> float:
    good = [
        values
        for place in {*places}
        if (values := points.values[place]) is not None and points.violations[place] <= 0.0
    ]
    return hypervolume(np.array(good, dtype=np.float64), points.reference)
