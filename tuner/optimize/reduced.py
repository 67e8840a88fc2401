"""The winner with as few settings as the program needs, confirmed on new runs.

Every setting of the winner is taken away in turn (ablation.py).  Those without which nothing seems
to become worse by the least effect go back to unset together, and what is left runs against the
program as it is in rounds of its own.  It takes the winner's place only if these confirm it, if no
guard seems to have lost the least effect, and if the held-out input does not speak against it;
else the winner stays with all its settings.

The claim is tested at the winner's error.  That keeps the error of the whole, since it is tested
only where the winner's own claim is proven: a fixed sequence.

Source: Maurer, Hothorn, Lehmacher, "Multiple comparisons in drug clinical trials and preclinical
assays: a-priori ordered hypotheses", in Biometrie in der chemisch-pharmazeutischen Industrie 6,
1995.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tuner.optimize.ablation import SettingEffect, effects_of, without
from tuner.optimize.answer import label_of
from tuner.optimize.confirmation import Confirmed, Confirming
from tuner.optimize.judgement import Rules, Standing, State
from tuner.optimize.race import Race
from tuner.optimize.tuned import Reference
from tuner.optimize.work import HELD_OUT_REDUCED_FILE, REDUCED_FILE, Work, duets_for
from tuner.records import Configuration


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
    smaller = _begun(work, winner) or _smaller(winner, effects)
    is_as_is = smaller == Configuration("glibc") and reference.brings is None
    if smaller == winner or is_as_is:
        return known
    label = label_of(smaller)
    if confirmed.best.label in work.trials:
        work.trials[label] = work.trials[confirmed.best.label]
    standing = _standing(work, reference, confirming, confirmed, smaller)
    if not _is_as_good(standing, confirmed.best, work.request.rules):
        return known
    held_out = confirming.hold_out(label, smaller, HELD_OUT_REDUCED_FILE)
    if held_out is not None and held_out.worse:
        return known
    left_out = [one for one in effects if one.name not in smaller.as_dict]
    return replace(
        known,
        chosen={label: smaller, **confirmed.chosen},
        standings={label: standing, **confirmed.standings},
        best=standing,
        held_out=held_out,
        effects=[one for one in effects if one.name in smaller.as_dict],
        left_out=[one.setting for one in left_out],
    )


def _begun(work: Work, winner: Configuration) -> Configuration | None:
    """Return what an earlier call began to confirm of this winner; None where there is none."""
    for one in work.kept(REDUCED_FILE).values():
        if set(one.settings) < set(winner.settings) and one.allocator == winner.allocator:
            return one
    return None


def _smaller(winner: Configuration, effects: Sequence[SettingEffect]) -> Configuration:
    for effect in effects:
        if effect.seems_needless:
            winner = without(winner, effect.name)
    return winner


def _standing(
    work: Work,
    reference: Reference,
    confirming: Confirming,
    confirmed: Confirmed,
    smaller: Configuration,
) -> Standing:
    label = label_of(smaller)
    duets = duets_for(work, {label: smaller}, reference)
    race = Race(
        [label],
        work.request.rules,
        confirming.has_time,
        work.request.seed,
        n_claims=len(confirmed.chosen),
        view=work.view,
        duets=duets,
    )
    work.view.begin("confirmation", None)
    runs = duets.runs if duets else None
    course = work.compare(REDUCED_FILE, race, {label: smaller}, reference, runs=runs)
    return race.standings(course)[label]


def _is_as_good(standing: Standing, winner: Standing, rules: Rules) -> bool:
    """Return whether what is left is confirmed, and seems to have lost no least effect."""
    return standing.state is State.CONFIRMED and all(
        standing.gains[name].middle >= winner.gains[name].middle - rules.margin(name)
        for name in dict.fromkeys((*rules.guards, *rules.goals))
    )
