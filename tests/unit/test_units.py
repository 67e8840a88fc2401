"""Sizes, durations and percentages: what is read, what is refused, and the way back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import SpecError
from tuner.units import (
    Range,
    UnitError,
    format_duration,
    parse_duration,
    parse_percent,
    parse_size,
    percent_range,
    show_percent,
    show_size,
    signed_percent,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 GiB", 2 << 30),
        ("64 KiB", 65536),
        ("64KiB", 65536),
        ("123", 123),
        ("0", 0),
        ("1.5 MiB", 1572864),
        ("10 MB", 10_000_000),
        ("7 B", 7),
    ],
)
def test_a_size_is_a_whole_number_of_bytes(text: str, expected: int):
    assert expected == parse_size(text)


@pytest.mark.parametrize(
    "text",
    ["64K", "64k", "1e6", "0x10", "-1", "", "GiB", "1.3 B", "2 gib", "1 GiB x", "1  GiB", "nan"],
)
def test_a_doubtful_size_is_refused(text: str):
    with pytest.raises(UnitError, match="is not"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("60 s", 60 * 10**9), ("5 ms", 5_000_000), ("0.5 us", 500), ("2 min", 120 * 10**9)],
)
def test_a_duration_is_a_whole_number_of_nanoseconds(text: str, expected: int):
    assert expected == parse_duration(text)


@pytest.mark.parametrize("text", ["60", "1 m", "-1 s", "0.1 ns", "s", "1 S"])
def test_a_doubtful_duration_is_refused(text: str):
    with pytest.raises(UnitError):
        parse_duration(text)


@pytest.mark.parametrize(("text", "expected"), [("+1%", 0.01), ("-2.5 %", -0.025), ("0%", 0.0)])
def test_a_percentage_is_a_ratio(text: str, expected: float):
    assert expected == parse_percent(text)


@pytest.mark.parametrize("text", ["1", "one %", "1 percent", "%", "1%%"])
def test_a_doubtful_percentage_is_refused(text: str):
    with pytest.raises(UnitError):
        parse_percent(text)


def test_a_wrong_unit_is_a_user_error_and_a_value_error():
    assert issubclass(UnitError, SpecError)
    assert issubclass(UnitError, ValueError)


@given(st.integers(min_value=0, max_value=2**64))
def test_a_duration_survives_the_way_to_text_and_back(ns: int):
    assert ns == parse_duration(format_duration(ns))


@given(st.text(max_size=12))
def test_any_text_is_a_size_or_refused(text: str):
    try:
        n_bytes = parse_size(text)
    except UnitError:
        return
    assert n_bytes >= 0


@pytest.mark.parametrize(
    ("ns", "expected"), [(5_000_000, "5 ms"), (0, "0 ns"), (1500, "1500 ns"), (60 * 10**9, "1 min")]
)
def test_the_largest_exact_unit_is_printed(ns: int, expected: str):
    assert expected == format_duration(ns)


def test_a_negative_duration_is_a_defect_of_the_caller():
    with pytest.raises(ValueError, match="negative"):
        format_duration(-1)


@pytest.mark.parametrize(
    ("n_bytes", "expected"),
    [(12, "12 B"), (72353792, "69.0 MiB"), (-2048, "-2.0 KiB"), (5 << 42, "20.0 TiB")],
)
def test_people_see_rounded_sizes(n_bytes: int, expected: str):
    assert expected == show_size(n_bytes)


@pytest.mark.parametrize("text", ["1 s", "1000 ms", "0.5 min", "60 s", "1min"])
def test_a_range_takes_what_lies_in_it_and_its_ends(text: str):
    assert Range(parse_duration, "1 s", "1 min").check(text) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("999 ms", "'999 ms' is not from 1 s to 1 min"),
        ("60.000000001 s", "'60.000000001 s' is not from 1 s to 1 min"),
        ("60", "is not a duration"),
    ],
)
def test_what_lies_beyond_a_range_is_refused_with_its_ends(text: str, said: str):
    with pytest.raises(UnitError, match=said):
        Range(parse_duration, "1 s", "1 min").check(text)


TIMES = "\N{MULTIPLICATION SIGN}"


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (8.994, "+899.4 %"),
        (9.0, f"{TIMES}10.0"),
        (36.843, f"{TIMES}37.8"),
        (12344.0, f"{TIMES}12,345"),
    ],
)
def test_a_great_change_is_a_factor(share: float, text: str):
    assert signed_percent(share) == text
    assert show_percent(36.843) == "3684 %"


def test_a_range_with_a_factor_keeps_the_unit_of_the_other_end():
    assert percent_range(-0.2, 11.0) == f"-20.0 % .. {TIMES}12.0"
    assert percent_range(-0.2, 0.1) == "-20.0 .. +10.0"
