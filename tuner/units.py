"""Sizes, durations and percentages as people write them: strict to read, exact to print.

``parse_*`` accept one form per quantity and refuse everything doubtful ("64K" is
1000 or 1024, "60" is seconds or milliseconds), because an allocator that
silently reads "64K" as 64 is the mistake this package exists to prevent.
`format_duration` prints the shortest text that parses back to the same value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from tuner.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

BYTES_PER_UNIT: Final[Mapping[str, int]] = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
"""Size units.  Source: IEC 80000-13 for the binary ones, SI for the others."""

NS_PER_UNIT: Final[Mapping[str, int]] = {
    "ns": 1,
    "µs": 10**3,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}
"""Time units in nanoseconds."""

_QUANTITY = re.compile(r"(?P<number>\d+(?:\.\d+)?) ?(?P<unit>[A-Za-zµ]*)", re.ASCII)
_PERCENT = re.compile(r"(?P<number>[+-]?\d+(?:\.\d+)?) ?%", re.ASCII)


class UnitError(SpecError, ValueError):
    """A text is not a quantity; also a ValueError, so that pydantic reports it in place."""


def _whole(text: str, units: Mapping[str, int], default: str | None, what: str) -> int:
    """Parse a number with a unit into whole base units, or say what is allowed."""
    match = _QUANTITY.fullmatch(text.strip())
    unit = (match["unit"] or default or "") if match else ""
    if match is None or unit not in units:
        raise UnitError(f"{text!r} is not {what}; allowed units: {', '.join(units)}")
    value = Decimal(match["number"]) * units[unit]
    if value != value.to_integral_value():
        raise UnitError(f"{text!r} is not a whole number of {next(iter(units))}")
    return int(value)


def parse_size(text: str) -> int:
    """Return the number of bytes that a text such as ``2 GiB`` or ``4096`` means.

    Raises:
        UnitError: no number, no known unit, or a fraction of a byte.

    Example:
        >>> parse_size("64 KiB"), parse_size("123")
        (65536, 123)
    """
    return _whole(text, BYTES_PER_UNIT, "B", 'a size such as "64 KiB" or a number of bytes')


def parse_duration(text: str) -> int:
    """Return the nanoseconds that a text such as ``60 s`` or ``1.5 ms`` means.

    Raises:
        UnitError: no number, no unit (a bare number is ambiguous), or a fraction of 1 ns.

    Example:
        >>> parse_duration("5 ms")
        5000000
    """
    return _whole(text, NS_PER_UNIT, None, 'a duration with its unit, such as "60 s"')


def parse_percent(text: str) -> float:
    """Return the ratio that a text such as ``+1%`` or ``-2.5 %`` means.

    Raises:
        UnitError: no number, or no percent sign.

    Example:
        >>> parse_percent("+1%")
        0.01
    """
    match = _PERCENT.fullmatch(text.strip())
    if match is None:
        raise UnitError(f'{text!r} is not a percentage such as "1%"')
    return float(Decimal(match["number"]) / 100)


FACTOR_FROM: Final = 10.0
"""Ratio from which a factor reads better than a percentage."""


def show_factor(ratio: float) -> str:
    """Write a ratio as a factor, with three digits at least, behind a multiplication sign.

    Example:
        >>> show_factor(37.843)[1:], show_factor(12345.0)[1:]
        ('37.8', '12,345')
    """
    return f"\N{MULTIPLICATION SIGN}{ratio:,.{max(0, 3 - len(f'{ratio:.0f}'))}f}"


def show_percent(share: float, decimals: int = 1) -> str:
    """Write a share: ``12.5 %``; a great one without decimals.

    Example:
        >>> show_percent(0.125), show_percent(0.00126, 2), show_percent(36.843)
        ('12.5 %', '0.13 %', '3684 %')
    """
    is_great = share >= FACTOR_FROM - 1.0
    return f"{100.0 * share:.{0 if is_great else decimals}f} %"


def signed_percent(share: float, decimals: int = 1) -> str:
    """Write a change with its sign: ``-4.0 %``; one that rounds to nothing has none of its own.

    From ten times the value up it is a factor.

    Example:
        >>> signed_percent(-0.04), signed_percent(-0.0001), signed_percent(0.3, 0)
        ('-4.0 %', '±0.0 %', '+30 %')
        >>> signed_percent(36.843) == show_factor(37.843)
        True
    """
    if 1.0 + share >= FACTOR_FROM:
        return show_factor(1.0 + share)
    percent = round(100.0 * share, decimals)
    return f"{percent:+.{decimals}f} %" if percent else f"±{0.0:.{decimals}f} %"


def percent_range(low: float, high: float) -> str:
    """Write the ends of an interval of changes, without the unit: that stands before it.

    Example:
        >>> percent_range(-0.071, 0.0001), percent_range(-0.071, 36.843)[:9]
        ('-7.1 .. ±0.0', '-7.1 % ..')
    """
    return " .. ".join(without_unit((signed_percent(low), signed_percent(high))))


def without_unit(ends: Sequence[str]) -> Sequence[str]:
    """Return changes without their percent sign, where it is the unit of all of them."""
    if all(end.endswith(" %") for end in ends):
        return [end.removesuffix(" %") for end in ends]
    return ends


@dataclass(frozen=True)
class Range:
    """Quantities that make sense for something, both ends included, as people write them."""

    parse: Callable[[str], float]
    """Reads one: `parse_duration`, `parse_size` or `parse_percent`."""
    least: str
    most: str

    def check(self, text: str) -> str:
        """Return a text whose quantity lies in the range.

        Raises:
            UnitError: it does not, or the text is no such quantity.

        Example:
            >>> Range(parse_duration, "1 s", "1 h").check("5min")
            '5min'
        """
        if not self.parse(self.least) <= self.parse(text) <= self.parse(self.most):
            raise UnitError(f"{text!r} is not from {self.least} to {self.most}")
        return text

    def check_option(self, name: str, text: str) -> str:
        """Return the same of an option, which errors name.

        Raises:
            SpecError: as `check`.
        """
        try:
            return self.check(text)
        except UnitError as error:
            raise SpecError(f"{name}: {error}") from error


_MINUTES_ALONE: Final = 10
"""From which on `show_duration` drops seconds."""


def format_duration(ns: int) -> str:
    """Return an exact text for a duration: ``5 ms``; the inverse of `parse_duration`.

    Raises:
        ValueError: the duration is negative.
    """
    if ns < 0:
        raise ValueError(f"{ns} is negative")
    unit = [u for u, length in NS_PER_UNIT.items() if ns % length == 0][-1] if ns else "ns"
    return f"{ns // NS_PER_UNIT[unit]} {unit}"


def show_size(n_bytes: float) -> str:
    """Return a rounded size for people: ``69.0 MiB``.  Not for files: it does not parse back."""
    size = float(n_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:  # noqa: PLR2004 - the binary step
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def show_duration(seconds: float) -> str:
    """Return a rounded duration for people, seconds only below ten minutes.

    Example:
        >>> show_duration(40.0), show_duration(73.4), show_duration(120.0), show_duration(1234.0)
        ('40 s', '1 min 13 s', '2 min', '21 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= _MINUTES_ALONE:
        return f"{round(seconds / 60.0)} min"
    words = [f"{minutes} min"] if minutes else []
    return " ".join([*words, *([f"{rest} s"] if rest or not minutes else [])])
