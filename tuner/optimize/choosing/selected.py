"""What few runs of each setting showed; they choose candidates and are no evidence for them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tuner.compare.plan import Course
from tuner.optimize.choosing.proposals import Proposal
from tuner.optimize.proof.duets import is_alike, runs_as_is, runs_together
from tuner.optimize.proof.judgement import Gain
from tuner.optimize.proof.noise import noise_of_few
from tuner.optimize.quantities import TABLE
from tuner.optimize.tuned import AS_IS, Sample, log_gain, values_of

_NEAREST: Final = 15
"""Runs of the program as it is whose middle counts: it is off by a third of what one is."""


@dataclass
class Selected:
    """What few runs of each showed."""

    course: Course[None, Sample]
    labels: Mapping[str, Proposal]
    changes: dict[str, dict[str, Gain]] = field(default_factory=dict)
    """Of those that ran well, by label and quantity; few runs bound nothing."""
    failures: dict[str, str] = field(default_factory=dict)
    """Label -> why it failed."""
    n_untried: int = 0
    """Settings that never ran and may still gain enough, as far as emulation and the runs say."""
    may_show: bool = True
    """With more time, some may gain enough."""
    beyond: Mapping[str, float] = field(default_factory=dict)
    """Goal -> share beyond its threshold, less than which there was no time to show."""

    @property
    def noise(self) -> dict[str, float]:
        """Quantity -> standard deviation of the logarithm of one run."""
        return noise_of_few(runs_as_is(self.course))


def gains_in(course: Course[None, Sample], label: str, name: str) -> list[float]:
    """Return the gains of every run of a candidate in a quantity, in logarithms.

    What ran beside the program as it is is compared with that run.  Else with the middle of the
    runs of it that are nearest, on the same machine with as many beside: one slow run of it would
    favour all that ran after it, and other load at another time what ran then.
    """
    base, mine = (
        {number: run for number, run in course.good(None, one).items() if name in run}
        for one in (AS_IS, label)
    )
    if not base:
        return []
    found = []
    for number, run in mine.items():
        like = [at for at, one in base.items() if is_alike(one, run)]
        beside = [number] if runs_together(run) and number in base else like
        nearest = sorted(beside or base, key=lambda at: abs(at - number))[:_NEAREST]
        before = statistics.median(base[at][name] for at in nearest)
        found.append(log_gain(name, before, run[name]))
    return found


def selected_of(
    course: Course[None, Sample],
    labels: Mapping[str, Proposal],
    smoothed: Mapping[str, Mapping[str, float]] | None = None,
) -> Selected:
    """Return what few runs of each showed.

    Args:
        course: the runs.
        labels: label -> what ran.
        smoothed: label -> quantity -> log(setting / program as it is), or its negative where more
            is better, as all runs together say; None where nothing smooths them.
    """
    found = Selected(course, labels)
    for label in labels:
        gains = {name: gains_in(course, label, name) for name in values_of(course, AS_IS)}
        expected = (smoothed or {}).get(label, {})
        found.changes[label] = {
            name: Gain(
                statistics.median(values),
                -math.inf,
                math.inf,
                is_more_better=TABLE[name].is_more_better,
                smoothed=-expected[name] if name in expected else None,
            )
            for name, values in gains.items()
            if values
        }
        failure = course.out.get((None, label))
        if failure:
            found.failures[label] = failure
    return found
