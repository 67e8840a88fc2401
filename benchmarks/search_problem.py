"""Invented tuning problems with the structure of allocator settings, made from a seed.

Three allocators with ten settings each.  Settings are scales with an unset level
and special values, switches and categories; one of them gates two others.  Some
trade memory for work, some are simply better or worse, some do nothing at all
(plateaus), and pairs of them interact.  A little ruggedness comes from a hash of
the configuration.  Both objectives are minimised and positive.

Nothing here is a model of a real allocator; a seed is one problem, and a method
that is better on many seeds is better on this kind of problem.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tuner.records import Configuration, Value
from tuner.space import Condition, Parameter, Space, joint_space

ALLOCATORS = ("one", "two", "three")
N_SETTINGS = 10
RUGGEDNESS = 0.01
"""Relative size of the hash noise of both objectives."""

_SPECIALS: tuple[Value | None, ...] = (None, -1, 0)


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
