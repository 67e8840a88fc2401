"""Objectives, constraints, fronts, and hypervolume against known answers."""

import contextlib
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doubles.runs import valued
from tuner.errors import MissingToolError, SpecError
from tuner.front.dominance import front
from tuner.metrics import METRICS, find_objective, objective_names
from tuner.objectives import (
    at_resolution,
    objective_values,
    parse_constraint,
    trial_values,
    violation,
)
from tuner.records import Measurement

MIB = 1 << 20


def measurement(**changes: float | None) -> Measurement:
    base = Measurement(
        {
            "peak_heap": 100 * MIB,
            "mean_heap": 80.0 * MIB,
            "faults": 2000,
            "syscalls": 300,
            "instructions": 50_000_000,
            "process_instructions": 90_000_000,
            "cost": 60_000_000.0,
            "p99_latency": None,
            "wall": 1,
            "peak_live": 70 * MIB,
            "fragmentation": 1.4,
        }
    )
    return base.with_values(**changes)


# Objectives


def test_every_objective_is_read_by_its_name():
    numbers = {name: place for place, name in enumerate(objective_names(), start=1)}
    found = objective_values(Measurement(numbers), objective_names())

    assert {type(value) for value in found} == {float}
    assert found == tuple(numbers.values())


@pytest.mark.parametrize(
    ("name", "change", "hint"),
    [
        ("cost", {"cost": None}, "doctor"),
        ("instructions", {"instructions": None}, "no instrument"),
        ("cost", {"cost": None, "syscalls": None}, 'threads freely.*threads = "baton"'),
        ("cost", {"cost": None, "syscalls": None}, "or this machine forbids ptrace .*doctor"),
        ("syscalls", {"syscalls": None}, "where ptrace is allowed; see .*doctor"),
        ("p99_latency", {}, 'threads = "free"'),
        ("mean_heap", {"mean_heap": math.nan}, "not measured"),
    ],
)
def test_a_number_that_was_not_measured_is_an_error_with_a_hint(
    name: str, change: dict[str, float | None], hint: str
):
    with pytest.raises(MissingToolError, match=f"{name}: .*{hint}"):
        measurement(**change).value(name)


def test_an_unknown_objective_is_an_error_that_lists_the_known():
    with pytest.raises(SpecError, match="'speed' is unknown; choose among mean_heap, peak_heap"):
        find_objective("speed")
    with pytest.raises(SpecError, match="unknown; did you mean 'cost'"):
        find_objective("cpu_time")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("peak_heap", 1.5 * MIB, "1.5 MiB"),
        ("p99_latency", 1234.4, "1234 ns"),
        ("cost", 2.5e9, "2.50 G"),
        ("faults", 1500.0, "1.50 k"),
        ("syscalls", 37.0, "37"),
    ],
)
def test_values_are_shown_in_fitting_units(name: str, value: float, text: str):
    assert text == METRICS[name].show(value)


# Constraints


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("peak_heap <= 2 GiB", 2.0 * (1 << 30)),
        ("peak_heap<=4096", 4096.0),
        ("p99_latency <= 5 ms", 5e6),
        ("faults <= 120000", 120_000.0),
        ("cost <= 1e9", 1e9),
        ("syscalls <= 0", 0.0),
        ("cost <= default", 6e7),
        ("cost <= default * 1.02", 6e7 * 1.02),
        ("cost <= default + 2 %", 6e7 * 1.02),
        ("mean_heap <= default - 5%", 80 * MIB * 0.95),
        ("mean_heap <= own_default * 0.5", 20.0 * MIB),
    ],
)
def test_limits_are_quantities_or_multiples_of_defaults(text: str, limit: float):
    own = measurement(mean_heap=40.0 * MIB)

    found = parse_constraint(text).limit(measurement(), own)

    assert found == pytest.approx(limit, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("peak_heap", "not understood"),
        ("", "not understood"),
        ("peak_heap <=", "not understood"),
        ("peak_heap < 2 GiB", "only <= is known"),
        ("peak_heap >= 2 GiB", "only <= is known"),
        ("speed <= 2", "'speed' is unknown"),
        ("peak_heap <= 2 Gib", "'2 Gib' is no limit in bytes"),
        ("p99_latency <= 5", "'5' is no limit in ns"),
        ("cost <= cheap", "'cheap' is no limit in instructions"),
        ("cost <= nan", "must be a number from 0 up"),
        ("cost <= inf", "must be a number from 0 up"),
        (f"peak_heap <= {'9' * 400}", "is no limit in bytes"),
        ("faults <= -1", "must be a number from 0 up"),
        ("cost <= default * 0", "must be a number above 0"),
        ("cost <= default * -1", "must be a number above 0"),
        ("cost <= default * 1e999", "must be a number above 0"),
        ("cost <= default - 100 %", "must be a number above 0"),
        ("cost <= default * 1.2.3", "must be a number above 0"),
        ("cost <= default + 2", "'default [+] 2' is no limit"),
        ("cost <= defaults * 2", "is no limit"),
    ],
)
def test_a_wrong_constraint_is_quoted_and_explained(text: str, complaint: str):
    with pytest.raises(SpecError, match=complaint):
        parse_constraint(text)


@given(text=st.text(max_size=40))
def test_no_text_crashes_the_parser(text: str):
    with contextlib.suppress(SpecError):
        parse_constraint(f"cost <= {text}")


def test_the_violation_is_the_sum_of_relative_excesses():
    limits = [parse_constraint(t) for t in ("peak_heap <= 80 MiB", "cost <= default * 1.02")]
    cheap = measurement(cost=50_000_000.0)

    assert violation(limits, measurement(), cheap, None) == pytest.approx(0.25 + 60 / 51 - 1)


def test_limits_that_hold_violate_nothing_also_at_equality():
    limits = [parse_constraint(t) for t in ("peak_heap <= 100 MiB", "cost <= default")]

    assert violation(limits, measurement(), measurement(), None) == 0.0


def test_a_limit_of_zero_does_not_divide():
    limits = [parse_constraint("syscalls <= 0")]

    assert violation(limits, measurement(), None, None) == 300.0
    assert violation(limits, measurement(syscalls=0), None, None) == 0.0


def test_a_limit_below_one_is_exceeded_relatively_too():
    limits = [parse_constraint("syscalls <= default * 0.5")]

    assert violation(limits, measurement(syscalls=2), measurement(syscalls=1), None) == 3.0


def test_a_limit_on_a_failed_default_says_nothing():
    limits = [parse_constraint("cost <= own_default * 0.5")]

    assert violation(limits, measurement(), measurement(), None) == 0.0


# Resolution


@given(st.floats(1.0, 1e12), st.floats(1e-4, 0.2))
def test_rounding_moves_a_value_by_half_a_step_at_most(value: float, step: float):
    rounded = at_resolution(value, step)

    assert abs(math.log(rounded / value)) <= math.log1p(step) / 2 + 1e-9
    assert at_resolution(rounded, step) == pytest.approx(rounded, rel=1e-9)


def test_values_of_any_size_are_rounded():
    for value in (0.3, 1.0):
        assert at_resolution(value * 1.2, 0.5) == at_resolution(value / 1.2, 0.5)


def test_without_noise_every_difference_counts():
    assert at_resolution(1234.5, 0.0) == 1234.5
    assert at_resolution(0.0, 0.1) == 0.0


def test_differences_below_the_resolution_neither_dominate_nor_win():
    """A default stands for a setting that gains less than the noise."""
    names, steps = ("mean_heap", "faults"), (("mean_heap", 0.05),)
    values = (1000.0, 999.0, 900.0)
    found = [
        replace(
            valued(number, (0.0, 0.0)),
            objectives=trial_values(measurement(mean_heap=value, faults=7), names, steps),
        )
        for number, value in enumerate(values)
    ]

    assert [member.number for member in front(found[:2])] == [0]
    assert [member.number for member in front(found)] == [2]
