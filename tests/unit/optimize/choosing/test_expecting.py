"""Emulation ends where the program would notice nothing more."""

import pytest

from tests.doubles.runs import failed_trial, synthetic_run, trial
from tuner.optimize.choosing.expecting import Expecting
from tuner.optimize.proof.judgement import Rules
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.optimize.tuned import Reference
from tuner.optimize.view import View
from tuner.records import Configuration, Status

HEAP, PROGRAM = 1e6, 1e8
"""Bytes: what malloc holds is a hundredth of the program's."""

COST, CPU_NS = 1e8, 1e8
"""Instructions of malloc's, and the program's CPU time."""

MANY = 500

RECORD = synthetic_run().campaign


class Emulated:
    """Trials as they end."""

    def __init__(self, program: float = PROGRAM) -> None:
        values = {MEAN: program, PEAK: program, CPU: CPU_NS}
        reference = Reference(("app",), values, 0, None, None, wall_s=1.0, timeout_s=9.0)
        rules = Rules(goals=(MEAN,), guards=(MEAN, PEAK, CPU))
        self.expecting = Expecting(View(), reference, rules)
        self.n = 0
        self.end(HEAP)

    def end(self, mean_heap: float | None, cost: float = COST) -> None:
        """End a trial that holds so many bytes in the mean, for so much work; None: it failed."""
        settings = {"mxfast": self.n} if self.n else {}
        one = Configuration.of("glibc", settings)
        if mean_heap is None:
            ended = failed_trial(self.n, one, Status.FAILED, "no reason")
        else:
            ended = trial(self.n, one, mean_heap, cost)
        self.expecting.trial_ended(RECORD, ended)
        self.n += 1

    def n_until_flat(self, mean_heap: float | None) -> int:
        """Return how many more trials of so many bytes are made until it is flat."""
        begun = self.n
        while not self.expecting.is_flat and self.n < begun + MANY:
            self.end(mean_heap)
        return self.n - begun


@pytest.mark.parametrize("mean_heap", [HEAP, 0.9 * HEAP, None])
def test_emulation_ends_where_the_program_would_notice_nothing(mean_heap: float | None):
    assert Emulated().n_until_flat(mean_heap) < MANY / 4


def test_a_gain_that_the_program_would_notice_lets_it_go_on():
    emulated = Emulated()
    wanted = emulated.n_until_flat(HEAP)

    emulated = Emulated()
    for _ in range(wanted - 2):
        emulated.end(HEAP)
    emulated.end(0.5 * HEAP)

    assert emulated.n_until_flat(0.5 * HEAP) >= wanted


def test_it_goes_on_longer_where_a_setting_promises_much():
    emulated = Emulated(program=10.0 * HEAP)
    emulated.end(0.5 * HEAP)

    assert emulated.n_until_flat(HEAP) > 1.5 * Emulated().n_until_flat(HEAP)


@pytest.mark.parametrize(("cost", "is_step"), [(COST, True), (100.0 * COST, False)])
def test_what_breaks_a_guard_by_far_is_no_step_towards_an_answer(cost: float, *, is_step: bool):
    emulated = Emulated()
    wanted = emulated.n_until_flat(HEAP)

    emulated = Emulated()
    for _ in range(wanted - 2):
        emulated.end(HEAP)
    emulated.end(0.1 * HEAP, cost)

    assert (emulated.n_until_flat(HEAP) > 1) == is_step
    assert Emulated().n_until_flat(30.0 * HEAP) == wanted


def test_many_small_steps_are_none():
    emulated = Emulated()
    wanted = emulated.n_until_flat(HEAP)

    emulated = Emulated()
    for number in range(wanted):
        emulated.end((1.0 - 0.001 * number) * HEAP)

    assert emulated.expecting.is_flat


def test_nothing_is_said_of_a_program_that_was_not_emulated_as_it_is():
    values = {MEAN: PROGRAM, PEAK: PROGRAM}
    reference = Reference(("app",), values, 0, None, "jemalloc", wall_s=1.0, timeout_s=9.0)
    expecting = Expecting(View(), reference, Rules(goals=(MEAN,), guards=(MEAN, PEAK)))

    for number in range(MANY):
        one = Configuration.of("glibc", {"mxfast": number})
        expecting.trial_ended(RECORD, trial(number, one))

    assert not expecting.is_flat
