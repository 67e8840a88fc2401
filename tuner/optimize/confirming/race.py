"""Rounds of the confirmation: losers leave, and it ends when the answer is known or time is up.

In each round the program as it is and the candidates that are left run once, in random order; or,
in a duet, all at the same time (duets.py).  Where there are more candidates than run at once, the
next one comes in as one leaves, or as it gets clear that the time left will not prove that a guard
of it holds: then it waits until those after it are no better off.  Once a gain is likely, the
candidate that has it runs alone beside the program as it is, until it is decided.
`tuner.compare.loop.compare` runs what this plan hands out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tuner.compare.loop import ignore
from tuner.compare.plan import Course, Step, shuffled
from tuner.optimize.proof.duets import Duets, is_duet, logs_in_proof
from tuner.optimize.proof.judgement import FEW_LIKELY, Rules, Standing, State, agree, judge
from tuner.optimize.proof.noise import exact_of, noise_as_it_is
from tuner.optimize.quantities import TABLE
from tuner.optimize.tuned import AS_IS, Sample, allocator_of
from tuner.optimize.view import View

_MARGIN = 0.5
"""Of the least effect: a candidate that cannot overtake by more no longer holds the answer up."""


MOST_ROUNDS = 5_000
"""Each look goes over all rounds so far, which then takes as long as a short program."""

_GIVEN_UP = (State.HOPELESS, State.OUT_OF_REACH)


class Race:
    """A plan of rounds; see `tuner.compare.plan.Plan`."""

    def __init__(
        self,
        labels: Sequence[str],
        rules: Rules,
        has_time: Callable[[int], bool],
        seed: int = 1,
        *,
        most_rounds: int = MOST_ROUNDS,
        n_claims: float | None = None,
        view: View | None = None,
        duets: Duets | None = None,
        rounds_left: Callable[[int], float] | None = None,
        counted: Mapping[str, float] | None = None,
        at_once: int | None = None,
        is_answered: bool = False,
        on_round: Callable[[], None] = ignore,
        is_enough: Callable[[Standing], bool] = bool,
        varying: Mapping[str, frozenset[str]] | None = None,
    ) -> None:
        """Prepare.

        Args:
            labels: of the candidates, in the order in which they come in.
            rules: what counts.
            has_time: whether a round of so many runs fits in what is left.
            seed: of the order in the rounds.
            most_rounds: greatest number of rounds.
            n_claims: candidates that share the error; None: those of the race.
            view: is shown what every round proves.
            duets: makes the runs, at once where that decides sooner; None: one by one.
            rounds_left: how many rounds of so many runs there is time for, ``inf`` for no end;
                None: for `most_rounds`, and nothing is given up for what these cannot show.
            counted: label -> what counted work gains; None: of none of them.
            at_once: how many candidates run in a round, at least 1; None: all that are left.
            is_answered: an earlier call ended with an answer: what that proved stays proven.
            on_round: is called before every round that is made.
            is_enough: whether what the rounds say of a confirmed one ends it, as an answer does.
            varying: see `standings`.
        """
        self._varying = varying
        self._on_round = on_round
        self._is_enough = is_enough
        self._at_once = at_once
        self._is_answered = is_answered
        """True until there is a new round."""
        self._counted = counted
        self._labels = tuple(labels)
        self._rules = rules
        self._has_time = has_time
        self._seed = seed
        self._most_rounds = most_rounds
        self._n_claims = n_claims
        self._view = view or View()
        self._duets = duets
        self._rounds_left = rounds_left
        self._more_rounds = math.inf
        """At the last look: what it confirmed stays so when others have left."""

    def blocks(self, course: Course[None, Sample]) -> Iterator[Sequence[Step[None]]]:
        """Yield a round after the other until the answer is known, or there is no time."""
        for number in range(_first_round(course), self._most_rounds):
            standings = self._standings_so_far(course, self._most_rounds - number)
            for label, standing in standings.items():
                if standing.state in (State.WORSE, *_GIVEN_UP):
                    course.leave(None, label, str(standing.state))
                elif course.out.get((None, label)) == State.WORSE:
                    del course.out[None, label]  # by what seemed to repeat itself and does not
            found = list(standings.values())
            is_enough = self._is_answered or all(map(self._is_enough, _confirmed(found)))
            if is_enough and is_decided(found, self._rules):
                return
            left = self._in_race(course, standings)
            if not self._has_newcomer(standings, left):
                left = leading(standings, left, self._more_rounds) or left
            self._view.standing(standings, left)
            if not left or not self._has_time(len(left) + 1):
                return
            self._is_answered = False
            self._on_round()
            is_begun = any(one == number for one, _, _ in course.samples)
            if self._duets and not is_begun:
                is_memory_open = any(self._is_memory_open(standings[label]) for label in left)
                if self._duets.wants(course, left, is_memory_open=is_memory_open):
                    self._duets.join(self._round(number, left))
            yield self._round(number, left)

    def _standings_so_far(self, course: Course[None, Sample], most: int) -> dict[str, Standing]:
        """Return the standings, without hope for what the time left cannot show."""
        left = self._rounds_left(self.n_left(course)) if self._rounds_left else most
        self._more_rounds = left if math.isinf(left) else min(left, most)
        return self._standings(course, gives_up=self._rounds_left is not None)

    def _standings(self, course: Course[None, Sample], *, gives_up: bool) -> dict[str, Standing]:
        return standings(
            course,
            self._labels,
            self._rules,
            self._n_claims,
            self._more_rounds,
            gives_up=gives_up,
            counted=self._counted,
            may_scale=self._is_answered,
            varying=self._varying,
        )

    def n_left(self, course: Course[None, Sample]) -> int:
        """Return how many runs one more round has: how many rounds there will be is open."""
        return 1 + len(self._in_race(course, {}))

    def _in_race(self, course: Course[None, Sample], found: Mapping[str, Standing]) -> list[str]:
        """Return the candidates that run now: the first that rounds may still confirm."""
        left = [label for label in self._labels if (None, label) not in course.out]
        left.sort(key=lambda label: _turn(found[label]) if label in found else (False, 0))
        return left[: self._at_once]

    def _has_newcomer(self, found: Mapping[str, Standing], left: Sequence[str]) -> bool:
        """Return whether one came in later, of whom too little is known to let another run alone.

        It may gain by far more than who leads, whose gain is proven soon.
        """
        later = self._labels[self._at_once :] if self._at_once else ()
        return any(one in left and found[one].n_rounds < FEW_LIKELY for one in later)

    def standings(self, course: Course[None, Sample]) -> dict[str, Standing]:
        """Return what the rounds so far prove of every candidate."""
        return self._standings(course, gives_up=False)

    def _is_memory_open(self, standing: Standing) -> bool:
        """Return whether memory may still be shown to gain, or is not shown to be no worse."""
        goals = [] if standing.better else [g for g in self._rules.goals if TABLE[g].is_memory]
        may_gain = any(standing.gains[g].middle > self._rules.threshold(g) for g in goals)
        return may_gain or any(TABLE[name].is_memory for name in standing.unsure)

    def _round(self, number: int, labels: Sequence[str]) -> list[Step[None]]:
        return shuffled((AS_IS, *labels), number, self._seed, None)


def _first_round(course: Course[None, Sample]) -> int:
    """Return the round to go on with: the last one of which something is kept, or the next.

    Past the first round, one that has a pair stays as it is: who leads now would run beside the
    program as it was then.  So does half a duet.
    """
    last = max((number for number, _, _ in course.samples), default=0)
    subjects = {subject for number, _, subject in course.samples if number == last}
    has_pair = AS_IS in subjects and len(subjects) > 1
    return last + 1 if is_duet(course, last) or (has_pair and last > 0) else last


def standings(
    course: Course[None, Sample],
    labels: Sequence[str],
    rules: Rules,
    n_claims: float | None = None,
    more_rounds: float = math.inf,
    *,
    gives_up: bool = True,
    counted: Mapping[str, float] | None = None,
    may_scale: bool = False,
    varying: Mapping[str, frozenset[str]] | None = None,
) -> dict[str, Standing]:
    """Return what the rounds so far prove of every candidate, by label; see `Race`.

    Args:
        course: the rounds.
        labels: of the candidates.
        rules: what counts.
        n_claims: candidates that share the error; None: all of them.
        more_rounds: that there is time for; what they cannot show has no hope.  A guard that
            varies is looked at when no more than those that ran are to come.
        gives_up: whether anything has no hope.
        counted: label -> what counted work gains; None: of none of them.
        may_scale: whether such a guard is looked at in any case.
        varying: allocator -> what its settings are known not to repeat; None: nothing.
    """
    exact = exact_of(course, rules)
    noise = noise_as_it_is(course)
    found = {}
    for label in labels:
        logs, beside = logs_in_proof(course, label)
        unlike = {n for n, some in beside.items() if not agree(list(map(math.exp, some)), rules)}
        n_rounds = max(map(len, logs.values()), default=0)
        n_in_all = more_rounds + n_rounds if gives_up else math.inf
        n_candidates = n_claims or len(labels)
        standing = judge(
            label, logs, exact - unlike - (varying or {}).get(allocator_of(label), frozenset()),
            rules, n_candidates,
            n_in_all=n_in_all, noise=noise, counted=(counted or {}).get(label),
            may_scale=may_scale or math.isinf(more_rounds) or n_rounds >= more_rounds,
        )  # fmt: skip
        left_because = course.out.get((None, label))
        if standing.state is State.OPEN and left_because in _GIVEN_UP:
            standing = replace(standing, state=State(left_because))
        reason = _failure(course, label)
        if reason is not None:
            standing = standing.failed(reason)
        found[label] = standing
    return found


def leading(
    found: Mapping[str, Standing], left: Sequence[str], more_rounds: float = math.inf
) -> list[str]:
    """Return the candidate with the greatest gain of those whose gain is likely.

    One that had more rounds than are left, which will not prove a guard of it, leads only where
    that holds of all.

    Args:
        found: standings by label.
        left: candidates that have not left.
        more_rounds: that there is time for.

    Returns:
        One label, or none where no gain is likely or one is confirmed: then all go on.
    """
    if _confirmed(found.values()):
        return []
    still_open = [found[label] for label in left if found[label].state is State.OPEN]
    provable = [one for one in still_open if not one.stuck or one.n_rounds < more_rounds]
    best = max(provable or still_open, key=lambda one: one.promise, default=None)
    return [best.label] if best is not None and best.promise > -math.inf else []


def _turn(one: Standing) -> tuple[bool, int]:
    """Return what sorts candidates: those last to whom rounds are of little use.

    Of these the one that had most comes first.
    """
    waits = bool(one.stuck) or one.state is State.CONFIRMED
    return waits, -one.n_rounds if waits else 0


def is_decided(found: Sequence[Standing], rules: Rules) -> bool:
    """Return whether the recommendation is known: more rounds would not change it."""
    confirmed = _confirmed(found)
    still_open = [one for one in found if one.state is State.OPEN]
    if not still_open:
        return True
    if not confirmed:
        return False
    best = max(one.score(rules) for one in confirmed)
    return all(one.stuck or one.score(rules) <= best + _MARGIN * rules.least for one in still_open)


def choose(
    found: Mapping[str, Standing], n_settings: Mapping[str, int], rules: Rules
) -> Standing | None:
    """Return the candidate to recommend: the greatest gain that is sure, at the fewest settings.

    Args:
        found: standings by label.
        n_settings: how many settings each candidate has.
        rules: what counts.

    Returns:
        None when none is confirmed.
    """
    confirmed = _confirmed(found.values())
    if not confirmed:
        return None
    best = max(one.sure_score(rules) for one in confirmed)
    near = [one for one in confirmed if one.sure_score(rules) >= best - _MARGIN * rules.least]
    return min(near, key=lambda one: (n_settings[one.label], -one.sure_score(rules)))


def _confirmed(found: Iterable[Standing]) -> list[Standing]:
    return [one for one in found if one.state is State.CONFIRMED]


def _failure(course: Course[None, Sample], label: str) -> str | None:
    samples = (s for (_, _, name), s in course.samples.items() if name == label)
    return next((sample.reason for sample in samples if sample.reason is not None), None)
