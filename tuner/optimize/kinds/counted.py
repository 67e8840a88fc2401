"""Counted work of the whole program: no load can reach it.

Instructions (by cachegrind), page faults and system calls (by supervise), once for every candidate
and twice for the program as it is.  Where these two agree, the count proves what it shows: work is
less, or no more, if the instructions alone say so, and with page faults and system calls at their
prices, too.  Where CPU time says something else, the answer says so and what may be the reason.
"""

import contextlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from tuner.errors import MissingToolError, StoreError, TunerError, what_is_wrong
from tuner.measure.calibration import load_calibration
from tuner.optimize.proof.judgement import Gain, Rules, Standing
from tuner.optimize.quantities import CPU
from tuner.optimize.tuned import AS_IS, Reference
from tuner.optimize.work import Work
from tuner.output import write_text
from tuner.records import Configuration
from tuner.units import percent_range, signed_percent

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

_AGAIN: Final = "as it is, again"
"""Label of the second count of the program as it is."""

_REPEATS: Final = 0.2
"""Of the least effect, within which two counts of the program as it is agree."""


@runtime_checkable
class CountsWork(Protocol):
    """What is tuned, where its work can be counted."""

    @property
    def can_count(self) -> bool:
        """Whether there is an instrument for instructions."""
        ...

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
        """Return page faults and system calls of one run.

        Nothing of what was not counted, nor where children work too, whose work is not counted.
        """
        ...


def count_seconds(reference: Reference) -> float:
    """Return how long counting one answer takes at most: the program as it is, and one other."""
    return 2.0 * (_START_S + _SLOWDOWN * reference.wall_s)


def seconds_to_count(work: Work, reference: Reference, labels: Iterable[str]) -> float:
    """Return how long the counts at most take that an answer still wants.

    Args:
        work: the optimisation.
        reference: the program as it is, which is counted too.
        labels: of the candidates, one of which the answer will name.
    """
    if not is_affordable(work, reference):
        return 0.0
    kept = _Kept(work.run / COUNTED_FILE)

    def is_missing(label: str) -> bool:
        return not kept.has(label, (INSTRUCTIONS,)) and (label, INSTRUCTIONS) not in work.uncounted

    n_counts = is_missing(AS_IS) + any(map(is_missing, labels))
    return n_counts * count_seconds(reference) / 2.0


def is_affordable(work: Work, reference: Reference) -> bool:
    """Return whether counting instructions fits in its share of the time."""
    return _can_count(work) and count_seconds(reference) <= _SHARE_OF_TIME * work.watch.seconds


def _can_count(work: Work) -> bool:
    return isinstance(work.tuned, CountsWork) and work.tuned.can_count


def _has_threads(reference: Reference) -> bool:
    return (reference.n_threads or 1) > 1


def n_countable(work: Work, reference: Reference) -> int:
    """Return of how many candidates there is time to count the work, so that it proves something.

    For that the program as it is is counted twice.
    """
    if not _can_count(work) or _has_threads(reference):
        return 0
    n_counts = int(_SHARE_OF_TIME * work.watch.seconds / (count_seconds(reference) / 2.0))
    return max(0, n_counts - len((AS_IS, _AGAIN)))


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
    counting = _Counting(work, reference, candidates)
    base = counting.counts(AS_IS)
    mine = counting.counts(label) if base else {}
    return {
        what: mine[what] / base[what] - 1.0
        for what in (INSTRUCTIONS, *KERNEL)
        if base.get(what) and what in mine
    }


def gains_of_work(
    work: Work, reference: Reference, candidates: Mapping[str, Configuration]
) -> dict[str, float]:
    """Return what candidates save of the program's work, as far as counting proves it.

    Args:
        work: the optimisation.
        reference: the program as it is.
        candidates: label -> setting, the most promising first.

    Returns:
        Label -> log(as it is / candidate), the lesser of instructions alone and of all work at the
        prices of this machine.  Empty where the program's own work differs from run to run, where
        CPU time counts for nothing, where children work, and without an instrument or time; and of
        a program with threads: cachegrind runs one at a time, so that none waits for another.
    """
    rules = work.request.rules
    if _has_threads(reference) or CPU not in (*rules.goals, *rules.guards):
        return {}
    found = {}
    counting = _Counting(work, reference, candidates)
    labels = counting.countable()
    if not labels or not counting.repeats(_REPEATS * rules.least):
        return {}
    for label in labels:
        gain = counting.gain(label)
        if gain is not None:
            found[label] = gain
    return found


class _Counting:
    """Counts what is missing, and compares."""

    def __init__(
        self, work: Work, reference: Reference, candidates: Mapping[str, Configuration]
    ) -> None:
        self._work, self._reference, self._candidates = work, reference, candidates
        self._kept = _Kept(work.run / COUNTED_FILE)

    def countable(self) -> list[str]:
        """Return the candidates that were counted, and the first others that there is time for.

        None of them where the program as it is was not counted twice, and cannot be.
        """
        names = (AS_IS, _AGAIN, *self._candidates)
        kept = self._kept.of_instructions()
        n_others = n_countable(self._work, self._reference)
        n_more = max(0, n_others + len((AS_IS, _AGAIN)) - len(kept)) if n_others else 0
        missing = [name for name in names if name not in kept][:n_more]
        one_s = count_seconds(self._reference) / 2.0
        if len(missing) * one_s > max(self._work.watch.left_s, 0.0):
            missing = []
        wanted = {*kept, *missing}
        return [name for name in self._candidates if name in wanted] if _AGAIN in wanted else []

    def repeats(self, most: float) -> bool:
        """Return whether two counts of the program as it is differ by no more than a share."""
        first = self.counts(AS_IS).get(INSTRUCTIONS, 0)
        again = self.counts(_AGAIN).get(INSTRUCTIONS, 0) if first else 0
        return again > 0 and max(first, again) / min(first, again) - 1.0 <= most

    def gain(self, label: str) -> float | None:
        """Return the least gain that the counts show; None where something was not counted."""
        base, mine = self.counts(AS_IS), self.counts(label)
        wanted = {INSTRUCTIONS, *KERNEL}
        if not wanted <= base.keys() & mine.keys():
            return None
        try:
            prices = load_calibration()
        except TunerError:
            return None
        before, after = (
            one[INSTRUCTIONS] + prices.c_fault * one[FAULTS] + prices.c_syscall * one[SYSCALLS]
            for one in (base, mine)
        )
        return min(math.log(base[INSTRUCTIONS] / mine[INSTRUCTIONS]), math.log(before / after))

    def counts(self, name: str) -> Counts:
        """Return what is counted of the program under a label, as far as there is time for it."""
        tuned = self._work.tuned
        if not isinstance(tuned, CountsWork):
            return {}
        label = AS_IS if name == _AGAIN else name
        limit_s = count_seconds(self._reference) / 2.0

        def kernel() -> Counts:
            return tuned.count_kernel(self._candidates, self._reference, label)

        def instructions() -> Counts:
            found = tuned.count(self._candidates, self._reference, label, limit_s)
            return {INSTRUCTIONS: found} if found else {}

        kernel_s = 2.0 * _KERNEL_SLOWDOWN * self._reference.wall_s
        is_kernel_in_time = kernel_s <= _SHARE_OF_TIME * self._work.watch.seconds
        if name != _AGAIN and is_kernel_in_time:
            self._count(name, KERNEL, kernel)
        if is_affordable(self._work, self._reference):
            self._count(name, (INSTRUCTIONS,), instructions)
        return self._kept.of(name)

    def _count(self, name: str, whats: tuple[str, ...], count: Callable[[], Counts]) -> None:
        if self._kept.has(name, whats) or (name, whats[0]) in self._work.uncounted:
            return
        if self._work.is_elsewhere:
            return
        self._work.view.begin(f"counting {whats[0]}", None)
        found: Counts = {}
        with contextlib.suppress(MissingToolError):
            found = count()
        self._kept.add(name, found)
        if not found:
            self._work.uncounted.add((name, whats[0]))


class _Kept:
    """What was counted, in its file.

    Raises:
        StoreError: the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._counts: dict[str, dict[str, int]] = {}
        try:
            found = json.loads(path.read_bytes()) if path.exists() else {}
            for label, counts in found.items():
                self._counts[label] = {what: int(n) for what, n in counts.items()}
        except (OSError, AttributeError, TypeError, ValueError) as error:
            message = f"{path}: damaged ({what_is_wrong(error)}); remove it to count again"
            raise StoreError(message) from error

    def of(self, label: str) -> Counts:
        return self._counts.get(label, {})

    def of_instructions(self) -> list[str]:
        """Return the labels whose instructions were counted."""
        return [label for label in self._counts if self.has(label, (INSTRUCTIONS,))]

    def has(self, label: str, whats: tuple[str, ...]) -> bool:
        return any(what in self.of(label) for what in whats)

    def add(self, label: str, found: Counts) -> None:
        if not found:
            return
        self._counts[label] = {**self.of(label), **found}
        write_text(self._path, json.dumps(self._counts, indent=1) + "\n")


def counted_words(best: Standing) -> tuple[str, ...]:
    """Say what of an answer rests on counted work, and what the CPU time showed beside it."""
    if CPU not in best.by_count:
        return ()
    work = math.expm1(-best.by_count[CPU])
    time = best.gains[CPU]
    ends = "too few rounds for bounds"
    alone = "alone does not prove it"
    if time.bounds is not None:
        ends = percent_range(*time.bounds)
        if time.low > 0.0:
            alone = "agrees, in too few rounds to prove it alone"
    claim = "proves a gain" if CPU in best.better else "proves that there is no loss that counts"
    words = (
        f"Counted work, which no load changes, {claim}: instructions, with and without page faults "
        f"and system calls at their prices, change by {signed_percent(work)} or less. CPU time "
        f"{alone}: {signed_percent(time.change)} ({ends})."
    )
    return (words,)


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
    time, work = signed_percent(gain.change), signed_percent(change)
    said = f"CPU time changes by {time}, instructions by {work}"
    return f"{said}: {_reason(gain.change, changes, rules.least)}."


def _reason(change: float, changes: Mapping[str, float], least: float) -> str:
    known = {what: changes[what] for what in KERNEL if what in changes}
    alike = [
        f"{what} change by {signed_percent(value)}"
        for what, value in known.items()
        if abs(value) > least and (value > 0.0) == (change > 0.0)
    ]
    if alike:
        return f"{' and '.join(alike)}, and caches may differ"
    if known:
        return f"neither {' nor '.join(known)} go with the time, so caches differ"
    return "the difference lies in caches, page faults or the kernel, not in the program's work"
