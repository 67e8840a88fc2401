"""What the rounds of a confirmation prove of one candidate, in the program's own terms.

A candidate is confirmed when one goal at least is proven better by more than a threshold, and
every guarded quantity is proven not worse by the least effect that counts.  All guards must hold,
so each is tested at the undivided error; any goal may do, so theirs is divided.

What differs more than that between two runs of the program as it is would take hundreds of rounds.
Such a guard holds too where the rounds prove that the loss is less than that difference, and their
middle is within the limit.  What repeats itself, on the other hand, is known to the last page on
one input and on no other: it must hold half of the limit.  A limit of the user's stays as it is.

Work that was counted (counted.py) repeats itself whatever the load.  It proves a gain in CPU time,
or that there is no loss, once the rounds prove that a loss is less than a few times the limit, and
as long as they do not speak against it: caches and locks are no work.

Sources: intersection-union tests, Berger, "Multiparameter hypothesis testing and acceptance
sampling", Technometrics 24, 1982; limits scaled to the variation of the reference, with the middle
within the plain limit: Haidar and others, "Bioequivalence approaches for highly variable drugs and
drug products", Pharmaceutical Research 25, 2008.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Final

from tuner.optimize.proof.evidence import (
    fewest_rounds,
    greatest_evidence,
    lower_bound,
    showable_gain,
    upper_bound,
)
from tuner.optimize.quantities import CPU, MEAN, QUANTITIES, TABLE
from tuner.optimize.tuned import Logs

LEAST_BYTES = 64 << 10
"""Least memory that a gain must save: a few pages are worth no setting, whatever their share."""

ROUNDS_TO_GIVE_UP = 8
"""Rounds before a candidate may be given up for a guard, or for what the time left cannot show."""

FEW_LIKELY = 4
"""Rounds before anything may be called likely."""

_UNLIKELY, _VERY_UNLIKELY, _ALL_BUT_IMPOSSIBLE = 0.05, 0.025, 0.002
"""Greatest probability of what is not likely, of what one candidate in 30 is given up for, and of
what it is given up for in few rounds."""

_LITTLE = 0.2
"""Of a gain, that it may cost to do with fewer settings."""

_MOST_SCALED = 5.0
"""Times the limit of a guard, that its limit by variation is at most."""

_MOST_BESIDE_COUNT = 3.0
"""Times the limit of a guard, that the rounds must prove where counted work proves the limit."""

_EXACT_RUNS = 3
"""Runs of the baseline that must agree before a quantity counts as exact."""

_EXACT_SHARE = 0.2
"""Of the least effect, within which exact runs agree."""

OF_EXACT: Final = 0.5
"""Of the limit of a guard, that what repeats itself must hold: it is exact of one input, and
another one has another memory."""


@dataclass(frozen=True)
class Rules:
    """What counts as better, and what must not become worse."""

    least: float = 0.01
    """Least effect that counts, a share above 0."""
    goals: tuple[str, ...] = (MEAN, CPU)
    """Of which one at least must be proven better."""
    guards: tuple[str, ...] = QUANTITIES
    """None of which may become worse by the least effect or more."""
    error: float = 0.05
    """Greatest probability of a false recommendation."""
    limits: tuple[tuple[str, float], ...] = ()
    """Guard and the greatest share by which it may become worse, in place of `least`."""
    strict: tuple[str, ...] = ()
    """Guards whose limit holds however much the program varies: the user named it."""
    floors: tuple[tuple[str, float], ...] = ()
    """Goal and the share that `LEAST_BYTES` are of it, where that is more than must be proven."""

    def margin(self, quantity: str) -> float:
        """Return how much worse, in logarithms, a guard may become."""
        return math.log1p(dict(self.limits).get(quantity, self.least))

    def scaled_margin(self, quantity: str, noise: float) -> float:
        """Return the same for a guard that varies from run to run.

        Args:
            quantity: the guard.
            noise: standard deviation of the logarithm of a run of the program as it is.
        """
        margin = self.margin(quantity)
        if quantity in self.strict:
            return margin
        return max(margin, min(math.sqrt(2.0) * noise, _MOST_SCALED * margin))

    def of(self, values: Mapping[str, float]) -> Rules:
        """Return the rules for what is measured.

        Args:
            values: quantity -> value of the program as it is.
        """
        goals = tuple(name for name in self.goals if name in values)
        shares = {name: LEAST_BYTES / values[name] for name in goals if TABLE[name].is_memory}
        return replace(
            self,
            goals=goals,
            guards=tuple(name for name in self.guards if name in values),
            floors=tuple((n, share) for n, share in shares.items() if share > self.least / 2.0),
        )

    def of_exact(self, exact: frozenset[str]) -> Rules:
        """Return the rules where these quantities repeat themselves: their limits are halved.

        But for those that the user named; an exact loss may be greater on the next input.
        """
        halved = {name: OF_EXACT * math.expm1(self.margin(name)) for name in sorted(exact)}
        named = {name: halved[name] for name in halved if name not in self.strict}
        return replace(self, limits=tuple({**dict(self.limits), **named}.items()))

    def may_cost(self, n_fewer: int, gain: float) -> float:
        """Return what it may cost to do without settings, of which a user understands every one.

        Args:
            n_fewer: how many settings go.
            gain: what a quantity gains with all of them, in logarithms.

        Returns:
            The least effect for each of them, and no more than a fifth of the gain.
        """
        return min(n_fewer * math.log1p(self.least), _LITTLE * gain)

    def least_of(self, goal: str) -> float:
        """Return the least share of a goal that counts."""
        return max(self.least, dict(self.floors).get(goal, 0.0))

    def error_of_gain(self, n_candidates: float) -> float:
        """Return the error of each claim of a gain: candidates and their goals share it."""
        return self.error / (n_candidates * max(1, len(self.goals)))

    def threshold(self, quantity: str) -> float:
        """Return the gain, in logarithms, that a goal must be proven to exceed."""
        share = least_gain(quantity, self.least)
        return math.log1p(max(share, dict(self.floors).get(quantity, 0.0)))


def least_gain(quantity: str, least: float) -> float:
    """Return the share that a gain must be proven to exceed: of memory, half of the least effect.

    Args:
        quantity: that gains.
        least: the least effect that counts, a share.
    """
    return least / 2.0 if TABLE[quantity].is_memory else least


class State(enum.StrEnum):
    """What is known of a candidate."""

    OPEN = "open"
    """Neither proven better nor worse."""
    CONFIRMED = "confirmed"
    WORSE = "worse"
    """Proven worse in a guard."""
    HOPELESS = "hopeless"
    """It most likely gains less than counts, or is worse in a guard; given up, not refuted."""
    OUT_OF_REACH = "out of reach"
    """It most likely gains less than the rounds that there is time for can show."""
    FAILED = "failed"
    """It did not run, or not as the baseline does."""


@dataclass(frozen=True)
class Gain:
    """How much better a candidate is in one quantity; all in logarithms, above 0 for better."""

    middle: float
    low: float
    """It is at least that, with the error of the rules; ``-inf`` when nothing is known."""
    high: float
    is_exact: bool = False
    """The runs repeat themselves, so a few suffice."""
    is_more_better: bool = False
    """True: the quantity grows where the candidate is better."""
    smoothed: float | None = None
    """What all runs of all settings together say of it, where few runs of its own were made;
    None where rounds of its own prove it."""
    limit: float | None = None
    """Greatest share by which a guard may become worse; None where it was not judged as one."""
    is_halved: bool = False
    """That limit is half of what others have, see `Rules.of_exact`."""
    is_mixed: bool = False
    """Some of its own runs gain and others lose by what counts."""

    @property
    def likely(self) -> float:
        """What is to be expected: of few runs the middle is mostly a lucky or an unlucky one."""
        return self.middle if self.smoothed is None else self.smoothed

    @property
    def change(self) -> float:
        """Change of the quantity that is to be expected, -0.05 for 5 % less."""
        return self._change_of(self.likely)

    @property
    def seen_change(self) -> float:
        """Change of the quantity in the middle of its own runs."""
        return self._change_of(self.middle)

    @property
    def smoothed_change(self) -> float | None:
        """Change of the quantity by `smoothed`."""
        return None if self.smoothed is None else self._change_of(self.smoothed)

    def _change_of(self, gain: float) -> float:
        return math.expm1(gain if self.is_more_better else -gain) + 0.0  # no -0.0

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Least and greatest change; None when the rounds are too few."""
        if math.isinf(self.low) or math.isinf(self.high):
            return None
        if self.is_more_better:
            return math.expm1(self.low), math.expm1(self.high)
        return math.expm1(-self.high), math.expm1(-self.low)


@dataclass(frozen=True)
class Standing:
    """What the rounds so far prove of one candidate."""

    label: str
    n_rounds: int
    state: State
    gains: Mapping[str, Gain]
    better: tuple[str, ...]
    """Goals proven better."""
    worse: tuple[str, ...]
    """Guards proven worse."""
    unsure: tuple[str, ...]
    """Guards not yet proven to hold."""
    reason: str = ""
    """Why it failed."""
    promise: float = -math.inf
    """Sum of what the goals are likely to gain at least; ``-inf`` where no gain is likely, or a
    guard is likely to be worse."""
    likely_worse: tuple[str, ...] = ()
    """Guards that are most likely worse, proven or not."""
    stuck: tuple[str, ...] = ()
    """Guards that the rounds there is time for will most likely not prove to hold."""
    scaled: Mapping[str, float] = field(default_factory=dict)
    """Guards that hold only within what the program as it is varies by -> that share."""
    by_count: Mapping[str, float] = field(default_factory=dict)
    """Goals and guards that only counted work proves -> what it gains, in logarithms."""
    unseen: frozenset[str] = frozenset()
    """Quantities that no round shows: memory, where all were made beside others."""

    @property
    def is_bad(self) -> bool:
        """It failed, or is proven worse: on a held-out input that speaks against it."""
        return self.state is State.FAILED or bool(self.worse)

    def failed(self, reason: str) -> Standing:
        """Return the same of one that failed."""
        return replace(self, state=State.FAILED, reason=reason)

    def score(self, rules: Rules) -> float:
        """Return the sum of the gains in the goals."""
        return sum(self.gains[goal].middle for goal in rules.goals if goal in self.gains)

    def sure_score(self, rules: Rules) -> float:
        """Return the same of what the goals gain at least; the least effect lost where unknown."""
        worst = -math.log1p(rules.least)
        lows = {name: gain.low for name, gain in self.gains.items()}
        for name, counted in self.by_count.items():
            lows[name] = max(lows[name], counted)
        return sum(max(lows[g], worst) for g in rules.goals if g in lows)


def judge(
    label: str,
    logs: Logs,
    exact: frozenset[str],
    rules: Rules,
    n_candidates: float,
    *,
    n_in_all: float = math.inf,
    noise: Mapping[str, float] | None = None,
    counted: float | None = None,
    may_scale: bool = True,
) -> Standing:
    """Return what the rounds so far prove of a candidate.

    Args:
        label: of the candidate.
        logs: of every quantity, one value a round, in order.
        exact: quantities that repeat themselves, see `exact_quantities`.
        rules: what counts.
        n_candidates: among whom the error is shared; those that left since count too.
        n_in_all: rounds that there is time for, those that ran too.
        noise: quantity -> standard deviation of the logarithm of a run of the program as it is;
            None where that is not known.
        counted: log(baseline / candidate) of work; None: it was not counted, or does not repeat
            itself.
        may_scale: whether a guard may hold within what the program varies by.  The more often one
            looks, the sooner the middle of few rounds is within the limit by luck.
    """
    known = noise if noise and may_scale else {}
    n_rounds = max((len(values) for values in logs.values()), default=0)
    names = dict.fromkeys((*logs, *rules.guards, *rules.goals))
    judged = [
        _Judged(
            q,
            logs.get(q, ()),
            rules,
            n_candidates,
            is_exact=q in exact,
            n_in_all=n_in_all,
            noise=known.get(q, 0.0),
            counted=counted if q == CPU else None,
        )
        for q in names
    ]
    better = tuple(one.quantity for one in judged if one.is_better)
    guards = [one for one in judged if one.quantity in rules.guards]
    worse = tuple(one.quantity for one in guards if one.is_worse)
    likely_worse = tuple(one.quantity for one in guards if one.is_broken)
    stuck = tuple(one.quantity for one in guards if one.is_stuck)
    scaled = {one.quantity: one.scaled_limit for one in guards if one.holds_scaled}
    unsure = tuple(
        one.quantity for one in guards if not one.is_not_worse and one.quantity not in scaled
    )
    state = State.OPEN
    if worse:
        state = State.WORSE
    elif better and not unsure:
        state = State.CONFIRMED
    elif likely_worse or all(one.is_hopeless for one in judged if one.quantity in rules.goals):
        state = State.HOPELESS
    elif all(one.is_out_of_reach for one in judged if one.quantity in rules.goals):
        state = State.OUT_OF_REACH
    by_count = {
        one.quantity: counted for one in judged if counted is not None and one.is_proven_by_count
    }
    return Standing(
        label, n_rounds, state, _Gains(judged), better, worse, unsure,
        promise=_promise(judged, rules), likely_worse=likely_worse, stuck=stuck,
        scaled=scaled, by_count=by_count, unseen=frozenset(q for q in names if not logs.get(q)),
    )  # fmt: skip


def exact_quantities(runs: Mapping[str, Sequence[float]], rules: Rules) -> frozenset[str]:
    """Return the quantities whose runs of the baseline all agree.

    Args:
        runs: quantity -> value of every run of the baseline, above 0.
        rules: what counts.

    Memory of most programs with one thread repeats itself; two runs then show what a test of
    signs would need ten for.  Where three agree by luck, those of later rounds do not, and nothing
    is confirmed before CPU time has its rounds.
    """
    return frozenset(name for name, values in runs.items() if agree(values, rules, _EXACT_RUNS))


def agree(values: Sequence[float], rules: Rules, n_least: int = 1) -> bool:
    """Return whether values above 0 repeat themselves, of which there are so many at least."""
    if len(values) < n_least:
        return False
    return max(values) / min(values) - 1.0 <= _EXACT_SHARE * rules.least


def _promise(judged: Sequence[_Judged], rules: Rules) -> float:
    goals = [one for one in judged if one.quantity in rules.goals]
    guards = [one for one in judged if one.quantity in rules.guards]
    if any(one.is_likely_worse for one in guards) or not any(one.is_likely_better for one in goals):
        return -math.inf
    return sum(max(one.least_likely, -math.log1p(rules.least)) for one in goals)


class _Gains(Mapping[str, Gain]):
    """Gains by quantity: their bounds, which decide nothing in a race, are found when asked for."""

    def __init__(self, judged: Sequence[_Judged]) -> None:
        self._judged = {one.quantity: one for one in judged}

    def __getitem__(self, name: str) -> Gain:
        return self._judged[name].gain

    def __iter__(self) -> Iterator[str]:
        return iter(self._judged)

    def __len__(self) -> int:
        return len(self._judged)


class _Judged:
    """One quantity of a candidate; what takes long is found once, and only when asked for."""

    def __init__(
        self,
        quantity: str,
        logs: Sequence[float],
        rules: Rules,
        n_candidates: float,
        *,
        is_exact: bool,
        n_in_all: float,
        noise: float,
        counted: float | None,
    ) -> None:
        self._counted = counted
        self.quantity = quantity
        self._logs = list(logs)
        self._rules = rules
        n_agree = 2
        self._is_exact = is_exact and agree([math.exp(x) for x in logs], rules, n_agree)
        may_be_exact = self._is_exact or (is_exact and len(logs) < n_agree)
        self._needs_signs = not may_be_exact and counted is None
        self._error = rules.error / n_candidates
        exact = frozenset({quantity} if self._is_exact else ())
        self._margin = rules.of_exact(exact).margin(quantity)
        self._scaled = rules.scaled_margin(quantity, noise)
        self._threshold = rules.threshold(quantity)
        self._n_in_all = n_in_all

    @property
    def is_better(self) -> bool:
        return self._is_seen_better or self._is_counted_better

    @property
    def is_not_worse(self) -> bool:
        return self._is_seen_not_worse or self._is_counted_not_worse

    @property
    def is_proven_by_count(self) -> bool:
        """Return whether a claim of it rests on counted work alone."""
        return (self._is_counted_better and not self._is_seen_better) or (
            self._is_counted_not_worse and not self._is_seen_not_worse
        )

    @cached_property
    def _is_seen_better(self) -> bool:
        if self.quantity not in self._rules.goals:
            return False
        return self._exceeds(self._threshold, self._error / len(self._rules.goals))

    @cached_property
    def _is_seen_not_worse(self) -> bool:
        return self._exceeds(-self._margin, self._error)

    @property
    def _is_counted_better(self) -> bool:
        is_goal = self.quantity in self._rules.goals
        return is_goal and self._is_counted_beyond(self._threshold) and self._may_be_better

    @cached_property
    def _is_counted_not_worse(self) -> bool:
        return (
            self.quantity not in self._rules.strict
            and self._is_counted_beyond(-self._margin)
            and statistics.median(self._logs) >= -self._margin
            and not self.is_likely_worse
            and self._exceeds(-_MOST_BESIDE_COUNT * self._margin, self._error)
        )

    def _is_counted_beyond(self, limit: float) -> bool:
        has_rounds = len(self._logs) >= FEW_LIKELY
        return has_rounds and self._counted is not None and self._counted > limit

    @property
    def _may_be_better(self) -> bool:
        """Return whether the rounds leave room for a gain beyond the threshold."""
        return statistics.fmean(self._logs) + self._doubt >= self._threshold

    @cached_property
    def holds_scaled(self) -> bool:
        """Return whether it holds only within what the program as it is varies by."""
        return (
            self._scaled > self._margin
            and bool(self._logs)
            and not self.is_not_worse
            and statistics.median(self._logs) >= -self._margin
            and self._exceeds(-self._scaled, self._error)
        )

    @property
    def scaled_limit(self) -> float:
        """Return the share that is within what the program as it is varies by."""
        return math.expm1(self._scaled)

    @cached_property
    def is_worse(self) -> bool:
        if self._is_exact:
            return statistics.median(self._logs) < -self._margin
        return greatest_evidence([-x - self._margin for x in self._logs]) * self._error >= 1.0

    @property
    def is_likely_better(self) -> bool:
        return self.is_better or self.least_likely > self._threshold

    @property
    def is_likely_worse(self) -> bool:
        if len(self._logs) < FEW_LIKELY:
            return self.is_worse
        return statistics.fmean(self._logs) + self._doubt < -self._margin

    @property
    def is_broken(self) -> bool:
        """Return whether a guard is so likely worse that proving it would waste the time left.

        By the mean, or since most rounds are worse: where a peak is one of two, the mean may hold
        a limit that most rounds break, and those decide.
        """
        if self.is_worse:
            return True
        n_rounds = len(self._logs)
        if n_rounds < FEW_LIKELY or self._is_exact:
            return False
        error = _VERY_UNLIKELY if n_rounds >= ROUNDS_TO_GIVE_UP else _ALL_BUT_IMPOSSIBLE
        n_beyond = sum(x < -self._margin for x in self._logs)
        return (
            statistics.fmean(self._logs) + self._off_by(error) < -self._margin
            or _chance_of_heads(n_rounds, n_beyond) < error
        )

    @property
    def is_stuck(self) -> bool:
        """Return whether all rounds there is time for will most likely not prove that it holds."""
        if self.is_not_worse or self.holds_scaled:
            return False
        if len(self._logs) < FEW_LIKELY:
            return self._needs_signs and self._n_in_all < fewest_rounds(self._error)
        middle = min(statistics.fmean(self._logs), statistics.median(self._logs))
        reach = self._showable(self._spread, self._error)
        return middle < -self._margin or middle < reach - max(self._margin, self._scaled)

    @property
    def least_likely(self) -> float:
        """Return the least gain that is likely; ``-inf`` where the rounds are too few."""
        if self._is_exact:
            return min(self._logs)
        if len(self._logs) < FEW_LIKELY:
            return -math.inf
        return statistics.fmean(self._logs) - self._doubt

    @property
    def _doubt(self) -> float:
        """What the mean of the rounds may be off by."""
        return self._off_by(_UNLIKELY)

    def _off_by(self, probability: float) -> float:
        n_rounds = len(self._logs)
        return _standard_errors(n_rounds, probability) * (self._spread / math.sqrt(n_rounds))

    @cached_property
    def _spread(self) -> float:
        return statistics.stdev(self._logs)

    @property
    def _is_counted_below(self) -> bool:
        """Return whether counted work gains less than counts, and so does the time so far."""
        return (
            self._counted is not None
            and not self._is_counted_beyond(self._threshold)
            and len(self._logs) >= FEW_LIKELY
            and statistics.fmean(self._logs) < self._threshold
        )

    @property
    def is_hopeless(self) -> bool:
        return self._is_below(0.0)

    @property
    def is_out_of_reach(self) -> bool:
        if len(self._logs) < ROUNDS_TO_GIVE_UP:
            return self.is_hopeless
        reach = self._showable(self._spread, self._error / len(self._rules.goals))
        # Where the rounds left are too few for any gain, they are for those who follow, too.
        return self._is_below(0.0 if math.isinf(reach) else reach)

    def _is_below(self, reach: float) -> bool:
        """Return whether the gain is most likely less than the threshold and some more."""
        if self._is_exact:
            return not self._exceeds(self._threshold, self._error)
        if self.is_better:
            return False
        if self._is_counted_below:
            return True
        if len(self._logs) < FEW_LIKELY:
            return False
        return statistics.fmean(self._logs) + self._doubt < self._threshold + reach

    def _showable(self, spread: float, error: float) -> float:
        """Return the gain beyond a limit that all rounds would show in half of the cases."""
        if math.isinf(self._n_in_all):
            return 0.0
        return showable_gain(spread / math.sqrt(2.0), int(self._n_in_all), error)

    @cached_property
    def gain(self) -> Gain:
        is_more = TABLE[self.quantity].is_more_better
        if not self._logs:
            return Gain(0.0, -math.inf, math.inf, is_more_better=is_more)
        middle = statistics.median(self._logs)
        if self._is_exact:
            ends = min(self._logs), max(self._logs)
            return Gain(
                middle, *ends, is_exact=True, is_more_better=is_more, limit=self._limit,
                is_halved=self._margin < self._rules.margin(self.quantity),
            )  # fmt: skip
        low = max(lower_bound(self._logs, self._error), self._proven)
        high = upper_bound(self._logs, self._error)
        # An end may stem from an earlier look, and lie beyond the middle of all rounds.
        ends = min(low, middle), max(high, middle)
        least = math.log1p(self._rules.least)
        is_mixed = min(self._logs) < -least and least < max(self._logs)
        return Gain(middle, *ends, is_more_better=is_more, limit=self._limit, is_mixed=is_mixed)

    @property
    def _limit(self) -> float | None:
        return math.expm1(self._margin) if self.quantity in self._rules.guards else None

    @property
    def _proven(self) -> float:
        """Return the greatest limit that is proven to hold; outliers may hide it from a bound."""
        if self._is_seen_better:
            return self._threshold
        if self.quantity not in self._rules.guards:
            return -math.inf
        if self._is_seen_not_worse:
            return -self._margin
        return -self._scaled if self.holds_scaled else -math.inf

    def _exceeds(self, limit: float, error: float) -> bool:
        if self._is_exact:
            return statistics.median(self._logs) > limit
        return greatest_evidence([x - limit for x in self._logs]) * error >= 1.0


@cache
def _chance_of_heads(n_tosses: int, n_heads: int) -> float:
    """Return how likely a fair coin shows so many heads or more, of which there is at least one."""
    from scipy.special import bdtrc  # noqa: PLC0415 - as below

    return float(bdtrc(n_heads - 1, n_tosses, 0.5)) if n_heads else 1.0


@cache
def _standard_errors(n_rounds: int, probability: float) -> float:
    """Return by how many the mean of few rounds is off in one direction with a probability.

    Source: Student's t, since the standard error is estimated by the same rounds.
    """
    from scipy.special import stdtrit  # noqa: PLC0415 - slow to import, needed by races only

    return float(stdtrit(n_rounds - 1, 1.0 - probability))
