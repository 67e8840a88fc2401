"""What a guard turned down although it gains much, and the constraint that would allow it.

The answer stays safe: a setting that makes a guarded quantity worse is not recommended.  But who
would trade some peak memory for much CPU time has to know that there is something to trade.

What ran a few times and was emulated counts only where emulation expects its gain, and its loss but
that of the peak: a stall of the machine can look like a trade, but raises no peak.  Of what a
search by runs found all runs together say whether it gains: emulation knows no huge pages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tuner.optimize.answering.table import limit_words
from tuner.optimize.proof.judgement import Gain, Rules
from tuner.optimize.quantities import PEAK, QUANTITIES, SERVICE_NAMES, TABLE, key_of
from tuner.page import series
from tuner.service.constraints import parse_limit
from tuner.units import show_percent

_MOST: Final = 2
"""Shown."""

_NOISES: Final = 3.0
"""Standard deviations by which times of single runs must differ to count."""

_PART_OF_MEMORY: Final = 1.0 / 3.0
"""Of what few runs showed, that emulation must expect: it knows memory well, time less so."""

_OF_FEW_RUNS: Final = 0.5
"""Weight of what few runs showed, beside what new runs prove."""

_WORTH_RUNS: Final = 3.0
"""Times the least effect: what few runs say that a trade gains, for it to be worth rounds."""

_ROOM: Final = 0.1
"""Of what was lost, that a constraint leaves beyond it: a guard must be proven to hold."""

_SERVICE_KEYS: Final = {quantity: metric for metric, quantity in SERVICE_NAMES.items()}
"""Quantity -> its name in a constraint on a service."""


def parse_program_constraint(text: str) -> tuple[str, float]:
    """Return the quantity of a constraint, and the share by which it may become worse.

    Raises:
        SpecError: it is not understood, or allows nothing.

    Example:
        >>> name, share = parse_program_constraint("peak_memory <= default * 1.1")
        >>> name, round(share, 9)
        ('peak memory', 0.1)
    """
    names = {key_of(name): name for name in QUANTITIES}
    judged = {key: TABLE[name].is_more_better for key, name in names.items()}
    wanted, share = parse_limit(text, judged, "'peak_memory <= default * 1.1'")
    return names[wanted], share


@dataclass(frozen=True)
class TurnedDown:
    """A setting that gains much, and what it makes worse."""

    label: str
    gains: Mapping[str, Gain]
    gained: tuple[str, ...]
    """Goals in which it gains much, that in which it gains most first."""
    broken: tuple[str, ...]
    """Guards that it breaks."""
    in_rounds: bool
    """New runs proved the loss; else it ran once or three times."""
    constraints: tuple[str, ...]
    """What would allow it, as ``--constraint`` takes it."""

    @property
    def words(self) -> str:
        """Say what it gains, what it loses, and what allows it."""
        losses = _loss_words(
            {name: self.gains[name] for name in self.broken}, is_proven=self.in_rounds
        )
        gains = series([f"{show_percent(abs(self.gains[n].change))} of {n}" for n in self.gained])
        few = "" if self.in_rounds else " in few runs"
        if self.in_rounds and any(self.gains[n].bounds is None for n in self.gained):
            gains += ", in few rounds,"
        text = f"Turned down: {self.label} saves {gains} but {losses}{few}"
        options = " ".join(f"--constraint '{one}'" for one in self.constraints)
        return f"{text}; {options} allow{'' if len(self.constraints) > 1 else 's'} it."


def best_trade(
    seen: Mapping[str, Mapping[str, Gain]], rules: Rules, noise: Mapping[str, float]
) -> str | None:
    """Return what gains most, less what it loses, of all that clearly breaks a guard.

    None where nothing gains much.

    Args:
        seen: label -> changes in few runs.
        rules: what counts.
        noise: quantity -> standard deviation of the logarithm of one run.
    """
    found = {}
    for label, gains in seen.items():
        broken = _broken(gains, rules, noise)
        much = [gains[n].likely for n in rules.goals if n in gains and _is_much(gains[n], n, rules)]
        loss = max((-gains[name].likely for name in broken), default=math.inf)
        if max(much, default=0.0) > loss:
            names = dict.fromkeys((*rules.goals, *broken))
            found[label] = sum(gains[name].likely for name in names if name in gains)
    return max(found, key=lambda label: found[label], default=None)


def turned_down(
    seen: Sequence[tuple[str, Mapping[str, Gain], tuple[str, ...] | None]],
    rules: Rules,
    deployed: Mapping[str, Gain] | None,
    noise: Mapping[str, float],
    *,
    expected: Mapping[str, Mapping[str, float]] | None = None,
    is_service: bool = False,
) -> tuple[TurnedDown, ...]:
    """Return what is worth saying of settings that a guard turned down.

    Args:
        seen: label, changes, and the guards that are proven worse, None where few runs chose it.
        rules: what counts.
        deployed: what the recommended setting gains; None where nothing is deployed.
        noise: quantity -> standard deviation of the logarithm of one run.
        expected: label -> quantity -> log(setting / program as it is), of what was emulated; None
            where nothing was.
        is_service: constraints name quantities as those of a service do.

    Returns:
        At most two, of different guards: the greatest gain in all goals less the losses, where
        what few runs gain counts half, and none that another makes pointless.  Each gains at
        least the least effect more than what is deployed, and more than it loses; all that is
        said of it, its own runs showed, too.
    """
    best: dict[tuple[str, ...], tuple[float, TurnedDown]] = {}
    for label, gains, worse in seen:
        broken = worse if worse is not None else _broken(gains, rules, noise)
        won = {goal: _won(gains, goal, deployed) for goal in rules.goals if goal in gains}
        seen_to_gain = [goal for goal in won if gains[goal].middle > 0.0]
        if not broken or not seen_to_gain or any(gains[name].middle >= 0.0 for name in broken):
            continue
        goal = max(seen_to_gain, key=lambda n: (won[n] > math.log1p(rules.least_of(n)), won[n]))
        if worse is None and expected is not None:
            told = (goal, *(n for n in _clearly_broken(gains, rules, noise) if n != PEAK))
            if label not in expected and gains[goal].smoothed is None:
                continue
            if label in expected and not _agrees(gains, expected[label], told):
                continue
        doubt = 0.0 if worse is not None else _NOISES * noise.get(goal, 0.0)
        losses = [-gains[name].likely for name in broken]
        if won[goal] <= math.log1p(rules.least_of(goal)) + doubt or gains[goal].likely <= max(
            losses
        ):
            continue
        limited = {name: _limited(gains[name], rules.margin(name)) for name in broken}
        beyond = tuple(n for n, gain in limited.items() if _is_beyond(gain)) or broken
        limits = tuple(
            constraint(name, gains[name].change, is_service=is_service) for name in beyond
        )
        much = [n for n in seen_to_gain if n != goal and _is_much(gains[n], n, rules)]
        in_rounds = worse is not None
        found = TurnedDown(label, {**gains, **limited}, (goal, *much), beyond, in_rounds, limits)
        lost = sum(one for name, one in zip(broken, losses, strict=True) if name not in won)
        net = sum(won.values()) - lost
        rank = net if found.in_rounds else min(net, _OF_FEW_RUNS * net)
        if beyond not in best or rank > best[beyond][0]:
            best[beyond] = rank, found
    shown: list[TurnedDown] = []
    for _, one in sorted(best.values(), key=lambda pair: pair[0], reverse=True):
        if not any(_is_no_worse(other, one, rules) for other in shown):
            shown.append(one)
    return tuple(shown[:_MOST])


def _is_no_worse(one: TurnedDown, other: TurnedDown, rules: Rules) -> bool:
    """Return whether a trade breaks no other guard, and gains as much and loses no more."""
    return {*one.broken} <= {*other.broken} and all(
        one.gains[name].likely > other.gains[name].likely - math.log1p(rules.least)
        for name in (*other.gained, *other.broken)
    )


def _limited(gain: Gain, margin: float) -> Gain:
    """Return a gain with what few runs were allowed to lose, where rounds did not judge it."""
    return gain if gain.limit is not None else replace(gain, limit=math.expm1(margin))


def _is_much(gain: Gain, goal: str, rules: Rules) -> bool:
    """Return whether a gain of few runs is worth rounds."""
    least = max(_WORTH_RUNS * math.log1p(rules.least), math.log1p(rules.least_of(goal)))
    return gain.likely > least


def _is_beyond(gain: Gain) -> bool:
    """Return whether more than the limit is lost, as the change that is shown says."""
    return gain.likely < -math.log1p(gain.limit or 0.0)


def _won(gains: Mapping[str, Gain], goal: str, deployed: Mapping[str, Gain] | None) -> float:
    already = deployed[goal].likely if deployed and goal in deployed else 0.0
    return gains[goal].likely - max(0.0, already)


def _broken(gains: Mapping[str, Gain], rules: Rules, noise: Mapping[str, float]) -> tuple[str, ...]:
    """Return the guards that have to be allowed to be worse; none where none clearly is."""
    clearly = _clearly_broken(gains, rules, noise)
    names = [name for name in rules.guards if clearly and name in gains]
    return tuple(n for n in names if n in clearly or gains[n].middle < -rules.margin(n))


def _clearly_broken(
    gains: Mapping[str, Gain], rules: Rules, noise: Mapping[str, float]
) -> tuple[str, ...]:
    """Return the guards that one run shows to be worse, beyond its noise."""
    return tuple(
        name
        for name in rules.guards
        if name in gains
        and -gains[name].likely > rules.margin(name) + _NOISES * noise.get(name, 0.0)
    )


def _agrees(gains: Mapping[str, Gain], expected: Mapping[str, float], names: Sequence[str]) -> bool:
    """Return whether emulation expects changes in the same direction, of memory by a good part."""
    for name in names:
        wanted = -expected.get(name, 0.0)
        part = _PART_OF_MEMORY if TABLE[name].is_memory else 0.0
        seen = gains[name].middle
        if wanted * seen <= 0.0 or abs(wanted) < part * abs(seen):
            return False
    return True


def constraint(name: str, change: float, *, is_service: bool = False) -> str:
    """Return the constraint that allows a change for the worse and some room: whole percents."""
    key = _SERVICE_KEYS[name] if is_service else key_of(name)
    allowed = math.ceil(100.0 * (abs(change) * (1.0 + _ROOM) + 0.01))
    if TABLE[name].is_more_better:
        return f"{key} >= default - {allowed} %"
    return f"{key} <= default * {1.0 + allowed / 100.0:g}"


def _loss_words(gains: Mapping[str, Gain], *, is_proven: bool) -> str:
    """Say what is lost; a verb that comes again is left out.

    Args:
        gains: of the guards.
        is_proven: rounds judged them; where their bounds leave room for a gain, a loss is likely.
    """
    words: list[str] = []
    before = ""
    for name, gain in gains.items():
        share = show_percent(abs(gain.change))
        if gain.limit is not None and share == show_percent(gain.limit):
            share = show_percent(abs(gain.change), 2)
        verb, what = _loss(name, share)
        if is_proven and gain.high >= 0.0:
            verb = f"seems to {verb.removesuffix('s')}"
        limit = limit_words(gain.limit, is_halved=gain.is_halved)
        words.append((what if verb == before else f"{verb} {what}") + limit)
        before = verb
    return series(words)


def _loss(name: str, share: str) -> tuple[str, str]:
    if TABLE[name].is_more_better:
        return "loses", f"{share} of {name}"
    return "holds" if TABLE[name].is_memory else "needs", f"{share} more {name}"
