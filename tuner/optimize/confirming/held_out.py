"""The winner on an input that was not tuned on: whether every guard holds there too.

Rounds go on until each guard is decided (in ten rounds, where time is left, which bound it, too,
but for what an answer decided in fewer), one is lost, or half of the time left is used; the other
half is for the reduction to fewer settings.  Where a guard looks worse then, rounds go on until it
is decided or the time is over.  So whether one looks worse is asked twice at most: the more often
one looks, the sooner the middle of few rounds is within the limit by luck.

Every winner has the few rounds that can show a loss, even where the time is over.

A guard that is lost turns the winner down.  One that neither holds nor is lost, and whose middle
is beyond its limit, leaves the answer open.  Why: docs/decisions/optimize.md.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tuner.compare.journal import read_journal
from tuner.compare.loop import ignore
from tuner.compare.plan import Course, Once, Plan, Rounds, Step
from tuner.optimize.confirming.race import standings
from tuner.optimize.proof.evidence import fewest_rounds, rounds_for
from tuner.optimize.proof.judgement import Gain, Rules, Standing, State
from tuner.optimize.tuned import AS_IS, Reference, Sample, Tuned, logs_of
from tuner.optimize.work import Work, held_out_file, run_seconds
from tuner.records import Configuration

SHARE_HELD_OUT: Final = 0.15
"""Of the time, kept for the held-out input at most."""

_ROUNDS: Final = 10
"""That time is kept for; fewer where it is too short, but never too few to show a loss."""

_MOST_ROUNDS: Final = 1000

_MANY: Final = 100
"""Rounds that did not settle what fewer should have: more may not either."""

_SHARE_OF_LEFT: Final = 0.5
"""Of the time that is left, for what does not look worse: the rest is for fewer settings."""

_ERROR: Final = 0.2
"""Of calling a loss one where there is none, and the reverse."""

_LATER: Final = 0.5
"""Of the limit of a guard, that the middle may be beyond where others were turned down before."""


def least_seconds(reference: Reference) -> float:
    """Return how long the fewest rounds of a winner take, in s."""
    return 2.0 * fewest_rounds(_ERROR) * run_seconds(reference)


@dataclass(frozen=True)
class HeldOutInput:
    """The input that was not tuned on."""

    tuned: Tuned
    """What runs it."""
    reference: Reference
    """What the program as it is does with it."""


@dataclass(frozen=True)
class HeldOutStanding:
    """How a setting stands on the input that was not tuned on."""

    standing: Standing
    gains: Mapping[str, Gain]
    """Of every quantity, with bounds at the error of the answer."""
    doubtful: tuple[str, ...] = ()
    """Guards that neither hold nor are lost, and look worse."""
    more_seconds: float = 0.0
    """About how long the rounds take that settle these; 0 where more may not."""

    @property
    def is_bad(self) -> bool:
        """It failed, or is proven worse."""
        return self.standing.is_bad

    @property
    def is_good(self) -> bool:
        """Nothing speaks against it."""
        return not (self.is_bad or self.doubtful)


class Judging:
    """Judges settings on the held-out input."""

    def __init__(self, work: Work, held_out: HeldOutInput) -> None:
        """Take the optimisation, and the input."""
        self._work = work
        self._reference = held_out.reference
        self._tuned = held_out.tuned
        self._rules = work.asked.of(self._reference.values)

    @property
    def reserved_s(self) -> float:
        """What is kept of the time, in s."""
        return min(_ROUNDS * self._round_s, SHARE_HELD_OUT * self._work.watch.seconds)

    @property
    def _round_s(self) -> float:
        return 2.0 * self._work.run_seconds(self._reference)

    def turned_down(self, chosen: Mapping[str, Configuration]) -> list[str]:
        """Return labels of the settings that earlier calls proved bad; nothing runs."""
        found = []
        for label, configuration in chosen.items():
            n_before = self._kept_n_before(configuration)
            if n_before is not None:
                plan = _Plan(label, self._rules, n_before, lambda: 0.0)
                if plan.standing(self._course(label, configuration, Once(()), n_before)).is_bad:
                    found.append(label)
        return found

    def is_kept(self, configuration: Configuration) -> bool:
        """Return whether a setting was judged before."""
        return self._kept_n_before(configuration) is not None

    def _kept_n_before(self, configuration: Configuration) -> int | None:
        """Return how many were turned down before a setting was; None where it was not judged."""
        content = read_journal(self._work.run / held_out_file(configuration))
        return content.header["n_before"] if content else None

    def _course(
        self, label: str, configuration: Configuration, plan: Plan[None, Sample], n_before: int
    ) -> Course[None, Sample]:
        return self._work.compare(
            held_out_file(configuration),
            plan,
            {label: configuration},
            self._reference,
            self._tuned,
            counts={"n_before": n_before},
        )

    def judge(
        self, label: str, configuration: Configuration, n_before: int = 0, *, kept_s: float = 0.0
    ) -> HeldOutStanding:
        """Compare a setting with the program as it is; kept once made.

        Args:
            label: of the setting.
            configuration: it.
            n_before: settings that this call turned down before it; those of the call that judged
                it first count, too.
            kept_s: of the time left, for other things.
        """

        def rounds_left() -> float:
            return max(0.0, (self._work.watch.left_s - kept_s) / self._round_s)

        n_before = max(n_before, self._kept_n_before(configuration) or 0)
        is_answered = self._work.is_answered(held_out_file(configuration))

        def begin(n_rounds: int) -> None:
            self._work.view.begin(f"held-out {self._work.request.given}", 2 * n_rounds)

        plan = _Plan(
            label, self._rules, n_before, rounds_left, is_answered=is_answered, begin=begin
        )
        begin(plan.n_planned())
        course = self._course(label, configuration, plan, n_before)
        standing = plan.standing(course)
        shown = standings(course, [label], self._rules, gives_up=False)[label].gains
        doubtful = plan.doubtful(standing)
        n_rounds = plan.rounds_to_settle(course, standing, doubtful) if doubtful else 0
        more_s = max(1.0, n_rounds * self._round_s) if n_rounds else 0.0
        return HeldOutStanding(standing, shown, doubtful, more_s)


class _Plan:
    """Rounds of one setting until it is decided; see `tuner.compare.plan.Plan`."""

    def __init__(
        self,
        label: str,
        rules: Rules,
        n_before: int,
        rounds_left: Callable[[], float],
        *,
        is_answered: bool = False,
        begin: Callable[[int], None] = ignore,
    ) -> None:
        """`begin` is told of rounds beyond those that were planned."""
        self._label, self._rounds_left = label, rounds_left
        self._rules = replace(rules, error=_ERROR / (n_before + 1))
        self._of_limit = _LATER if n_before else 1.0
        self._fewest = fewest_rounds(self._rules.error)
        self._rounds = Rounds((AS_IS, label), (None,), _MOST_ROUNDS)
        self._more_rounds = rounds_left()
        """At the last look."""
        self._is_answered = is_answered
        self._begin = begin

    def n_planned(self, n_kept: int = 0) -> int:
        """Return after how many rounds it ends, unless something is decided, or looks worse then.

        Args:
            n_kept: rounds of earlier calls; where they are enough, nothing is asked again.
        """
        if n_kept >= _ROUNDS:
            return n_kept
        in_time = n_kept + int(self._rounds_left())
        half = n_kept + int(_SHARE_OF_LEFT * self._rounds_left())
        return max(self._fewest, min(in_time, _ROUNDS), half)

    def blocks(self, course: Course[None, Sample]) -> Iterator[Sequence[Step[None]]]:
        """Yield a round after the other."""
        n_kept = course.n_rounds
        n_planned = self.n_planned(n_kept)
        for number, block in enumerate(self._rounds.blocks(course)):
            if number >= n_kept and not self._goes_on(course, number, n_kept):
                return
            if number == n_planned:
                yield ()  # it is asked of all rounds so far
                if not self.doubtful(self.standing(course)):
                    return
                self._begin(int(self._more_rounds))
            yield block

    def n_left(self, course: Course[None, Sample]) -> int:
        """Return how many runs are missing, if nothing is decided sooner."""
        return 2 * max(0, self.n_planned(course.n_rounds) - course.n_rounds)

    def _goes_on(self, course: Course[None, Sample], number: int, n_kept: int) -> bool:
        """Return whether there is something left to decide, and time for it."""
        self._more_rounds = self._rounds_left()
        standing = self.standing(course)
        if standing.state is State.FAILED:
            return False
        if number < self._fewest:
            return True
        is_bound = number >= _ROUNDS or (self._is_answered and number == n_kept)
        is_open = not is_bound or bool(standing.unsure or self.doubtful(standing))
        return is_open and not standing.is_bad and self._more_rounds >= 1.0

    def standing(self, course: Course[None, Sample]) -> Standing:
        """Return what the rounds so far prove."""
        found = standings(
            course, [self._label], self._rules, more_rounds=self._more_rounds, gives_up=False
        )
        return found[self._label]

    def doubtful(self, standing: Standing) -> tuple[str, ...]:
        """Return the guards that are not lost, and whose middle is beyond the limit.

        That is a part of it for those that do not hold, or hold only within what the program
        varies by, where others were turned down before.  None where it failed, or a guard is lost:
        nothing is left to doubt.
        """
        if standing.is_bad:
            return ()
        margins = {name: self._rules.margin(name) for name in self._rules.guards}
        for name in (*standing.unsure, *standing.scaled):
            margins[name] *= self._of_limit
        gains = standing.gains
        return tuple(n for n, most in margins.items() if n in gains and gains[n].middle < -most)

    def rounds_to_settle(
        self, course: Course[None, Sample], standing: Standing, names: Sequence[str]
    ) -> int:
        """Return about how many more rounds show on which side of their limits guards are.

        No fewer than ran, which had to be enough by the same formula; 0 where many were not.
        """
        logs = logs_of(course, standing.label)
        wanted = [
            rounds_for(
                max(-standing.gains[name].middle - self._rules.margin(name), self._rules.least),
                statistics.stdev(logs[name]) / 2.0**0.5,
                self._rules.error,
            )
            for name in names
        ]
        n_rounds = standing.n_rounds
        if n_rounds >= _MANY and max(wanted) <= n_rounds:
            return 0
        return max(n_rounds, max(wanted) - n_rounds)
