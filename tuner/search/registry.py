"""Strategies by name.

A new strategy is a class with the constructor of `RandomSearch` and one entry
in `STRATEGIES`; the contract suite in tests/unit/search/test_strategies.py then runs on
it.  Entries are import paths, so that a campaign pays only for the library it
uses: pymoo takes a third of a second to import.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.errors import SpecError
from tuner.search.base import Strategy
from tuner.space import Genome, Space


@dataclass(frozen=True)
class Entry:
    """Where a strategy is found."""

    module: str
    """Import path of its module."""
    class_name: str
    """Its class there."""
    summary: str
    """One line for help texts."""
    distribution: str | None = None
    """The library it rests on, whose version is recorded; None for our own."""


STRATEGIES: Mapping[str, Entry] = {
    "nsga2": Entry(
        "tuner.search.pymoo_nsga2", "PymooNsga2", "NSGA-II of pymoo, the default", "pymoo"
    ),
    "deap-nsga2": Entry("tuner.search.deap_nsga2", "DeapNsga2", "NSGA-II of DEAP", "deap"),
    "random": Entry("tuner.search.random_search", "RandomSearch", "random search, the baseline"),
}
"""Every strategy; the key is its name in campaign files."""


def make_strategy(
    name: str,
    space: Space,
    n_objectives: int,
    *,
    population: int,
    seed: int,
    initial: Sequence[Genome],
) -> Strategy:
    """Make a strategy that has not asked anything yet.

    Args:
        name: a key of `STRATEGIES`.
        space: what to search.
        n_objectives: number of objectives, at least one, all minimised.
        population: size of a generation, from `population_for`; must stay the same
            when a campaign is resumed or extended.
        seed: random seed; with the same results it gives the same proposals.
        initial: genomes asked first, in this order; defaults and seeds.

    Raises:
        SpecError: there is no strategy of that name.
    """
    entry = find_strategy(name)
    strategy_class = getattr(importlib.import_module(entry.module), entry.class_name)
    strategy: Strategy = strategy_class(space, n_objectives, population, seed, initial)
    return strategy


def find_strategy(name: str) -> Entry:
    """Return the entry of a strategy.

    Raises:
        SpecError: there is none of that name.
    """
    if name not in STRATEGIES:
        message = f"strategy {name!r} is unknown; choose among {', '.join(STRATEGIES)}"
        raise SpecError(message)
    return STRATEGIES[name]


_EVALUATIONS_PER_MEMBER = 20
_SMALLEST, _LARGEST, _MULTIPLE = 16, 40, 4


def population_for(budget: int) -> int:
    """Return the population that suits a budget: a twentieth of it, within 16 .. 40.

    Textbook populations of 100 are no better than random search below 300
    evaluations.  The result is a multiple of 4, which DEAP's tournament needs.

    Source: the comparison in docs/decisions/search.md.

    Example:
        >>> population_for(100), population_for(500), population_for(5000)
        (16, 24, 40)
    """
    size = min(max(budget / _EVALUATIONS_PER_MEMBER, _SMALLEST), _LARGEST)
    return round(size / _MULTIPLE) * _MULTIPLE
