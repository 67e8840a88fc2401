"""What emulation expects of the whole program as it goes on, and when that stays as it is.

A search in emulation goes on finding gains that are small as shares of the whole program.  What
counts there is whether a setting comes nearer to an answer, so the search ends where none has for a
while, sooner where nothing so far promises much: the time is better spent on the program, or not
at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from tuner.front.whole import ns_per_instruction
from tuner.optimize.choosing.proposals import SLACK, Baseline, propose
from tuner.optimize.proof.judgement import Rules
from tuner.optimize.tuned import Reference
from tuner.optimize.view import View
from tuner.records import Configuration, Trial
from tuner.store import CampaignRecord

_FLAT, _FLAT_WITH_PROMISE = 60, 120
"""Evaluations in a row that bring nothing, after which it stays so: where nothing promises much,
and elsewhere.  Of a program of threads that gains 23 %, twelve came after 61 that brought none."""

_PROMISE: Final = 2.0
"""Times the least effect, that a goal is expected to gain where a setting promises much."""

_NEARER: Final = 0.25
"""Of the least effect: what a setting must be better by than all before it, in one goal."""

_REGION: Final = 2.0
"""Times the slack of a guard: what breaks one by more is no step towards an answer."""


class Expecting:
    """Shows what is expected of the program under every setting that was emulated."""

    def __init__(self, view: View, reference: Reference, rules: Rules) -> None:
        """Take where to show, the program as it is, and what counts."""
        self._view = view
        self._reference = reference
        self._rules = rules
        self._baseline: Baseline | None = None
        self._seen: list[Mapping[str, float]] = [dict.fromkeys(rules.goals, 0.0)]
        self._n_flat = 0
        self._promises_much = False

    @property
    def is_flat(self) -> bool:
        """Return whether many settings in a row brought nothing that the program would notice."""
        return self._n_flat >= (_FLAT_WITH_PROMISE if self._promises_much else _FLAT)

    def trial_ended(self, record: CampaignRecord, trial: Trial) -> None:
        """Show a trial; the default of what the program runs under gives the baseline."""
        base = Configuration(self._reference.allocator)
        if trial.configuration == base and trial.measurement is not None:
            price = ns_per_instruction(record)
            self._baseline = Baseline(self._reference.whole_values, trial, price)
        found = propose([trial], self._baseline) if self._baseline else []
        expected = found[0].expected if found else None
        self._view.emulated(trial, expected)
        if self._baseline:
            is_nearer = expected is not None and self._is_nearer(expected)
            self._n_flat = 0 if is_nearer else self._n_flat + 1

    def _is_nearer(self, expected: Mapping[str, float]) -> bool:
        """Return whether a setting is by some better than every one before it in some goal.

        All that may have to do with an answer count, the program as it is among them.
        """
        rules, slack = self._rules, math.log1p(SLACK)
        broken = max((expected[name] - rules.margin(name) for name in rules.guards), default=0.0)
        if broken > _REGION * slack:
            return False
        much = -_PROMISE * math.log1p(rules.least)
        if broken <= slack and any(expected[goal] < much for goal in rules.goals):
            self._promises_much = True
        gain = min(max(one[goal] - expected[goal] for goal in rules.goals) for one in self._seen)
        self._seen.append(expected)
        return gain > _NEARER * math.log1p(rules.least)
