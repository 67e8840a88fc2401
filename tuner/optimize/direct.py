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
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from tuner.allocators import HostFacts, WorkloadFacts
from tuner.allocators.facts import LARGE_FREED_BYTES, LONG_RUNNING_NS
from tuner.compare.plan import Course, Step, shuffled
from tuner.optimize.answer import label_of
from tuner.optimize.candidates import affordable, exact_in, seconds_for, untried
from tuner.optimize.correction import Floats
from tuner.optimize.judgement import OF_EXACT, Rules
from tuner.optimize.kinds import Files
from tuner.optimize.machines import Scene
from tuner.optimize.proposals import (
    SLACK,
    WORTH,
    Estimated,
    Proposal,
    estimates_of,
    with_reserves,
    worthwhile,
)
from tuner.optimize.quantities import SERVICE_NAMES, TABLE
from tuner.optimize.selected import Selected, gains_in, selected_of
from tuner.optimize.tuned import AS_IS, Reference, Sample
from tuner.optimize.work import EXPLORATION_FILE, Work
from tuner.records import Configuration
from tuner.runs import CONFIRMATION_FILE, SELECTION_FILE
from tuner.search import Told, make_strategy
from tuner.search.surrogate import Surrogate, features_of
from tuner.space import Genome, Space, joint_space

SHARE_OF_TIME: Final = 0.35
"""For the search; the rest confirms."""

_SHARE_OF_KNOWN: Final = 0.6
"""Until which settings that are known to suit run all the same, as long as none of them gains by
far: an answer without them is none."""

_SHARE_ALONE: Final = 0.95
"""The same as long as none gains at all, and there is nothing to confirm."""

SHARE_OF_LOOKS: Final = 0.1
"""Of the time, for further looks at what may be confirmed."""

_LOOKS: Final = 2
"""At each of them."""

_MOST_LOOKED_AT: Final = 16
"""Settings that may be confirmed, those in fewer words among them."""

_FEWEST_LOOKED_AT: Final = 3
"""Of less one would not choose."""

_GENERATION: Final = 8
"""Settings between two fits of the strategy's model: a run costs more than a fit."""

_ROUND: Final = 4
"""Settings between two runs of the program as it is."""

_MOST_SETTINGS: Final = 1000
"""The time of the last fit grows with the cube of their number."""

_FITTING_STEPS: Final = 4
"""Of the process that chooses, which is fitted once: of more than a hundred runs the default takes
the variances of the fit before, and there is none."""

_FAILED: Final = 1.0
"""Violation of what did not run: as much as a guard broken by 100 %."""

Logs = Mapping[str, float]
"""Quantity -> log(setting / program as it is), or its negative where more is better."""


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


@dataclass(frozen=True)
class Tried:
    """A setting that ran well."""

    genome: Genome
    configuration: Configuration
    logs: Logs


@dataclass(frozen=True)
class Before:
    """What ran before a search, which begins with it."""

    selected: Selected
    share: float
    """Of the time, until which the search goes on."""

    @property
    def ran(self) -> dict[str, Configuration]:
        """The settings that ran well, by label."""
        selected = self.selected
        return {
            label: selected.labels[label].configuration
            for label, gains in selected.changes.items()
            if gains and label not in selected.failures
        }


class DirectPlan:
    """Rounds of what the strategy proposes; see `tuner.compare.plan.Plan`.

    A search that goes on is one that proposes again: what ran is in the course.
    """

    def __init__(
        self,
        work: Work,
        as_is: Configuration | None,
        make_space: Callable[[Sequence[str]], Space],
        has_time: Callable[[int, float], bool],
        worth_a_look: Callable[
            [Space, Mapping[str, Tried], Course[None, Sample]], list[Configuration]
        ],
        *,
        before: Before | None = None,
    ) -> None:
        """Prepare.

        Args:
            work: the optimisation.
            as_is: the setting that the program as it is runs under; None for one of its own.
            make_space: from the names of allocators to what can be set of them.
            has_time: whether so many runs end before this share of the time is over.
            worth_a_look: from what ran well, by label, and the runs so far to what runs again.
            before: what ran before, with which the search begins; None: nothing did.
        """
        self._work = work
        self._rules = work.request.rules
        self._as_is = as_is
        self._make_space = make_space
        self._has_time = has_time
        self._worth_a_look = worth_a_look
        self._before = before.ran if before else {}
        self._course_before = before.selected.course if before else None
        self._exact = exact_in(before.selected.course, self._rules) if before else frozenset()
        self._share = before.share if before else SHARE_OF_TIME
        self._round = _GENERATION if before else _ROUND  # runs as it is are known from before
        self._n_rounds = before.selected.course.n_rounds if before else 0
        self._refused: set[str] = set(before.selected.failures) if before else set()
        self._handed_out: set[str] = set(before.selected.labels) if before else set()
        self._genomes: dict[Configuration, Genome] = {}
        self.space: Space | None = None
        """None until an allocator's default ran."""
        self.running: dict[str, Configuration] = {}
        """Those of the round under way, by label."""
        n_most = max(0, _MOST_SETTINGS - len(self._handed_out))
        self.most_runs = n_most + -(-n_most // self._round)
        """Of settings, and of the program as it is beside them."""

    def blocks(self, course: Course[None, Sample]) -> Iterator[Sequence[Step[None]]]:
        """Yield rounds until time or settings are used up."""
        names = [text.partition(":")[0] for text in self._work.request.allocators]
        space = self._make_space(names)
        known = [space.decode(genome) for genome in space.genomes_of(self._work.known)]
        defaults = [Configuration(name) for name in names]
        share = partial(self._share_of_known, course) if known else lambda: 1.0
        yield from self._gaining_first(self._new([*known, *defaults], course), course, share)
        ran = [one for one in (*known, *defaults) if self._logs(course, one) is not None]
        usable = [name for name in names if any(one.allocator == name for one in ran)]
        if not usable:
            return
        self.space = space = self._make_space(usable)
        before = space.genomes_of(self._before.values())
        first = list(dict.fromkeys((*space.defaults(), *space.genomes_of(known), *before)))
        self._genomes = {space.decode(genome): genome for genome in first}
        yield from self._search(space, first, course)
        yield from self._look_again(space, course)
        self._n_rounds = max(self._n_rounds, course.n_rounds)

    def _search(
        self, space: Space, first: Sequence[Genome], course: Course[None, Sample]
    ) -> Iterator[Sequence[Step[None]]]:
        """Yield rounds of what the strategy proposes, until time or settings are used up."""
        strategy = make_strategy(
            "auto",
            space,
            len(self._rules.goals),
            population=_GENERATION,
            seed=self._work.request.seed,
            initial=first,
        )
        while len(self._handed_out) < _MOST_SETTINGS:
            genomes = strategy.ask()
            configurations = [space.decode(genome) for genome in genomes]
            self._genomes |= dict(zip(configurations, genomes, strict=True))
            new = self._new(configurations, course)
            yield from self._rounds(new, course, lambda: self._share)
            if not genomes or not self._is_whole(configurations, course):
                return
            strategy.tell([self._told(one, course) for one in configurations])

    def _look_again(
        self, space: Space, course: Course[None, Sample]
    ) -> Iterator[Sequence[Step[None]]]:
        """Yield rounds of what may be confirmed: the best of many were lucky in their one run."""
        chosen = self._worth_a_look(space, self.tried(course), course.first(self._n_rounds))
        for one in chosen:
            genome = space.genome_of(one)
            if genome is not None:
                self._genomes[one] = genome
        for _ in range(_LOOKS if len(chosen) >= _FEWEST_LOOKED_AT else 0):
            if not (yield from self._rounds(chosen, course, self._share_with_looks)):
                return

    def tried(self, course: Course[None, Sample]) -> dict[str, Tried]:
        """Return the settings that ran well, by label."""
        found = {}
        for configuration, genome in self._genomes.items():
            logs = self._logs(course, configuration)
            if logs is not None and configuration != self._as_is:
                found[label_of(configuration)] = Tried(genome, configuration, logs)
        return found

    def n_untried(self, course: Course[None, Sample]) -> int:
        """Return how many of the settings that are known to suit there was no time for."""
        ran = {subject for _, _, subject in course.samples}
        known = [one for one in self._work.known if one in self._genomes]
        return sum(label_of(one) not in ran | self._refused for one in known)

    def n_left(self, course: Course[None, Sample]) -> int:
        """Return 0: how many runs there will be is open."""
        del course
        return 0

    def _share_with_looks(self) -> float:
        return self._share + SHARE_OF_LOOKS

    def _share_of_known(self, course: Course[None, Sample]) -> float:
        """Return until when known settings run: less where one that ran gains, or does by far.

        One that gains by far and seems to break a guard may prove worse: others go on for longer.
        """
        if any(self._gain_of(one, course, 0.0) > SLACK for one in self._work.known):
            return SHARE_OF_TIME
        most = max((self._gain_of(one, course) for one in self._work.known), default=0.0)
        return _SHARE_OF_KNOWN if most > self._rules.least else _SHARE_ALONE

    def _gain_of(
        self, configuration: Configuration, course: Course[None, Sample], slack: float = SLACK
    ) -> float:
        """Return the greatest gain in a goal, as a share; 0 without a run that keeps its guards.

        Of a time it is less by what this run and that of the program as it is may be off by.
        """
        logs = self._logs(course, configuration)
        if logs is None or self._violation(logs, course, slack) > 0.0:
            return 0.0
        lucky = {goal: 0.0 if TABLE[goal].is_memory else 2.0 * SLACK for goal in self._rules.goals}
        return max(math.expm1(-logs[goal] - lucky[goal]) for goal in self._rules.goals)

    def _gaining_first(
        self,
        configurations: Sequence[Configuration],
        course: Course[None, Sample],
        share: Callable[[], float],
    ) -> Iterator[Sequence[Step[None]]]:
        """Yield rounds; after each, what is left of an allocator that gained by far comes first."""
        left = list(configurations)
        ran: list[Configuration] = []
        while left:
            gaining = {one.allocator for one in ran if self._gain_of(one, course) > SLACK}
            left.sort(key=lambda one: one.allocator not in gaining)
            batch, left = left[:_ROUND], left[_ROUND:]
            ran += batch
            if not (yield from self._rounds(batch, course, share)):
                return

    def _rounds(
        self,
        configurations: Sequence[Configuration],
        course: Course[None, Sample],
        share: Callable[[], float],
    ) -> Generator[Sequence[Step[None]], None, bool]:
        """Yield the rounds of some settings; return whether there was time for all of them."""
        for at in range(0, len(configurations), self._round):
            self.running = {label_of(one): one for one in configurations[at : at + self._round]}
            is_first = not self._handed_out
            self._handed_out |= self.running.keys()
            number, self._n_rounds = self._n_rounds, self._n_rounds + 1
            steps = shuffled((AS_IS, *self.running), number, self._work.request.seed, None)
            wanted = sum(map(course.wants, steps))
            if wanted and not is_first and not self._has_time(wanted, share()):
                return False
            yield steps
        yield ()  # what is proposed next depends on all of them
        return True

    def _new(
        self, configurations: Sequence[Configuration], course: Course[None, Sample]
    ) -> list[Configuration]:
        """Return those that run: none does twice, nor one that is refused."""
        return [one for one in dict.fromkeys(configurations) if self._is_new(one, course)]

    def _is_new(self, configuration: Configuration, course: Course[None, Sample]) -> bool:
        label = label_of(configuration)
        if configuration == self._as_is or label in self._handed_out:
            return False
        is_known = any(subject == label for _, _, subject in course.samples)
        if not is_known and self._work.tuned.refusal(configuration) is not None:
            self._refused.add(label)
        return label not in self._refused

    def _is_whole(
        self, configurations: Sequence[Configuration], course: Course[None, Sample]
    ) -> bool:
        """Return whether all of a generation ran."""
        return all(
            self._logs(course, one) is not None
            or label_of(one) in self._refused
            or (None, label_of(one)) in course.out
            for one in configurations
        )

    def _told(self, configuration: Configuration, course: Course[None, Sample]) -> Told:
        genome = self._genomes[configuration]
        logs = self._logs(course, configuration)
        if logs is None:
            return Told(genome, None, _FAILED)
        objectives = tuple(math.exp(logs[goal]) for goal in self._rules.goals)
        return Told(genome, objectives, self._violation(logs, course))

    def _violation(self, logs: Logs, course: Course[None, Sample], slack: float = SLACK) -> float:
        """Return by how much guards are broken, what a single run may be off by apart.

        A run is off by nothing of what repeats itself.
        """
        exact = self._exact or exact_in(course.first(self._n_rounds), self._rules)
        rules = self._rules.of_exact(exact)
        slacks = {name: 0.0 if name in exact else slack for name in rules.guards}
        excess = (logs[name] - rules.margin(name) - slacks[name] for name in rules.guards)
        return sum(max(0.0, math.expm1(one)) for one in excess)

    def _logs(self, course: Course[None, Sample], configuration: Configuration) -> Logs | None:
        """Return what its runs showed against the median of the runs as it is; None without.

        Of the rounds handed out so far: a search that goes on learns what it learnt before.
        """
        names = dict.fromkeys((*self._rules.goals, *self._rules.guards), 0.0)
        if configuration == self._as_is:
            return names
        label, courses = label_of(configuration), [course.first(self._n_rounds)]
        if self._course_before and label in self._before:
            courses.insert(0, self._course_before)
        gains = {n: [g for one in courses for g in gains_in(one, label, n)] for n in names}
        return {n: -statistics.median(g) for n, g in gains.items()} if all(gains.values()) else None


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
        plain = Configuration("glibc")
        self._as_is = plain if reference.is_of(plain) else None
        self._plan = DirectPlan(
            work, self._as_is, make_space, self._has_time, self._worth_a_look, before=before
        )
        self._tried: dict[str, Tried] = {}
        self._model: _Smoothed | None = None

    @property
    def proposals(self) -> list[Proposal]:
        """What is known of settings without runs: nothing."""
        return []

    def select(self, n_possible: int) -> Selected:
        """Search, or go on with a search.

        Args:
            n_possible: runs that there is time for; where nothing ran before, those of the
                confirmation too.
        """
        work = self._work
        if self._before:
            file, stage, n_runs = EXPLORATION_FILE, "exploration", n_possible
        else:
            file, stage, n_runs = SELECTION_FILE, "search", int(SHARE_OF_TIME * n_possible)
        work.view.begin(stage, max(1, min(n_runs, self._plan.most_runs)))
        course = work.explore(file, self._plan, self._scene)
        before = self._before.selected if self._before else None
        tried = self._plan.tried(course)
        if self._plan.space is not None:
            self._learn(self._plan.space, tried)
        course, labels = self._whole(course), self._labels(tried)
        smoothed = {label_of(one.setting): one.logs for one in self._estimates(labels)}
        found = selected_of(course, labels, smoothed)
        for (_, label), reason in course.out.items():
            found.failures.setdefault(label, reason)
            found.changes.setdefault(label, {})
        found.n_untried = self._plan.n_untried(course)
        if before:
            found.n_untried = before.n_untried or found.n_untried
            found.beyond, found.may_show = before.beyond, before.may_show
        return found

    def finalists(
        self, selected: Selected, without: Collection[Configuration] = ()
    ) -> dict[str, Configuration]:
        """Return the candidates to confirm, in as few settings as the runs allow.

        Those that were looked at again come first; with fewer settings, too, where these were.
        """
        if self._model is None:
            return {}
        course = selected.course
        left = untried(self._estimates(selected.labels), without, self._work)
        again = [self._as_seen(e, course) for e in left if _n_runs(course, e) >= _LOOKS]
        once = [one for one in left if _n_runs(course, one) < _LOOKS]
        places = affordable(self._work, self._reference, seconds_for(self._work, without))
        chosen = self._chosen(again, course, places.at_once)
        seen = {one.setting for one in chosen}
        if not chosen:
            chosen = self._chosen(once, course, places.at_once, is_wide=not without)
        found: dict[str, Configuration] = {}
        for estimate in chosen:
            one = self._smallest(estimate)
            if seen and one not in seen:
                one = estimate.setting
            if one != self._as_is and one not in without:  # one may be left of several
                found[label_of(one)] = one
                self._name_trial(one, estimate.proposal.trial)
            if len(found) == sum(places):
                break
        return found

    def _worth_a_look(
        self, space: Space, tried: Mapping[str, Tried], course: Course[None, Sample]
    ) -> list[Configuration]:
        """Return what runs again: the best that may be confirmed, whole and in fewer settings."""
        run_s = _LOOKS * self._work.run_seconds(self._reference)
        n = min(_MOST_LOOKED_AT, int(SHARE_OF_LOOKS * self._work.watch.seconds / run_s))
        self._learn(space, tried)
        estimates = self._estimates(self._labels(tried))
        found: dict[Configuration, None] = {}
        for estimate in self._chosen(estimates, self._whole(course), _MOST_LOOKED_AT):
            one = self._smallest(estimate)
            self._name_trial(one, estimate.proposal.trial)
            found |= dict.fromkeys((estimate.setting, one))
        return list(found)[:n]

    def _chosen(
        self,
        estimates: Sequence[Estimated],
        course: Course[None, Sample],
        n: int,
        *,
        is_wide: bool = True,
    ) -> list[Estimated]:
        """Return what may be confirmed, the best first; n of them without those in reserve."""
        noisy = [replace(one, doubts=_with_noise(one.doubts)) for one in estimates]
        rules = self._work.request.rules
        strict = rules.of_exact(exact_in(course, rules))
        chosen = with_reserves(noisy, strict, n)
        if not chosen and is_wide:
            # The time left is for new runs: they decide, not one unlucky one.
            chosen = with_reserves([one.widened() for one in noisy], strict, n)
        by_setting = {one.setting: one for one in noisy}
        return _parts_first([by_setting[one] for one in chosen], rules.goals)

    def _as_seen(self, estimate: Estimated, course: Course[None, Sample]) -> Estimated:
        """Return it with the worst run of what repeats itself, which is not to be smoothed."""
        label = label_of(estimate.setting)
        exact = exact_in(course, self._work.request.rules)
        worst = {name: -min(gains_in(course, label, name)) for name in exact}
        return replace(
            estimate,
            logs={**estimate.logs, **worst},
            doubts={**estimate.doubts, **dict.fromkeys(exact, 0.0)},
        )

    def _smallest(self, estimate: Estimated) -> Configuration:
        """Return a candidate in few settings, which few runs cannot tell apart; known ones stay."""
        one = estimate.setting
        if self._model is None or one in self._work.known:
            return one
        return self._model.smallest(one, self._work.request.rules)

    def _name_trial(self, configuration: Configuration, trial: int | None) -> None:
        if trial is not None:
            self._work.trials.setdefault(label_of(configuration), trial)

    def _learn(self, space: Space, tried: Mapping[str, Tried]) -> None:
        """Fit the model to what ran, if anything did."""
        self._tried = dict(tried)
        self._model = _Smoothed(space, tried, self._as_is) if tried else None

    def _whole(self, course: Course[None, Sample]) -> Course[None, Sample]:
        """Return the runs with those before them."""
        if self._before is None:
            return course
        before = self._before.selected.course.samples
        return Course(AS_IS, (*before.items(), *course.samples.items()))

    def _labels(self, tried: Mapping[str, Tried]) -> dict[str, Proposal]:
        """Return what is known of what ran, by label."""
        proposed = self._before.selected.labels if self._before else {}
        return {
            label: proposed.get(label) or Proposal(one.configuration, None, one.logs)
            for label, one in tried.items()
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
        if (work.run / CONFIRMATION_FILE).exists():
            return False
        after_s = work.watch.used_s + n_runs * work.run_seconds(self._reference)
        return after_s < share * work.watch.seconds

    def _scene(self) -> Scene:
        return Scene(self._reference, self._plan.running)


def _n_runs(course: Course[None, Sample], estimate: Estimated) -> int:
    return len(course.good(None, label_of(estimate.setting)))


def _with_noise(doubts: Mapping[str, float]) -> dict[str, float]:
    """Return doubts of which none is below what a single run may be off by, memory's apart.

    A model of few runs takes the noise of each for an effect of its setting.
    """
    return {n: d if TABLE[n].is_memory else max(d, SLACK) for n, d in doubts.items()}


def _parts_first(chosen: Sequence[Estimated], goals: Sequence[str]) -> list[Estimated]:
    """Return candidates, those last of whose settings another one has some and is as good.

    Rounds that are shared between two who do the same prove nothing of either.
    """

    def is_as_good(one: Estimated, other: Estimated) -> bool:
        return all(
            one.logs[goal] - other.logs[goal] <= one.doubts[goal] + other.doubts[goal]
            for goal in goals
        )

    def is_too_much(whole: Estimated) -> bool:
        parts = (one for one in chosen if one.setting.is_part_of(whole.setting))
        return any(is_as_good(part, whole) for part in parts)

    return sorted(chosen, key=is_too_much)


class _Smoothed:
    """What all runs together say of settings: a Gaussian process for each quantity."""

    def __init__(
        self, space: Space, tried: Mapping[str, Tried], as_is: Configuration | None
    ) -> None:
        """Fit to what ran, by label, at least one; what the program runs under changes nothing."""
        self._space = space
        self._as_is = as_is
        self._features = features_of(space)
        self._models: dict[str, Surrogate] = {}
        plain = space.genome_of(as_is) if as_is else None
        zeros = [] if plain is None else [plain]
        seen = self._features.of([*(one.genome for one in tried.values()), *zeros])
        for name in next(iter(tried.values())).logs:
            model = Surrogate(self._features.gene, len(space.parameters))
            values = [*(one.logs[name] for one in tried.values()), *(0.0 for _ in zeros)]
            model.fit(*seen, np.array(values, dtype=np.float64), n_steps=_FITTING_STEPS)
            self._models[name] = model

    def of(self, genomes: Sequence[Genome]) -> dict[str, tuple[Floats, Floats]]:
        """Return quantity -> expected logs and their standard deviations, as the genomes are."""
        asked = self._features.of(genomes)
        return {name: model.predict(*asked) for name, model in self._models.items()}

    def smallest(self, configuration: Configuration, rules: Rules) -> Configuration:
        """Return a configuration without the settings of which nothing is expected.

        What counts of a loss is beyond the standard deviation of what is expected: of what is not
        told apart, the smallest (reduced.py).  Memory, which varies little, stays within
        `OF_EXACT` of its limit or what it was: else what is left is turned down.
        """
        genome = self._space.genome_of(configuration)
        if genome is None:
            return configuration
        wanted = self.of([genome])
        memory = [what for what in rules.guards if TABLE[what].is_memory]
        most = {what: max(wanted[what][0][0], OF_EXACT * rules.margin(what)) for what in memory}

        def loss(fewer: Configuration) -> float:
            asked = self._space.genome_of(fewer)
            if asked is None or fewer == self._as_is:
                return math.inf
            found = self.of([asked])
            if any(found[what][0][0] > limit for what, limit in most.items()):
                return math.inf
            return max(
                float(found[n][0][0] - log[0] - doubt[0]) for n, (log, doubt) in wanted.items()
            )

        least = math.log1p(rules.least)
        return worthwhile(configuration, loss, WORTH * least, least)
