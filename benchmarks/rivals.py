"""Searches directly on a program, to compare with: Optuna's TPE and SMAC3, both multi-objective.

Each proposes one setting after the other, the program runs once under it, and what it measured
goes back: mean memory and CPU time.  Both begin with every allocator's default, and what they
would report is what they saw undominated, without more peak memory than `optimize` allows.  SMAC3
is no dependency of malloc-tuner; without ``pip install '.[rivals]'`` it is left out.

Sources: Watanabe, "Tree-Structured Parzen Estimator", arXiv 2304.11127, 2023.  Lindauer and
others, "SMAC3: A versatile Bayesian optimization package for hyperparameter optimization", JMLR
23, 2022; with several objectives it uses ParEGO (Knowles, IEEE Transactions on Evolutionary
Computation 10, 2006).
"""

from __future__ import annotations

import importlib.util
import math
import sys
import time
from collections.abc import Callable
from typing import Final

from benchmarks.fronts import GOALS, undominated
from tuner.compare.plan import Step
from tuner.optimize.proof.judgement import Rules
from tuner.optimize.quantities import PEAK
from tuner.optimize.tuned import Reference, Tuned
from tuner.records import Configuration
from tuner.search import Strategy, Told, make_strategy
from tuner.space import Space

TPE, SMAC = "TPE", "SMAC3"
_SUBJECT: Final = "tried"


def made(rival: str, space: Space, seed: int) -> Strategy:
    """Return what proposes, one setting at a time but for the defaults."""
    first = list(space.defaults())
    if rival == TPE:
        return make_strategy("tpe", space, len(GOALS), population=1, seed=seed, initial=first)
    from benchmarks.search_rivals import Smac  # noqa: PLC0415 - where it is installed

    return Smac(space, len(GOALS), 1, seed, first)


def is_there(rival: str) -> bool:
    """Return whether the library of a rival is installed; say so where it is not."""
    library = "optuna" if rival == TPE else "smac"
    if importlib.util.find_spec(library) is not None:
        return True
    print(f"{rival}: left out; pip install {library}", file=sys.stderr)
    return False


def searched(
    rival: Strategy,
    tuned: Tuned,
    reference: Reference,
    space: Space,
    seconds: float,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> list[Configuration]:
    """Search until the time is up, and return a few seen undominated, the least memory first.

    Args:
        rival: proposes.
        tuned: what runs.
        reference: it, as it is.
        space: of the proposals.
        seconds: for all runs and proposals.
        clock: in seconds; only differences count.
    """
    seen: dict[Configuration, tuple[float, ...]] = {}
    end_s = clock() + seconds
    number = 0
    while asked := rival.ask():
        told = []
        for genome in asked:
            if clock() + reference.wall_s >= end_s:
                return undominated(seen)
            configuration = space.decode(genome)
            ratios = _run(tuned, reference, configuration, number)
            values = tuple(ratios[goal] for goal in GOALS) if ratios else None
            told.append(Told(genome, values, 0.0 if values else 1.0))
            if ratios and values and math.log(ratios[PEAK]) <= Rules().margin(PEAK):
                seen[configuration] = tuple(map(math.log, values))
            number += 1
        rival.tell(told)
    return undominated(seen)


def _run(
    tuned: Tuned, reference: Reference, configuration: Configuration, number: int
) -> dict[str, float] | None:
    if tuned.refusal(configuration) is not None:
        return None
    found = tuned.runner({_SUBJECT: configuration}, reference)(Step(number, 0, None, _SUBJECT))
    if found.good is None:
        return None
    return {name: found.good[name] / reference.values[name] for name in (*GOALS, PEAK)}
