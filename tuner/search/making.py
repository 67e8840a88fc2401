"""Make a strategy by its name in `tuner.registry`, and choose its population."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuner.errors import MissingToolError, SpecError, installing
from tuner.moocore import load_moocore
from tuner.registry import STRATEGIES, Entry
from tuner.search.base import Strategy
from tuner.space import Genome, Space

if TYPE_CHECKING:
    from tuner.search.surrogate import Surrogate


def make_strategy(
    name: str,
    space: Space,
    n_objectives: int,
    *,
    population: int,
    seed: int,
    initial: Sequence[Genome],
    priors: Sequence[Surrogate | None] = (),
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
        priors: of each objective what a cheaper source expects, in logarithms, None where it knows
            nothing; for `auto` alone.  None given: nothing is known.

    Raises:
        SpecError: there is no strategy of that name, or it cannot search this space.
        MissingToolError: the library it rests on is not installed.
    """
    entry = find_strategy(name)
    load_moocore()  # before pymoo does
    try:
        make = entry.load()
    except ModuleNotFoundError as error:
        raise MissingToolError(
            f"strategy {name}: {error}; {installing(entry.distribution or name)}"
        ) from error
    known = {"priors": priors} if priors else {}
    strategy: Strategy = make(space, n_objectives, population, seed, initial, **known)
    return strategy


def find_strategy(name: str) -> Entry:
    """Return the entry of a strategy.

    Raises:
        SpecError: there is none of that name.
    """
    if name not in STRATEGIES:
        raise SpecError(f"strategy {name!r} is unknown; choose among {', '.join(STRATEGIES)}")
    return STRATEGIES[name]


_EVALUATIONS_PER_MEMBER = 20
_SMALLEST, _LARGEST, _MULTIPLE = 16, 40, 4
_OF_ANY_BUDGET = ("auto",)
"""Strategies that learn more from many small generations than from a few large ones."""


def population_for(budget: int, strategy: str = "") -> int:
    """Return the population that suits a budget: a twentieth of it, within 16 .. 40; of `auto` 16.

    Textbook populations of 100 are hardly better than random search up to 200
    evaluations.  The result is a multiple of 4, which DEAP's tournament needs.

    Source: `benchmarks/search.py --print`, NSGA-II of pymoo with 100 and with 20.

    Example:
        >>> population_for(100), population_for(500), population_for(5000)
        (16, 24, 40)
        >>> population_for(5000, "auto")
        16
    """
    if strategy in _OF_ANY_BUDGET:
        return _SMALLEST
    size = min(max(budget / _EVALUATIONS_PER_MEMBER, _SMALLEST), _LARGEST)
    return round(size / _MULTIPLE) * _MULTIPLE
