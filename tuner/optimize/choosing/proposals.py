"""Which emulated settings go to the program: a spread over the front that emulation sees.

Every allocator's default is among them, for "just switch the allocator" is an answer; so is
the best of every allocator in each quantity.  What is expected to break a guard by much is left
out.  Measured in simulations, a spread finds as much as an acquisition function does, within 1 %
of hypervolume (see docs/decisions/optimize.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import NormalDist

import numpy as np

from tuner.moocore import load_moocore
from tuner.optimize.choosing.correction import Floats
from tuner.optimize.proof.judgement import Rules
from tuner.optimize.quantities import TABLE, Quantity
from tuner.records import Configuration, Measurement, Trial

SLACK = 0.05
"""A setting expected to break a guard by less may still go to the program: emulation errs."""

WORTH = 0.25
"""Of the least effect: what a setting must be expected to do to be worth a run, or its words."""

_DOUBTS_OF_RESERVES = 3.0
"""Standard deviations by which a guard may seem broken of what is confirmed last."""

_CHANCE_KEPT = 0.8
"""Of the chance that all guards hold, what fewer settings must keep to stand for more."""

_LEAST_RATIO = 0.05
"""No program is expected to shrink below this share of itself."""


@dataclass(frozen=True)
class Proposal:
    """A setting and what emulation expects of the whole program under it."""

    configuration: Configuration
    trial: int | None
    """Number in the campaign; None for a setting that it did not try."""
    expected: Mapping[str, float]
    """Quantity -> log(setting / program as it is), or its negative where more is better."""
    is_known: bool = False
    """It is known from elsewhere, and runs whatever is expected of it."""


@dataclass(frozen=True)
class Estimated:
    """A setting and what is to be expected of it after the runs made so far."""

    proposal: Proposal
    logs: Mapping[str, float]
    """As `Proposal.expected`; see `tuner.optimize.choosing.correction`."""
    doubts: Mapping[str, float] = field(default_factory=dict)
    """Standard deviations of `logs`; without what is sure."""
    exact: frozenset[str] = frozenset()
    """What repeats itself under it: see `Rules.of_exact`."""

    @property
    def setting(self) -> Configuration:
        """The setting."""
        return self.proposal.configuration

    @property
    def at_best(self) -> dict[str, float]:
        """The logs if all goes as well as it may."""
        return {name: log - self.doubts.get(name, 0.0) for name, log in self.logs.items()}

    def may_hold(self, rules: Rules) -> bool:
        """Return whether all guards hold if all goes as well as it may."""
        mine = rules.of_exact(self.exact)
        return all(self.at_best[name] <= mine.margin(name) for name in mine.guards)

    def chance(self, rules: Rules) -> float:
        """Return how likely all guards hold, as if each varied by itself."""
        mine = rules.of_exact(self.exact)
        rests = (
            (mine.margin(name) - self.logs[name]) / self.doubts[name]
            for name in mine.guards
            if self.doubts.get(name, 0.0) > 0.0
        )
        return math.prod(NormalDist().cdf(rest) for rest in rests)

    def shows(self, goal: str, rules: Rules, beyond: Mapping[str, float]) -> bool:
        """Return whether a goal gains enough, and may gain what there is time to show."""
        limit = rules.threshold(goal)
        most = limit + beyond.get(goal, 0.0)
        return -self.logs[goal] > limit and -self.at_best[goal] > most

    def likely_score(self, rules: Rules, *, is_clear: bool = False) -> float:
        """Return the `score` times the chance that all guards hold.

        Args:
            rules: say what counts.
            is_clear: a gain within its doubt counts as nothing.
        """
        logs = {
            name: 0.0 if is_clear and abs(log) <= self.doubts.get(name, 0.0) else log
            for name, log in self.logs.items()
        }
        return score(logs, rules) * self.chance(rules)

    def widened(self) -> Estimated:
        """Return it with doubts under which one unlucky run turns nothing down."""
        doubts = {name: _DOUBTS_OF_RESERVES * one for name, one in self.doubts.items()}
        return replace(self, doubts=doubts)


@dataclass(frozen=True)
class Baseline:
    """The program as it is, measured and emulated."""

    values: Mapping[str, float]
    """Quantity -> value of the real program: bytes, bytes, ns."""
    trial: Trial
    """The emulated trial of what it runs under."""
    ns_per_instruction: float
    is_plain: bool = True
    """It runs under just that: not its own library, nor settings of its environment."""


def propose(trials: Sequence[Trial], baseline: Baseline) -> list[Proposal]:
    """Return every measured trial but what the program runs under with what is expected of it.

    What an emulated setting changes is added to what the program uses as it is: the memory and
    work that are not the allocator's stay.
    """
    return [
        Proposal(trial.configuration, trial.number, expected_of(trial.measurement, baseline))
        for trial in trials
        if trial.measurement is not None
        and not (baseline.is_plain and trial.configuration == baseline.trial.configuration)
    ]


def with_known(
    proposals: Sequence[Proposal], known: Sequence[Configuration], names: Iterable[str]
) -> list[Proposal]:
    """Return proposals with the known settings; untried ones are expected to be as the default.

    Args:
        proposals: what emulation knows.
        known: settings that take part whatever it says.
        names: of the quantities.
    """
    tried = {p.configuration: p for p in proposals}
    zero = dict.fromkeys(names, 0.0)
    added = []
    for configuration in known:
        if configuration not in tried:
            default = tried.get(Configuration(configuration.allocator))
            expected = default.expected if default else zero
            added.append(Proposal(configuration, None, expected, is_known=True))
    return [*(replace(p, is_known=p.configuration in known) for p in proposals), *added]


def expected_of(measurement: Measurement, baseline: Baseline) -> dict[str, float]:
    """Return what is expected of the whole program, as `Proposal.expected`.

    Raises:
        ValueError: the baseline was not measured.
    """
    base = baseline.trial.measurement
    if base is None:
        raise ValueError("what is expected follows from a baseline that was measured")
    price = baseline.ns_per_instruction
    return {
        name: _expected_log(TABLE[name], measurement, base, value, price)
        for name, value in baseline.values.items()
    }


def _expected_log(
    what: Quantity, mine: Measurement, base: Measurement, value: float, ns_per_instruction: float
) -> float:
    found = (mine[what.emulated], base[what.emulated]) if what.emulated is not None else ()
    if not found or None in found:  # an older run knows nothing of it
        return 0.0
    after, before = mine.value(str(what.emulated)), base.value(str(what.emulated))
    if what.unit == "ns":
        after, before = after * ns_per_instruction, before * ns_per_instruction
        value = max(value, before)  # prices may be those of a busier time
    return math.log(max(1.0 + (after - before) / value, _LEAST_RATIO))


def spread_of(proposals: Sequence[Proposal], rules: Rules, n: int) -> list[Proposal]:
    """Return at most n settings to run: defaults, each allocator's best, a spread over the front.

    None that is expected to do what its allocator's default does: the luckiest of many that are
    alike would be chosen.

    Args:
        proposals: all that emulation knows.
        rules: what counts; proposals expected to break a guard by far are left out.
        n: at least 1.
    """
    slack = math.log1p(SLACK)
    good = [
        p
        for p in proposals
        if all(p.expected[name] <= rules.margin(name) + slack for name in rules.guards)
    ]
    defaults = [p for p in proposals if p.configuration.is_default or p.is_known]
    plain = {p.configuration.allocator: p for p in proposals if p.configuration.is_default}
    good = [p for p in good if p in defaults or _differs(p, plain, rules)]
    best = [p for goal in rules.goals for p in _best_of_each(good, goal, rules)]
    if n <= len(defaults):  # too few for all: known ones, one place for what promises most
        known = [p for p in defaults if p.is_known]
        promising = [*best, *(p for p in defaults if p in good)]
        promising.sort(key=lambda p: score(p.expected, rules))
        defaults = [*known[: max(1, n - 1)], *promising, *known]
    layers = [p for layer in _layers(good, rules.goals) for p in _by_distance(layer, rules.goals)]
    return list({p.configuration: p for p in (*defaults, *best, *layers)}.values())[:n]


def _differs(one: Proposal, defaults: Mapping[str, Proposal], rules: Rules) -> bool:
    """Return whether a setting is expected to do something that its allocator's default does not.

    The program as it is is no proposal: there nothing is expected to change.
    """
    default = defaults.get(one.configuration.allocator)
    worth = WORTH * math.log1p(rules.least)
    return any(
        abs(one.expected[goal] - (default.expected[goal] if default else 0.0)) >= worth
        for goal in rules.goals
    )


def _best_of_each(proposals: Sequence[Proposal], goal: str, rules: Rules) -> list[Proposal]:
    allocators = sorted({p.configuration.allocator for p in proposals})
    found = (
        min(
            (p for p in proposals if p.configuration.allocator == name),
            key=lambda p: (p.expected[goal], score(p.expected, rules)),
        )
        for name in allocators
    )
    return sorted(found, key=lambda p: score(p.expected, rules))


def score(expected: Mapping[str, float], rules: Rules) -> float:
    """Return the logarithm of the product of the ratios in the goals: less is better."""
    return sum(expected[goal] for goal in rules.goals)


def _layers(proposals: Sequence[Proposal], goals: Sequence[str]) -> list[list[Proposal]]:
    """Return the proposals by rank of dominance, the front first."""
    if not proposals:
        return []
    points = np.array([[p.expected[goal] for goal in goals] for p in proposals])
    ranks = load_moocore().pareto_rank(points)
    return [
        [p for p, rank in zip(proposals, ranks, strict=True) if rank == wanted]
        for wanted in range(int(max(ranks)) + 1)
    ]


def _by_distance(layer: Sequence[Proposal], goals: Sequence[str]) -> list[Proposal]:
    """Return a layer in an order of which every beginning is spread: farthest point first."""
    points = np.array([[p.expected[goal] for goal in goals] for p in layer])
    order = [int(points.sum(axis=1).argmin())]
    nearest = np.linalg.norm(points - points[order[0]], axis=1)
    while len(order) < len(layer):
        nearest[order] = -1.0
        order.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, np.linalg.norm(points - points[order[-1]], axis=1))
    return [layer[index] for index in order]


def estimates_of(
    proposals: Sequence[Proposal], columns: Mapping[str, tuple[Floats, Floats]]
) -> list[Estimated]:
    """Return what is to be expected of settings.

    Args:
        proposals: the settings, n of them.
        columns: quantity -> logs and their standard deviations, both of shape (n,).
    """
    logs, doubts = (
        [
            {name: float(both[part][at]) for name, both in columns.items()}
            for at in range(len(proposals))
        ]
        for part in range(2)
    )
    return list(map(Estimated, proposals, logs, doubts))


def finalists(
    estimates: Sequence[Estimated],
    rules: Rules,
    n: int | None = None,
    *,
    beyond: Mapping[str, float] | None = None,
) -> list[Estimated]:
    """Return those of some settings that are worth confirming, at most n, the best first.

    Args:
        estimates: of those that may be confirmed.
        rules: none that is expected to break a guard is taken, unless the guard may well hold, nor
            any that gains less than the least effect in every goal.
        n: at least 1; None: all of them.
        beyond: goal -> gain beyond its threshold that there is time to show; where even the doubts
            leave less, new runs would not show it.  None: any.

    An allocator's default stands for its settings that gain less than half of the least effect
    over it, both in all that seems to differ and in what is beyond doubt: settings must be worth
    their words, but a time that was lucky once speaks for no default.  The greatest gain times the
    probability that its guards hold comes first, then the greatest in each goal: settings of one
    allocator are mostly alike, and the sum of the goals may rest on a time that varies.  Where only
    one can be confirmed, a gain within its doubt is luck, and counts as nothing.
    """
    near = [
        one
        for one in estimates
        if one.may_hold(rules) and any(one.shows(goal, rules, beyond or {}) for goal in rules.goals)
    ]
    near.sort(key=lambda one: (one.likely_score(rules), len(one.setting.settings)))
    if n == 1:
        near.sort(key=lambda one: one.likely_score(rules, is_clear=True))
    defaults = {one.setting.allocator: one for one in near if one.setting.is_default}
    chosen = [
        one for one in near if _is_worth_its_words(one, defaults.get(one.setting.allocator), rules)
    ]

    def gain_in(goal: str, one: Estimated) -> float:
        return one.logs[goal] * one.chance(rules)

    leaders = [min(chosen, key=partial(gain_in, goal)) for goal in rules.goals if chosen]
    return list({one.setting: one for one in (*chosen[:1], *leaders, *chosen)}.values())[:n]


def _is_worth_its_words(one: Estimated, default: Estimated | None, rules: Rules) -> bool:
    if default is None or one is default:
        return True
    gains = {goal: default.logs[goal] - one.logs[goal] for goal in rules.goals}
    doubts = {
        goal: math.hypot(*(e.doubts.get(goal, 0.0) for e in (one, default))) for goal in gains
    }
    sure = [gain for goal, gain in gains.items() if abs(gain) > doubts[goal]]
    return max(sum(gains.values()), sum(sure)) >= math.log1p(rules.least) / 2.0


def with_reserves(
    estimates: Sequence[Estimated],
    rules: Rules,
    n: int,
    *,
    beyond: Mapping[str, float] | None = None,
) -> list[Configuration]:
    """Return `finalists`, and after them all that may be confirmed where these are given up.

    A reserve may seem to break a guard by a few of its doubts: one run of it may have been unlucky,
    as those of the finalists were lucky.

    Args:
        estimates: as for `finalists`, and so are rules and beyond.
        rules: see there.
        n: how many come first.
        beyond: see there.
    """
    found = finalists(estimates, rules, n, beyond=beyond)
    if not found:
        return []
    for given in (estimates, [one.widened() for one in estimates]):
        found += finalists(given, rules, beyond=beyond)
    return list(dict.fromkeys(one.setting for one in found))


def representatives(
    chosen: Sequence[Estimated], rules: Rules, most: float = math.inf
) -> list[Estimated]:
    """Return candidates for none of which another one stands.

    That has fewer settings and does about as well, or as many of the same allocator and does the
    same: rounds that are shared between two who do the same prove nothing of either.

    Args:
        chosen: the candidates, the best first.
        rules: what counts.
        most: of doubts about memory, within which another one does as well, in logarithms.
    """

    def stands_for(one: Estimated, other: Estimated) -> bool:
        n_fewer = len(other.setting.settings) - len(one.setting.settings)

        def may_lose(goal: str) -> float:
            doubt = math.hypot(one.doubts[goal], other.doubts[goal])
            doubt = min(doubt, most) if TABLE[goal].is_memory else doubt
            return max(doubt, rules.may_cost(n_fewer, -other.logs[goal]))

        lost = {goal: one.logs[goal] - other.logs[goal] for goal in rules.goals}
        is_fewer = n_fewer > 0 and all(lost[goal] <= may_lose(goal) for goal in lost)
        is_alike = n_fewer == 0 and one.setting.allocator == other.setting.allocator
        is_same = is_alike and all(abs(lost[goal]) <= may_lose(goal) for goal in lost)
        return (is_fewer or is_same) and one.chance(rules) >= _CHANCE_KEPT * other.chance(rules)

    found, left = [], list(chosen)
    while left:
        best = left[0]
        alike = (one for one in left if stands_for(one, best))
        first = min((best, *alike), key=lambda one: len(one.setting.settings))
        found.append(first)
        left = [one for one in left if one is not best and not stands_for(first, one)]
    return found


def worthwhile(
    chosen: Configuration, loss: Callable[[Configuration], float], worth: float, most: float
) -> Configuration:
    """Return a configuration without the settings that gain too little.

    They go back to unset one after the other, those that alone gain least first, as long as all
    that went gained no more than they are worth.

    Args:
        chosen: the configuration.
        loss: what one with some of its settings loses against it; ``inf`` where it fails.
        worth: greatest loss that a setting fewer is worth.
        most: greatest loss in all.
    """
    kept = chosen
    for name in sorted(chosen.as_dict, key=lambda name: loss(chosen.without(name))):
        fewer = kept.without(name)
        n_fewer = len(chosen.settings) - len(fewer.settings)
        if loss(fewer) <= min(worth * n_fewer, most):
            kept = fewer
    return kept
