"""Rounds of a search with the program alone: known settings, defaults, what a strategy proposes.

What ran before stands for the first two.  In the end what may be confirmed runs again.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from tuner.compare.plan import Course, Step, shuffled
from tuner.optimize.choosing.candidates import exact_in
from tuner.optimize.choosing.priors import Priors, priors_of
from tuner.optimize.choosing.proposals import SLACK, Proposal
from tuner.optimize.choosing.selected import Selected, gains_in
from tuner.optimize.proof.noise import USUAL_NOISE, noise_as_it_is
from tuner.optimize.quantities import TABLE
from tuner.optimize.tuned import AS_IS, Sample, label_of
from tuner.optimize.work import Work
from tuner.records import Configuration, value_text
from tuner.search import Told, make_strategy
from tuner.space import Genome, Space

SHARE_OF_TIME: Final = 0.35
"""For the search; the rest confirms."""

_SHARE_OF_KNOWN: Final = 0.6
"""Until which settings that are known to suit run all the same, as long as none of them gains by
far: an answer without them is none."""

_SHARE_ALONE: Final = 0.95
"""The same as long as none gains at all, and there is nothing to confirm."""

SHARE_OF_LOOKS: Final = 0.1
"""Of the time, for further looks at what may be confirmed."""

LOOKS: Final = 2
"""At each of them."""

_FEWEST_LOOKED_AT: Final = 3
"""Of less one would not choose."""

_GENERATION: Final = 8
"""Settings between two fits of the strategy's model: a run costs more than a fit."""

_ROUND: Final = 4
"""Settings between two runs of the program as it is."""

_MOST_SETTINGS: Final = 2000
"""The time of the last fit grows with the cube of their number."""

_FAILED: Final = 1.0
"""Violation of what did not run: as much as a guard broken by 100 %."""

Logs = Mapping[str, float]
"""Quantity -> log(setting / program as it is), or its negative where more is better."""


@dataclass(frozen=True)
class Tried:
    """A setting that ran well."""

    genome: Genome
    configuration: Configuration
    logs: Logs
    n_runs: int


@dataclass(frozen=True)
class Before:
    """What ran before a search, which begins with it."""

    selected: Selected
    share: float
    """Of the time, until which the search goes on in any case."""
    share_if_near: float
    """The same where something is worth confirming then."""
    proposals: Sequence[Proposal]
    """What emulation expects of every setting."""

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
        worth_a_look: Callable[[Course[None, Sample]], list[Configuration]],
        *,
        is_near: Callable[[Course[None, Sample]], bool],
        before: Before | None = None,
    ) -> None:
        """Prepare.

        Args:
            work: the optimisation.
            as_is: the setting that the program as it is runs under; None for one of its own.
            make_space: from the names of allocators to what can be set of them.
            has_time: whether so many runs end before this share of the time is over.
            worth_a_look: from the runs so far to what runs again.
            is_near: from the runs so far to whether any is worth confirming.
            before: what ran before, with which the search begins; None: nothing did.
        """
        self._work = work
        self._rules = work.request.rules
        self._as_is = as_is
        self._make_space = make_space
        self._has_time = has_time
        self._worth_a_look = worth_a_look
        self._is_near = is_near
        self._proposals = before.proposals if before else ()
        self._before = before.ran if before else {}
        self._course_before = before.selected.course if before else None
        self._exact = exact_in(before.selected.course, self._rules) if before else frozenset()
        self._share = before.share if before else SHARE_OF_TIME
        self._share_if_near = before.share_if_near if before else SHARE_OF_TIME
        self._round = _GENERATION if before else _ROUND  # runs as it is are known from before
        self._n_rounds = before.selected.course.n_rounds if before else 0
        self._refused: set[str] = set(before.selected.failures) if before else set()
        self._handed_out: set[str] = set(before.selected.labels) if before else set()
        self._genomes: dict[Configuration, Genome] = {}
        self._is_cut = False
        self.space: Space | None = None
        """None until an allocator's default ran."""
        self.priors: Priors = {}
        """What emulation expects of all that can be set, once that is known."""
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
        ran = {one.allocator for one in (*known, *defaults) if self._logs(course, one) is not None}
        ran |= {one.allocator for one in self._before.values()}
        usable = [name for name in names if name in ran]
        if not usable:
            return
        self.space = space = self._make_space(usable)
        before = space.genomes_of(self._before.values())
        first = list(dict.fromkeys((*space.defaults(), *space.genomes_of(known), *before)))
        self._genomes = {space.decode(genome): genome for genome in first}
        self.priors = priors_of(space, self._proposals, self._as_is)
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
            priors=[self.priors.get(goal) for goal in self._rules.goals] if self.priors else (),
        )
        while len(self._handed_out) < _MOST_SETTINGS:
            genomes = strategy.ask()
            configurations = [space.decode(genome) for genome in genomes]
            self._genomes |= dict(zip(configurations, genomes, strict=True))
            new = self._new(configurations, course)
            yield from self._rounds(new, course, partial(self._share_of_search, course))
            if not genomes or not self._is_whole(configurations, course):
                return
            noise = self._noise(course)
            strategy.tell([self._told(one, course, noise) for one in configurations])

    def _look_again(
        self, space: Space, course: Course[None, Sample]
    ) -> Iterator[Sequence[Step[None]]]:
        """Yield rounds of what may be confirmed: the best of many were lucky in their one run."""
        yield ()  # what is chosen depends on all of them
        self._recall(space, course)
        chosen = self._worth_a_look(course.first(self._n_rounds))
        for one in chosen:
            genome = space.genome_of(one)
            if genome is not None:
                self._genomes[one] = genome
        for _ in range(LOOKS if len(chosen) >= _FEWEST_LOOKED_AT else 0):
            if not (yield from self._rounds(chosen, course, self._share_with_looks)):
                return

    def _recall(self, space: Space, course: Course[None, Sample]) -> None:
        """Know again what an earlier call looked at in fewer settings, each of a whole one."""
        settings = {
            f"{one.allocator} {name}={value_text(value)}": (name, value)
            for one in self._genomes
            for name, value in one.settings
        }
        known = {AS_IS, *map(label_of, self._genomes)}
        for label in dict.fromkeys(subject for _, _, subject in course.samples):
            allocator, *words = label.split()
            found = [settings.get(f"{allocator} {word}") for word in words]
            if label not in known and None not in found:
                configuration = Configuration.of(allocator, dict(filter(None, found)))
                if genome := space.genome_of(configuration):
                    self._genomes[configuration] = genome

    def tried(self, course: Course[None, Sample]) -> dict[str, Tried]:
        """Return the settings that ran well each time, by label."""
        found = {}
        courses = filter(None, (course, self._course_before))
        counts = Counter(label for one in courses for _, _, label in one.samples)
        for configuration, genome in self._genomes.items():
            label, logs = label_of(configuration), self._logs(course, configuration)
            has_failed = (None, label) in course.out
            if logs is not None and not has_failed and configuration != self._as_is:
                found[label] = Tried(genome, configuration, logs, counts[label])
        return found

    def n_untried(self, course: Course[None, Sample]) -> int:
        """Return how many settings there was no time for.

        Of those that are known to suit; and of a search that is nothing but runs, a generation.
        """
        ran = {subject for _, _, subject in course.samples}
        known = [one for one in self._work.known if one in self._genomes]
        left = sum(label_of(one) not in ran | self._refused for one in known)
        return max(left, self._n_to_generation(course)) if self._is_cut else left

    def _n_to_generation(self, course: Course[None, Sample]) -> int:
        """Return how many settings a search that is nothing but runs lacks to a generation."""
        if self._course_before is not None:
            return 0
        return _GENERATION - len({subject for _, _, subject in course.samples} - {AS_IS})

    def n_left(self, course: Course[None, Sample]) -> int:
        """Return 0: how many runs there will be is open."""
        del course
        return 0

    def _share_of_search(self, course: Course[None, Sample]) -> float:
        """Return until when the search goes on; what is near is asked once, when it would end.

        One that is nothing but runs has a generation at least: without, there is no answer.
        """
        if not self._is_cut and self._n_to_generation(course) > 0:
            return _SHARE_ALONE
        is_over = not self._has_time(self._round + 1, self._share)
        if is_over and self._share < self._share_if_near:
            if self._is_near(course.first(self._n_rounds)):
                self._share = self._share_if_near
            else:
                self._share_if_near = self._share
        return self._share

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
        if logs is None or self._guarded(configuration, logs, course, slack)[1] > 0.0:
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
                self._is_cut = True
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

    def _noise(self, course: Course[None, Sample]) -> tuple[float, ...]:
        """Return how much each goal varies from run to run, as far as the rounds so far show.

        A time that repeats itself, as of a short program whose kernel counts ticks, says nothing.
        """
        found = noise_as_it_is(course.first(self._n_rounds))
        usual = {goal: 0.0 if TABLE[goal].is_memory else USUAL_NOISE for goal in self._rules.goals}
        return tuple(found.get(goal) or usual[goal] for goal in self._rules.goals)

    def _told(
        self, configuration: Configuration, course: Course[None, Sample], noise: tuple[float, ...]
    ) -> Told:
        genome = self._genomes[configuration]
        logs = self._logs(course, configuration)
        if logs is None:
            return Told(genome, None, _FAILED)
        objectives = tuple(math.exp(logs[goal]) for goal in self._rules.goals)
        excess, violation = self._guarded(configuration, logs, course)
        return Told(genome, objectives, violation, noise=noise, excess=excess)

    def _guarded(
        self,
        configuration: Configuration,
        logs: Logs,
        course: Course[None, Sample],
        slack: float = SLACK,
    ) -> tuple[tuple[float, ...], float]:
        """Return what guards are exceeded by, in logarithms, and by how much they are broken.

        Broken is what a single run may be off by apart.  It is off by nothing of what repeats
        itself; under another allocator that may not, and is off by little.
        """
        exact = self._exact or exact_in(course.first(self._n_rounds), self._rules)
        is_own = self._as_is is not None and configuration.allocator == self._as_is.allocator
        rules = self._rules.of_exact(exact if is_own else frozenset())
        of_exact = 0.0 if is_own else min(slack, math.log1p(rules.least))
        excess = {name: logs[name] - rules.margin(name) for name in rules.guards}
        beyond = (one - (of_exact if n in exact else slack) for n, one in excess.items())
        return tuple(excess.values()), sum(max(0.0, math.expm1(one)) for one in beyond)

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
