"""How much runs vary that should be alike."""

import math

import pytest

from tuner.compare.plan import Course
from tuner.optimize.proof.duets import AT_ONCE
from tuner.optimize.proof.judgement import Rules
from tuner.optimize.proof.machines import MACHINE
from tuner.optimize.proof.noise import (
    noise_as_it_is,
    noise_in_rounds,
    noise_of,
    repeated_under,
    varying_under,
)
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.optimize.tuned import AS_IS, Sample
from tuner.records import Outcome


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_noise_is_the_median_deviation_made_comparable_with_a_standard_one(sign: float):
    """Logs of 0, 0.1 to 0.3 either side: the median distance from the median is 0.1."""
    values = [math.exp(sign * x) for x in (-0.3, -0.1, 0.0, 0.1, 0.1, -0.1, 0.2)]

    assert noise_of(values, has_floor=False) == pytest.approx(1.4826 * 0.1)
    assert noise_of(values, has_floor=True) == pytest.approx(1.4826 * 0.1)


def test_noise_of_few_equal_runs_is_assumed_and_of_enough_has_a_floor():
    assert noise_of([5.0] * 3, has_floor=True) == 0.03
    assert noise_of([5.0] * 4, has_floor=True) == 0.01
    assert noise_of([5.0] * 6, has_floor=False) == 0.0
    assert noise_of([], has_floor=False) == 0.0


def test_what_a_program_varies_by_has_no_drift_in_it():
    """A guard of CPU time had five times its limit on a machine that got slower."""
    course: Course[None, Sample] = Course(AS_IS)
    for number in range(20):
        values = {MEAN: 1e6, PEAK: 2e6, CPU: 1e9 * 1.02**number}
        course.add((number, None, AS_IS), Outcome.succeeded(values))

    assert noise_as_it_is(course)[CPU] == pytest.approx(0.0, abs=1e-9)


def test_what_a_program_varies_by_has_no_difference_of_machines_in_it():
    course: Course[None, Sample] = Course(AS_IS)
    for number in range(21):
        machine = number % 3
        peak = 2e6 * (1.0 + 0.06 * machine) * (1.001 if number % 2 else 1.0)
        values = {MEAN: 1e6, PEAK: peak, CPU: 1e9, MACHINE: float(machine)}
        course.add((number, None, AS_IS), Outcome.succeeded(values))

    assert noise_as_it_is(course)[PEAK] < 0.002


def test_memory_varies_as_in_runs_one_by_one_and_time_as_in_most():
    course: Course[None, Sample] = Course(AS_IS)
    for number in range(30):
        alone = number < 10
        off = 1.0 + 0.1 * (number * number % 7)
        values = {PEAK: 2e6 if alone else 2e6 * off, CPU: 1e9 * off if alone else 1e9}
        for label in (AS_IS, "exgen"):
            run = {**values, AT_ONCE: 1.0 if alone else 2.0}
            run[PEAK] *= 1.0 if label == AS_IS or alone else off
            course.add((number, None, label), Outcome.succeeded(run))

    assert noise_as_it_is(course) == {PEAK: 0.0, CPU: 0.0}
    assert noise_in_rounds(course, ["exgen"])[PEAK] == 0.0


def test_an_allocator_varies_where_runs_of_one_setting_alike_differ():
    course: Course[None, Sample] = Course(AS_IS)
    peaks = {
        "exgen a": (1.0, 1.0),
        "exgen b": (1.0, 1.01),
        "glibc a": (1.0, 1.001),
        "mimalloc a": (1.0,),
        AS_IS: (1.0, 1.5),
    }
    for label, values in peaks.items():
        for number, peak in enumerate(values):
            course.add((number, None, label), Outcome.succeeded({PEAK: peak}))
    course.add((2, None, "glibc a"), Outcome.succeeded({PEAK: 1.2, AT_ONCE: 5.0}))

    assert repeated_under(course, Rules()) == {("exgen", PEAK): False, ("glibc", PEAK): True}
    assert varying_under(course, Rules()) == {"exgen": frozenset({PEAK})}
