"""Rounds of two runs at the same time on one core, where they decide sooner than one by one.

In a duet the program as it is and one candidate start together, bound to one core, whose time the
kernel deals out in slices of a few milliseconds.  So whatever changes the speed of a core for
longer (other programs, the host of a virtual machine, its clock) meets both alike; on two cores
each would have its own noise.  In return they share the caches of a core.  Which is worth more
depends on the machine and the hour, so the first rounds take turns, and then the mode goes on whose
differences of CPU time have the lesser product of variance and seconds: in the same time it has the
narrower interval.

That choice looks at earlier rounds only, and a coin says which starts first.  So where nothing
differs each difference has either sign with probability 1/2 whatever came before, and the tests of
evidence.py hold.

A program that fails beside itself (it locks a file, or takes a port) runs alone instead, and from
then on all do.

Source: Bulej, Horky, Tuma, Farquet, Prokopec, "Duet benchmarking: improving measurement accuracy
in the cloud", ICPE 2020, whose duets have a core for each.
"""

from __future__ import annotations

import math
import os
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final, Protocol, runtime_checkable

from tuner.compare.plan import Course, Step
from tuner.optimize.quantities import CPU, PEAK
from tuner.optimize.tuned import AS_IS, Reference, Runs, Sample, Tuned
from tuner.records import Configuration, Outcome

AT_ONCE: Final = "runs at once"
ELAPSED: Final = "elapsed s"
"""Kept with what a run showed: how many ran at once, and how long it took.  Never judged."""

_TRIED: Final = 3
_TRIED_IN_ALL: Final = 8
"""Differences of each candidate, and in all, before the narrower mode is chosen."""

_SHARE_OF_MEMORY: Final = 0.25
"""Of what is free, that one run may take where two are to run at once."""

_TWO: Final = 2


@runtime_checkable
class RunsOnCores(Protocol):
    """What is tuned, where a run can be bound to a core."""

    def on_core(self, core: int) -> Tuned:
        """Return the same with every run bound to a core."""
        ...


class Duets:
    """Makes runs alone or two at once, and remembers what may run at once."""

    def __init__(
        self,
        alone: Runs,
        on_cores: Sequence[Runs],
        seed: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            alone: makes one run, wherever the system puts it.
            on_cores: the same on each core that may be used.
            seed: of the coins that say which core it is, and which run starts first.
            clock: in seconds; only differences count.
        """
        self._alone = alone
        self._on_cores = tuple(on_cores)
        self._seed = seed
        self._clock = clock
        self._partners: dict[tuple[int, None, str], Step[None]] = {}
        self._done: dict[tuple[int, None, str], Outcome[Sample]] = {}
        self.is_usable = True
        """False once the program failed beside itself."""

    def wants(self, course: Course[None, Sample], labels: Sequence[str]) -> bool:
        """Return whether the next round should be a duet; see `next_is_duet`."""
        return self.is_usable and next_is_duet(course, labels)

    def join(self, steps: Sequence[Step[None]]) -> None:
        """Let two steps run at once when the first of them is made."""
        one, other = steps
        self._partners |= {one.key: other, other.key: one}

    def runs(self, step: Step[None]) -> Outcome[Sample]:
        """Make a run, and its partner's with it if it has one; see `Runs`."""
        if step.key in self._done:
            return self._done.pop(step.key)
        partner = self._partners.get(step.key)
        if partner is None:
            return self._timed(step, self._alone)
        mine, other = self._both(step, partner)
        self._done[partner.key] = other
        return mine

    def _both(
        self, step: Step[None], partner: Step[None]
    ) -> tuple[Outcome[Sample], Outcome[Sample]]:
        coins = random.Random(f"{self._seed}/{step.round}/cores")  # noqa: S311 - no secret
        runs, both = coins.choice(self._on_cores), [step, partner]
        coins.shuffle(both)
        with ThreadPoolExecutor(_TWO) as pool:
            started = {one.key: pool.submit(self._timed, one, runs, _TWO) for one in both}
            mine, other = (started[one.key].result() for one in (step, partner))
        if mine.good is not None and other.good is not None:
            return mine, other
        alone = self._timed(step, self._alone), self._timed(partner, self._alone)
        fails_beside = any(
            beside.good is None and again.good is not None
            for beside, again in zip((mine, other), alone, strict=True)
        )
        self.is_usable = self.is_usable and not fails_beside
        return alone

    def _timed(self, step: Step[None], runs: Runs, n_at_once: int = 1) -> Outcome[Sample]:
        begun_s = self._clock()
        found = runs(step)
        if found.good is None:
            return found
        seconds = self._clock() - begun_s
        return replace(found, values={**found.good, ELAPSED: seconds, AT_ONCE: float(n_at_once)})


def duets_of(
    tuned: Tuned,
    candidates: Mapping[str, Configuration],
    reference: Reference,
    cpu: int | None,
    seed: int,
) -> Duets | None:
    """Return what can run candidates beside the program as it is; None where nothing should.

    Args:
        tuned: what runs.
        candidates: label -> setting.
        reference: the program as it is; one that waits, or has threads, needs a core and more.
        cpu: core that was asked for; None where any will do.
        seed: of the coins.
    """
    cores = sorted(os.sched_getaffinity(0)) if cpu is None else [cpu]
    computes = all(part.is_busy for part in reference.parts or (reference,))
    if not computes or reference.n_threads != 1:
        return None
    if not isinstance(tuned, RunsOnCores) or reference.values[PEAK] > _room_bytes():
        return None
    on_cores = [tuned.on_core(core).runner(candidates, reference) for core in cores]
    return Duets(tuned.runner(candidates, reference), on_cores, seed)


def _room_bytes() -> float:
    return _SHARE_OF_MEMORY * os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def is_duet(course: Course[None, Sample], number: int) -> bool:
    """Return whether a round, or what is kept of it, ran at once."""
    return any(
        sample.good is not None and sample.good.get(AT_ONCE) == _TWO
        for (one, _, _), sample in course.samples.items()
        if one == number
    )


def next_is_duet(course: Course[None, Sample], labels: Sequence[str]) -> bool:
    """Return whether the next round should be a duet, by all rounds so far.

    Args:
        course: the rounds so far.
        labels: candidates that are left, at least one.
    """
    pairs, duets = (_Mode(course, labels, at_once) for at_once in (1, _TWO))
    if not (pairs.is_tried and duets.is_tried):
        return pairs.is_tried or (not duets.is_tried and pairs.n > duets.n)
    return duets.cost < pairs.cost


class _Mode:
    """The differences of CPU time that one mode has shown so far."""

    def __init__(self, course: Course[None, Sample], labels: Sequence[str], n_at_once: int) -> None:
        good = {
            (number, label): sample.good
            for (number, _, label), sample in course.samples.items()
            if sample.good is not None and sample.good.get(AT_ONCE, 1.0) == n_at_once
        }
        self._labels = labels
        self._differences: dict[str, list[float]] = {}
        self._seconds: dict[int, list[float]] = {}
        self._n_at_once = n_at_once
        for (number, label), sample in good.items():
            base = good.get((number, AS_IS))
            self._seconds.setdefault(number, []).append(sample.get(ELAPSED, 0.0))
            if label != AS_IS and base is not None:
                log = math.log(base[CPU] / sample[CPU])
                self._differences.setdefault(label, []).append(log)

    @property
    def n(self) -> int:
        return sum(map(len, self._differences.values()))

    @property
    def is_tried(self) -> bool:
        return self.n >= _TRIED_IN_ALL and all(
            len(self._differences.get(label, ())) >= _TRIED for label in self._labels
        )

    @property
    def cost(self) -> float:
        """Variance of a difference times the seconds it takes."""
        centred = [x - statistics.median(seen) for seen in self._differences.values() for x in seen]
        spread = statistics.median(map(abs, centred))
        took = (max(s) if self._n_at_once > 1 else sum(s) for s in self._seconds.values())
        return spread**2 * sum(took) / self.n


def of_one_mode(course: Course[None, Sample]) -> Course[None, Sample]:
    """Return the samples of the mode that most runs had: two at once slow each other down."""
    n_at_once = [sample.good.get(AT_ONCE, 1.0) for sample in course.samples.values() if sample.good]
    if not n_at_once:
        return course
    usual = statistics.mode(n_at_once)
    found: Course[None, Sample] = Course(course.baseline)
    for key, sample in course.samples.items():
        if sample.good is None or sample.good.get(AT_ONCE, 1.0) == usual:
            found.samples[key] = sample
    found.out = dict(course.out)
    return found


def n_duets(course: Course[None, Sample]) -> int:
    """Return how many rounds of a comparison ran at once."""
    return sum(is_duet(course, number) for number in {number for number, _, _ in course.samples})
