"""A comparison whose rounds are made on several machines at once, each round on one.

Rounds are handed out before the last ones have ended.  Every sample is kept when its run ends, but
the plan sees rounds whole and in their order: what it decides by never depends on which machine was
the faster one.  An empty block of a plan means that it goes on when all rounds so far have ended.

Guarantee: all samples of a round are of one machine.  A round that cannot be finished where it was
begun is made anew elsewhere; what was measured of it stays in the journal, and the later samples
count.
"""

import collections
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol

from tuner.compare.loop import Keeps, Observer, interruptible
from tuner.compare.plan import Course, Plan, Step, TaskT, ValuesT
from tuner.records import Outcome


@dataclass(eq=False)
class Round(Generic[TaskT, ValuesT]):
    """A block of steps on its way."""

    block: Sequence[Step[TaskT]]
    """All of it."""
    left: list[Step[TaskT]]
    """What is still to be run, in this order."""
    home: str | None
    """The machine that it runs on; None until it was begun."""
    samples: dict[Step[TaskT], Outcome[ValuesT]] = field(default_factory=dict)


class Handout(Generic[TaskT, ValuesT]):
    """Hands out the rounds of a plan, and takes their samples."""

    def __init__(
        self,
        plan: Plan[TaskT, ValuesT],
        course: Course[TaskT, ValuesT],
        made_on: Callable[[Step[TaskT]], str | None],
        take: Callable[[Step[TaskT], Outcome[ValuesT]], Outcome[ValuesT]],
    ) -> None:
        """Prepare.

        Args:
            plan: of the rounds.
            course: what is known already; samples of whole rounds are added.
            made_on: the machine of a sample that is known.
            take: called with every sample when its run has ended; returns what the plan sees of it.
        """
        self._course = course
        self._blocks = plan.blocks(course)
        self._made_on = made_on
        self._take = take
        self.rounds: collections.deque[Round[TaskT, ValuesT]] = collections.deque()
        """Handed out and not in the course yet, in order."""
        self._is_waiting = self._is_out = False

    @property
    def is_over(self) -> bool:
        """Whether every round has ended."""
        return self._is_out and not self.rounds

    def next(self, n_most: int) -> Round[TaskT, ValuesT] | None:
        """Return another round; None when there is none now.

        Args:
            n_most: rounds that may be on their way.
        """
        while not self._is_out and len(self.rounds) < n_most:
            if self._is_waiting and self.rounds:
                return None
            block = next(self._blocks, None)
            self._is_out, self._is_waiting = block is None, block is not None and not block
            known = [one for one in block or () if one.key in self._course.samples]
            homes = set(map(self._made_on, known))
            if len(homes) > 1:  # a kill came while it was made anew
                self._course.forget(known)
                homes = {None}
            left = [step for step in block or () if self._course.wants(step)]
            if block and left:
                made = Round[TaskT, ValuesT](block, left, next(iter(homes), None))
                self.rounds.append(made)
                return made
        return None

    def begin_anew(self, one: Round[TaskT, ValuesT], home: str) -> None:
        """Make all of a round on another machine."""
        self._course.forget(one.block)
        one.samples.clear()
        one.left = [step for step in one.block if self._course.wants(step)]
        one.home = home

    def took(self, one: Round[TaskT, ValuesT], sample: Outcome[ValuesT]) -> None:
        """Take the sample of a round's next step."""
        step = one.left.pop(0)
        one.samples[step] = self._take(step, sample)
        while self.rounds and not self.rounds[0].left:
            for done, found in self.rounds.popleft().samples.items():
                self._course.add(done.key, found)


class MakesRounds(Protocol[TaskT, ValuesT]):
    """Runs rounds on machines."""

    def make(self, handout: Handout[TaskT, ValuesT]) -> None:
        """Make rounds until `Handout.is_over`."""
        ...

    def made_on(self, step: Step[TaskT]) -> str | None:
        """Return the machine of a sample that is known; None where that was not kept."""
        ...

    def relative(self, step: Step[TaskT], sample: Outcome[ValuesT]) -> Outcome[ValuesT]:
        """Return a sample as if every machine were alike."""
        ...


def compare_apart(
    plan: Plan[TaskT, ValuesT],
    machines: MakesRounds[TaskT, ValuesT],
    keeper: Keeps[TaskT, ValuesT],
    observer: Observer[TaskT, ValuesT],
    *,
    baseline: str,
) -> Course[TaskT, ValuesT]:
    """Make every run that is missing, and return all that is known; see `tuner.compare.loop`.

    Args:
        plan: what is run in which order.
        machines: make the rounds.
        keeper: what was measured, and where more is kept.
        observer: is called at every sample.
        baseline: label that all are compared with.

    Raises:
        OutputError: a sample cannot be kept.
        InterruptedCampaign: Ctrl-C; what was measured is kept.
        TunerError: no machine can be used.
    """
    course = Course(baseline, keeper.kept())

    def take(step: Step[TaskT], sample: Outcome[ValuesT]) -> Outcome[ValuesT]:
        keeper.keep(step, sample)
        observer.on_sample(step, sample)
        return machines.relative(step, sample)

    observer.on_left(plan.n_left(course))
    with interruptible():
        machines.make(Handout(plan, course, machines.made_on, take))
    return course
