"""Instructions of the whole program, once for what is answered: no load can reach them.

They say in which direction work goes, not how much time it takes: caches, page faults and the
kernel are not in them.  So they stand beside CPU time and decide nothing; where both disagree,
the answer says so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Final, Protocol, runtime_checkable

from tuner.errors import MissingToolError
from tuner.optimize.judgement import Gain, Rules
from tuner.optimize.quantities import CPU
from tuner.optimize.tuned import AS_IS, Reference
from tuner.optimize.work import Work
from tuner.output import write_text
from tuner.records import Configuration

COUNTED_FILE: Final = "counted.json"
"""Label -> instructions, in a run folder."""

_SLOWDOWN = 25.0
"""At most, of a program that is counted."""

_START_S = 2.0
"""Of a count."""

_SHARE_OF_TIME = 0.15
"""Of what was given: no more goes to counting."""


@runtime_checkable
class CountsWork(Protocol):
    """What is tuned, where its instructions can be counted."""

    def count(
        self,
        candidates: Mapping[str, Configuration],
        reference: Reference,
        label: str,
        timeout_s: float,
    ) -> int | None:
        """Return the instructions of one run.

        Args:
            candidates: label -> setting.
            reference: the program as it is.
            label: of a candidate, or `AS_IS`.
            timeout_s: limit of the run.

        Returns:
            None when it did not end in time or left no count.

        Raises:
            MissingToolError: there is nothing to count with.
        """
        ...


def count_seconds(reference: Reference) -> float:
    """Return how long counting one answer takes at most: the program as it is, and one other."""
    return 2.0 * (_START_S + _SLOWDOWN * reference.wall_s)


def is_affordable(work: Work, reference: Reference) -> bool:
    """Return whether counting fits in its share of the time."""
    is_countable = isinstance(work.tuned, CountsWork)
    return is_countable and count_seconds(reference) <= _SHARE_OF_TIME * work.watch.seconds


def change_of_work(
    work: Work, reference: Reference, label: str, candidates: Mapping[str, Configuration]
) -> float | None:
    """Return the change of instructions under a candidate, -0.05 for 5 % less; kept once counted.

    Args:
        work: the optimisation.
        reference: the program as it is.
        label: of the candidate.
        candidates: label -> setting.

    Returns:
        None where it cannot be counted, or not in its share of the time.
    """
    path = work.run / COUNTED_FILE
    known: dict[str, int] = json.loads(path.read_bytes()) if path.exists() else {}
    tuned = work.tuned
    for name in (AS_IS, label):
        if name in known:
            continue
        if not is_affordable(work, reference) or not isinstance(tuned, CountsWork):
            return None
        work.view.begin("counting instructions", None)
        try:
            found = tuned.count(candidates, reference, name, count_seconds(reference) / 2.0)
        except MissingToolError:
            return None
        if not found:
            return None
        known[name] = found
        write_text(path, json.dumps(known, indent=1) + "\n")
    return known[label] / known[AS_IS] - 1.0


def disagreement(gains: Mapping[str, Gain], change: float | None, rules: Rules) -> str | None:
    """Return what is said where instructions and CPU time point in different directions."""
    gain = gains.get(CPU)
    if gain is None or change is None or gain.bounds is None:
        return None
    low, high = gain.bounds
    is_opposite = (high < 0.0 and change > rules.least) or (low > 0.0 and change < -rules.least)
    if not is_opposite or math.isnan(change):
        return None
    return (
        f"CPU time changes by {100.0 * gain.change:+.1f} %, instructions by {100.0 * change:+.1f} %"
        ": the difference lies in caches, page faults or the kernel, not in the program's work."
    )
