"""How much runs vary that should be alike: standard deviations of the logarithm of one run."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tuner.compare.plan import Course
from tuner.optimize.proof.duets import logs_in_proof, n_at_once, runs_as_on_one, usual_mode
from tuner.optimize.proof.judgement import Rules, agree, exact_quantities
from tuner.optimize.proof.machines import MACHINE
from tuner.optimize.quantities import TABLE
from tuner.optimize.tuned import AS_IS, Sample, allocator_of, values_of
from tuner.stats import robust_sd

RUNS_TO_KNOW, RUNS_TO_GUESS = 6, 4
"""Runs from which it is known how much something varies, and from which it may be guessed."""

USUAL_NOISE: Final = 0.03
"""Of CPU time, assumed until it can be guessed."""

_LEAST_NOISE: Final = 0.01
"""Of CPU time: runs that agree better do so by luck."""

_ALIKE: Final = 2
"""Runs of one setting that are compared."""

OF_MEDIANS: Final = math.sqrt(math.pi / 2.0)
"""Standard error of a median, in those of a mean, of many normal values."""


def noise_of(values: Sequence[float], *, has_floor: bool) -> float:
    """Return how much values vary, with or without a floor."""
    found = robust_sd([math.log(value) for value in values])
    if not has_floor:
        return found
    return max(found, _LEAST_NOISE if len(values) >= RUNS_TO_GUESS else USUAL_NOISE)


def noise_of_few(runs: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return quantity -> how much its runs vary; times at least by some.

    Args:
        runs: quantity -> values, as `runs_as_is` returns them.
    """
    return {
        name: noise_of(values, has_floor=not TABLE[name].is_memory) for name, values in runs.items()
    }


def exact_of(course: Course[None, Sample], rules: Rules, label: str = AS_IS) -> frozenset[str]:
    """Return the quantities of a subject that repeat themselves on every machine.

    Args:
        course: the runs.
        rules: what counts.
        label: of the subject.
    """
    both = (values_of(course, label), runs_as_on_one(course, label))
    return frozenset().union(*(exact_quantities(runs, rules) for runs in both))


def repeated_under(course: Course[None, Sample], rules: Rules) -> dict[tuple[str, str], bool]:
    """Return allocator and quantity -> whether runs of a setting are alike, for all that ran twice.

    Of a peak that is one of two, some of many settings show the same one in all of a few runs.

    Args:
        course: the runs; a label begins with the name of its allocator.
        rules: what counts.
    """
    seen: dict[tuple[str, str, float | None, float], list[float]] = {}
    for (_, _, label), sample in course.samples.items():
        run = sample.good or {}
        for name in (one for one in run if one in TABLE and label != AS_IS):
            seen.setdefault((label, name, run.get(MACHINE), n_at_once(run)), []).append(run[name])
    found: dict[tuple[str, str], bool] = {}
    for (label, name, *_), values in seen.items():
        if len(values) >= _ALIKE:
            key = allocator_of(label), name
            found[key] = found.get(key, True) and agree(values, rules, _ALIKE)
    return found


def varying_under(course: Course[None, Sample], rules: Rules) -> dict[str, frozenset[str]]:
    """Return allocator -> what runs of a setting do not repeat; see `repeated_under`."""
    found: dict[str, frozenset[str]] = {}
    for (allocator, name), is_alike in repeated_under(course, rules).items():
        if not is_alike:
            found[allocator] = found.get(allocator, frozenset()) | {name}
    return found


def noise_as_it_is(course: Course[None, Sample]) -> dict[str, float]:
    """Return how much the program as it is varies from one run to the next.

    What changes slowly, such as load, meets all runs of a round alike, and is not in it; nor is by
    what machines differ.  Memory is that of runs one by one, which alone prove something of it.

    Returns:
        By quantity, without what few runs show.
    """
    last: dict[tuple[float, float], Sample] = {}
    found: dict[str, list[float]] = {}
    usual = usual_mode(course)
    for _, run in sorted(course.good(None, AS_IS).items()):
        place = run.get(MACHINE, 0.0), n_at_once(run)
        before, last[place] = last.get(place, {}), run
        for name in (one for one in run if one in TABLE and one in before):
            if place[1] == (1.0 if TABLE[name].is_memory else usual):
                found.setdefault(name, []).append(math.log(run[name] / before[name]))
    return {name: _of_one(logs) for name, logs in found.items() if len(logs) >= RUNS_TO_KNOW - 1}


def noise_in_rounds(course: Course[None, Sample], labels: Iterable[str]) -> dict[str, float]:
    """Return by how much the runs of one round differ, as the noise of one run.

    What slows a whole round down, load or more runs at once, is not in it.

    Args:
        course: the rounds.
        labels: of the candidates.

    Returns:
        By quantity, without what few rounds show.
    """
    centred: dict[str, list[float]] = {}
    for label in labels:
        for name, logs in logs_in_proof(course, label)[0].items():
            middle = statistics.median(logs)
            centred.setdefault(name, []).extend(log - middle for log in logs)
    return {name: _of_one(found) for name, found in centred.items() if len(found) >= RUNS_TO_KNOW}


def _of_one(differences: Sequence[float]) -> float:
    """Return how much one run varies by differences of two."""
    return robust_sd(differences) / math.sqrt(2.0)
