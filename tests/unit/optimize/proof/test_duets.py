"""Runs at once, where that decides sooner."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast
from zlib import crc32

import numpy as np
import pytest

from tests.unit.optimize.confirming.test_race import Kept, Nowhere
from tuner.compare.loop import compare
from tuner.compare.plan import Course, Rounds, Step
from tuner.optimize.confirming.race import Race, standings
from tuner.optimize.proof.duets import (
    AT_ONCE,
    ELAPSED,
    MOST_AT_ONCE,
    Duets,
    at_once,
    duets_of,
    free_bytes,
    is_duet,
    n_duets,
    of_one_mode,
)
from tuner.optimize.proof.judgement import Rules, State
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.optimize.tuned import AS_IS, Reference, Runs, Sample, Tuned
from tuner.records import Configuration, Outcome, Status

RULES = Rules()


class Seconds:
    """A clock of every thread: each run takes a second."""

    def __init__(self) -> None:
        self._mine = threading.local()

    def __call__(self) -> float:
        now = getattr(self._mine, "now", 0.0)
        self._mine.now = now + 1.0
        return now


def runs(
    noise: float,
    seed: str,
    shared: float = 0.0,
    gain: float = 0.0,
    *,
    peak: float = 1.0,
    of_mean: float = 0.0,
) -> Runs:
    """Return runs of a program; `shared` is noise that a round has in common.

    `of_mean` is that of mean memory.
    """

    def run(step: Step[None]) -> Outcome[Sample]:
        own = np.random.default_rng(crc32(f"{seed} {step.round} {step.subject}".encode()))
        both = np.random.default_rng(step.round)
        log = own.normal(0.0, noise) + both.normal(0.0, shared)
        log -= 0.0 if step.subject == AS_IS else gain
        peaks = 2e6 if step.subject == AS_IS else 2e6 * peak
        mean = 1e6 * float(np.exp(own.normal(0.0, of_mean)))
        return Outcome.succeeded({MEAN: mean, PEAK: peaks, CPU: 1e9 * float(np.exp(log))})

    return run


def race(duets: Duets, labels: tuple[str, ...] = ("a",), rounds: int = 60) -> Course[None, Sample]:
    plan = Race(labels, RULES, lambda _: True, most_rounds=rounds, duets=duets)
    return compare(plan, duets.runs, Nowhere(), baseline=AS_IS)


@pytest.mark.parametrize(("beside", "is_mostly"), [(0.003, True), (0.03, False)])
def test_the_narrower_mode_goes_on(*, beside: float, is_mostly: bool):
    least = {"gain": 0.01}  # is hard to see, so the race is long
    on_cores = [runs(beside, core, **least) for core in "xy"]
    duets = Duets(runs(0.01, "alone", **least), on_cores, clock=Seconds())

    course = race(duets, ("a", "b"))

    n_rounds = len({number for number, _, _ in course.samples})
    assert (n_duets(course) > n_rounds / 2) is is_mostly
    assert 0 < n_duets(course) < n_rounds, "both were tried"


@pytest.mark.parametrize(("beside", "is_mostly"), [(1.001, True), (1.006, False)])
def test_what_has_another_peak_beside_others_goes_on_alone(*, beside: float, is_mostly: bool):
    least = {"gain": 0.01}
    on_cores = [runs(0.003, core, **least, peak=beside) for core in "xy"]
    duets = Duets(runs(0.01, "alone", **least), on_cores, clock=Seconds())

    course = race(duets, ("a", "b"))

    n_rounds = len({number for number, _, _ in course.samples})
    assert (n_duets(course) > n_rounds / 2) is is_mostly


def test_what_peaks_lower_beside_others_only_has_no_lower_peak():
    """As under an allocator that gives back by the clock."""
    least = {"gain": 0.01}
    on_core = runs(0.003, "x", **least, peak=0.8)
    duets = Duets(runs(0.01, "alone", **least), [on_core], clock=Seconds())

    course = race(duets)

    assert n_duets(course) > 2
    gain = standings(course, ["a"], RULES)["a"].gains[PEAK]
    assert (gain.is_exact, gain.change) == (True, 0.0)


@pytest.mark.parametrize(("beside", "is_exact"), [(0.9, True), (1.05, False)])
def test_what_varies_beside_others_does_not_repeat_itself_alone(*, beside: float, is_exact: bool):
    """Of a peak that is one of two, three rounds one by one may show the same one."""
    course: Course[None, Sample] = Course(AS_IS)
    for number in range(9):
        n_at_once = 1.0 if number < 3 else 2.0
        run = {MEAN: 1e6, PEAK: 2e6, CPU: 1e9, AT_ONCE: n_at_once}
        course.add((number, None, AS_IS), Outcome.succeeded(run))
        share = 0.9 if number % 2 else beside
        peak = 2e6 * (0.9 if number < 3 else share)
        course.add((number, None, "a"), Outcome.succeeded({**run, PEAK: peak}))

    found = standings(course, ["a"], Rules(goals=(PEAK,)))["a"]

    assert found.gains[PEAK].is_exact is is_exact
    assert (found.better == (PEAK,)) is is_exact


@pytest.mark.parametrize(("of_mean", "is_soon"), [(0.0, True), (0.1, False)])
def test_rounds_run_one_by_one_until_memory_is_settled(*, of_mean: float, is_soon: bool):
    least = {"gain": 0.01, "of_mean": of_mean}
    duets = Duets(runs(0.01, "alone", **least), [runs(0.003, "x", **least)], clock=Seconds())

    course = race(duets, rounds=20)

    assert (n_duets(course) > 10) is is_soon
    assert n_duets(course) > 2, "both were tried"


@pytest.mark.parametrize(("beside", "is_mostly"), [(0.01, True), (0.08, False)])
def test_what_gains_more_time_beside_others_goes_on_alone(*, beside: float, is_mostly: bool):
    on_cores = [runs(0.003, core, gain=beside) for core in "xy"]
    duets = Duets(runs(0.01, "alone", gain=0.01), on_cores, clock=Seconds())

    course = race(duets, ("a", "b"))

    n_rounds = len({number for number, _, _ in course.samples})
    assert (n_duets(course) > n_rounds / 2) is is_mostly


def test_two_run_at_the_same_time_on_one_core_and_a_coin_says_which_starts():
    meet = threading.Barrier(2, timeout=20.0)
    where: list[tuple[int, str, str]] = []

    def on(core: str) -> Runs:
        def run(step: Step[None]) -> Outcome[Sample]:
            where.append((step.round, step.subject, core))
            meet.wait()  # passes only where the other one runs too
            return runs(0.01, core)(step)

        return run

    duets = Duets(runs(0.01, "alone"), [on("first"), on("second")], clock=Seconds())
    for number in range(12):
        steps = [Step(number, at, None, name) for at, name in enumerate((AS_IS, "a"))]
        duets.join(steps)
        both = [duets.runs(step) for step in steps]
        assert all(one.good and one.good[AT_ONCE] == 2 for one in both)

    cores = {number: {core for n, _, core in where if n == number} for number in range(12)}
    assert all(len(some) == 1 for some in cores.values()), "both are on one core"
    assert len(set.union(*cores.values())) == 2
    assert {name for _, name, _ in where[::2]} == {AS_IS, "a"}, "either starts first"
    assert len(where) == 24


def test_a_program_that_fails_beside_itself_runs_alone_from_then_on():
    def fails(step: Step[None]) -> Outcome[Sample]:
        return Outcome.did_not_succeed(Status.FAILED, "the file is locked")

    duets = Duets(runs(0.01, "alone"), [fails], clock=Seconds())

    course = race(duets)

    assert not duets.is_usable
    assert course.out == {(None, "a"): "hopeless"}, "not that it failed"
    assert n_duets(course) == 0


@pytest.mark.parametrize("status", [Status.TIMED_OUT, Status.FAILED])
def test_a_candidate_that_fails_beside_the_program_is_not_tried_alone(status: Status):
    alone: list[str] = []

    def fails(step: Step[None]) -> Outcome[Sample]:
        if step.subject == AS_IS:
            return runs(0.01, "x")(step)
        return Outcome.did_not_succeed(status, "killed")

    def noting(step: Step[None]) -> Outcome[Sample]:
        alone.append(step.subject)
        return runs(0.01, "alone")(step)

    duets = Duets(noting, [fails], clock=Seconds())
    steps = [Step(2, at, None, subject) for at, subject in enumerate((AS_IS, "a"))]
    duets.join(steps)

    assert [duets.runs(step).status for step in steps] == [Status.OK, status]
    assert (alone, duets.is_usable) == ([], True)


def test_a_candidate_that_fails_where_the_program_does_not_bear_itself_runs_alone():
    is_taken = threading.Lock()

    def fails(step: Step[None]) -> Outcome[Sample]:
        if step.subject == AS_IS and is_taken.acquire(blocking=False):
            return runs(0.01, "x")(step)
        return Outcome.did_not_succeed(Status.FAILED, "the port is taken")

    duets = Duets(runs(0.01, "alone"), [fails], clock=Seconds())
    steps = [Step(2, at, None, subject) for at, subject in enumerate((AS_IS, "a"))]
    duets.join(steps)

    assert [duets.runs(step).status for step in steps] == [Status.OK, Status.OK]
    assert not duets.is_usable


def test_ctrl_c_ends_the_runs_that_are_under_way():
    ended = threading.Event()
    main = threading.get_ident()

    def run(step: Step[None]) -> Outcome[Sample]:
        if step.subject == AS_IS:
            signal.pthread_kill(main, signal.SIGINT)
        assert ended.wait(60.0), "nobody ended it"
        return Outcome.did_not_succeed(Status.FAILED, "killed by SIGKILL")

    duets = Duets(runs(0.01, "alone"), [run], clock=Seconds(), stop=ended.set)
    steps = [Step(0, at, None, name) for at, name in enumerate((AS_IS, "a"))]
    duets.join(steps)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    try:
        with pytest.raises(KeyboardInterrupt):
            duets.runs(steps[0])
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.is_set()


def test_what_ends_a_duet_is_what_runs_in_it():
    program = Bound()
    found = duets_of(cast("Tuned", program), {"a": Configuration("glibc")}, REFERENCE, 0, 1)
    steps = [Step(0, 0, None, AS_IS)]
    assert found is not None
    found.join(steps)
    program.fails = True

    with pytest.raises(KeyboardInterrupt):
        found.runs(steps[0])
    assert program.is_stopped


def test_a_candidate_that_crashes_is_out_and_the_others_go_on_at_once():
    def crashing(other: Runs) -> Runs:
        def run(step: Step[None]) -> Outcome[Sample]:
            if step.subject == "bad":
                return Outcome.did_not_succeed(Status.FAILED, "killed by SIGSEGV")
            return other(step)

        return run

    beside = [crashing(runs(0.003, name)) for name in "xy"]
    duets = Duets(crashing(runs(0.01, "alone")), beside, clock=Seconds())

    course = race(duets, ("a", "bad"))

    assert duets.is_usable
    assert standings(course, ["bad"], RULES)["bad"].state is State.FAILED
    assert n_duets(course) > 1


def test_half_a_duet_that_was_kept_is_no_round():
    duets = Duets(runs(0.01, "alone"), [runs(0.003, "x"), runs(0.003, "y")], clock=Seconds())
    first = race(duets, rounds=30)
    number = next(n for n in range(30) if is_duet(first, n))
    kept = {key: s for key, s in first.samples.items() if key[0] < number or key[2] == AS_IS}
    kept = {key: s for key, s in kept.items() if key[0] <= number}

    plan = Race(("a",), RULES, lambda _: True, most_rounds=30, duets=duets)
    again = compare(plan, duets.runs, Kept(kept), baseline=AS_IS)

    assert (number, None, "a") not in again.samples
    assert max(n for n, _, _ in again.samples) > number


def test_noise_is_that_of_one_mode():
    course: Course[None, Sample] = Course()
    for number in range(5):
        at_once = 2.0 if number < 3 else 1.0
        values = {MEAN: 1.0, PEAK: 1.0, CPU: at_once, AT_ONCE: at_once, ELAPSED: 1.0}
        course.add((number, None, AS_IS), Outcome.succeeded(values))

    found = of_one_mode(course)

    assert {number for number, _, _ in found.samples} == {0, 1, 2}


class Bound:
    """Something whose runs can be bound to a core."""

    fails = is_stopped = False

    def on_core(self, core: int) -> Bound:
        return self

    def stop(self) -> None:
        self.is_stopped = True

    def runner(self, candidates: object, reference: object) -> Callable[..., object]:
        def run(step: object) -> object:
            if self.fails:
                raise KeyboardInterrupt
            return step

        return run


REFERENCE = Reference(
    ("app",), {MEAN: 1e6, PEAK: 2e6, CPU: 1e9}, 0, None, None, 1.0, 30.0, is_busy=True, n_threads=1
)


@pytest.mark.parametrize(
    ("fields", "cpu", "is_made"),
    [
        ({}, None, True),
        ({}, 0, True),
        ({"n_threads": 2}, None, False),
        ({"is_busy": False}, None, False),
        ({"values": {MEAN: 1e6, PEAK: 1e18, CPU: 1e9}}, None, False),
        ({"wall_s": 0.5}, None, False),
    ],
)
def test_only_a_small_program_that_keeps_one_core_busy_has_duets(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, object], cpu: int | None, *, is_made: bool
):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    reference = Reference(**{**REFERENCE.__dict__, **fields})
    chosen = {"a": Configuration("glibc")}

    found = duets_of(cast("Tuned", Bound()), chosen, reference, cpu, 1)

    assert (found is not None) is is_made
    assert duets_of(cast("Tuned", object()), chosen, reference, cpu, 1) is None


def test_a_run_beside_others_has_its_own_time_once_they_ended():
    limits: list[float] = []

    class Noting(Bound):
        def on_core(self, core: int) -> Noting:
            return self

        def runner(self, candidates: object, reference: object) -> Callable[..., object]:
            limits.append(cast("Reference", reference).timeout_s)
            return super().runner(candidates, reference)

    duets_of(cast("Tuned", Noting()), {"a": Configuration("glibc")}, REFERENCE, 0, 1)

    assert sorted(limits) == [30.0, 30.0 + 2.0 * MOST_AT_ONCE]
    short = Reference(**{**REFERENCE.__dict__, "timeout_s": 1.5})
    suite = Reference(**{**REFERENCE.__dict__, "parts": (REFERENCE, short)})
    assert [part.timeout_s for part in suite.patient(2).parts] == [34.0, 3.0]


def test_half_a_round_at_once_is_made_anew():

    def compared(keeper: Nowhere) -> Course[None, Sample]:
        duets = Duets(runs(0.01, "alone"), [runs(0.003, "x")], clock=Seconds())
        return compare(at_once(Rounds(("a", "b", "c"), (None,), 2), duets), duets.runs, keeper)

    whole = compared(Nowhere())
    half = {key: whole.samples[key] for key in list(whole.samples)[:4]}
    again = compared(Kept(half))

    assert again.samples.keys() == whole.samples.keys()
    assert all(one.good and one.good[AT_ONCE] == 3.0 for one in again.samples.values())


def test_memory_of_the_file_cache_is_free(tmp_path: Path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  4000 kB\nMemFree:  100 kB\nMemAvailable:  3000 kB\n")

    assert free_bytes(meminfo) == 3000 * 1024
    assert free_bytes(tmp_path / "none") > 0, "where the system says nothing"
