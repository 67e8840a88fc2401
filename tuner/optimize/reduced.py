"""The winner with as few settings as the program needs, confirmed on new runs.

Every setting of the winner is taken away in turn (ablation.py).  What may take its place: the
winner without the settings that seem needless (no loss of the least effect and of a standard
error), all of them, half and a quarter, since many small losses may add up to one that counts;
without those that cost; without those of which nothing is shown; and with the one alone that
matters most.  These run against the program as it is, one after the other, the smallest first, each
in its share of the time that is left.  The first that is confirmed takes the winner's place, if
nothing seems to have lost both the least effect and a standard error, or no more than the least
effect for each setting that goes and a fifth of the gain: a user has to understand every one.  And
if what is proven of the winner is proven of it, too, for which its rounds go on; or if more is
gained in all, which the answer calls a trade.  And if the held-out input does not speak against it;
if none does, the winner stays with all its settings.  Of a single setting, its rounds beside the
winner say better whether it lost something than those of another time do, unless their bounds are
apart; what only counted work proves of both is compared by that.

The claims share the winner's error.  That keeps the error of the whole, since they are tested only
where the winner's own claim is proven: a fixed sequence.

Sources: Maurer, Hothorn, Lehmacher, "Multiple comparisons in drug clinical trials and preclinical
assays: a-priori ordered hypotheses", in Biometrie in der chemisch-pharmazeutischen Industrie 6,
1995; of the standard error Breiman, Friedman, Olshen, Stone, "Classification and Regression Trees",
1984, 3.4.3: of what one standard error does not tell apart, the smallest.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

from tuner.optimize.ablation import SettingEffect, effects_of
from tuner.optimize.answer import label_of
from tuner.optimize.confirmation import Confirmed, Confirming
from tuner.optimize.counted import gains_of_work
from tuner.optimize.held_out import HeldOutStanding
from tuner.optimize.judgement import Rules, Standing, State
from tuner.optimize.noise import OF_MEDIANS, noise_as_it_is, noise_in_rounds
from tuner.optimize.tuned import Reference
from tuner.optimize.work import REDUCED_FILE, Work
from tuner.records import Configuration

_PARTS = (1, 2, 4)
"""Of the needless settings go back to unset: all, half, a quarter."""

_TIMES_ITS_ROUNDS = 2
"""Rounds of the winner, that a variant may take: more claims share the error."""


def reduced(
    work: Work, reference: Reference, confirming: Confirming, confirmed: Confirmed
) -> Confirmed:
    """Return what is confirmed with what its settings do, the winner as small as is proven.

    Args:
        work: the optimisation.
        reference: the program as it is.
        confirming: what confirmed the winner.
        confirmed: what it found.

    Returns:
        The same where what was `deployed` is not confirmed: then the winner is judged, too.
    """
    best = confirmed.best
    if best is None or not confirmed.is_good:
        return confirmed
    winner = confirmed.chosen[best.label]
    effects = effects_of(work, reference, winner)
    known = replace(confirmed, effects=effects)
    found = _begun(work, winner) or _smaller(winner, effects)
    variants = {label_of(one): one for one in found if not reference.is_of(one)}
    if best.label in work.trials:
        for label in variants:
            work.trials[label] = work.trials[best.label]
    beside = {label_of(winner.without(one.name)) for one in effects if one.seems_needless}
    lost_of = partial(_lost_of, confirmed, beside, work.request.rules)
    n_settings = len(winner.settings)
    is_enough = partial(_has_enough_rounds, best, work.request.rules)
    turned_down = False
    ordered = sorted(variants, key=lambda label: len(variants[label].settings))
    for n_left, label in zip(range(len(ordered), 0, -1), ordered, strict=True):
        if confirmed.deployed not in ("", label):
            continue
        counted = gains_of_work(work, reference, {label: variants[label]})
        standings, _ = confirming.race(
            REDUCED_FILE, variants, counted, confirmed.n_claims * len(variants),
            without=variants.keys() - {label}, share=1.0 / n_left, is_enough=is_enough,
        )  # fmt: skip
        lost = lost_of(standings[label], n_settings - len(variants[label].settings))
        if lost is None:
            continue
        held_out = confirmed.held_out
        if not confirmed.deployed:
            held_out = confirming.hold_out(label, variants[label])
        if held_out is None or held_out.is_good:
            return _in_its_place(
                known, standings[label], variants[label], held_out, is_trade=bool(lost)
            )
        turned_down = True
        known = replace(
            known,
            chosen={**known.chosen, label: variants[label]},
            standings={**known.standings, label: standings[label]},
            held_back={**known.held_back, label: held_out},
        )
    if confirmed.deployed:
        confirming.hold_out(best.label, winner)
    needed = [replace(one, is_needless=False) for one in effects]
    return replace(known, effects=needed) if turned_down else known


def _lost_of(
    confirmed: Confirmed, beside: Collection[str], rules: Rules, one: Standing, n_fewer: int
) -> list[str] | None:
    """Return what seems lost by what may take the winner's place; None where it may not.

    Args:
        confirmed: the winner's rounds.
        beside: labels of what ran beside the winner, too.
        rules: what counts.
        one: what may take its place.
        n_fewer: settings that it does without.
    """
    winner = confirmed.best
    if winner is None or one.state is not State.CONFIRMED:
        return None
    if not _is_proven_as_well(winner, rules, one):
        return None
    is_beside, noise = one.label in beside, _noise(confirmed)
    lost = _apart(one, winner, rules) if is_beside else _lost(one, winner, rules, noise)
    is_little = all(
        _loss(one, winner, name) <= rules.may_cost(n_fewer, winner.gains[name].middle)
        for name in lost
    )
    return lost if is_little or _gains_more(one, winner, rules) else None


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


def _in_its_place(
    confirmed: Confirmed,
    best: Standing,
    smaller: Configuration,
    held_out: HeldOutStanding | None,
    *,
    is_trade: bool,
) -> Confirmed:
    """Return what is confirmed, with what is left of the winner in its place.

    Of a trade, something was lost for what is gained elsewhere.
    """
    kept = [one for one in confirmed.effects if one.name in smaller.as_dict]
    others = {label: one for label, one in confirmed.standings.items() if label != best.label}
    return replace(
        confirmed,
        chosen={best.label: smaller, **confirmed.chosen},
        standings={best.label: best, **others},
        best=best,
        held_out=held_out,
        effects=kept,
        left_out=[one.setting for one in confirmed.effects if one not in kept],
        traded=confirmed.best.gains if is_trade and confirmed.best else {},
    )


def _begun(work: Work, winner: Configuration) -> list[Configuration]:
    """Return what an earlier call began to confirm of this winner; nothing where there is none."""
    kept = list(work.kept(REDUCED_FILE).values())
    is_of_winner = all(
        one.allocator == winner.allocator and set(one.settings) < set(winner.settings)
        for one in kept
    )
    return kept if is_of_winner else []


def _smaller(winner: Configuration, effects: Sequence[SettingEffect]) -> list[Configuration]:
    """Return what may be left of the winner; see above."""
    by_loss = sorted(effects, key=lambda one: one.loss)
    needless = [one for one in by_loss if one.seems_needless]
    dropped = [needless[: -(-len(needless) // part)] for part in _PARTS]
    dropped.append([one for one in effects if one.is_costly])
    dropped.append([one for one in effects if not one.is_shown])
    dropped.append(by_loss[:-1])
    left = (reduce(Configuration.without, (one.name for one in some), winner) for some in dropped)
    return [one for one in dict.fromkeys(left) if one != winner]


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
