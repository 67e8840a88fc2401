"""From proposals to a few candidates: a run of each, what emulation got wrong, the best.

These runs choose; they are no evidence for what they choose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tuner.compare.journal import read_journal
from tuner.compare.plan import Course
from tuner.optimize.answering.turned_down import best_trade
from tuner.optimize.choosing import emulation
from tuner.optimize.choosing.correction import estimated
from tuner.optimize.choosing.outlook import showable_gains
from tuner.optimize.choosing.proposals import (
    SLACK,
    WORTH,
    Baseline,
    Estimated,
    Proposal,
    estimates_of,
    expected_of,
    finalists,
    representatives,
    score,
    spread_of,
    with_reserves,
)
from tuner.optimize.choosing.selected import Selected, gains_in, selected_of
from tuner.optimize.choosing.selection import MOST_SELECTED, ROUND_OF_SELECTION, Budget, Selection
from tuner.optimize.kinds.counted import n_countable
from tuner.optimize.proof.duets import at_once, of_one_mode, runs_as_is
from tuner.optimize.proof.judgement import ROUNDS_TO_GIVE_UP, Rules
from tuner.optimize.proof.noise import RUNS_TO_GUESS, exact_of, noise_of_few
from tuner.optimize.quantities import CPU, TABLE
from tuner.optimize.tuned import Reference, Sample, label_of
from tuner.optimize.work import EXPLORATION_FILE, TRACE_FILE, Work, duets_for, run_seconds
from tuner.records import Configuration, Measurement
from tuner.runs import SELECTION_FILE

_FINALISTS = 3
"""Candidates that are confirmed at once, at most."""

_CANDIDATES = 4
"""Candidates, those in reserve too, at most: all of them share the error."""

_SHARE_OF_FEWER = 0.05
"""Of the time, for finding with how few settings the candidates do in emulation."""

_LOOKS = 3
"""Runs of which the middle is no slow one by chance."""

_DOUBTS_IF_SLOW = 10.0
"""By which a single run may be slower than it should be: noise of a few runs knows no outlier."""

_ROUNDS_TO_DECIDE = 14
"""Rounds that a confirmation should have; where time is short, it has fewer candidates."""


class Places(NamedTuple):
    """How many candidates there is time for."""

    at_once: int
    """At least 1."""
    in_reserve: int
    """One after the other, where the first are given up."""


def seconds_for(work: Work, before: Collection[Configuration] = ()) -> float:
    """Return the time to choose candidates for: that left, or where others ran before, all of it.

    What follows is worth another call as long as this one, if there is no time left.
    """
    return work.watch.seconds if before else work.watch.left_s


def affordable(work: Work, reference: Reference, seconds: float) -> Places:
    """Return how many candidates some time can decide on.

    At least one at once; then one by one, once the first are given up or wait.  Of these at least
    one, if there is time for any round of it: a later call goes on with it.
    """
    n_runs = seconds / work.run_seconds(reference)
    at_once = max(1, min(_FINALISTS, int(n_runs / _ROUNDS_TO_DECIDE) - 1))
    n_left = n_runs - (at_once + 1) * ROUNDS_TO_GIVE_UP
    more = max(1 if n_left > 0 else 0, int(n_left / (2 * _ROUNDS_TO_DECIDE)))
    return Places(at_once, min(_CANDIDATES - at_once, more))


def trade(work: Work, reference: Reference, selected: Selected) -> dict[str, Configuration]:
    """Return the setting that gains most but breaks a guard, where time is left to see how much.

    It will not be deployed; that nothing else is near is known sooner than the time is up, and
    who knows what a guard costs can allow more.
    """
    needed_s = 2 * _ROUNDS_TO_DECIDE * work.run_seconds(reference)
    may_run = selected.n_untried and not work.is_explored
    if may_run or work.watch.left_s < needed_s:
        return {}
    ran = {n: one for n, one in selected.changes.items() if n not in selected.failures}
    label = best_trade(ran, work.request.rules, selected.noise)
    return {label: selected.labels[label].configuration} if label else {}


def untried(
    estimates: Sequence[Estimated], before: Collection[Configuration], work: Work
) -> list[Estimated]:
    """Return those that were no candidate before, in as few settings or in all."""
    trials = {work.trials.get(label_of(one)) for one in before} - {None}
    return [e for e in estimates if e.setting not in before and e.proposal.trial not in trials]


def exact_in(course: Course[None, Sample], rules: Rules) -> frozenset[str]:
    """Return the quantities that repeat themselves, by the runs of the program as it is."""
    return exact_of(of_one_mode(course), rules)


class Choosing:
    """Runs proposals once and chooses the candidates of the confirmation."""

    def __init__(
        self,
        work: Work,
        reference: Reference,
        proposals: Sequence[Proposal],
        emulated: emulation.EmulatedTrials,
        baseline: Baseline,
    ) -> None:
        """Prepare.

        Args:
            work: the optimisation.
            reference: the program as it is.
            proposals: what emulation expects of every setting.
            emulated: what it measured.
            baseline: what the program does as it is, and in emulation.
        """
        self._work = work
        self._rules = work.request.rules
        self._reference = reference
        self._proposals = proposals
        self._emulated = emulated
        self._baseline = baseline

    @property
    def proposals(self) -> Sequence[Proposal]:
        """What emulation expects of every setting."""
        return self._proposals

    def select(self, n_possible: int, without: Collection[Configuration] = ()) -> Selected:
        """Run every candidate once: those that were begun with, or a new choice.

        Args:
            n_possible: runs that there is time for.
            without: candidates that are out: none of them is near any more.
        """
        proposals, n_first = self._to_run(n_possible)
        budget = Budget.begun_with(n_first)
        candidates = {label_of(p.configuration): p.configuration for p in proposals}

        def promising(first: Course[None, Sample]) -> list[str]:
            possible = self._possible(first, proposals[:n_first], self._beyond(first))
            return self._promising(first, possible)[: budget.n_again]

        content = read_journal(self._work.run / SELECTION_FILE) if without else None
        ran_before = {one["subject"] for one in content.records} if content else set[str]()

        def others(course: Course[None, Sample]) -> list[str]:
            ran = [p for p in proposals if _has_run(course, p)]
            new = [p for p in ran if label_of(p.configuration) not in ran_before]
            is_near = self._is_any_near(course, new, without)
            found = [] if is_near else self._untried(course, proposals)
            some = [label_of(p.configuration) for p in found[:ROUND_OF_SELECTION]]
            if not some or not self._has_time_for(1 + len(some)):
                return []
            if len(ran) <= n_first:
                self._work.view.begin("others", None)
            return some

        def ends(course: Course[None, Sample]) -> bool:
            return self._is_in_vain(course, proposals, proposals[:n_first])

        duets = duets_for(self._work, SELECTION_FILE, candidates, self._reference)
        n_closed = self._n_closed()
        # Machines make rounds at the same time, so none waits for another.
        may_end = ends if self._work.machines is None else None
        plan = Selection(
            list(candidates)[:n_first],
            self._work.request.seed,
            None if n_closed else promising,
            budget.times,
            others=None if n_closed else others,
            ends=(lambda course: course.n_rounds >= n_closed) if n_closed else may_end,
            is_over=lambda: self._work.watch.left_s <= 0.0,
        )
        self._work.view.begin("selection", None)
        course = self._work.compare(
            SELECTION_FILE,
            at_once(plan, duets),
            candidates,
            self._reference,
            duets=duets,
            counts={"n_first": n_first},
        )
        ran = {label_of(p.configuration): p for p in proposals if _has_run(course, p)}
        found = self.selected(course, ran)
        found.n_untried = len(self._untried(course, proposals))
        found.beyond = self._beyond(course)
        found.may_show = bool(self._possible(course, proposals, {}))
        return found

    def _has_time_for(self, n_runs: int) -> bool:
        """Return whether so many runs fit; once it is searched on, with time to confirm others.

        Where there is none for that as it is, all the time is for these runs.
        """
        left_s = self._work.watch.left_s
        after_s = left_s - n_runs * run_seconds(self._reference)
        if self._work.is_searched_on and self._n_at_once(left_s) > 1 >= self._n_at_once(after_s):
            return False
        return after_s > 0.0

    def _n_at_once(self, seconds: float) -> int:
        return affordable(self._work, self._reference, seconds).at_once

    def _n_closed(self) -> int:
        """Return after how many rounds an exploration began; 0: none did.

        It begins anew as it began: after more runs it would propose others and lose its own.
        """
        content = read_journal(self._work.run / EXPLORATION_FILE)
        return min((one["round"] for one in content.records), default=0) if content else 0

    def _to_run(self, n_possible: int) -> tuple[list[Proposal], int]:
        """Return what may run, and how many of them run in any case: as begun with, or anew."""
        content = read_journal(self._work.run / SELECTION_FILE)
        if content is not None:
            known = {p.configuration: p for p in self._proposals}
            kept = self._work.kept(SELECTION_FILE).values()
            return [known[one] for one in kept if one in known], content.header["n_first"]
        n_wanted = Budget.of(n_possible).n_first
        first = self._runnable(spread_of(self._proposals, self._rules, n_wanted))
        more = self._runnable(spread_of(self._proposals, self._rules, MOST_SELECTED))
        every = list({p.configuration: p for p in (*first, *more)}.values())
        return every[: max(MOST_SELECTED, len(first))], n_wanted

    def finalists(
        self, selected: Selected, without: Collection[Configuration] = ()
    ) -> dict[str, Configuration]:
        """Return the candidates to confirm, in as few settings as emulation allows."""
        estimates = self._estimates(selected.course, list(selected.labels.values()))
        seconds = seconds_for(self._work, without)
        beyond = self._beyond(selected.course, seconds)
        rules = self._rules_of(selected.course)
        places = affordable(self._work, self._reference, seconds)
        left = untried(estimates, without, self._work)
        chosen = with_reserves(left, rules, places.at_once, beyond=beyond)
        by_setting = {one.setting: one for one in estimates}
        ordered = [by_setting[one] for one in chosen]
        chosen = [one.setting for one in representatives(ordered, rules, math.log1p(rules.least))]
        until_s = self._work.watch.used_s + _SHARE_OF_FEWER * self._work.watch.seconds
        found: dict[str, Configuration] = {}
        for setting in chosen:  # of which several may be the same one in fewer settings
            if len(found) == sum(places):
                break
            one = self._smallest(setting, by_setting, lambda: self._work.watch.used_s < until_s)
            if one not in without:
                found[label_of(one)] = one
        return found

    @property
    def n_waiting(self) -> int:
        """How many of the finalists wait: none."""
        return 0

    def is_any_near(self, selected: Selected) -> bool:
        """Return whether a setting that ran is worth confirming."""
        return self._is_any_near(selected.course, list(selected.labels.values()))

    def selected(self, course: Course[None, Sample], ran: Mapping[str, Proposal]) -> Selected:
        """Return what few runs of each showed, and what all of them together say.

        Args:
            course: the runs.
            ran: label -> what ran.
        """
        estimates = self._estimates(course, list(ran.values()))
        return selected_of(course, ran, {label_of(one.setting): one.logs for one in estimates})

    def _is_any_near(
        self,
        course: Course[None, Sample],
        proposals: Sequence[Proposal],
        without: Collection[Configuration] = (),
    ) -> bool:
        """Return whether one of some settings is worth confirming."""
        estimates = untried(self._estimates(course, proposals), without, self._work)
        rules = self._rules_of(course)
        return bool(finalists(estimates, rules, beyond=self._beyond(course)))

    def _is_in_vain(
        self, course: Course[None, Sample], proposals: Sequence[Proposal], first: Sequence[Proposal]
    ) -> bool:
        """Return whether every allocator's default ran, and no setting may well gain enough.

        What there is time to show is asked for when all that run in any case have: before, the
        noise is hardly known, and a gain of one setting is not.
        """
        defaults = [p for p in proposals if p.configuration.is_default]
        if not all(_has_run(course, p) for p in defaults):
            return False
        beyond = self._beyond(course) if all(_has_run(course, p) for p in first) else {}
        return not self._possible(course, proposals, beyond)

    def _untried(
        self, course: Course[None, Sample], proposals: Sequence[Proposal]
    ) -> list[Proposal]:
        """Return those that may well gain enough and never ran."""
        found = self._possible(course, proposals, self._beyond(course))
        return [p for p in found if not _has_run(course, p)]

    def _possible(
        self,
        course: Course[None, Sample],
        proposals: Sequence[Proposal],
        beyond: Mapping[str, float],
    ) -> list[Proposal]:
        """Return those that gain enough if they are as good as they may well be.

        Of settings that are known from elsewhere only a run says what they do.  And what memory
        speaks for, but one or two slow runs against, runs again: some programs are slower by far
        now and then, more than the first runs show.
        """
        estimates = self._estimates(course, proposals)
        at_best = [Estimated(one.proposal, one.at_best) for one in estimates]
        if_slow = [replace(one, doubts=_if_slow(one.doubts)) for one in estimates]
        rules = self._rules_of(course)
        good = finalists(at_best, rules, beyond=beyond)
        slow = finalists(if_slow, rules, beyond=beyond)
        known = [e for e in estimates if e.proposal.is_known and not _has_run(course, e.proposal)]
        again = [e for e in slow if 0 < n_runs(course, e.proposal) < _LOOKS]
        return list({e.setting: e.proposal for e in (*good, *known, *again)}.values())

    def _rules_of(self, course: Course[None, Sample]) -> Rules:
        """Return what counts where the program does what these runs of it did."""
        return self._rules.of_exact(exact_in(course, self._rules))

    def _beyond(
        self, course: Course[None, Sample], seconds: float | None = None
    ) -> dict[str, float]:
        """Return what a goal must gain beyond its threshold to show in some time, or that left.

        Nothing of CPU time where counted work shows it, nor of what the time left shows no gain of
        at all: the rounds of a later call come on top.
        """
        runs = runs_as_is(course)
        if min(map(len, runs.values()), default=0) < RUNS_TO_GUESS:
            return {}
        if seconds is None:
            work = self._work
            seconds = work.given_s if work.is_settled else work.watch.left_s
        n_rounds = int(seconds / (2.0 * self._work.run_seconds(self._reference)))
        usual = {goal: one for goal, one in noise_of_few(runs).items() if goal in self._rules.goals}
        found = showable_gains(self._rules, usual, n_rounds, 1)
        if n_countable(self._work, self._reference):
            found.pop(CPU, None)
        return {name: gain for name, gain in found.items() if not math.isinf(gain)}

    def _estimates(
        self, course: Course[None, Sample], proposals: Sequence[Proposal]
    ) -> list[Estimated]:
        """Return what is to be expected of those that did not fail."""
        usable = [p for p in proposals if (None, label_of(p.configuration)) not in course.out]
        groups = [p.configuration.allocator for p in usable]
        noise = noise_of_few(runs_as_is(course))
        columns = {}
        for name in self._reference.values:
            gains = [gains_in(course, label_of(p.configuration), name) for p in usable]
            measured = {i: [-one for one in found] for i, found in enumerate(gains) if found}
            expected = [p.expected[name] for p in usable]
            columns[name] = estimated(groups, expected, measured, noise.get(name, 0.0))
        return estimates_of(usable, columns)

    def _promising(self, course: Course[None, Sample], proposals: Sequence[Proposal]) -> list[str]:
        """Return labels by what is expected after one run of each, the best first.

        Two that seem to break no guard, then one that does: its run may have been a slow one.
        """
        slack = math.log1p(SLACK)
        rules = self._rules
        good: list[str] = []
        broken: list[str] = []
        estimates = self._estimates(course, proposals)
        for one in sorted(estimates, key=lambda one: score(one.logs, rules)):
            is_broken = any(one.logs[name] > rules.margin(name) + slack for name in rules.guards)
            (broken if is_broken else good).append(label_of(one.setting))
        mixed: list[str] = []
        while good or broken:
            mixed += [*good[:2], *broken[:1]]
            good, broken = good[2:], broken[1:]
        return mixed

    def _runnable(self, proposals: Sequence[Proposal]) -> list[Proposal]:
        """Leave out what is the program as it is, or is refused by its allocator."""
        return [
            p
            for p in proposals
            if not self._reference.is_of(p.configuration)
            and self._work.tuned.refusal(p.configuration) is None
        ]

    def _smallest(
        self,
        setting: Configuration,
        estimates: Mapping[Configuration, Estimated],
        has_time: Callable[[], bool],
    ) -> Configuration:
        """Return a candidate without the settings that emulation expects nothing of.

        What is left must be near by what the runs say of it, or of the candidate.
        """
        proposal, before = estimates[setting].proposal, estimates[setting].logs

        def loss(one: Configuration, found: Measurement, wanted: Measurement) -> float:
            lost = self._lost(found, wanted)
            after: Mapping[str, float] = {n: value + lost[n] for n, value in before.items()}
            if one in estimates:
                after = estimates[one].logs
            is_near = not self._reference.is_of(one) and self._is_near(after, before)
            return max(lost.values(), default=0.0) if is_near else math.inf

        work, least = self._work, math.log1p(self._rules.least)
        if proposal.trial is None:
            return setting
        spec = emulation.campaign_spec(
            work.run / TRACE_FILE, work.request.allocators, work.request.seed, 100
        )
        found = emulation.smallest(
            spec,
            work.run,
            self._emulated,
            setting,
            loss_of=loss,
            worth=WORTH * least,
            most=least,
            has_time=has_time,
        )
        work.trials.setdefault(label_of(found), proposal.trial)
        return found

    def _lost(self, found: Measurement, wanted: Measurement) -> dict[str, float]:
        """Return what the whole program is expected to lose in each quantity, as a log."""
        mine, theirs = (expected_of(one, self._baseline) for one in (found, wanted))
        return {name: mine[name] - theirs[name] for name in theirs}

    def _is_near(self, after: Mapping[str, float], before: Mapping[str, float]) -> bool:
        """Return whether a goal gains enough, and no guard breaks that did not before."""
        rules = self._rules
        return any(after[goal] < -rules.threshold(goal) for goal in rules.goals) and all(
            after[name] <= max(rules.margin(name), before[name]) for name in rules.guards
        )


def _if_slow(doubts: Mapping[str, float]) -> dict[str, float]:
    return {n: d if TABLE[n].is_memory else _DOUBTS_IF_SLOW * d for n, d in doubts.items()}


def _has_run(course: Course[None, Sample], proposal: Proposal) -> bool:
    return n_runs(course, proposal) > 0


def n_runs(course: Course[None, Sample], proposal: Proposal) -> int:
    """Return how many runs of a proposal there are."""
    label = label_of(proposal.configuration)
    return sum(subject == label for _, _, subject in course.samples)
