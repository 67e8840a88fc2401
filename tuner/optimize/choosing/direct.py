"""The search with the program alone: for what cannot be recorded, and where emulation ended.

Settings that are known to suit run first, then every allocator's default; one that cannot be loaded
into the program takes no further part.  What ran before stands for all of these.  Then the default
strategy proposes small generations.  Each setting runs once, and the program as it is runs among
them.  Objectives are the goals; what breaks a guard by far counts as infeasible.

One run is one draw of the noise, so what may be confirmed is chosen by what a Gaussian process
makes of all runs, never by the luckiest one.  That runs twice more, as it is and without what the
process sees no effect of: a process smooths, and shorter forms never ran.  These runs choose; they
are no evidence for what they choose.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tuner.allocators import HostFacts, WorkloadFacts
from tuner.allocators.facts import LARGE_FREED_BYTES, LONG_RUNNING_NS
from tuner.compare.plan import Course
from tuner.optimize.choosing.candidates import affordable, exact_in, n_runs, seconds_for, untried
from tuner.optimize.choosing.direct_plan import (
    LOOKS,
    SHARE_OF_LOOKS,
    SHARE_OF_TIME,
    Before,
    DirectPlan,
    Tried,
)
from tuner.optimize.choosing.proposals import (
    SLACK,
    Estimated,
    Proposal,
    estimates_of,
    representatives,
    with_reserves,
)
from tuner.optimize.choosing.selected import Selected, gains_in, selected_of
from tuner.optimize.choosing.smoothed import Smoothed
from tuner.optimize.kinds.making import Files
from tuner.optimize.proof.machines import Scene
from tuner.optimize.proof.noise import repeated_under
from tuner.optimize.quantities import SERVICE_NAMES, TABLE
from tuner.optimize.tuned import AS_IS, Reference, Sample, label_of
from tuner.optimize.work import EXPLORATION_FILE, Work, search_cores, search_seconds
from tuner.records import Configuration
from tuner.runs import SELECTION_FILE
from tuner.space import Space, joint_space

_MOST_LOOKED_AT: Final = 24
"""Settings that may be confirmed, those in fewer words among them."""


def space_of(files: Files, reference: Reference, names: Sequence[str]) -> Space:
    """Return what can be set of allocators in a program that nothing was recorded of.

    What is not known of it counts as if every setting could act.

    Args:
        files: adapter and installation of every allocator.
        reference: the program as it is.
        names: allocators that take part, at least one.
    """
    host = HostFacts.detect()
    is_service = SERVICE_NAMES["floor"] in reference.values
    workload = WorkloadFacts(
        n_threads=reference.n_threads or host.n_cpus,
        duration_ns=LONG_RUNNING_NS if is_service else int(reference.wall_s * 1e9),
        freed_bytes=LARGE_FREED_BYTES,
    )
    parts = {}
    for name in names:
        adapter, installation = files[name]
        parts[name] = adapter.parameters(installation, host, workload)
    return joint_space(parts)


class DirectSearch:
    """Chooses candidates by runs alone, as `candidates.Choosing` does by emulation and runs."""

    def __init__(
        self,
        work: Work,
        reference: Reference,
        make_space: Callable[[Sequence[str]], Space],
        before: Before | None = None,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            work: the optimisation.
            reference: the program as it is.
            make_space: from the names of allocators to what can be set of them.
            before: what ran before, with which the search begins; None: nothing did.
        """
        self._work = work
        self._reference = reference
        self._before = before
        self._cores = search_cores(work, reference)
        self._run_s = search_seconds(work, reference)
        plain = Configuration(reference.allocator)
        self._as_is = plain if reference.is_of(plain) else None
        self._plan = DirectPlan(
            work, self._as_is, make_space, self._has_time, self._worth_a_look,
            is_near=self._is_any_near, before=before,
        )  # fmt: skip
        self._tried: dict[str, Tried] = {}
        self._model: Smoothed | None = None
        self.n_waiting = 0
        """Of the last finalists, how many run where one before them is out."""

    @property
    def proposals(self) -> list[Proposal]:
        """What is known of settings without runs: nothing."""
        return []

    def select(self, n_possible: int, without: Collection[Configuration] = ()) -> Selected:
        """Search, or go on with a search.

        Args:
            n_possible: runs that there is time for; where nothing ran before, those of the
                confirmation too.
            without: of no use here.
        """
        del without
        work, share = self._work, SHARE_OF_TIME + SHARE_OF_LOOKS
        n_at_once = max(1, len(self._cores))
        if self._before:
            file, stage, n_runs = EXPLORATION_FILE, "exploration", n_possible
        else:
            file, stage, n_runs = SELECTION_FILE, "search", int(share * n_possible * n_at_once)
        work.view.begin(stage, max(1, min(n_runs, self._plan.most_runs)))
        course = work.explore(file, self._plan, self._scene, self._cores)
        before = self._before.selected if self._before else None
        self._learn(course)
        course, labels = self._whole(course), self._labels()
        smoothed = {label_of(one.setting): one.logs for one in self._estimates(labels)}
        found = selected_of(course, labels, smoothed)
        for (_, label), reason in course.out.items():
            found.failures.setdefault(label, reason)
            found.changes.setdefault(label, {})
        found.n_untried = self._plan.n_untried(course)
        if before:
            found.beyond, found.may_show = before.beyond, before.may_show
        return found

    def finalists(
        self, selected: Selected, without: Collection[Configuration] = ()
    ) -> dict[str, Configuration]:
        """Return the candidates to confirm, in as few settings as the runs allow.

        Those that were looked at again come first, as they ran.  Where a guard varies, which few
        runs do not show, one for which another stands comes last, if there is a place.
        """
        self.n_waiting = 0
        if self._model is None:
            return {}
        course = selected.course
        left = untried(self._estimates(selected.labels), without, self._work)
        looked_at = {e.setting for e in left if n_runs(course, e.proposal) >= LOOKS}
        exact = exact_in(course, self._work.request.rules)
        left = self._with_exact(left, course, exact)
        again = [as_seen(e, course, exact) for e in left if e.setting in looked_at]
        once = [one for one in left if one.setting not in looked_at]
        places = affordable(self._work, self._reference, seconds_for(self._work, without))
        chosen = self._chosen(again, places.at_once, is_wide=not without)
        first = self._representatives(chosen, again)
        others = [e for e in chosen if e not in first and e.exact < exact]
        waiting = others[: len(first) < sum(places)]
        chosen = [*first, *waiting]
        is_seen = bool(chosen)
        if not chosen:
            chosen = self._chosen(once, places.at_once, is_wide=not without)
        found: dict[str, Configuration] = {}
        for estimate in chosen:
            one = (
                estimate.setting
                if is_seen
                else next(self.smaller(estimate.setting), estimate.setting)
            )
            label = label_of(one)
            if one == self._as_is or one in without or (None, label) in course.out:
                continue
            found[label] = one
            self._name_trial(one, estimate.proposal.trial)
            if len(found) == sum(places):
                break
        self.n_waiting = sum(label_of(one.setting) in found for one in waiting)
        return found

    def _representatives(
        self, chosen: Sequence[Estimated], again: Sequence[Estimated]
    ) -> list[Estimated]:
        """Leave out those for which another one stands, until that is out.

        What leads a confirmation runs alone, and of the other one there would be too few rounds.

        Args:
            chosen: the candidates.
            again: the same and others, with doubts as the runs leave them.
        """
        known = {one.setting: one for one in again}
        rules = self._work.request.rules
        most = math.log1p(rules.least)
        found = representatives([known[one.setting] for one in chosen], rules, most)
        settings = {one.setting for one in found}
        return [one for one in chosen if one.setting in settings]

    def _worth_a_look(self, course: Course[None, Sample]) -> list[Configuration]:
        """Return what runs again: the best that may be confirmed, whole and in fewer settings."""
        time_s = SHARE_OF_LOOKS * self._work.watch.seconds
        n = min(_MOST_LOOKED_AT, int(time_s / (LOOKS * self._run_s)))
        found: dict[Configuration, None] = {}
        for estimate in self._chosen(self._estimated(course), _MOST_LOOKED_AT):
            if len(found) >= n:
                break
            found[estimate.setting] = None
            for one in self.smaller(estimate.setting):
                self._name_trial(one, estimate.proposal.trial)
                if one != self._as_is:
                    found[one] = None
        return list(found)[:n]

    def _is_any_near(self, course: Course[None, Sample]) -> bool:
        """Return whether anything is worth confirming by the runs so far."""
        return bool(self._chosen(self._estimated(course), 1, is_wide=False))

    def _estimated(self, course: Course[None, Sample]) -> list[Estimated]:
        """Return what is to be expected of all that ran by now."""
        self._learn(course)
        whole = self._whole(course)
        exact = exact_in(whole, self._work.request.rules)
        return self._with_exact(self._estimates(self._labels()), whole, exact)

    def _with_exact(
        self, estimates: Sequence[Estimated], course: Course[None, Sample], exact: frozenset[str]
    ) -> list[Estimated]:
        """Return estimates that know what repeats itself under their allocator.

        What does in the program as it is, does under the allocator of that where no runs of a
        setting differ, and under another one where those of one setting at least agree, too.
        """
        repeated = repeated_under(course, self._work.request.rules)
        own = self._as_is.allocator if self._as_is else None

        def mine(allocator: str) -> frozenset[str]:
            unknown = allocator == own
            return frozenset(n for n in exact if repeated.get((allocator, n), unknown))

        return [replace(one, exact=mine(one.setting.allocator)) for one in estimates]

    def _chosen(
        self, estimates: Sequence[Estimated], n: int, *, is_wide: bool = True
    ) -> list[Estimated]:
        """Return what may be confirmed, the best first; n of them without those in reserve."""
        noisy = [replace(one, doubts=_with_noise(one.doubts)) for one in estimates]
        rules = self._work.request.rules
        chosen = with_reserves(noisy, rules, n)
        if not chosen and is_wide:
            # The time left is for new runs: they decide, not one unlucky one.
            chosen = with_reserves([one.widened() for one in noisy], rules, n)
        by_setting = {one.setting: one for one in noisy}
        ordered = [by_setting[one] for one in chosen]
        first = representatives(ordered, rules)
        return [*first, *(one for one in ordered if one not in first)]

    def smaller(self, configuration: Configuration) -> Iterator[Configuration]:
        """Yield a candidate in few settings, which few runs cannot tell apart, then in fewer.

        Known ones stay as they are.
        """
        rules = self._work.request.rules
        if self._model is not None and configuration not in self._work.known:
            yield self._model.smallest(configuration, rules)
            yield self._model.fewest(configuration, rules)

    def _name_trial(self, configuration: Configuration, trial: int | None) -> None:
        if trial is not None:
            self._work.trials.setdefault(label_of(configuration), trial)

    def _learn(self, course: Course[None, Sample]) -> None:
        """Fit the model to what ran, if anything did."""
        self._tried, space = self._plan.tried(course), self._plan.space
        self._model = None
        if space and self._tried:
            exact = exact_in(self._whole(course), self._work.request.rules)
            self._model = Smoothed(space, self._tried, self._as_is, exact, self._plan.priors)

    def _whole(self, course: Course[None, Sample]) -> Course[None, Sample]:
        """Return the runs with those before them."""
        if self._before is None:
            return course
        before = self._before.selected.course.samples
        return Course(AS_IS, (*before.items(), *course.samples.items()))

    def _labels(self) -> dict[str, Proposal]:
        """Return what is known of what ran, by label."""
        proposed = self._before.selected.labels if self._before else {}
        return {
            label: proposed.get(label) or Proposal(one.configuration, None, one.logs)
            for label, one in self._tried.items()
        }

    def _estimates(self, labels: Mapping[str, Proposal]) -> list[Estimated]:
        """Return what is to be expected of all that ran, by label."""
        if self._model is None:
            return []
        tried = [self._tried[label].genome for label in labels]
        return estimates_of(list(labels.values()), self._model.of(tried))

    def _has_time(self, n_runs: int, share: float) -> bool:
        """Return whether the search goes on: not beside a confirmation that has begun."""
        work = self._work
        if work.is_chosen:
            return False
        after_s = work.watch.used_s + n_runs * self._run_s
        return after_s < share * work.watch.seconds

    def _scene(self) -> Scene:
        return Scene(self._reference, self._plan.running)


def as_seen(estimate: Estimated, course: Course[None, Sample], exact: frozenset[str]) -> Estimated:
    """Return it with the worst run of what repeats itself, which is not to be smoothed.

    Of what repeats itself in the program and not under its allocator its few runs may be lucky: it
    is as all runs say where that is worse than their middle.

    Args:
        estimate: of a setting, as all runs say.
        course: its runs.
        exact: quantities that repeat themselves in the program as it is.
    """
    logs = dict(estimate.logs)
    for name in exact:
        seen = [-gain for gain in gains_in(course, label_of(estimate.setting), name)]
        is_exact = name in estimate.exact
        logs[name] = max(seen) if is_exact else max(statistics.median(seen), logs[name])
    doubts = {**estimate.doubts, **dict.fromkeys(estimate.exact, 0.0)}
    return replace(estimate, logs=logs, doubts=doubts)


def _with_noise(doubts: Mapping[str, float]) -> dict[str, float]:
    """Return doubts of which none is below what a single run may be off by, memory's apart.

    A model of few runs takes the noise of each for an effect of its setting.
    """
    return {n: d if TABLE[n].is_memory else max(d, SLACK) for n, d in doubts.items()}
