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
from tuner.optimize.correction import corrected
from tuner.optimize.judgement import Gain
from tuner.optimize.proposals import Proposal, finalists, spread_of
from tuner.optimize.quantities import TABLE
from tuner.optimize.selection import Selection, noise_of
from tuner.optimize.tuned import AS_IS, Reference, Sample, log_gain, logs_of, values_of
from tuner.optimize.work import SELECTION_FILE, TRACE_FILE, Work, run_seconds
from tuner.records import Configuration

_MOST_SELECTED = 24
_FINALISTS = 3

_ROUNDS_TO_DECIDE = 14
"""Rounds that a confirmation should have; where time is short, it has fewer candidates."""


@dataclass
class Selected:
    """What one run of each showed."""

    course: Course[None, Sample]
    labels: Mapping[str, Proposal]
    changes: dict[str, dict[str, Gain]] = field(default_factory=dict)
    """Of those that ran well, by label and quantity; one run bounds nothing."""
    failures: dict[str, str] = field(default_factory=dict)
    """Label -> why it failed."""


class Choosing:
    """Runs proposals once and chooses the candidates of the confirmation."""

    def __init__(
        self,
        work: Work,
        reference: Reference,
        proposals: Sequence[Proposal],
        emulated: emulation.EmulatedTrials,
    ) -> None:
        """Prepare.

        Args:
            work: the optimisation.
            reference: the program as it is.
            proposals: what emulation expects of every setting.
            emulated: what it measured.
        """
        self._work = work
        self._rules = work.request.rules
        self._reference = reference
        self._proposals = proposals
        self._emulated = emulated

    def select(self, n_possible: int) -> Selected:
        """Run every candidate once: those that were begun with, or a new choice.

        Args:
            n_possible: runs that there is time for.
        """
        kept = self._work.kept(SELECTION_FILE)
        known = {p.configuration: p for p in self._proposals}
        wanted = min(_MOST_SELECTED, max(2, n_possible // 3))
        proposals = [known[one] for one in kept.values() if one in known]
        if not kept:
            proposals = self._runnable(spread_of(self._proposals, self._rules, wanted))
        labels = {label_of(p.configuration): p for p in proposals}
        candidates = {label: p.configuration for label, p in labels.items()}
        plan = Selection(tuple(labels), self._work.request.seed)
        self._work.view.begin("selection", None)
        course = self._work.compare(SELECTION_FILE, plan, candidates, self._reference)
        return _summary(course, labels)

    def finalists(self, selected: Selected) -> dict[str, Configuration]:
        """Return the candidates to confirm, in as few settings as emulation allows."""
        failed = {label for (_, label) in selected.course.out}
        usable = [p for p in self._proposals if label_of(p.configuration) not in failed]
        names = tuple(self._reference.values)
        values = {name: self._corrected(selected.course, usable, name) for name in names}
        measured = [p for p in usable if label_of(p.configuration) in selected.labels]
        index = {id(p): i for i, p in enumerate(usable)}
        rows = {name: [values[name][index[id(p)]] for p in measured] for name in names}
        chosen = finalists(measured, rows, self._rules, self._n_finalists())
        smallest = dict(self._smallest(p) for p in chosen)
        return {label: one for label, one in smallest.items() if not self._is_as_is(one)}

    def _n_finalists(self) -> int:
        """Return how many candidates the time left can decide on, at least one."""
        n_runs = self._work.watch.left_s / run_seconds(self._reference)
        return max(1, min(_FINALISTS, int(n_runs / _ROUNDS_TO_DECIDE) - 1))

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
        found = emulation.smallest(spec, work.run, self._emulated, proposal.configuration)
        work.trials.setdefault(label_of(found), proposal.trial)
        return label_of(found), found

    def _corrected(
        self, course: Course[None, Sample], proposals: Sequence[Proposal], name: str
    ) -> Sequence[float]:
        measured = {}
        for index, proposal in enumerate(proposals):
            logs = logs_of(course, label_of(proposal.configuration)).get(name)
            if logs:
                measured[index] = [-x for x in logs]
        base = values_of(course, AS_IS).get(name, [])
        noise = noise_of(base, has_floor=not TABLE[name].is_memory)
        groups = [p.configuration.allocator for p in proposals]
        found = corrected(groups, [p.expected[name] for p in proposals], measured, noise)
        return [float(value) for value in found]


def _summary(course: Course[None, Sample], labels: Mapping[str, Proposal]) -> Selected:
    found = Selected(course, labels)
    base = {name: statistics.median(seen) for name, seen in values_of(course, AS_IS).items()}
    for label in labels:
        found.changes[label] = {
            name: Gain(
                log_gain(name, base[name], values[0]),
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
