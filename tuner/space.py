"""The search space: parameters as ordered lists of levels, genomes as level indices.

Every setting of an allocator is a finite list of levels: powers of two,
special values (0 = off, -1 = never), names, and "unset", which is a level of
its own because setting an allocator to its default is not always the same as
leaving it alone.  A genome is one level index per parameter, the allocator
itself being the first gene of a joint space.  Strategies see only genomes;
`Space.decode` turns one into the canonical `Configuration`.

A parameter may depend on another one: it is active only while its parent is
active and holds one of the named values.  Inactive genes decode to nothing.
`Space.canonical` gives genomes with the same effect one form: inactive genes
rest at their resting level, and a structural gene none of whose children is
set rests too (a mode without a setting of that mode is no mode).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Any

import numpy as np

from tuner.records import Configuration, Value

Genome = tuple[int, ...]
"""Level index of every parameter, in the order of `Space.parameters`."""

ALLOCATOR = "allocator"
"""Name of the gene that chooses the allocator."""

_N_REMEMBERED = 4096
"""Genomes, and configurations."""


@dataclass(frozen=True)
class Condition:
    """A parameter is active only while `parameter` is active and its value is allowed."""

    parameter: str
    values: tuple[Value | None, ...]
    """Values of the parent that switch the parameter on; None stands for unset."""


@dataclass(frozen=True)
class Parameter:
    """One gene.

    Level 0 is unset wherever the setting may be unset.
    """

    name: str
    """Unique in the space: ``allocator`` or ``<allocator>.<setting>``."""
    levels: tuple[Value | None, ...]
    """All values, None for unset; special values stand before the scale."""
    ordered: bool
    """True when neighbouring levels are alike (a scale), False for categories."""
    condition: Condition | None = None
    is_structural: bool = False
    """True for a gene that only gates others and is no setting itself."""
    resting: int = 0
    """Level of the gene while it is inactive, and with which it wakes up."""

    def as_record(self) -> dict[str, Any]:
        """Return the JSON."""
        condition = self.condition
        return {
            "name": self.name,
            "levels": list(self.levels),
            "ordered": self.ordered,
            "condition": condition and [condition.parameter, list(condition.values)],
            "is_structural": self.is_structural,
            "resting": self.resting,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Parameter:
        """Rebuild it from `as_record`."""
        parent = record["condition"]
        return cls(
            record["name"],
            tuple(record["levels"]),
            record["ordered"],
            Condition(parent[0], tuple(parent[1])) if parent else None,
            record["is_structural"],
            record["resting"],
        )

    @property
    def n_levels(self) -> int:
        """Number of levels, at least one."""
        return len(self.levels)


@dataclass(frozen=True)
class Acting:
    """The genes that have an effect in a genome, and in all whose switches stand alike."""

    active: tuple[bool, ...]
    """For every gene whether it has one."""
    genes: tuple[int, ...]
    """Indices of those that have, ascending."""
    free: tuple[int, ...]
    """Of these, the ones with more than one level."""


@dataclass(frozen=True)
class Space:
    """Parameters of one or several allocators; parents stand before their children.

    Raises:
        ValueError: a name is repeated, a parameter has no level, or a condition
            names a parameter that does not stand before it.
    """

    parameters: tuple[Parameter, ...]

    def __post_init__(self) -> None:
        """Check names, levels and the order of conditions."""
        seen: set[str] = set()
        for parameter in self.parameters:
            if parameter.name in seen:
                raise ValueError(f"parameter {parameter.name!r} appears twice")
            if not parameter.levels:
                raise ValueError(f"parameter {parameter.name!r} has no level")
            if parameter.condition and parameter.condition.parameter not in seen:
                parent = parameter.condition.parameter
                raise ValueError(
                    f"{parameter.name!r} depends on {parent!r}, which is not before it"
                )
            seen.add(parameter.name)
        if ALLOCATOR not in seen:
            raise ValueError(f"a space needs the gene {ALLOCATOR!r}")

    @cached_property
    def n_levels(self) -> tuple[int, ...]:
        """Number of levels of every gene, in gene order."""
        return tuple(parameter.n_levels for parameter in self.parameters)

    @property
    def allocators(self) -> tuple[str, ...]:
        """Names of the allocators of this space."""
        (gene,) = (p for p in self.parameters if p.name == ALLOCATOR)
        return tuple(str(level) for level in gene.levels)

    def active(self, genome: Genome) -> tuple[bool, ...]:
        """Return for every gene whether it has an effect in this genome."""
        return self.acting(genome).active

    def acting(self, genome: Genome) -> Acting:
        """Return which genes have an effect in this genome."""
        return self._remembered_acting(self._switched(genome))

    @cached_property
    def _remembered_configuration(self) -> Callable[[Genome], Configuration]:
        """`decode` of the last genomes: whether they are new is asked of each several times."""
        return lru_cache(_N_REMEMBERED)(self._decoded)

    @cached_property
    def _switches(self) -> tuple[int, ...]:
        """The genes that switch others on."""
        return tuple(sorted({gate[0] for gate in self._gates if gate}))

    @cached_property
    def _switched(self) -> Callable[[Genome], tuple[int, ...]]:
        """Returns the levels of the switches in a genome."""
        if len(self._switches) > 1:
            return itemgetter(*self._switches)
        return lambda genome: tuple(genome[index] for index in self._switches)

    @cached_property
    def _remembered_acting(self) -> Callable[[tuple[int, ...]], Acting]:
        """`acting` by the levels of the switches: variation asks of thousands of genomes."""
        return lru_cache(_N_REMEMBERED)(self._find_acting)

    def _find_acting(self, switched: tuple[int, ...]) -> Acting:
        levels = dict(zip(self._switches, switched, strict=True))
        active: list[bool] = []
        for gate in self._gates:
            active.append(gate is None or (active[gate[0]] and levels[gate[0]] in gate[1]))
        genes = tuple(index for index, on in enumerate(active) if on)
        free = tuple(index for index in genes if self.n_levels[index] > 1)
        return Acting(tuple(active), genes, free)

    @cached_property
    def _gates(self) -> tuple[tuple[int, frozenset[int]] | None, ...]:
        """For every gene: the index of its parent, and the levels of it that switch the gene on."""
        places = {parameter.name: index for index, parameter in enumerate(self.parameters)}
        gates: list[tuple[int, frozenset[int]] | None] = []
        for condition in (parameter.condition for parameter in self.parameters):
            if condition is None:
                gates.append(None)
                continue
            levels = self.parameters[places[condition.parameter]].levels
            on = (i for i, level in enumerate(levels) if level in condition.values)
            gates.append((places[condition.parameter], frozenset(on)))
        return tuple(gates)

    @cached_property
    def _families(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """Every structural gene, and the genes that depend on it."""
        return tuple(
            (index, tuple(i for i, gate in enumerate(self._gates) if gate and gate[0] == index))
            for index, parameter in enumerate(self.parameters)
            if parameter.is_structural
        )

    def canonical(self, genome: Genome) -> Genome:
        """Return the one genome that stands for all with the same effect."""
        rested = self._rested(genome)
        for index, children in self._families:
            resting = self.parameters[index].resting
            if rested[index] != resting and not self._any_set(children, rested):
                rested = self._rested((*rested[:index], resting, *rested[index + 1 :]))
        return rested

    def _rested(self, genome: Genome) -> Genome:
        """Put every inactive gene to rest."""
        rested = list(self._resting)
        for index in self.acting(genome).genes:
            rested[index] = genome[index]
        return tuple(rested)

    @cached_property
    def _resting(self) -> tuple[int, ...]:
        """The resting level of every gene."""
        return tuple(parameter.resting for parameter in self.parameters)

    def _any_set(self, genes: Sequence[int], genome: Genome) -> bool:
        active = self.active(genome)
        return any(active[i] and self.parameters[i].levels[genome[i]] is not None for i in genes)

    def decode(self, genome: Genome) -> Configuration:
        """Turn a genome into the canonical configuration it stands for."""
        return self._remembered_configuration(genome)

    def _decoded(self, genome: Genome) -> Configuration:
        settings: dict[str, Value | None] = {}
        allocator = ""
        for index in self.acting(genome).genes:
            parameter, level = self.parameters[index], genome[index]
            if parameter.name == ALLOCATOR:
                allocator = str(parameter.levels[level])
            elif not parameter.is_structural:
                settings[parameter.name.split(".", 1)[1]] = parameter.levels[level]
        return Configuration.of(allocator, settings)

    def encode(self, configuration: Configuration) -> Genome:
        """Turn a configuration into a genome that decodes to it.

        Structural genes take the first level that makes the set children active.

        Raises:
            ValueError: the configuration names a setting or a value outside the space.
        """
        types = tuple([type(value) for _, value in configuration.settings])
        return self._remembered_genome(configuration, types)

    def genome_of(self, configuration: Configuration) -> Genome | None:
        """Return `encode` of a configuration; None of one that lies outside."""
        try:
            return self.encode(configuration)
        except ValueError:
            return None

    def genomes_of(self, configurations: Iterable[Configuration]) -> list[Genome]:
        """Return the genomes of the configurations that lie in the space."""
        genomes = map(self.genome_of, configurations)
        return [genome for genome in genomes if genome is not None]

    @cached_property
    def _remembered_genome(self) -> Callable[[Configuration, tuple[type, ...]], Genome]:
        """`encode` of the last configurations: every batch encodes all earlier trials.

        Types are part of what is remembered, since true equals 1.
        """
        return lru_cache(_N_REMEMBERED)(self._encoded)

    def _encoded(self, configuration: Configuration, _: tuple[type, ...]) -> Genome:
        wanted = configuration.as_dict
        genome = list(self._resting)
        for index in self._genes_of[ALLOCATOR]:
            genome[index] = self._index(self.parameters[index], configuration.allocator)
        for index in self._genes_of.get(configuration.allocator, ()):
            genome[index] = self._level_for(self.parameters[index], wanted)
        if self.decode(tuple(genome)) != configuration:
            raise ValueError(f"{configuration} lies outside the search space")
        return self.canonical(tuple(genome))

    @cached_property
    def _genes_of(self) -> Mapping[str, Sequence[int]]:
        """Indices of the genes of each allocator; under `ALLOCATOR` that of the gene itself."""
        genes: dict[str, list[int]] = {}
        for index, parameter in enumerate(self.parameters):
            genes.setdefault(parameter.name.split(".", 1)[0], []).append(index)
        return genes

    def _level_for(self, parameter: Parameter, wanted: Mapping[str, Value]) -> int:
        setting = parameter.name.split(".", 1)[1]
        if parameter.is_structural:
            return self._structural_level(parameter, wanted)
        if setting in wanted:
            return self._index(parameter, wanted[setting])
        return self._unset(parameter)

    def _structural_level(self, parameter: Parameter, wanted: Mapping[str, Value]) -> int:
        for child in self.parameters:
            condition = child.condition
            if condition is None or condition.parameter != parameter.name:
                continue
            if child.name.split(".", 1)[1] in wanted:
                return self._index(parameter, condition.values[0])
        return parameter.resting

    @staticmethod
    def _unset(parameter: Parameter) -> int:
        return parameter.levels.index(None) if None in parameter.levels else 0

    @staticmethod
    def _index(parameter: Parameter, value: Value | None) -> int:
        for index, level in enumerate(parameter.levels):
            if level == value and type(level) is type(value):
                return index
        raise ValueError(f"{parameter.name} has no level {value!r}")

    def random(self, rng: np.random.Generator) -> Genome:
        """Draw every gene uniformly over its levels; the result is canonical."""
        return self.canonical(tuple(int(rng.integers(n)) for n in self.n_levels))

    def defaults(self) -> Iterator[Genome]:
        """Yield the genome of every allocator's shipped default, where it may be left unset."""
        yield from self.genomes_of(map(Configuration, self.allocators))


def joint_space(parts: Mapping[str, Sequence[Parameter]]) -> Space:
    """Join the parameters of several allocators under one allocator gene.

    Args:
        parts: for each allocator its parameters, named ``<allocator>.<setting>``;
            a parameter without a condition becomes conditional on its allocator.

    Returns:
        A space whose first gene is the allocator.
    """
    genes = [Parameter(ALLOCATOR, tuple(parts), ordered=False)]
    for allocator, parameters in parts.items():
        owner = Condition(ALLOCATOR, (allocator,))
        genes.extend(replace(p, condition=p.condition or owner) for p in parameters)
    return Space(tuple(genes))
