"""Counted work of the whole program, for what is answered: no load can reach it.

Instructions (once, by cachegrind), page faults and system calls (once, by supervise).  They say in
which direction work goes, not how much time it takes.  So they stand beside CPU time and decide
nothing; where they disagree with it, the answer says so and what may be the reason.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from tuner.errors import MissingToolError
from tuner.optimize.judgement import Gain, Rules
from tuner.optimize.quantities import CPU
from tuner.optimize.tuned import AS_IS, Reference
from tuner.optimize.work import Work
from tuner.output import write_text
from tuner.records import Configuration

COUNTED_FILE: Final = "counted.json"
"""Label -> what was counted, in a run folder."""

INSTRUCTIONS, FAULTS, SYSCALLS = "instructions", "page faults", "system calls"
KERNEL: Final = (FAULTS, SYSCALLS)
"""What the kernel does for the program."""

Counts = Mapping[str, int]
"""What was counted -> how much, above 0."""

_SLOWDOWN = 25.0
"""At most, of a program whose instructions are counted."""

_KERNEL_SLOWDOWN = 2.0
"""Of one whose system calls are, as a rule."""

_START_S = 2.0
"""Of a count."""

_SHARE_OF_TIME = 0.15
"""Of what was given: no more goes to counting."""


@runtime_checkable
class CountsWork(Protocol):
    """What is tuned, where its work can be counted."""

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

    def count_kernel(
        self, candidates: Mapping[str, Configuration], reference: Reference, label: str
    ) -> Counts:
        """Return page faults and system calls of one run; nothing of what was not counted."""
        ...


def count_seconds(reference: Reference) -> float:
    """Return how long counting one answer takes at most: the program as it is, and one other."""
    return 2.0 * (_START_S + _SLOWDOWN * reference.wall_s)


def is_affordable(work: Work, reference: Reference) -> bool:
    """Return whether counting instructions fits in its share of the time."""
    is_countable = isinstance(work.tuned, CountsWork)
    return is_countable and count_seconds(reference) <= _SHARE_OF_TIME * work.watch.seconds


def changes_of_work(
    work: Work, reference: Reference, label: str, candidates: Mapping[str, Configuration]
) -> dict[str, float]:
    """Return the changes of counted work under a candidate, -0.05 for 5 % less; kept once counted.

    Args:
        work: the optimisation.
        reference: the program as it is.
        label: of the candidate.
        candidates: label -> setting.

    Returns:
        Nothing of what cannot be counted, or not in its share of the time.
    """
    tuned = work.tuned
    if not isinstance(tuned, CountsWork):
        return {}
    kept = _Kept(work.run / COUNTED_FILE)
    limit_s = count_seconds(reference) / 2.0

    def kernel(name: str) -> Counts:
        return tuned.count_kernel(candidates, reference, name)

    def instructions(name: str) -> Counts:
        found = tuned.count(candidates, reference, name, limit_s)
        return {INSTRUCTIONS: found} if found else {}

    kernel_s = 2.0 * _KERNEL_SLOWDOWN * reference.wall_s
    for whats, count, is_in_time in (
        (KERNEL, kernel, kernel_s <= _SHARE_OF_TIME * work.watch.seconds),
        ((INSTRUCTIONS,), instructions, is_affordable(work, reference)),
    ):
        for name in (AS_IS, label):
            if is_in_time and not kept.has(name, whats):
                work.view.begin(f"counting {whats[0]}", None)
                try:
                    found = count(name)
                except MissingToolError:
                    break
                if not found:
                    break
                kept.add(name, found)
    base, mine = kept.of(AS_IS), kept.of(label)
    return {
        what: mine[what] / base[what] - 1.0
        for what in (INSTRUCTIONS, *KERNEL)
        if base.get(what) and what in mine
    }


class _Kept:
    """What was counted, in its file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        found = json.loads(path.read_bytes()) if path.exists() else {}
        # Of earlier versions: instructions alone.
        self._counts: dict[str, dict[str, int]] = {
            label: {INSTRUCTIONS: known} if isinstance(known, int) else known
            for label, known in found.items()
        }

    def of(self, label: str) -> Counts:
        return self._counts.get(label, {})

    def has(self, label: str, whats: tuple[str, ...]) -> bool:
        return any(what in self.of(label) for what in whats)

    def add(self, label: str, found: Counts) -> None:
        self._counts[label] = {**self.of(label), **found}
        write_text(self._path, json.dumps(self._counts, indent=1) + "\n")


def disagreement(
    gains: Mapping[str, Gain], changes: Mapping[str, float], rules: Rules
) -> str | None:
    """Return what is said where instructions and CPU time point in different directions."""
    gain, change = gains.get(CPU), changes.get(INSTRUCTIONS)
    if gain is None or change is None or gain.bounds is None:
        return None
    low, high = gain.bounds
    is_opposite = (high < 0.0 and change > rules.least) or (low > 0.0 and change < -rules.least)
    if not is_opposite or math.isnan(change):
        return None
    said = f"CPU time changes by {_percent(gain.change)}, instructions by {_percent(change)}"
    return f"{said}: {_reason(gain.change, changes, rules.least)}."


def _reason(change: float, changes: Mapping[str, float], least: float) -> str:
    known = {what: changes[what] for what in KERNEL if what in changes}
    alike = [
        f"{what} change by {_percent(value)}"
        for what, value in known.items()
        if abs(value) > least and (value > 0.0) == (change > 0.0)
    ]
    if alike:
        return f"{' and '.join(alike)}, and caches may differ"
    if known:
        return f"neither {' nor '.join(known)} go with the time, so caches differ"
    return "the difference lies in caches, page faults or the kernel, not in the program's work"


def _percent(share: float) -> str:
    return f"{100.0 * share:+.1f} %"
