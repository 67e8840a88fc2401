"""The confirmation of a few candidates, and which of them is the winner."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tuner.compare.journal import read_journal
from tuner.compare.loop import ignore
from tuner.compare.plan import Course
from tuner.optimize.answering.recommendation import recommended_before
from tuner.optimize.choosing.candidates import affordable
from tuner.optimize.choosing.outlook import showable_gains
from tuner.optimize.confirming.ablation import SettingEffect, failures
from tuner.optimize.confirming.held_out import HeldOutInput, HeldOutStanding, Judging
from tuner.optimize.confirming.race import Race, choose
from tuner.optimize.kinds.counted import gains_of_work, seconds_to_count
from tuner.optimize.proof.duets import n_at_once
from tuner.optimize.proof.judgement import Gain, Standing, State
from tuner.optimize.proof.noise import noise_of
from tuner.optimize.quantities import CPU
from tuner.optimize.tuned import AS_IS, Reference, Sample, label_of
from tuner.optimize.work import Work, duets_for, run_seconds
from tuner.records import Configuration
from tuner.runs import CONFIRMATION_FILES, SELECTION_FILE
from tuner.units import show_percent

_OF_ERROR: Final = 0.8
"""Of the error that is left, for the candidates of a confirmation."""


@dataclass(frozen=True)
class Confirmed:
    """What new runs prove."""

    chosen: Mapping[str, Configuration]
    """Label -> setting of every candidate."""
    standings: Mapping[str, Standing]
    course: Course[None, Sample]
    best: Standing | None
    """The one to deploy; None when none is confirmed, or the held-out input turned all down."""
    held_out: HeldOutStanding | None
    """How the best one stands on the input that was not tuned on, or `deployed`."""
    held_back: Mapping[str, HeldOutStanding] = field(default_factory=dict)
    """Label -> the same of those that are confirmed, and that the held-out input turned down."""
    effects: Sequence[SettingEffect] = ()
    """What each setting of the best one does, as far as there was time to see."""
    left_out: Sequence[str] = ()
    """Settings that the best one had before it was reduced."""
    traded: Mapping[str, Gain] = field(default_factory=dict)
    """What it gained with them; empty where it does as well without."""
    counted: Mapping[str, float] = field(default_factory=dict)
    """Label -> what counted work gains, where that proves something."""
    n_claims: float = 1.0
    """Candidates among whom the error is shared, see `_claims`."""

    @property
    def deployed(self) -> str:
        """What an earlier call deployed of the best one, and was judged for it; empty for none."""
        judged = self.held_out.standing.label if self.held_out else ""
        return judged if self.best and judged != self.best.label else ""

    @property
    def is_out(self) -> bool:
        """None is to be deployed, and rounds would confirm none."""
        left = [one for label, one in self.standings.items() if label not in self.held_back]
        may_gain = State.OPEN, State.OUT_OF_REACH
        all_ran = self.chosen.keys() <= self.standings.keys()
        return self.best is None and all_ran and not any(one.state in may_gain for one in left)

    @property
    def not_run(self) -> list[str]:
        """Labels of those in reserve that there was no time for."""
        return [n for n in self.chosen if n not in self.standings and n not in self.held_back]

    def followed_by(self, later: Confirmed) -> Confirmed:
        """Return what is known once other candidates ran after these, which are out."""
        standings = {**self.standings, **later.standings}
        return replace(later, standings=standings, held_back={**self.held_back, **later.held_back})

    @property
    def is_good(self) -> bool:
        """There is one to deploy, and nothing on the held-out input speaks against it."""
        return self.best is not None and (self.held_out is None or self.held_out.is_good)


def _claims(n_chosen: int, number: int) -> float:
    """Return among how many candidates the error is shared, so that those that follow have some.

    The first have four fifths of it, those after them four fifths of what is left.
    """
    return n_chosen / (_OF_ERROR * (1.0 - _OF_ERROR) ** number)


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
        self._judging = Judging(work, held_out) if held_out else None
        self._turned_down = set[str]()
        """Labels of what the held-out input did not let pass."""
        self._to_count_s = 0.0
        self._for_others_s = 0.0
        """Time that a race leaves to later ones."""

    def confirm(
        self, chosen: Mapping[str, Configuration], number: int = 0, *, n_waiting: int = 0
    ) -> Confirmed:
        """Run candidates until it is decided, or the time is up.

        Where the held-out input turns the winner down, or it failed beside itself with one setting
        less, the race goes on without it.

        Args:
            chosen: label -> setting.
            number: of the journal: 0 for the first candidates, from 1 on for those that follow.
            n_waiting: how many of them, the last ones, run where one before them is out; what
                began with a number goes on with it.
        """
        work = self._work
        counted = gains_of_work(work, self._reference, chosen)
        self._to_count_s = seconds_to_count(work, self._reference, chosen)
        places = affordable(work, self._reference, work.watch.left_s)
        file, *later = CONFIRMATION_FILES[number:]
        if kept := read_journal(work.run / file):
            n_waiting = kept.header.get("n_waiting", 0)
        at_once = max(1, min(len(chosen) - n_waiting, places.at_once))
        n_claims = _claims(len(chosen), number)
        is_followed = any((work.run / one).exists() for one in later)

        @functools.cache
        def tell_once() -> None:
            is_counted = counted.keys() >= chosen.keys()
            n_more = len(chosen) - at_once
            self._tell_what_time_buys(file, at_once, n_more, n_claims, is_counted=is_counted)

        sizes = {label: len(one.settings) for label, one in chosen.items()}
        before = self._judging.turned_down(chosen) if self._judging else []
        found, held_back = dict[str, Standing](), dict[str, HeldOutStanding]()
        failed, out = failures(work), set[str]()
        while True:
            standings, course = self.race(
                file, chosen, counted, n_claims, at_once=at_once, without={*held_back, *out},
                share=0.0 if is_followed else 1.0, on_round=tell_once, n_waiting=n_waiting,
            )  # fmt: skip
            found |= standings
            known = {label: one for label, one in standings.items() if label in before}
            best = choose(known, sizes, self._rules) or choose(standings, sizes, self._rules)
            if best and best.label in failed:
                out.add(best.label)
                found[best.label] = best.failed(failed[best.label])
                continue
            judged = self._judge(best.label, chosen[best.label]) if best else None
            if best is None or judged is None or not judged.is_bad:
                break
            held_back[best.label] = judged
        found = {label: one for label, one in found.items() if one.n_rounds} or found
        return Confirmed(
            chosen, found, course, best, judged, held_back, counted=counted, n_claims=n_claims
        )

    def race(
        self,
        file: str,
        chosen: Mapping[str, Configuration],
        counted: Mapping[str, float],
        n_claims: float,
        *,
        at_once: int | None = None,
        without: Collection[str] = (),
        share: float = 1.0,
        on_round: Callable[[], None] = ignore,
        is_enough: Callable[[Standing], bool] = bool,
        n_waiting: int = 0,
    ) -> tuple[dict[str, Standing], Course[None, Sample]]:
        """Run candidates against the program as it is, and return what the rounds prove.

        Args:
            file: of the journal in the run folder.
            chosen: label -> setting.
            counted: label -> what counted work gains.
            n_claims: candidates among whom the error is shared.
            at_once: candidates that run in a round, see `Race`.
            without: labels of those that run no more; they share the error all the same.
            share: of the time left, that they may take.
            on_round: is called before every round that is made.
            is_enough: see `Race`.
            n_waiting: see `confirm`.
        """
        work = self._work
        self._to_count_s = seconds_to_count(work, self._reference, chosen)
        self._for_others_s = 0.0
        self._for_others_s = (1.0 - share) * max(0.0, work.watch.left_s - self._reserved_s())
        work.view.begin("confirmation", None)
        duets = duets_for(work, file, chosen, self._reference)
        race = Race(
            [label for label in chosen if label not in without],
            self._rules,
            self._has_time,
            work.request.seed,
            n_claims=n_claims,
            view=work.view,
            duets=duets,
            rounds_left=self._rounds_left,
            counted=counted,
            at_once=at_once,
            is_answered=work.is_answered(file),
            on_round=on_round,
            is_enough=is_enough,
            varying=work.varying,
        )
        counts = {"n_waiting": n_waiting}
        course = work.compare(file, race, chosen, self._reference, duets=duets, counts=counts)
        return race.standings(course), course

    def _tell_what_time_buys(
        self, file: str, at_once: int, n_more: int, n_claims: float, *, is_counted: bool
    ) -> None:
        """Say beforehand how many rounds there are, and what gain of CPU time they may show."""
        n_rounds = int(self._rounds_left(at_once + 1))
        n_before = self._work.n_rounds(file)
        candidates = f"{at_once} candidate{'s'[: at_once != 1]}"
        if n_more > 0:
            candidates += f" and {n_more} in reserve"
        rounds = f"{candidates}, about {n_rounds} round{'s'[: n_rounds != 1]} in the time left"
        words = f", {n_before} made before" if n_before else ""
        if CPU in self._reference.values:
            in_all = n_before + n_rounds
            words += self._showable_words(file, in_all, n_claims, is_counted=is_counted)
        self._work.view.tell(f"confirming {rounds}{words}")

    def _showable_words(
        self, file: str, n_rounds: int, n_claims: float, *, is_counted: bool
    ) -> str:
        """Return what gain of CPU time so many rounds are likely to show."""
        noise = self._noise(file)
        gain = showable_gains(self._rules, {CPU: noise}, n_rounds, n_claims)[CPU]
        if math.isinf(gain):
            counts = " and counted work" if is_counted else ""
            return f", too few to show anything but memory that repeats itself{counts}"
        counts = "; counted work shows smaller ones" if is_counted else ""
        return (
            f", enough to show a gain of {show_percent(gain)} in CPU time, which varies by "
            f"{show_percent(noise)}{counts}"
        )

    def _noise(self, file: str) -> float:
        """Return how much the CPU time varies, by the runs that selected, and the rounds so far."""
        alike: dict[tuple[str, str, float], list[float]] = {}
        for name in (SELECTION_FILE, file):
            content = read_journal(self._work.run / name)
            for one in content.records if content else ():
                values = one["values"]
                if one["subject"] == AS_IS and CPU in values:
                    place = name, one["machine"], n_at_once(values)
                    alike.setdefault(place, []).append(values[CPU])
        return noise_of(max(alike.values(), key=len, default=[]), has_floor=True)

    def _has_time(self, n_runs: int) -> bool:
        """Return whether so many runs fit in what is left, the held-out input apart."""
        needed_s = n_runs * run_seconds(self._reference)
        return self._work.watch.left_s - self._reserved_s() > needed_s

    def _rounds_left(self, n_runs: int) -> float:
        """Return how many rounds of so many runs fit in what is left."""
        left_s = self._work.watch.left_s - self._reserved_s()
        return max(0.0, left_s / (n_runs * self._work.run_seconds(self._reference)))

    def _reserved_s(self) -> float:
        held_out_s = self._judging.reserved_s if self._judging else 0.0
        return held_out_s + self._to_count_s + self._for_others_s

    def _judge(self, label: str, winner: Configuration) -> HeldOutStanding | None:
        """Judge a winner, or what an earlier call without a held-out input deployed of it.

        That stands for the winner where it is good; see `reduced`.
        """
        before = recommended_before(self._work.run)
        less = before.configuration if before else None
        if (
            less
            and less.allocator == winner.allocator
            and set(less.settings) < set(winner.settings)
            and not (self._judging and self._judging.is_kept(winner))
        ):
            judged = self.hold_out(label_of(less), less)
            if judged and judged.is_good:
                return judged
        return self.hold_out(label, winner)

    def hold_out(self, label: str, configuration: Configuration) -> HeldOutStanding | None:
        """Compare the winner with the program as it is on the held-out input; kept once made.

        Args:
            label: of the winner.
            configuration: it.
        """
        if self._judging is None:
            return None
        n_before = len(self._turned_down - {label})
        judged = self._judging.judge(label, configuration, n_before, kept_s=self._to_count_s)
        if not judged.is_good:
            self._turned_down.add(label)
        return judged
