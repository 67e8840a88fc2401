"""Rounds of the confirmation: losers leave, and it ends when the answer is known or time is up.

In each round the program as it is and every candidate that is left run once, in random order.
`tuner.compare.loop.compare` runs what this plan hands out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tuner.compare.plan import Course, Step, order
from tuner.optimize.judgement import Rules, Standing, State, exact_quantities, judge
from tuner.optimize.tuned import AS_IS, Sample, logs_of, values_of
from tuner.optimize.view import View

_MARGIN = 0.5
"""Of the least effect: a candidate that cannot overtake by more no longer holds the answer up."""


class Race:
    """A plan of rounds; see `tuner.compare.plan.Plan`."""

    def __init__(
        self,
        labels: Sequence[str],
        rules: Rules,
        has_time: Callable[[int], bool],
        seed: int = 1,
        *,
        most_rounds: int = 1000,
        view: View | None = None,
    ) -> None:
        """Prepare.

        Args:
            labels: of the candidates.
            rules: what counts.
            has_time: whether a round of so many runs fits in what is left.
            seed: of the order in the rounds.
            most_rounds: greatest number of rounds.
            view: is shown what every round proves.
        """
        self._labels = tuple(labels)
        self._rules = rules
        self._has_time = has_time
        self._seed = seed
        self._most_rounds = most_rounds
        self._view = view or View()

    def blocks(self, course: Course[None, Sample]) -> Iterator[Sequence[Step[None]]]:
        """Yield a round after the other until the answer is known, or there is no time."""
        for number in range(self._most_rounds):
            is_kept = all(
                (number, None, label) in course.samples or (None, label) in course.out
                for label in (AS_IS, *self._labels)
            )
            if not is_kept:
                standings = self.standings(course)
                if is_decided(list(standings.values()), self._rules):
                    return
                for label, standing in standings.items():
                    if standing.state in (State.WORSE, State.HOPELESS):
                        course.leave(None, label, str(standing.state))
                left = [n for n in self._labels if (None, n) not in course.out]
                self._view.standing(standings, left)
                if not left or not self._has_time(len(left) + 1):
                    return
            yield self._round(number)

    def n_left(self, course: Course[None, Sample]) -> int:
        """Return how many runs one more round has: how many rounds there will be is open."""
        return 1 + sum((None, label) not in course.out for label in self._labels)

    def standings(self, course: Course[None, Sample]) -> dict[str, Standing]:
        """Return what the rounds so far prove of every candidate."""
        return standings(course, self._labels, self._rules)

    def _round(self, number: int) -> list[Step[None]]:
        subjects = (AS_IS, *self._labels)
        shuffled = order(len(subjects), number, self._seed)
        return [Step(number, at, None, subjects[index]) for at, index in enumerate(shuffled)]


def standings(
    course: Course[None, Sample], labels: Sequence[str], rules: Rules
) -> dict[str, Standing]:
    """Return what the rounds so far prove of every candidate, by label."""
    exact = exact_quantities(
        {name: values for name, values in values_of(course, AS_IS).items() if values}, rules
    )
    found = {}
    for label in labels:
        standing = judge(label, logs_of(course, label), exact, rules, len(labels))
        reason = _failure(course, label)
        if reason is not None:
            standing = replace(standing, state=State.FAILED, reason=reason)
        found[label] = standing
    return found


def is_decided(found: Sequence[Standing], rules: Rules) -> bool:
    """Return whether more rounds could change the recommendation."""
    confirmed = [one for one in found if one.state is State.CONFIRMED]
    still_open = [one for one in found if one.state is State.OPEN]
    if not still_open:
        return True
    if not confirmed:
        return False
    best = max(one.score(rules) for one in confirmed)
    return all(one.score(rules) <= best + _MARGIN * rules.least for one in still_open)


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
    confirmed = [one for one in found.values() if one.state is State.CONFIRMED]
    if not confirmed:
        return None
    best = max(one.sure_score(rules) for one in confirmed)
    near = [one for one in confirmed if one.sure_score(rules) >= best - _MARGIN * rules.least]
    return min(near, key=lambda one: (n_settings[one.label], -one.sure_score(rules)))


def _failure(course: Course[None, Sample], label: str) -> str | None:
    samples = (s for (_, _, name), s in course.samples.items() if name == label)
    return next((sample.reason for sample in samples if sample.reason is not None), None)
