"""What was proposed already, and how to find what was not.

Two genomes are the same proposal when they decode to the same configuration:
a structural gene may differ without any effect.  Repeats teach nothing, so every
strategy filters through one `Novelty`.

When variation and chance no longer find anything new, the space is walked from
its first genome on.  The walk never restarts, so it costs one pass in all; what it
came by and was not proposed is remembered, and found again.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from tuner.records import Configuration, Value
from tuner.space import Genome, Space

_MAX_DRAWS = 200
"""Random draws in vain before the space is walked."""


class Novelty:
    """The configurations proposed so far."""

    def __init__(self, space: Space) -> None:
        """Start with nothing proposed."""
        self._space = space
        self._seen: set[Configuration] = set()
        self._walk = every_genome(space)
        self._passed: dict[Configuration, Genome] = {}
        """What the walk came by and was not proposed."""

    def add(self, genome: Genome) -> None:
        """Note that the genome has been proposed."""
        configuration = self._space.decode(genome)
        self._seen.add(configuration)
        self._passed.pop(configuration, None)

    def only_new(self, genomes: Iterable[Genome], besides: Iterable[Genome] = ()) -> list[Genome]:
        """Return the genomes that are new, without repeats, in order.

        Args:
            genomes: candidates.
            besides: genomes that count as proposed although they were not added.
        """
        met = {self._space.decode(genome) for genome in besides}
        new: list[Genome] = []
        for genome in genomes:
            configuration = self._space.decode(genome)
            if configuration not in self._seen and configuration not in met:
                met.add(configuration)
                new.append(genome)
        return new

    def draw(
        self, rng: np.random.Generator, n: int, besides: Iterable[Genome] = ()
    ) -> list[Genome]:
        """Return `n` new genomes drawn at random; fewer only when the space has no more.

        Args:
            rng: source of chance.
            n: how many are wanted.
            besides: genomes that count as proposed although they were not added.
        """
        taken = list(besides)
        n_fixed = len(taken)
        in_vain = 0
        while len(taken) - n_fixed < n and in_vain < _MAX_DRAWS:
            found = self.only_new([self._space.random(rng)], taken)
            in_vain = 0 if found else in_vain + 1
            taken += found
        walked = self._walked()
        while len(taken) - n_fixed < n and (genome := next(walked, None)) is not None:
            taken += self.only_new([genome], taken)
        return taken[n_fixed:]

    def _walked(self) -> Iterator[Genome]:
        """Yield what was not proposed: what the walk came by, then what it comes to."""
        yield from list(self._passed.values())
        for genome in self._walk:
            configuration = self._space.decode(genome)
            if configuration not in self._seen and configuration not in self._passed:
                self._passed[configuration] = self._space.canonical(genome)
                yield self._passed[configuration]


def every_genome(space: Space) -> Iterator[Genome]:
    """Yield genomes that stand for every configuration of the space, in lexicographic order.

    They need not be canonical, and some may decode to the same configuration.
    """
    parameters = space.parameters

    def extend(genome: Genome, values: dict[str, Value | None]) -> Iterator[Genome]:
        if len(genome) == len(parameters):
            yield genome
            return
        parameter = parameters[len(genome)]
        condition = parameter.condition
        if condition and values.get(condition.parameter, _INACTIVE) not in condition.values:
            yield from extend((*genome, 0), values)
            return
        for level, value in enumerate(parameter.levels):
            yield from extend((*genome, level), {**values, parameter.name: value})

    return extend((), {})


_INACTIVE: Value = "\0inactive"
"""Stands for the value of an inactive parent; no level is ever this text."""
