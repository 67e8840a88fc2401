"""The winner with as few settings as the program needs, confirmed on new runs.

What may stand for it by all runs so far comes first: to take away one of many settings at a time
takes long.  Then every setting of what is left is taken away in turn (ablation.py).  What may take
its place: the winner without the settings that seem needless (no loss of the least effect and of a
standard error), all of them, half and a quarter, since many small losses may add up to one that
counts; without those that cost, alone or with these; without those of which nothing is shown; and
with the one alone that matters most.  These run against the program as it is, one after the other,
the smallest first and that one last, unless what goes gains too much one by one; each in half of
the time that is left, as many as it is enough for.  The first that is confirmed takes the winner's
place, if nothing seems to have lost both the least effect and a standard error, or no more than
`Rules.may_cost`.  And if what is proven of the winner is proven of it, too, for which its rounds go
on; or if more is gained in all, which the answer calls a trade.  And if the held-out input does not
speak against it; if none does, the winner stays with all its settings.  Of a single setting, its
rounds beside the winner say better whether it lost something than those of another time do, unless
their bounds are apart; what only counted work proves of both is compared by that.

The claims share the winner's error.  That keeps the error of the whole, since they are tested only
where the winner's own claim is proven: a fixed sequence.

Sources: Maurer, Hothorn, Lehmacher, "Multiple comparisons in drug clinical trials and preclinical
assays: a-priori ordered hypotheses", in Biometrie in der chemisch-pharmazeutischen Industrie 6,
1995; of the standard error Breiman, Friedman, Olshen, Stone, "Classification and Regression Trees",
1984, 3.4.3: of what one standard error does not tell apart, the smallest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

from tuner.optimize.confirming.ablation import SettingEffect, effects_of, failures, setting_text
from tuner.optimize.confirming.confirmation import Confirmed, Confirming
from tuner.optimize.confirming.held_out import HeldOutStanding
from tuner.optimize.kinds.counted import gains_of_work
from tuner.optimize.proof.judgement import Rules, Standing, State
from tuner.optimize.proof.noise import OF_MEDIANS, noise_as_it_is, noise_in_rounds
from tuner.optimize.quantities import TABLE
from tuner.optimize.tuned import Reference, label_of
from tuner.optimize.work import ABLATION_FILE, FEWER_FILE, REDUCED_FILE, Work
from tuner.records import Configuration

_OF_EFFECTS = (ABLATION_FILE, REDUCED_FILE)

_SHARE_OF_FORMS = 0.5
"""Of the time left, for what may stand for the winner by all runs so far."""

_SHARE_OF_FIRST = 0.5
"""Of the time left, for each but the last: it is likelier to be confirmed than those after it."""

_ROUNDS_OF_EACH = 8
"""That there should be time for, of all that may be left of the winner."""

_TURNED_DOWN = State.WORSE, State.HOPELESS, State.FAILED

_PARTS = (1, 2, 4)
"""Of the needless settings go back to unset: all, half, a quarter."""

_TIMES_ITS_ROUNDS = 2
"""Rounds of the winner, that a variant may take: more claims share the error."""


def reduced(
    work: Work,
    reference: Reference,
    confirming: Confirming,
    confirmed: Confirmed,
    forms_of: Callable[[Configuration], Iterable[Configuration]] = lambda _: (),
) -> Confirmed:
    """Return what is confirmed with what its settings do, the winner as small as is proven.

    Args:
        work: the optimisation.
        reference: the program as it is.
        confirming: what confirmed the winner.
        confirmed: what it found.
        forms_of: from the winner to what may stand for it by all runs so far.

    Returns:
        The same where what was `deployed` is not confirmed: then the winner is judged, too.  No
        best one where the winner failed in rounds with one setting less.
    """
    best = confirmed.best
    if best is None or not confirmed.is_good:
        return confirmed
    reducing = _Reducing(work, reference, confirming, confirmed, best)
    return reducing.by_effects(reducing.by_forms(confirmed, forms_of))


class _Reducing:
    """Finds what takes the winner's place."""

    def __init__(
        self,
        work: Work,
        reference: Reference,
        confirming: Confirming,
        confirmed: Confirmed,
        best: Standing,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            work: the optimisation.
            reference: the program as it is.
            confirming: what confirmed the winner.
            confirmed: what it found.
            best: the winner.
        """
        self._work = work
        self._rules = work.request.rules
        self._reference = reference
        self._confirming = confirming
        self._best = best
        self._settings = confirmed.chosen[best.label]
        self._noise = _noise(confirmed)
        self._turned_down = set[str]()
        """Labels of what does not take the winner's place, as rounds or the held-out input show."""
        self._n_steps = 1
        """Among which the error is shared."""

    def by_forms(
        self, confirmed: Confirmed, forms_of: Callable[[Configuration], Iterable[Configuration]]
    ) -> Confirmed:
        """Return what is confirmed with what may stand for the winner by all runs so far.

        Taking away one of many settings at a time would take longer.
        """
        begun = _begun(self._work, FEWER_FILE, self._settings)
        if not begun and any((self._work.run / one).exists() for one in _OF_EFFECTS):
            return confirmed  # an earlier call did without
        found = begun or [one for one in forms_of(self._settings) if one.is_part_of(self._settings)]
        variants = self._variants(sorted(found, key=lambda one: len(one.settings)))
        if not variants:
            return confirmed
        self._n_steps = 2
        if confirmed.deployed and confirmed.deployed not in variants:
            return confirmed
        return self._first_good(FEWER_FILE, confirmed, variants, _SHARE_OF_FORMS)

    def by_effects(self, confirmed: Confirmed) -> Confirmed:
        """Return what is confirmed with what settings do, without those that are not needed."""
        winner = confirmed.best or self._best
        settings = confirmed.chosen[winner.label]
        effects = effects_of(self._work, self._reference, settings)
        if reason := failures(self._work).get(winner.label):
            failed = {winner.label: winner.failed(reason)}
            return replace(confirmed, best=None, standings={**confirmed.standings, **failed})
        known = replace(confirmed, effects=effects)
        found = _begun(self._work, REDUCED_FILE, settings) or self._smaller(settings, effects)
        beside = {label_of(settings.without(one.name)) for one in effects if one.seems_needless}
        variants = self._variants(found)
        after = self._first_good(REDUCED_FILE, known, variants, 1.0, beside)
        if confirmed.deployed and after.deployed:
            self._confirming.hold_out(winner.label, settings)
        if len(after.held_back) > len(known.held_back) and after.best is winner:
            needed = [replace(one, is_needless=False) for one in effects]
            return replace(after, effects=needed)
        return replace(after, effects=self._without_needed(after, variants))

    def _without_needed(
        self, after: Confirmed, variants: Mapping[str, Configuration]
    ) -> list[SettingEffect]:
        """Return effects, none needless whose every variant without it was turned down by rounds.

        Args:
            after: what is confirmed.
            variants: label -> settings, in the order in which they ran.
        """
        best = after.best.label if after.best else ""
        tried = list(itertools.takewhile(lambda label: label != best, variants))
        found = []
        for one in after.effects:
            without = {label for label in tried if one.name not in variants[label].as_dict}
            is_needed = bool(without) and without <= self._turned_down
            found.append(replace(one, is_needless=one.is_needless and not is_needed))
        return found

    def _variants(self, found: Iterable[Configuration]) -> dict[str, Configuration]:
        """Return configurations by label, in their order."""
        variants = {label_of(one): one for one in found if not self._reference.is_of(one)}
        if self._best.label in self._work.trials:
            for label in variants:
                self._work.trials[label] = self._work.trials[self._best.label]
        return variants

    def _first_good(
        self,
        file: str,
        confirmed: Confirmed,
        variants: Mapping[str, Configuration],
        share: float,
        beside: Collection[str] = (),
    ) -> Confirmed:
        """Return what is confirmed with the first that may take the winner's place, if any does.

        Args:
            file: of the journal in the run folder.
            confirmed: with the winner.
            variants: label -> settings, in the order in which they run.
            share: of the time left, for all of them.
            beside: labels of what ran beside the winner, too.
        """
        known, winner = confirmed, confirmed.best or self._best
        n_claims = self._n_steps * len(variants) * confirmed.n_claims
        is_enough = partial(_has_enough_rounds, winner, self._rules)
        failed = failures(self._work)
        for n_left, label in zip(range(len(variants), 0, -1), variants, strict=True):
            if label in failed:
                self._turned_down.add(label)
            if confirmed.deployed not in ("", label) or label in failed:
                continue
            variant = variants[label]
            counted = gains_of_work(self._work, self._reference, {label: variant})
            standings, _ = self._confirming.race(
                file, variants, counted, n_claims,
                without=variants.keys() - {label}, share=share * max(_SHARE_OF_FIRST, 1.0 / n_left),
                is_enough=is_enough,
            )  # fmt: skip
            one = standings[label]
            lost = self._lost(one, variant, is_beside=label in beside and winner is self._best)
            if lost is None:
                if one.state in _TURNED_DOWN or (one.state is State.CONFIRMED and is_enough(one)):
                    self._turned_down.add(label)
                continue
            held_out = confirmed.held_out
            if not confirmed.deployed:
                held_out = self._confirming.hold_out(label, variant)
            if held_out is None or held_out.is_good:
                return self._in_its_place(known, one, variant, held_out, is_trade=bool(lost))
            self._turned_down.add(label)
            known = replace(
                known,
                chosen={**known.chosen, label: variant},
                standings={**known.standings, label: one},
                held_back={**known.held_back, label: held_out},
            )
        return known

    def _lost(self, one: Standing, left: Configuration, *, is_beside: bool) -> list[str] | None:
        """Return what seems lost by what may take the winner's place; None where it may not.

        Against the winner with all its settings: each of several steps might cost a little.

        Args:
            one: what may take its place.
            left: its settings.
            is_beside: it ran beside that, too.
        """
        best, rules = self._best, self._rules
        if one.state is not State.CONFIRMED or not _is_proven_as_well(best, rules, one):
            return None
        lost = _apart(one, best, rules) if is_beside else _lost(one, best, rules, self._noise)
        n_fewer = len(self._settings.settings) - len(left.settings)
        is_little = all(
            _loss(one, best, name) <= rules.may_cost(n_fewer, best.gains[name].middle)
            for name in lost
        )
        return lost if is_little or _gains_more(one, best, rules) else None

    def _in_its_place(
        self,
        confirmed: Confirmed,
        one: Standing,
        smaller: Configuration,
        held_out: HeldOutStanding | None,
        *,
        is_trade: bool,
    ) -> Confirmed:
        """Return what is confirmed, with what is left of the winner in its place.

        Of a trade, something was lost for what is gained elsewhere.
        """
        others = {label: o for label, o in confirmed.standings.items() if label != one.label}
        gone = dict(self._settings.settings).keys() - smaller.as_dict.keys()
        return replace(
            confirmed,
            chosen={one.label: smaller, **confirmed.chosen},
            standings={one.label: one, **others},
            best=one,
            held_out=held_out,
            effects=[effect for effect in confirmed.effects if effect.name in smaller.as_dict],
            left_out=[setting_text(self._settings, name) for name in sorted(gone)],
            traded=self._best.gains if is_trade else confirmed.traded,
        )

    def _smaller(
        self, winner: Configuration, effects: Sequence[SettingEffect]
    ) -> list[Configuration]:
        """Return what may be left of the winner, as much as there is time for; see above."""
        by_loss = sorted(effects, key=lambda one: one.loss)
        needless = [one for one in by_loss if one.seems_needless]
        dropped = [needless[: -(-len(needless) // part)] for part in _PARTS]
        dropped.append([one for one in effects if one.is_costly])
        dropped.append([one for one in effects if one.is_costly or one.seems_needless])
        dropped.append([one for one in effects if not one.is_shown])
        dropped = sorted(filter(self._is_little, dropped), key=len, reverse=True)
        dropped.append(by_loss[:-1])
        left = (
            reduce(Configuration.without, (one.name for one in some), winner) for some in dropped
        )
        found = [one for one in dict.fromkeys(left) if one != winner]
        each_s = 2 * _ROUNDS_OF_EACH * self._work.run_seconds(self._reference)
        return found[: max(1, int(self._work.watch.left_s / each_s))]

    def _is_little(self, gone: Sequence[SettingEffect]) -> bool:
        """Return whether what settings gain one by one is together no more than may go."""
        least = math.log1p(self._rules.least)
        return all(
            sum(_seen(one, goal) for one in gone)
            <= max(least, self._rules.may_cost(len(gone), self._best.gains[goal].middle))
            for goal in self._rules.goals
        )


def _noise(confirmed: Confirmed) -> dict[str, float]:
    """Return how much a run varies, of the program as it is or under what ran beside it."""
    found = noise_as_it_is(confirmed.course)
    for name, noise in noise_in_rounds(confirmed.course, confirmed.chosen).items():
        found[name] = max(noise, found.get(name, 0.0))
    return found


def _is_proven_as_well(winner: Standing, rules: Rules, one: Standing) -> bool:
    """Return whether what is proven of the winner is proven of what is left, or more in all."""
    is_as_well = {*winner.better} <= {*one.better} and one.scaled.keys() <= winner.scaled.keys()
    return is_as_well or _gains_more(one, winner, rules)


def _has_enough_rounds(winner: Standing, rules: Rules, one: Standing) -> bool:
    """Return whether as much as of the winner is proven of what is left, or will not be."""
    is_out = any(one.gains[goal].high < rules.threshold(goal) for goal in winner.better)
    has_had_its = one.n_rounds >= _TIMES_ITS_ROUNDS * winner.n_rounds
    return is_out or has_had_its or _is_proven_as_well(winner, rules, one)


def _seen(effect: SettingEffect, goal: str) -> float:
    """Return what a setting gains in a goal, in logarithms: of a time, what is beyond doubt."""
    gain = effect.gains.get(goal)
    if gain is None or not (TABLE[goal].is_memory or gain.low > 0.0 or gain.high < 0.0):
        return 0.0
    return gain.middle


def _begun(work: Work, file: str, winner: Configuration) -> list[Configuration]:
    """Return what an earlier call began to confirm of this winner; nothing where there is none."""
    kept = list(work.kept(file).values())
    return kept if all(one.is_part_of(winner) for one in kept) else []


def _lost(
    standing: Standing, winner: Standing, rules: Rules, noise: Mapping[str, float]
) -> list[str]:
    """Return the quantities in which what is left seems to have lost something.

    By the least effect, whatever a constraint allows against the program as it is.
    """
    n_rounds = [max(1, one.n_rounds) for one in (standing, winner)]
    errors = OF_MEDIANS * math.sqrt(sum(2.0 / n for n in n_rounds))  # each is a median of ratios

    def seems_lost(name: str) -> bool:
        least = max(math.log1p(rules.least), errors * noise.get(name, 0.0))
        return _loss(standing, winner, name) > least

    return list(filter(seems_lost, dict.fromkeys((*rules.guards, *rules.goals))))


def _loss(standing: Standing, winner: Standing, name: str) -> float:
    """Return how much less is gained, in logarithms."""
    if name in winner.by_count and name in standing.by_count:
        return winner.by_count[name] - standing.by_count[name]
    return winner.gains[name].middle - standing.gains[name].middle


def _apart(standing: Standing, winner: Standing, rules: Rules) -> list[str]:
    """Return the same by the bounds alone, for what ran beside the winner, too."""
    return [
        name
        for name in _lost(standing, winner, rules, {})
        if standing.gains[name].high < winner.gains[name].low
    ]


def _gains_more(standing: Standing, winner: Standing, rules: Rules) -> bool:
    """Return whether what is left gains more in all goals together, for sure and as seen."""
    is_surer = standing.sure_score(rules) > winner.sure_score(rules)
    return is_surer and standing.score(rules) > winner.score(rules)
