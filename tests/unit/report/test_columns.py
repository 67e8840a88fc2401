"""Numbers are written for people, and what is missing stays missing."""

import re
from pathlib import Path

import pytest

from tests.doubles.runs import MIB
from tuner.errors import SpecError
from tuner.metrics import Kind, find_metric
from tuner.report.columns import ratio, scale_for, show_change, show_estimate, show_expected
from tuner.stats import Estimate, Interval


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (1.0, "0 %"),
        (0.877, "-12.3 %"),
        (0.9503, "-4.97 %"),
        (1.00002, "\N{ALMOST EQUAL TO}0 %"),
        (0.9, "-10.0 %"),
        (2.5, "+150 %"),
        (12.345, "\N{MULTIPLICATION SIGN}12.3"),
        (1234.5, "\N{MULTIPLICATION SIGN}1,234"),
        (None, "\N{EN DASH}"),
    ],
)
def test_change_is_written_with_three_digits(found: float | None, expected: str):
    assert expected == show_change(found)


def test_ratio_to_nothing_is_missing_and_not_zero():
    assert [ratio(1.0, 0.0), ratio(None, 1.0), ratio(1.0, None), ratio(1.0, 2.0)] == [
        None,
        None,
        None,
        0.5,
    ]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (Kind.BYTES, 72.5 * MIB, "72.50 MiB"),
        (Kind.BYTES, 999, "999 B"),
        (Kind.COUNT, 20650, "20,650"),
        (Kind.COUNT, 166818, "166.8 thousand"),
        (Kind.INSTRUCTIONS, 1.2e9, "1.200 billion"),
        (Kind.NANOSECONDS, 1.477e9, "1.477 s"),
        (Kind.RATIO, 1.337, "1.34"),
    ],
)
def test_scale_keeps_four_digits(kind: Kind, value: float, expected: str):
    assert expected == scale_for(kind, [value, None, 1.0]).show_with_unit(value)


def test_missing_number_is_a_dash_and_not_zero():
    scale = scale_for(Kind.BYTES, [MIB])

    assert (scale.show(None), scale.show_with_unit(None)) == ("\N{EN DASH}", "\N{EN DASH}")


def test_unknown_column_is_refused():
    with pytest.raises(SpecError, match="mean_heap"):
        find_metric("heap")


def test_nothing_saves_more_than_all_there_is():
    assert show_expected(0.0) == "at least all of it"


@pytest.mark.parametrize("ratio", [None, 0.01, 0.9, 1.2])
def test_what_may_be_expected_is_a_change(ratio: float | None):
    assert show_expected(ratio) == show_change(ratio)


def test_there_is_one_kind_of_minus_sign():
    tuner = Path(__file__).resolve().parents[3] / "tuner"
    other = [p.name for p in tuner.rglob("*.py") if re.search("\u2212|MINUS SIGN", p.read_text())]

    assert other == []


@pytest.mark.parametrize(
    ("high", "text"),
    [(1.5, "+20.0 % [-10.0, +50.0]"), (12.0, "+20.0 % [-10.0 %, \N{MULTIPLICATION SIGN}12.0]")],
)
def test_an_interval_with_a_factor_keeps_the_unit_of_the_other_end(high: float, text: str):
    assert show_estimate(Estimate(1.2, Interval(0.9, high), 7)) == text
