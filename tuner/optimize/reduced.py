"""The winner with as few settings as the program needs, confirmed on new runs.

Every setting of the winner is taken away in turn (ablation.py).  Those without which nothing seems
to become worse by the least effect and by a standard error go back to unset: all of them, the half
that seems to matter least, and a quarter, since many small losses may add up to one that counts.
What is left of each runs against the program as it is in rounds of its own, and so does the winner
without the settings that cost.  The smallest takes the winner's place if these confirm it, if
nothing seems to have lost both the least effect and a standard error or more is gained in all,
which the answer calls a trade, and if the held-out input does not speak against it; if none does,
the winner stays with all its settings.  Of a single setting, its rounds beside the winner say
better whether it lost something than those of another time do, unless their bounds are apart.

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
from functools import reduce

from tuner.optimize.ablation import SettingEffect, effects_of
from tuner.optimize.answer import label_of
from tuner.optimize.confirmation import Confirmed, Confirming
from tuner.optimize.counted import gains_of_work
from tuner.optimize.judgement import Rules, Standing, State
from tuner.optimize.noise import OF_MEDIANS, noise_as_it_is
from tuner.optimize.tuned import Reference
from tuner.optimize.work import HELD_OUT_REDUCED_FILE, REDUCED_FILE, Work
from tuner.records import Configuration

_PARTS = (1, 2, 4)
"""Of the needless settings go back to unset: all, half, a quarter."""


def reduced(
    work: Work, reference: Reference, confirming: Confirming, confirmed: Confirmed
) -> Confirmed:
    """Return what is confirmed with what its settings do, the winner as small as is proven.

    Args:
        work: the optimisation.
        reference: the program as it is.
        confirming: what confirmed the winner.
        confirmed: what it found.
    """
    if confirmed.best is None or not confirmed.is_good:
        return confirmed
    winner = confirmed.chosen[confirmed.best.label]
    effects = effects_of(work, reference, winner)
    known = replace(confirmed, effects=effects)
    found = _begun(work, winner) or _smaller(winner, effects)
    variants = {label_of(one): one for one in found if not reference.is_of(one)}
    if not variants:
        return known
    if confirmed.best.label in work.trials:
        for label in variants:
            work.trials[label] = work.trials[confirmed.best.label]
    counted = gains_of_work(work, reference, variants)
    n_claims = len(confirmed.chosen) * len(variants)
    standings, _ = confirming.race(REDUCED_FILE, variants, counted, n_claims)
    beside = {label_of(winner.without(one.name)) for one in effects if one.seems_needless}
    ordered = sorted(standings.values(), key=lambda one: len(variants[one.label].settings))
    noise = noise_as_it_is(confirmed.course)
    good = _first_good(ordered, confirmed.best, work.request.rules, noise, beside)
    if good is None:
        return known
    best, is_trade = good
    label, smaller = best.label, variants[best.label]
    held_out = confirming.hold_out(label, smaller, HELD_OUT_REDUCED_FILE)
    kept = [one for one in effects if one.name in smaller.as_dict]
    if held_out is not None and not held_out.is_good:
        needed = [one if one in kept else replace(one, is_needless=False) for one in effects]
        return replace(known, effects=needed)
    left_out = [one for one in effects if one not in kept]
    return replace(
        known,
        chosen={label: smaller, **confirmed.chosen},
        standings={label: best, **confirmed.standings},
        best=best,
        held_out=held_out,
        effects=kept,
        left_out=[one.setting for one in left_out],
        traded=confirmed.best.gains if is_trade else {},
    )


def _first_good(
    ordered: Sequence[Standing],
    winner: Standing,
    rules: Rules,
    noise: Mapping[str, float],
    beside: Collection[str],
) -> tuple[Standing, bool] | None:
    """Return the first that may take the winner's place, and whether it is a trade; None: none may.

    Args:
        ordered: what is left of the winner, the smallest first.
        winner: with all settings.
        rules: say what counts.
        noise: quantity -> standard deviation of the logarithm of a run.
        beside: labels of those that ran beside the winner, too.
    """
    for one in ordered:
        if one.state is not State.CONFIRMED:
            continue
        is_beside = one.label in beside
        lost = _apart(one, winner, rules) if is_beside else _lost(one, winner, rules, noise)
        if not lost or _gains_more(one, winner, rules):
            return one, bool(lost)
    return None


def _begun(work: Work, winner: Configuration) -> list[Configuration]:
    """Return what an earlier call began to confirm of this winner; nothing where there is none."""
    kept = list(work.kept(REDUCED_FILE).values())
    is_of_winner = all(
        one.allocator == winner.allocator and set(one.settings) < set(winner.settings)
        for one in kept
    )
    return kept if is_of_winner else []


def _smaller(winner: Configuration, effects: Sequence[SettingEffect]) -> list[Configuration]:
    """Return the winner without all, half and a quarter of the needless settings.

    And without those that cost: in another setting's company they may do more harm than good.
    """
    needless = sorted((one for one in effects if one.seems_needless), key=lambda one: one.loss)
    n_dropped = dict.fromkeys(-(-len(needless) // part) for part in _PARTS)
    names = [one.name for one in needless]
    costly = [one.name for one in effects if one.is_costly]
    dropped = [*(names[:n] for n in n_dropped if n > 0), *([costly] if costly else [])]
    return [reduce(Configuration.without, some, winner) for some in dropped]


def _lost(
    standing: Standing, winner: Standing, rules: Rules, noise: Mapping[str, float]
) -> list[str]:
    """Return the quantities in which what is left seems to have lost something.

    Args:
        standing: of what is left.
        winner: with all settings.
        rules: say what counts.
        noise: quantity -> standard deviation of the logarithm of a run.
    """
    n_rounds = [max(1, one.n_rounds) for one in (standing, winner)]
    errors = OF_MEDIANS * math.sqrt(sum(2.0 / n for n in n_rounds))  # each is a median of ratios

    def seems_lost(name: str) -> bool:
        lost = winner.gains[name].middle - standing.gains[name].middle
        return lost > max(rules.margin(name), errors * noise.get(name, 0.0))

    return list(filter(seems_lost, dict.fromkeys((*rules.guards, *rules.goals))))


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
