"""Tuning problems that cost nothing to evaluate: invented, written by others, and recorded.

**Invented** from a seed, with the structure of allocator settings: three allocators with ten
settings each.  Settings are scales with an unset level and special values, switches and
categories; one of them gates two others.  Some trade memory for work, some are simply better or
worse, some do nothing at all (plateaus), and pairs of them interact.  A little ruggedness comes
from a hash of the configuration.  Both objectives are minimised and positive.  They are no models
of real allocators; a seed is one problem, and a method that is better on many seeds is better on
this kind of problem.

**Written by others**: a Python file with `PARAMS`, `DEFAULTS` and `evaluate`, of which
``ALLOC_VARIANT`` in the environment chooses a variant.  No such file is kept here; it is named on
the command line.  Its whole numbers are exponents and become powers of two; its one real number
becomes 21 levels.

**Recorded**: real campaigns, kept as points; see `tuner.campaign.replay`.
"""

from __future__ import annotations

import hashlib
import os
import runpy
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from tuner.campaign.replay import Nearest, read_points
from tuner.front.dominance import Points, non_dominated
from tuner.records import Configuration, Value
from tuner.search import Told
from tuner.space import Condition, Genome, Parameter, Space, joint_space

RECORDED_FILES: Final = Path(__file__).parent / "recorded"
WRITTEN, RECORDED, INVENTED = GROUPS = ("written", "recorded", "invented")
"""Kinds of problems."""
VARIANTS: Final = ("a", "b")
"""Of a problem written by others."""
_REFERENCE: Final = (300.0, 300.0)
"""Of such a problem."""
_REAL_LEVELS: Final = 21

ALLOCATORS = ("one", "two", "three")
N_SETTINGS = 10
RUGGEDNESS = 0.01
"""Relative size of the hash noise of both objectives."""

_SPECIALS: tuple[Value | None, ...] = (None, -1, 0)


@dataclass(frozen=True)
class Task:
    """A problem as a strategy meets it."""

    space: Space
    initial: tuple[Genome, ...]
    """Defaults and known-good settings."""
    evaluate: Callable[[Genome], Told]
    reference: tuple[float, ...]
    """Of the hypervolume."""
    known: Points
    """Its front as far as it is known beforehand; may be empty."""


def task_names(group: str, file: Path | None, n_invented: int) -> list[str]:
    """Return the tasks of a group: written by others, recorded, or invented."""
    if group == WRITTEN:
        return [f"{file.stem}-{variant}" for variant in VARIANTS] if file else []
    if group == INVENTED:
        return [f"{INVENTED}-{number}" for number in range(n_invented)]
    return sorted(one.name.partition(".")[0] for one in RECORDED_FILES.glob("*.points.json.zst"))


@cache
def make_task(name: str, file: Path | None) -> Task:
    """Make a task of `task_names`."""
    head, _, tail = name.rpartition("-")
    if file and head == file.stem:
        return _written(file, tail)
    if head == INVENTED:
        return _invented(make_problem(int(tail)))
    return _recorded(RECORDED_FILES / f"{name}.points.json.zst")


def _invented(problem: Problem) -> Task:
    def evaluate(genome: Genome) -> Told:
        return Told(genome, problem.evaluate(problem.space.decode(genome)), 0.0)

    worst = np.array([problem.evaluate(one) for one in problem.defaults()]).max(axis=0) * 1.1
    reference = tuple(map(float, worst))
    return Task(problem.space, tuple(problem.space.defaults()), evaluate, reference, _NOTHING)


def _recorded(file: Path) -> Task:
    points = read_points(file)
    nearest = Nearest(points)

    def evaluate(genome: Genome) -> Told:
        place, _ = nearest.find(genome)
        return Told(genome, points.values[place], points.violations[place])

    pairs = zip(points.values, points.violations, strict=True)
    good = np.array([values for values, excess in pairs if values and excess <= 0.0])
    initial = tuple(points.space.defaults())
    return Task(points.space, initial, evaluate, points.reference, good[non_dominated(good)])


def _written(file: Path, variant: str) -> Task:
    os.environ["ALLOC_VARIANT"] = variant
    found = runpy.run_path(str(file))
    owner = file.stem
    meanings: dict[str, dict[Value, Any]] = {}
    genes = []
    for name, (kind, domain, condition) in found["PARAMS"].items():
        meanings[name] = dict(_levels(kind, domain))
        gate = condition and Condition(
            f"{owner}.{condition[0]}", tuple(_shown(level) for level in condition[1])
        )
        levels = tuple(meanings[name])
        genes.append(Parameter(f"{owner}.{name}", levels, ordered=kind != "cat", condition=gate))
    space = joint_space({owner: genes})

    def evaluate(genome: Genome) -> Told:
        settings = space.decode(genome).as_dict
        meant = {name: meanings[name][value] for name, value in settings.items()}
        return Told(genome, tuple(map(float, found["evaluate"](meant))), 0.0)

    def encoded(settings: Mapping[str, Any]) -> Genome:
        near = {name: _nearest(meanings[name], wanted) for name, wanted in settings.items()}
        return space.encode(Configuration.of(owner, near))

    initial = tuple(map(encoded, found["DEFAULTS"]))
    return Task(space, initial, evaluate, _REFERENCE, _NOTHING)


_NOTHING: Final[Points] = np.empty((0, 2))


def _levels(kind: str, domain: Any) -> list[tuple[Value, Any]]:  # noqa: ANN401 - of another's file
    """Return the levels of a parameter, each with what it means to the file."""
    if kind == "cat":
        return [(_shown(level), level) for level in domain]
    if kind == "int":
        return [(1 << power, power) for power in range(domain[0], domain[1] + 1)]
    return [(float(10**x), float(x)) for x in np.linspace(domain[0], domain[1], _REAL_LEVELS)]


def _shown(level: object) -> Value:
    return level if isinstance(level, bool) else str(level)


def _nearest(meanings: Mapping[Value, Any], wanted: float | str) -> Value:
    """Return the level that means what is wanted, or almost."""
    if isinstance(wanted, bool | str):
        return next(level for level, meant in meanings.items() if meant == wanted)
    return min(meanings, key=lambda level: float(abs(meanings[level] - wanted)))


def digest_of(file: Path | None) -> str | None:
    """Return what a problem's file is recognised by."""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12] if file else None


@dataclass(frozen=True)
class _Effect:
    """What one setting does to the logarithms of both objectives."""

    heap: np.ndarray
    """One addend per level."""
    work: np.ndarray
    """One addend per level."""


@dataclass(frozen=True)
class Problem:
    """One problem; `evaluate` is deterministic."""

    space: Space
    _base: Mapping[str, tuple[float, float]]
    _effects: Mapping[str, _Effect]
    _pairs: Mapping[tuple[str, str], float]

    def evaluate(self, configuration: Configuration) -> tuple[float, float]:
        """Return memory and work of a configuration."""
        allocator, settings = configuration.allocator, configuration.as_dict
        heap, work = self._base[allocator]
        place: dict[str, float] = {}
        for gene in self.space.parameters:
            owner, _, setting = gene.name.partition(".")
            if owner != allocator or gene.is_structural:
                continue
            level = gene.levels.index(settings.get(setting))
            place[gene.name] = level / max(1, gene.n_levels - 1)
            heap += float(self._effects[gene.name].heap[level])
            work += float(self._effects[gene.name].work[level])
        for (first, second), weight in self._pairs.items():
            if first in place and second in place:
                # Good when both settings move together, bad when only one does.
                clash = weight * abs(place[first] - place[second])
                heap += clash
                work += 0.7 * clash
        hashed = zlib.crc32(configuration.key.encode())
        heap += RUGGEDNESS * ((hashed & 0xFFFF) / 0xFFFF - 0.5)
        work += RUGGEDNESS * ((hashed >> 16) / 0xFFFF - 0.5)
        return float(np.exp(heap)), float(np.exp(work))

    def defaults(self) -> list[Configuration]:
        """Return every allocator with nothing set."""
        return [Configuration(name) for name in ALLOCATORS]


def make_problem(seed: int) -> Problem:
    """Make the problem of a seed."""
    rng = np.random.default_rng([seed, 2026])
    parts = {name: _settings(name, rng) for name in ALLOCATORS}
    genes = [gene for part in parts.values() for gene in part if not gene.is_structural]
    effects = {gene.name: _effect(gene, rng) for gene in genes}
    pairs: dict[tuple[str, str], float] = {}
    for part in parts.values():
        names = [gene.name for gene in part if not gene.is_structural]
        for _ in range(N_SETTINGS):
            first, second = rng.choice(len(names), size=2, replace=False)
            pairs[names[first], names[second]] = float(rng.uniform(0.05, 0.25))
    base = {
        name: (float(rng.uniform(18.0, 18.4)), float(rng.uniform(17.6, 18.2)))
        for name in ALLOCATORS
    }
    return Problem(joint_space(parts), base, effects, pairs)


def _settings(allocator: str, rng: np.random.Generator) -> tuple[Parameter, ...]:
    mode = Parameter(f"{allocator}.mode", ("auto", "fixed"), ordered=False, is_structural=True)
    gate = Condition(mode.name, ("fixed",))
    genes = [mode]
    for index in range(N_SETTINGS):
        name = f"{allocator}.s{index}"
        condition = gate if index in (0, 1) else None
        if index < N_SETTINGS - 3:
            scale = tuple(1 << int(power) for power in range(4, 4 + int(rng.integers(4, 13))))
            genes.append(Parameter(name, (*_SPECIALS, *scale), ordered=True, condition=condition))
        else:
            words = ("best", "first", "next", "any")[: int(rng.integers(1, 5))]
            genes.append(Parameter(name, (None, *words), ordered=False, condition=condition))
    return tuple(genes)


def _effect(gene: Parameter, rng: np.random.Generator) -> _Effect:
    n_levels = gene.n_levels
    kind = rng.choice(["trade", "better", "nothing"], p=[0.5, 0.25, 0.25])
    if kind == "nothing":
        return _Effect(np.zeros(n_levels), np.zeros(n_levels))
    along = np.linspace(0.0, 1.0, n_levels) ** rng.uniform(0.5, 2.0)
    if not gene.ordered:
        along = rng.permutation(along)
    heap, work = rng.uniform(0.05, 0.35, size=2)
    if kind == "trade":
        return _Effect(heap * along, -work * along**0.6)
    # A valley: too little and too much are both bad.
    valley = (along - rng.uniform(0.2, 0.9)) ** 2
    return _Effect(heap * valley, work * valley)
