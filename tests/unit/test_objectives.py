"""Objectives, constraints, fronts, and hypervolume against known answers."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner import objectives
from tuner.errors import MissingToolError, SpecError
from tuner.metrics import METRICS, find_objective, objective_names
from tuner.objectives import (
    at_resolution,
    front,
    hypervolume,
    non_dominated,
    objective_values,
    parse_constraint,
    reference_point,
    relative_hypervolume,
    trial_values,
    violation,
)
from tuner.records import Configuration, Measurement, Origin, Status, Trial

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


def trial(
    number: int, values: Sequence[float] | None, violated: float = 0.0, *, default: bool = False
) -> Trial:
    configuration = Configuration.of("glibc", {} if default else {"pad": number})
    if values is None:
        reason = "killed"
        return Trial(number, configuration, Origin.SEARCH, Status.FAILED, reason, None, None, 1.0)
    return Trial(
        number,
        configuration,
        Origin.DEFAULT if default else Origin.SEARCH,
        Status.OK,
        None,
        measurement(),
        tuple(values),
        violated,
    )


# Objectives


def test_every_objective_is_read_by_its_name() -> None:
    found = objective_values(measurement(p99_latency=250.0), objective_names())

    assert {type(value) for value in found} == {float}
    assert found == (80.0 * MIB, 100 * MIB, 6e7, 5e7, 2000.0, 300.0, 250.0)


@pytest.mark.parametrize(
    ("name", "change", "hint"),
    [
        ("cost", {"cost": None}, "doctor"),
        ("instructions", {"instructions": None}, "no instrument"),
        ("cost", {"cost": None, "syscalls": None}, 'threads freely.*threads = "baton"'),
        ("p99_latency", {}, 'threads = "free"'),
        ("mean_heap", {"mean_heap": math.nan}, "not measured"),
    ],
)
def test_a_number_that_was_not_measured_is_an_error_with_a_hint(
    name: str, change: dict[str, float | None], hint: str
) -> None:
    with pytest.raises(MissingToolError, match=f"{name}: .*{hint}"):
        measurement(**change).value(name)


def test_an_unknown_objective_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(SpecError, match="'speed' is unknown; choose among mean_heap, peak_heap"):
        find_objective("speed")


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
def test_values_are_shown_in_fitting_units(name: str, value: float, text: str) -> None:
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
def test_limits_are_quantities_or_multiples_of_defaults(text: str, limit: float) -> None:
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
def test_a_wrong_constraint_is_quoted_and_explained(text: str, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        parse_constraint(text)


@given(text=st.text(max_size=40))
def test_no_text_crashes_the_parser(text: str) -> None:
    with contextlib.suppress(SpecError):
        parse_constraint(f"cost <= {text}")


def test_the_violation_is_the_sum_of_relative_excesses() -> None:
    limits = [parse_constraint(t) for t in ("peak_heap <= 80 MiB", "cost <= default * 1.02")]
    cheap = measurement(cost=50_000_000.0)

    assert violation(limits, measurement(), cheap, None) == pytest.approx(0.25 + 60 / 51 - 1)


def test_limits_that_hold_violate_nothing_also_at_equality() -> None:
    limits = [parse_constraint(t) for t in ("peak_heap <= 100 MiB", "cost <= default")]

    assert violation(limits, measurement(), measurement(), None) == 0.0


def test_a_limit_of_zero_does_not_divide() -> None:
    limits = [parse_constraint("syscalls <= 0")]

    assert violation(limits, measurement(), None, None) == 300.0
    assert violation(limits, measurement(syscalls=0), None, None) == 0.0


def test_a_limit_on_a_failed_default_says_nothing() -> None:
    limits = [parse_constraint("cost <= own_default * 0.5")]

    assert violation(limits, measurement(), measurement(), None) == 0.0


# Fronts


def test_dominated_points_are_left_out_and_of_equal_ones_the_first_stays() -> None:
    points = np.array([[2.0, 2.0], [1.0, 3.0], [2.0, 2.0], [3.0, 1.0], [2.0, 3.0], [1.0, 4.0]])

    assert non_dominated(points) == [0, 1, 3]
    assert non_dominated(np.empty((0, 2))) == []


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_never_reach_the_library(bad: float) -> None:
    points = np.array([[1.0, 2.0], [bad, 1.0]])

    for refusing in (non_dominated, lambda p: hypervolume(p, (5.0, 5.0))):
        with pytest.raises(ValueError, match="finite"):
            refusing(points)


@given(points=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30))
def test_non_dominated_agrees_with_the_definition(points: list[tuple[int, int]]) -> None:
    array = np.array(points, dtype=np.float64)

    def dominates(a: tuple[int, int], b: tuple[int, int]) -> bool:
        return a != b and a[0] <= b[0] and a[1] <= b[1]

    expected = [
        index
        for index, point in enumerate(points)
        if not any(dominates(other, point) for other in points) and point not in points[:index]
    ]
    assert expected == non_dominated(array)


def test_the_front_holds_feasible_successes_only() -> None:
    many = [
        trial(0, (5.0, 5.0)),
        trial(1, (1.0, 1.0), violated=0.1),
        trial(2, None),
        trial(3, (4.0, 6.0)),
        trial(4, (6.0, 6.0)),
    ]

    assert [member.number for member in front(reversed(many))] == [0, 3]
    assert front([]) == []
    assert front(many[1:3]) == []


# Hypervolume


def test_one_point_dominates_its_box_in_logarithms() -> None:
    point = np.array([[9.0, 99.0]])

    expected = math.log(1000 / 10) * math.log(1000 / 100)
    assert hypervolume(point, (999.0, 999.0)) == pytest.approx(expected, rel=1e-12)


def test_two_points_share_their_overlap() -> None:
    points = np.array([[9.0, 99.0], [99.0, 9.0]])
    ten = math.log(10)

    expected = 2 * (2 * ten * ten) - ten * ten
    assert hypervolume(points, (999.0, 999.0)) == pytest.approx(expected, rel=1e-12)


@given(
    points=st.lists(st.tuples(*[st.floats(0, 2000, allow_nan=False)] * 3), min_size=1, max_size=4)
)
def test_hypervolume_agrees_with_inclusion_and_exclusion(
    points: list[tuple[float, float, float]],
) -> None:
    reference = (1000.0, 1000.0, 1000.0)

    def box(corners: Sequence[tuple[float, ...]]) -> float:
        worst = [max(values) for values in zip(*corners, strict=True)]
        sides = [max(0.0, math.log1p(1000.0) - math.log1p(value)) for value in worst]
        return math.prod(sides)

    expected = sum(
        (-1) ** (size + 1) * sum(map(box, itertools.combinations(points, size)))
        for size in range(1, len(points) + 1)
    )
    found = hypervolume(np.array(points), reference)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_points_beyond_the_reference_and_no_points_have_no_volume() -> None:
    assert hypervolume(np.array([[10.0, 10.0]]), (5.0, 50.0)) == 0.0
    assert hypervolume(np.empty((0, 2)), (5.0, 50.0)) == 0.0


def test_zeros_are_finite() -> None:
    assert hypervolume(np.array([[0.0, 0.0]]), (math.e - 1, math.e - 1)) == pytest.approx(1.0)


def test_the_reference_is_the_nadir_of_the_defaults_and_a_tenth() -> None:
    defaults = [trial(0, (100.0, 20.0)), trial(1, None), trial(2, (50.0, 40.0), violated=2.0)]

    assert reference_point(defaults) == pytest.approx((110.0, 44.0))
    assert reference_point([trial(0, (0.0, 20.0))]) == pytest.approx((1.0, 22.0))
    assert reference_point([trial(0, None)]) is None


def test_gain_compares_with_the_defaults() -> None:
    default = trial(0, (100.0, 100.0), default=True)
    better = trial(1, (50.0, 100.0))
    reference = reference_point([default])
    assert reference is not None

    assert relative_hypervolume([default], reference) == 1.0
    gain = relative_hypervolume([default, better], reference)
    assert gain == pytest.approx(math.log(111 / 51) / math.log(111 / 101))
    assert relative_hypervolume([better], reference) is None


def test_objectives_need_no_other_indicator_library() -> None:
    """Moocore is imported where it is used, so that --help does not pay for it."""
    assert "moocore" not in vars(objectives)


# Resolution


@given(st.floats(1.0, 1e12), st.floats(1e-4, 0.2))
def test_rounding_moves_a_value_by_half_a_step_at_most(value: float, step: float) -> None:
    rounded = at_resolution(value, step)

    assert abs(math.log(rounded / value)) <= math.log1p(step) / 2 + 1e-9
    assert at_resolution(rounded, step) == pytest.approx(rounded, rel=1e-9)


def test_without_noise_every_difference_counts() -> None:
    assert at_resolution(1234.5, 0.0) == 1234.5
    assert at_resolution(0.0, 0.1) == 0.0


def test_differences_below_the_resolution_neither_dominate_nor_win() -> None:
    """A default stands for a setting that gains less than the noise."""
    names, steps = ("mean_heap", "faults"), (("mean_heap", 0.05),)
    values = (1000.0, 999.0, 900.0)
    found = [
        replace(
            trial(number, (0.0, 0.0)),
            objectives=trial_values(measurement(mean_heap=value, faults=7), names, steps),
        )
        for number, value in enumerate(values)
    ]

    assert [member.number for member in front(found[:2])] == [0]
    assert [member.number for member in front(found)] == [2]
