"""Rounds of runs at the same time on one core, where they decide sooner than one by one.

In a duet the program as it is and the candidates start together, bound to one core, whose time the
kernel deals out in slices of a few milliseconds.  So whatever changes the speed of a core for
longer (other programs, the host of a virtual machine, its clock) meets all alike; on two cores
each would have its own noise.  In return they share the caches of a core.  Which is worth more
depends on the machine and the hour, so the first rounds take turns, and then the mode goes on whose
differences of CPU time have the lesser product of variance and seconds: in the same time it has the
narrower interval.  Unless a candidate does otherwise beside others: an allocator that gives back by
the clock does less work between two looks, and one that uses less of the caches gains more CPU time
where they are shared.  Then rounds go on one by one, as the program will run.

Memory is judged by rounds one by one alone: where the same work takes longer, an allocator that
gives back by the clock has given back more of it by then, and peaks lower.  So rounds go on one by
one as well until memory is settled.  What does not repeat itself beside others is not exact alone,
either: of a peak that is one of two, few rounds may show the same one.

That choice looks at earlier rounds only, and chance says which starts first.  So where nothing
differs each difference has either sign with probability 1/2 whatever came before, and the tests of
evidence.py hold.

A program that fails beside itself (it locks a file, or takes a port) runs alone instead, and from
then on all do.  Where candidates alone failed, it runs beside itself once: if that is fine, they
failed.

Source: Bulej, Horky, Tuma, Farquet, Prokopec, "Duet benchmarking: improving measurement accuracy
in the cloud", ICPE 2020, whose duets have a core for each.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from tuner.compare.loop import ignore
from tuner.compare.plan import Course, Plan, Step
from tuner.optimize.proof.machines import MACHINE
from tuner.optimize.quantities import CPU, PEAK, TABLE
from tuner.optimize.tuned import AS_IS, Logs, Reference, Runs, Sample, Tuned, log_gain
from tuner.records import Configuration, Outcome, Status

AT_ONCE: Final = "runs at once"
ELAPSED: Final = "elapsed s"
"""Kept with what a run showed: how many ran at once, and how long it took.  Never judged."""

MOST_AT_ONCE: Final = 5
"""Runs that share a core: those of a round of the selection."""

_TRIED: Final = 3
_TRIED_IN_ALL: Final = 6
"""Differences of each candidate, and in all, before the narrower mode is chosen."""

_SHIFT_OF_MEMORY: Final = 0.0025
_SHIFT_OF_TIME: Final = 0.01
"""From which it is another beside others: a quarter of what mostly counts, and all of it."""

_MOSTLY: Final = 0.875
"""Of all pairs of a difference alone and one beside others, in which the same one is greater: 14 of
16.  What differs by chance does so less often the more rounds there are."""

_ONE_CORE: Final = 1.5
"""Of the elapsed time, that CPU time may be: more means children at the same time.  CPU time is the
mean of two runs, the first of which may have taken longer (program.py)."""

_MEMINFO: Final = Path("/proc/meminfo")

_SHARE_OF_MEMORY: Final = 0.1
"""Of what is free, that one run may take where `MOST_AT_ONCE` run, some with twice as much."""


@runtime_checkable
class RunsOnCores(Protocol):
    """What is tuned, where a run can be bound to a core."""

    def on_core(self, core: int) -> Tuned:
        """Return the same with every run bound to a core."""
        ...

    def stop(self) -> None:
        """End the runs that are under way, on any core, and every later one."""
        ...


class Duets:
    """Makes runs alone or at once, and remembers what may run at once."""

    def __init__(
        self,
        alone: Runs,
        on_cores: Sequence[Runs],
        seed: int = 1,
        clock: Callable[[], float] = time.monotonic,
        stop: Callable[[], None] = ignore,
    ) -> None:
        """Prepare.

        Args:
            alone: makes one run, wherever the system puts it.
            on_cores: the same on each core that may be used.
            seed: of the coins that say which core it is, and which run starts first.
            clock: in seconds; only differences count.
            stop: ends the runs that are under way; called when one raises, and on Ctrl-C.
        """
        self._stop = stop
        self._alone = alone
        self._on_cores = tuple(on_cores)
        self._seed = seed
        self._clock = clock
        self._together: dict[tuple[int, None, str], Sequence[Step[None]]] = {}
        self._done: dict[tuple[int, None, str], Outcome[Sample]] = {}
        self.is_usable = True
        """False once the program failed beside itself."""

    def wants(
        self, course: Course[None, Sample], labels: Sequence[str], *, is_memory_open: bool = False
    ) -> bool:
        """Return whether the next round should be a duet; see `next_is_duet`."""
        return self.is_usable and next_is_duet(course, labels, is_memory_open=is_memory_open)

    def join(self, steps: Sequence[Step[None]]) -> None:
        """Let steps run at once when the first of them is made."""
        if self.is_usable:
            self._together |= dict.fromkeys((step.key for step in steps), steps)

    def runs(self, step: Step[None]) -> Outcome[Sample]:
        """Make a run, and those that go with it if there are some; see `Runs`."""
        if step.key not in self._done:
            steps = self._together.get(step.key)
            if steps is None:
                return self._timed(step, self._alone)
            self._done |= self._all(steps)
        return self._done.pop(step.key)

    def _all(self, steps: Sequence[Step[None]]) -> dict[tuple[int, None, str], Outcome[Sample]]:
        coins = random.Random(f"{self._seed}/{steps[0].round}/cores")  # noqa: S311 - no secret
        runs, shuffled = coins.choice(self._on_cores), list(steps)
        coins.shuffle(shuffled)
        beside = {
            step.key: one for step, one in zip(shuffled, self._beside(shuffled, runs), strict=True)
        }
        failed = [step for step in steps if beside[step.key].good is None]
        if all(_hangs(step, beside[step.key]) for step in failed):
            return beside
        if AS_IS not in {step.subject for step in failed}:
            itself = self._beside([replace(step, subject=AS_IS) for step in steps], runs)
            if all(one.good is not None for one in itself):
                return beside
        self.is_usable = False
        return {step.key: self._timed(step, self._alone) for step in steps}

    def _beside(self, steps: Sequence[Step[None]], runs: Runs) -> list[Outcome[Sample]]:
        """Make runs at once, and return what each showed."""
        with ThreadPoolExecutor(len(steps)) as pool:
            try:
                return list(pool.map(lambda one: self._timed(one, runs, len(steps)), steps))
            except BaseException:
                self._stop()  # the pool waits for all that it began
                raise

    def _timed(self, step: Step[None], runs: Runs, n_at_once: int = 1) -> Outcome[Sample]:
        begun_s = self._clock()
        found = runs(step)
        if found.good is None:
            return found
        seconds = self._clock() - begun_s
        return replace(found, values={**found.good, ELAPSED: seconds, AT_ONCE: float(n_at_once)})


def _hangs(step: Step[None], found: Outcome[Sample]) -> bool:
    """Return whether a candidate had the time of all runs at once, and has it no second time."""
    return step.subject != AS_IS and found.status is Status.TIMED_OUT


class AtOnce:
    """A plan whose rounds are made at once, but for those that were begun one by one."""

    def __init__(self, plan: Plan[None, Sample], duets: Duets) -> None:
        """Take the plan, of rounds of `MOST_AT_ONCE` runs at most, and what makes them."""
        self._plan, self._duets = plan, duets

    def blocks(self, course: Course[None, Sample]) -> Iterator[Sequence[Step[None]]]:
        """Yield the blocks of the plan; what is kept of half a round at once is made anew."""
        for steps in self._plan.blocks(course):
            kept = [step for step in steps if step.key in course.samples]
            if any(map(course.wants, steps)) and any(_ran_together(course, one) for one in kept):
                for step in kept:
                    course.drop(step.key)
                kept = []
            if not kept:
                self._duets.join([step for step in steps if course.wants(step)])
            yield steps

    def n_left(self, course: Course[None, Sample]) -> int:
        """Return how many runs the plan expects."""
        return self._plan.n_left(course)


def at_once(plan: Plan[None, Sample], duets: Duets | None) -> Plan[None, Sample]:
    """Return the plan with rounds that are made at once, or as it is without what makes them."""
    return plan if duets is None else AtOnce(plan, duets)


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
        reference: the program as it is; one that waits, or has threads, or children at the same
            time, has no duets.
        cpu: core that was asked for; None where any will do.
        seed: of the coins.
    """
    cores = sorted(os.sched_getaffinity(0)) if cpu is None else [cpu]
    if not isinstance(tuned, RunsOnCores) or not keeps_one_core(reference):
        return None
    if reference.values[PEAK] > _SHARE_OF_MEMORY * free_bytes():
        return None
    beside = reference.patient(MOST_AT_ONCE)
    on_cores = [tuned.on_core(core).runner(candidates, beside) for core in cores]
    return Duets(tuned.runner(candidates, reference), on_cores, seed, stop=tuned.stop)


def keeps_one_core(reference: Reference) -> bool:
    """Return whether a program computes all the time, in one thread, on no more than a core."""
    return reference.n_threads == 1 and computes_within(_ONE_CORE, reference)


def computes_within(n_cores: float, reference: Reference) -> bool:
    """Return whether a program computes all the time, and no more than so many cores do."""
    return all(
        part.is_busy and part.values[CPU] <= n_cores * 1e9 * part.wall_s
        for part in reference.parts or (reference,)
    )


def free_bytes(meminfo: Path = _MEMINFO) -> int:
    """Return how much memory programs can have: what caches of files take, too.

    Source: proc_meminfo(5).
    """
    with contextlib.suppress(OSError):
        for line in meminfo.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def is_duet(course: Course[None, Sample], number: int) -> bool:
    """Return whether a round, or what is kept of it, ran at once."""
    return any(
        sample.good is not None and runs_together(sample.good)
        for (one, _, _), sample in course.samples.items()
        if one == number
    )


def _ran_together(course: Course[None, Sample], step: Step[None]) -> bool:
    good = course.samples[step.key].good
    return good is not None and runs_together(good)


def runs_together(sample: Sample) -> bool:
    """Return whether a run had others beside it."""
    return n_at_once(sample) > 1.0


def n_at_once(sample: Sample) -> float:
    """Return how many ran at once, itself too."""
    return sample.get(AT_ONCE, 1.0)


def next_is_duet(
    course: Course[None, Sample], labels: Sequence[str], *, is_memory_open: bool = False
) -> bool:
    """Return whether the next round should be a duet, by all rounds so far.

    Args:
        course: the rounds so far.
        labels: candidates that are left, at least one.
        is_memory_open: whether their memory is to be judged yet, which duets are no evidence of.
    """
    pairs, duets = (_Mode(course, labels, is_together=one) for one in (False, True))
    if not (pairs.is_tried and duets.is_tried):
        return pairs.is_tried or (not duets.is_tried and pairs.n > duets.n)
    return not is_memory_open and duets.cost < pairs.cost and not _is_other(pairs, duets)


def _is_other(pairs: _Mode, duets: _Mode) -> bool:
    """Return whether candidates seem to change something by other shares beside others."""
    return any(
        _seem_other(alone, beside, _SHIFT_OF_MEMORY if TABLE[name].is_memory else _SHIFT_OF_TIME)
        for (label, name), alone in pairs.shares.items()
        if (beside := duets.shares.get((label, name)))
    )


def _seem_other(alone: Sequence[float], beside: Sequence[float], shift: float) -> bool:
    if abs(statistics.median(beside) - statistics.median(alone)) <= shift:
        return False
    signs = [(x > y) - (x < y) for x in beside for y in alone]
    return abs(sum(signs)) >= (2.0 * _MOSTLY - 1.0) * len(signs)


class _Mode:
    """The differences of CPU time that one mode has shown so far."""

    def __init__(
        self, course: Course[None, Sample], labels: Sequence[str], *, is_together: bool
    ) -> None:
        good = {
            (number, label): sample.good
            for (number, _, label), sample in course.samples.items()
            if sample.good is not None and runs_together(sample.good) is is_together
        }
        self._labels = labels
        self._differences: dict[str, list[float]] = {}
        self.shares: dict[tuple[str, str], list[float]] = {}
        """Candidate that is left, quantity -> log(program as it is / candidate) of each round."""
        self._seconds: dict[int, list[float]] = {}
        self._is_together = is_together
        for (number, label), sample in good.items():
            base = good.get((number, AS_IS))
            self._seconds.setdefault(number, []).append(sample.get(ELAPSED, 0.0))
            if label != AS_IS and base is not None:
                log = math.log(base[CPU] / sample[CPU])
                self._differences.setdefault(label, []).append(log)
                for name in (n for n in sample if label in labels and n in base and n in TABLE):
                    log = math.log(base[name] / sample[name])
                    self.shares.setdefault((label, name), []).append(log)

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
        took = (max(s) if self._is_together else sum(s) for s in self._seconds.values())
        return spread**2 * sum(took) / self.n


def usual_mode(course: Course[None, Sample]) -> float:
    """Return how many ran at once in most runs; 1 where there is none."""
    modes = [n_at_once(sample.good) for sample in course.samples.values() if sample.good]
    return statistics.mode(modes or [1.0])


def of_one_mode(course: Course[None, Sample]) -> Course[None, Sample]:
    """Return the good samples of the mode that most had: those at once slow each other down."""
    usual = usual_mode(course)
    every = course.samples.items()
    of_mode = (one for one in every if one[1].good and n_at_once(one[1].good) == usual)
    return Course(course.baseline, of_mode)


def logs_in_proof(course: Course[None, Sample], label: str) -> tuple[Logs, Logs]:
    """Return the same as `logs_of`: what proves something, and memory beside others.

    Args:
        course: the rounds.
        label: of the candidate.
    """
    proof: dict[str, list[float]] = {}
    beside: dict[str, list[float]] = {}
    mine, base = course.good(None, label), course.good(None, AS_IS)
    for number in sorted(mine.keys() & base.keys()):
        run = mine[number]
        for name in filter(TABLE.__contains__, run):
            found = beside if TABLE[name].is_memory and runs_together(run) else proof
            found.setdefault(name, []).append(log_gain(name, base[number][name], run[name]))
    return proof, beside


def is_alike(one: Sample, other: Sample) -> bool:
    """Return whether two runs were on the same machine, with as many beside."""
    return n_at_once(one) == n_at_once(other) and one.get(MACHINE) == other.get(MACHINE)


def runs_as_is(course: Course[None, Sample]) -> dict[str, list[float]]:
    """Return quantity -> runs of the program as it is, with as many beside, as on one machine."""
    return runs_as_on_one(of_one_mode(course))


def runs_as_on_one(course: Course[None, Sample], label: str = AS_IS) -> dict[str, list[float]]:
    """Return quantity -> runs of a subject, as if all were on the machine where most were.

    They vary as those on each machine do about their own middle; where a machine made only one run,
    that shows nothing of it and is left out.
    """
    found: dict[str, dict[float | None, list[float]]] = {}
    for _, run in sorted(course.good(None, label).items()):
        for name in (one for one in run if one in TABLE):
            found.setdefault(name, {}).setdefault(run.get(MACHINE), []).append(run[name])
    return {name: _as_on_one([*by_machine.values()]) for name, by_machine in found.items()}


def _as_on_one(groups: Sequence[list[float]]) -> list[float]:
    usual = max(groups, key=len)
    several = [group for group in groups if len(group) > 1]
    if len(several) <= 1:
        return usual
    n_runs, middle = sum(map(len, several)), statistics.median(usual)
    # Every middle comes from the same runs, which are nearer to it than to the true one.
    spread = math.sqrt((n_runs - 1) / (n_runs - len(several)))
    return [middle * (one / statistics.median(g)) ** spread for g in several for one in g]


def n_duets(course: Course[None, Sample]) -> int:
    """Return how many rounds of a comparison ran at once."""
    return sum(is_duet(course, number) for number in range(course.n_rounds))
