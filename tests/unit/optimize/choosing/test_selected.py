"""What few runs of each setting showed."""

import math

import pytest

from tuner.compare.plan import Course
from tuner.optimize.choosing.candidates import exact_in
from tuner.optimize.choosing.selected import gains_in, selected_of
from tuner.optimize.confirming.race import standings
from tuner.optimize.proof.duets import AT_ONCE, runs_as_is
from tuner.optimize.proof.judgement import Rules
from tuner.optimize.proof.machines import MACHINE
from tuner.optimize.proof.noise import exact_of
from tuner.optimize.quantities import CPU, MEAN
from tuner.optimize.tuned import AS_IS, Sample
from tuner.records import Outcome


def test_a_run_beside_the_program_as_it_is_is_compared_with_that_run():
    course: Course[None, Sample] = Course(AS_IS)
    for number, (n_at_once, base, mine) in enumerate([(2.0, 3.0, 2.7), (1.0, 1.0, 0.9), (1, 1, 1)]):
        for name, value in ((AS_IS, base), ("a", mine)):
            outcome = Outcome.succeeded({CPU: value, AT_ONCE: n_at_once})
            course.add((number, None, name), outcome)

    assert gains_in(course, "a", CPU) == pytest.approx([math.log(10 / 9), math.log(10 / 9), 0.0])
    assert gains_in(course, "b", CPU) == []
    assert gains_in(Course(AS_IS), "a", CPU) == []


def test_a_run_alone_is_compared_with_those_alone():
    """Of what ran alone after rounds at once, every gain was off by what these are slower."""
    course: Course[None, Sample] = Course(AS_IS)
    for number, (n_at_once, base) in enumerate([(5.0, 1.3), (5.0, 1.3), (1.0, 1.0)]):
        course.add((number, None, AS_IS), Outcome.succeeded({CPU: base, AT_ONCE: n_at_once}))
    course.add((3, None, "a"), Outcome.succeeded({CPU: 0.9}))

    assert gains_in(course, "a", CPU) == pytest.approx([math.log(10 / 9)])


def test_a_run_is_compared_with_those_of_its_time():
    """When other work of the machine ended, all that ran from then on seemed to gain."""
    course: Course[None, Sample] = Course(AS_IS)
    for number in range(60):
        load = 1.1 if number < 20 else 1.0
        course.add((number, None, AS_IS), Outcome.succeeded({CPU: load}))
        course.add((number, None, f"at {number}"), Outcome.succeeded({CPU: load}))

    assert gains_in(course, "at 5", CPU) == gains_in(course, "at 55", CPU) == [0.0]


def test_runs_on_one_machine_are_compared_with_those_on_it():
    """Memory of another machine, and its times by one run of it there, looked like gains."""
    course: Course[None, Sample] = Course(AS_IS)
    for number, (machine, factor) in enumerate([(1.0, 1.0), (2.0, 1.3), (1.0, 1.0), (1.0, 1.0)]):
        for name, share in ((AS_IS, 1.0), ("a", 0.9)):
            outcome = Outcome.succeeded({CPU: share * factor, MEAN: factor, MACHINE: machine})
            course.add((number, None, name), outcome)

    assert gains_in(course, "a", CPU) == pytest.approx([math.log(10 / 9)] * 4)
    assert runs_as_is(course) == {CPU: [1.0] * 3, MEAN: [1.0] * 3}
    assert exact_in(course, Rules()) == {CPU, MEAN}


@pytest.mark.parametrize(("n_machines", "differ"), [(2, 0.3), (4, 0.0), (4, 0.3), (8, 0.0)])
def test_what_repeats_itself_on_each_machine_does_in_selection_and_confirmation(
    n_machines: int, differ: float
):
    """Selection looked at one machine, where few runs are none, confirmation at all as one."""
    course: Course[None, Sample] = Course(AS_IS)
    for number in range(8):
        machine = number % n_machines
        memory = 1e6 * (1.0 + differ * machine)
        for name, share in ((AS_IS, 1.0), ("a", 0.9)):
            run = {MEAN: share * memory, CPU: 1.0 + number, MACHINE: machine}
            course.add((number, None, name), Outcome.succeeded(run))

    assert exact_in(course, Rules()) == {MEAN}
    assert standings(course, ["a"], Rules())["a"].gains[MEAN].is_exact
    assert exact_of(course, Rules(), "a") == {MEAN}


def test_noise_is_that_of_the_runs_on_each_machine():
    course: Course[None, Sample] = Course(AS_IS)
    for number in range(8):
        log = (number % 4) + (0.1 if number < 4 else 0.0)
        outcome = Outcome.succeeded({CPU: math.exp(log), MACHINE: number % 4})
        course.add((number, None, AS_IS), outcome)

    found = selected_of(course, {}).noise[CPU]
    assert found == pytest.approx(1.4826 * 0.05 * math.sqrt(7 / 4), rel=1e-2)


def test_runs_with_more_beside_them_are_no_noise():
    """Five at once share a core; of a quiet program the rounds of two seemed to vary by 12 %."""
    course: Course[None, Sample] = Course(AS_IS)
    for number, (n_at_once, value) in enumerate([(5.0, 1.2), (2.0, 1.0)]):
        outcome = Outcome.succeeded({CPU: value, AT_ONCE: n_at_once})
        course.add((number, None, AS_IS), outcome)

    assert runs_as_is(course)[CPU] == [1.2]
    assert selected_of(course, {}).noise[CPU] == 0.03, "assumed"
