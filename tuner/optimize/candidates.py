"""From proposals to at most three candidates: a run of each, what emulation got wrong, the best.

These runs choose; they are no evidence for what they choose.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tuner.compare.plan import Course
from tuner.optimize import emulation
from tuner.optimize.answer import label_of
from tuner.optimize.correction import Floats, estimated
from tuner.optimize.judgement import Gain
from tuner.optimize.proposals import (
    SLACK,
    Baseline,
    Proposal,
    expected_of,
    finalists,
    score,
    spread_of,
)
from tuner.optimize.quantities import TABLE
from tuner.optimize.selection import Budget, Selection, noise_of
from tuner.optimize.tuned import AS_IS, Reference, Sample, log_gain, values_of
from tuner.optimize.work import SELECTION_FILE, TRACE_FILE, Work, run_seconds
from tuner.records import Configuration, Measurement

_FINALISTS = 3

_HARMLESS = 0.1
"""Of the least effect: a setting goes back to unset when no more than that is expected of it."""

_ROUNDS_TO_DECIDE = 14
"""Rounds that a confirmation should have; where time is short, it has fewer candidates."""


@dataclass
class Selected:
    """What few runs of each showed."""

    course: Course[None, Sample]
    labels: Mapping[str, Proposal]
    changes: dict[str, dict[str, Gain]] = field(default_factory=dict)
    """Of those that ran well, by label and quantity; few runs bound nothing."""
    failures: dict[str, str] = field(default_factory=dict)
    """Label -> why it failed."""


def affordable_finalists(work: Work, reference: Reference) -> int:
    """Return how many candidates the time left can decide on, at least one."""
    n_runs = work.watch.left_s / run_seconds(reference)
    return max(1, min(_FINALISTS, int(n_runs / _ROUNDS_TO_DECIDE) - 1))


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

    def select(self, n_possible: int) -> Selected:
        """Run every candidate once: those that were begun with, or a new choice.

        Args:
            n_possible: runs that there is time for.
        """
        kept = self._work.kept(SELECTION_FILE)
        known = {p.configuration: p for p in self._proposals}
        n_first = Budget.of(n_possible).n_first
        proposals = [known[one] for one in kept.values() if one in known]
        if not kept:
            proposals = self._runnable(spread_of(self._proposals, self._rules, n_first))
        labels = {label_of(p.configuration): p for p in proposals}
        budget = Budget.begun_with(len(labels))
        candidates = {label: p.configuration for label, p in labels.items()}

        def promising(first: Course[None, Sample]) -> list[str]:
            return self._promising(first, proposals)[: budget.n_again]

        plan = Selection(tuple(labels), self._work.request.seed, promising, budget.times)
        self._work.view.begin("selection", None)
        course = self._work.compare(SELECTION_FILE, plan, candidates, self._reference)
        return selected_of(course, labels)

    def finalists(self, selected: Selected) -> dict[str, Configuration]:
        """Return the candidates to confirm, in as few settings as emulation allows."""
        failed = {label for (_, label) in selected.course.out}
        usable = [p for p in self._proposals if label_of(p.configuration) not in failed]
        names = tuple(self._reference.values)
        found = {name: self._estimated(selected.course, usable, name) for name in names}
        places = [
            place
            for place, proposal in enumerate(usable)
            if label_of(proposal.configuration) in selected.labels
        ]
        rows, doubts = (
            {name: [float(both[part][place]) for place in places] for name, both in found.items()}
            for part in range(2)
        )
        chosen = finalists(
            [usable[place] for place in places],
            rows,
            self._rules,
            affordable_finalists(self._work, self._reference),
            doubts,
        )
        smallest = dict(self._smallest(p) for p in chosen)
        return {label: one for label, one in smallest.items() if not self._is_as_is(one)}

    def _promising(self, course: Course[None, Sample], proposals: Sequence[Proposal]) -> list[str]:
        """Return labels by what is expected after one run of each, the best first."""
        names = tuple(self._reference.values)
        values = {name: self._corrected(course, proposals, name) for name in names}
        slack = math.log1p(SLACK)
        rules = self._rules

        def rank(index: int) -> tuple[bool, float]:
            row = {name: found[index] for name, found in values.items()}
            is_broken = any(row[name] > rules.margin(name) + slack for name in rules.guards)
            return is_broken, score(row, rules)

        ordered = sorted(range(len(proposals)), key=rank)
        return [label_of(proposals[index].configuration) for index in ordered]

    def _runnable(self, proposals: Sequence[Proposal]) -> list[Proposal]:
        """Leave out what is the program as it is, or is refused by its allocator."""
        return [
            p
            for p in proposals
            if not self._is_as_is(p.configuration)
            and self._work.tuned.refusal(p.configuration) is None
        ]

    def _is_as_is(self, configuration: Configuration) -> bool:
        return configuration == Configuration("glibc") and self._reference.brings is None

    def _smallest(self, proposal: Proposal) -> tuple[str, Configuration]:
        work = self._work
        if proposal.trial is None:
            return label_of(proposal.configuration), proposal.configuration
        spec = emulation.campaign_spec(
            work.run / TRACE_FILE, work.request.allocators, work.request.seed, 100
        )
        found = emulation.smallest(
            spec, work.run, self._emulated, proposal.configuration, self._is_as_good
        )
        work.trials.setdefault(label_of(found), proposal.trial)
        return label_of(found), found

    def _is_as_good(self, found: Measurement, wanted: Measurement) -> bool:
        """Return whether the whole program is expected to do as well, but for next to nothing."""
        mine, theirs = (expected_of(one, self._baseline) for one in (found, wanted))
        allowed = _HARMLESS * math.log1p(self._rules.least)
        return all(mine[name] <= theirs[name] + allowed for name in theirs)

    def _corrected(
        self, course: Course[None, Sample], proposals: Sequence[Proposal], name: str
    ) -> list[float]:
        return [float(value) for value in self._estimated(course, proposals, name)[0]]

    def _estimated(
        self, course: Course[None, Sample], proposals: Sequence[Proposal], name: str
    ) -> tuple[Floats, Floats]:
        base = values_of(course, AS_IS).get(name, [])
        measured = {}
        for index, proposal in enumerate(proposals):
            values = values_of(course, label_of(proposal.configuration)).get(name)
            if values and base:
                # One slow run of the program as it is would favour all that ran beside it.
                usual = statistics.median(base)
                measured[index] = [-log_gain(name, usual, value) for value in values]
        noise = noise_of(base, has_floor=not TABLE[name].is_memory)
        groups = [p.configuration.allocator for p in proposals]
        return estimated(groups, [p.expected[name] for p in proposals], measured, noise)


def selected_of(course: Course[None, Sample], labels: Mapping[str, Proposal]) -> Selected:
    """Return what one run of each showed.

    Args:
        course: the runs.
        labels: label -> what ran.
    """
    found = Selected(course, labels)
    base = {name: statistics.median(seen) for name, seen in values_of(course, AS_IS).items()}
    for label in labels:
        found.changes[label] = {
            name: Gain(
                log_gain(name, base[name], statistics.median(values)),
                -math.inf,
                math.inf,
                is_more_better=TABLE[name].is_more_better,
            )
            for name, values in values_of(course, label).items()
            if name in base
        }
        failure = course.out.get((None, label))
        if failure:
            found.failures[label] = failure
    return found
