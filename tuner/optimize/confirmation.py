"""The confirmation of a few candidates, and the winner on an input not tuned on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tuner.compare.journal import read_journal
from tuner.compare.plan import Course, Rounds
from tuner.optimize.ablation import SettingEffect
from tuner.optimize.answer_table import gain_words
from tuner.optimize.candidates import affordable
from tuner.optimize.counted import gains_of_work, seconds_to_count
from tuner.optimize.evidence import fewest_rounds
from tuner.optimize.judgement import Rules, Standing
from tuner.optimize.outlook import showable_gains
from tuner.optimize.quantities import CPU
from tuner.optimize.race import Race, choose, standings
from tuner.optimize.selection import noise_of
from tuner.optimize.tuned import AS_IS, Reference, Sample, Tuned
from tuner.optimize.work import (
    CONFIRMATION_FILE,
    HELD_OUT_FILE,
    SELECTION_FILE,
    Work,
    duets_for,
    run_seconds,
    sequence_of,
)
from tuner.page import series
from tuner.records import Configuration
from tuner.units import show_percent

_SHARE_HELD_OUT = 0.15
"""Of the time, kept for the held-out input at most."""

_HELD_OUT_ROUNDS = 10
"""Fewer where the time left is too short, but never too few to show a loss."""

_HELD_OUT_ERROR = 0.2
"""Of calling a loss on the held-out input one where there is none: the cautious side."""


@dataclass(frozen=True)
class HeldOutInput:
    """The input that was not tuned on."""

    tuned: Tuned
    """What runs it."""
    reference: Reference
    """What the program as it is does with it."""


@dataclass(frozen=True)
class Confirmed:
    """What new runs prove."""

    chosen: Mapping[str, Configuration]
    """Label -> setting of every candidate."""
    standings: Mapping[str, Standing]
    course: Course[None, Sample]
    best: Standing | None
    """The one to deploy; None when none is confirmed."""
    held_out: Standing | None
    """How the best one stands on the input that was not tuned on."""
    effects: Sequence[SettingEffect] = ()
    """What each setting of the best one does, as far as there was time to see."""
    left_out: Sequence[str] = ()
    """Settings that the best one had before it was reduced."""
    counted: Mapping[str, float] = field(default_factory=dict)
    """Label -> what counted work gains, where that proves something."""

    @property
    def is_good(self) -> bool:
        """There is one to deploy, and the held-out input does not speak against it."""
        return self.best is not None and not (self.held_out and self.held_out.is_bad)


class Confirming:
    """Races candidates against the program as it is."""

    def __init__(self, work: Work, reference: Reference, held_out: HeldOutInput | None) -> None:
        """Prepare.

        Args:
            work: the optimisation.
            reference: the program as it is.
            held_out: what the winner is judged on; None for nothing.
        """
        self._work = work
        self._rules = work.request.rules
        self._reference = reference
        self._held_out = held_out
        self._to_count_s = 0.0

    def confirm(self, chosen: Mapping[str, Configuration]) -> Confirmed:
        """Run candidates until it is decided, or the time is up."""
        work = self._work
        counted = gains_of_work(work, self._reference, chosen)
        self._to_count_s = seconds_to_count(work, self._reference, chosen)
        at_once = min(len(chosen), affordable(work, self._reference).at_once)
        self._tell_what_time_buys(at_once, len(chosen), is_counted=counted.keys() >= chosen.keys())
        found, course = self.race(CONFIRMATION_FILE, chosen, counted, at_once=at_once)
        found = {label: one for label, one in found.items() if one.n_rounds} or found
        sizes = {label: len(one.settings) for label, one in chosen.items()}
        best = choose(found, sizes, self._rules)
        judged = self.hold_out(best.label, chosen[best.label]) if best else None
        return Confirmed(chosen, found, course, best, judged, counted=counted)

    def race(
        self,
        file: str,
        chosen: Mapping[str, Configuration],
        counted: Mapping[str, float],
        n_claims: int | None = None,
        *,
        at_once: int | None = None,
    ) -> tuple[dict[str, Standing], Course[None, Sample]]:
        """Run candidates against the program as it is, and return what the rounds prove.

        Args:
            file: of the journal in the run folder.
            chosen: label -> setting.
            counted: label -> what counted work gains.
            n_claims: candidates that share the error; None: these.
            at_once: candidates that run in a round, see `Race`.
        """
        work = self._work
        self._to_count_s = seconds_to_count(work, self._reference, chosen)
        work.view.begin("confirmation", None)
        duets = duets_for(work, chosen, self._reference)
        race = Race(
            list(chosen),
            self._rules,
            self._has_time,
            work.request.seed,
            n_claims=n_claims,
            view=work.view,
            duets=duets,
            rounds_left=self._rounds_left,
            counted=counted,
            at_once=at_once,
        )
        course = work.compare(file, race, chosen, self._reference, duets=duets)
        return race.standings(course), course

    def _tell_what_time_buys(self, at_once: int, n_candidates: int, *, is_counted: bool) -> None:
        """Say beforehand how many rounds there are, and what gain of CPU time they may show."""
        n_rounds = int(self._rounds_left(at_once + 1))
        candidates = f"{at_once} candidate{'s'[: at_once != 1]}"
        if n_candidates > at_once:
            candidates += f" and {n_candidates - at_once} in reserve"
        rounds = f"{candidates}, about {n_rounds} round{'s'[: n_rounds != 1]} in the time left"
        words = ""
        if CPU in self._reference.values:
            words = self._showable_words(n_rounds, n_candidates, is_counted=is_counted)
        self._work.view.tell(f"confirming {rounds}{words}")

    def _showable_words(self, n_rounds: int, n_candidates: int, *, is_counted: bool) -> str:
        """Return what gain of CPU time so many rounds are likely to show."""
        noise = self._noise()
        gain = showable_gains(self._rules, {CPU: noise}, n_rounds, n_candidates)[CPU]
        if math.isinf(gain):
            counts = " and counted work" if is_counted else ""
            return f", too few to show anything but memory that repeats itself{counts}"
        counts = "; counted work shows smaller ones" if is_counted else ""
        return (
            f", enough to show a gain of {show_percent(gain)} in CPU time, which varies by "
            f"{show_percent(noise)}{counts}"
        )

    def _noise(self) -> float:
        """Return how much the CPU time varies, by the runs that selected."""
        content = read_journal(self._work.run / SELECTION_FILE)
        records = content.records if content else ()
        own = [r["values"] for r in records if r["subject"] == AS_IS and r.get("values")]
        return noise_of([values[CPU] for values in own if CPU in values], has_floor=True)

    def _has_time(self, n_runs: int) -> bool:
        """Return whether so many runs fit in what is left, the held-out input apart."""
        needed_s = n_runs * run_seconds(self._reference)
        return self._work.watch.left_s - self._reserved_s() > needed_s

    def _rounds_left(self, n_runs: int) -> float:
        """Return how many rounds of so many runs fit in what is left."""
        left_s = self._work.watch.left_s - self._reserved_s()
        return max(0.0, left_s / (n_runs * self._work.run_seconds(self._reference)))

    def _reserved_s(self) -> float:
        held_out_s = 0.0
        if self._held_out:
            wanted_s = _HELD_OUT_ROUNDS * self._held_out_round_s(self._held_out)
            held_out_s = min(wanted_s, _SHARE_HELD_OUT * self._work.watch.seconds)
        return held_out_s + self._to_count_s

    def _held_out_round_s(self, held_out: HeldOutInput) -> float:
        return 2.0 * self._work.run_seconds(held_out.reference)

    def hold_out(
        self, label: str, configuration: Configuration, file: str = HELD_OUT_FILE
    ) -> Standing | None:
        """Compare the winner with the program as it is on the held-out input; kept once made.

        Args:
            label: of the winner.
            configuration: it.
            file: of the journal in the run folder.
        """
        if self._held_out is None:
            return None
        reference = self._held_out.reference
        in_time = int(self._work.watch.left_s / self._held_out_round_s(self._held_out))
        n_rounds = max(fewest_rounds(_HELD_OUT_ERROR), min(in_time, _HELD_OUT_ROUNDS))
        self._work.view.begin("held-out input", 2 * n_rounds)
        course = self._work.compare(
            file,
            Rounds(sequence_of([label]), (None,), n_rounds),
            {label: configuration},
            reference,
            self._held_out.tuned,
        )
        cautious = replace(self._rules.of(reference.values), error=_HELD_OUT_ERROR)
        return standings(course, [label], cautious)[label]


def doubt_words(held_out: Standing | None, rules: Rules) -> tuple[str, ...]:
    """Say what looks worse on the held-out input, and is not proven to be."""
    if held_out is None:
        return ()
    worse = [
        f"{name} {gain_words(gain, with_bounds=True)}"
        for name, gain in held_out.gains.items()
        if name in rules.guards and gain.middle < -rules.margin(name)
    ]
    if not worse:
        return ()
    looks = f"look{'s'[: len(worse) == 1]}"
    words = (
        f"On the input that was not tuned on, {series(worse)} {looks} worse, which its "
        f"{held_out.n_rounds} rounds do not prove: where such input matters, tune on it before "
        "you deploy this."
    )
    return (words,)
