"""Arithmetic of levels: scales, narrowing, and the type of a value.  Pure functions.

Scales:
    - log2: powers of two from low to high, both powers of two themselves
    - log: 1, 2, 5 in every decade from low to high, both ends included
    - linear: low, low + step, ... not above high
    - ordinal: the given values, neighbours alike
    - categorical: the given values, in no order
    - boolean: false, true
"""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Final, Literal

from tuner.config.reading import show
from tuner.page import series
from tuner.records import Value
from tuner.units import NS_PER_UNIT, parse_duration, parse_size

if TYPE_CHECKING:
    from collections.abc import Sequence

Level = Value | None
"""A value, or None for unset."""

Scale = Literal["log2", "log", "linear", "ordinal", "categorical", "boolean"]

UNSET: Final = "unset"
"""How files write the level None."""

_NEEDS: Final = {
    "log2": {"low", "high"},
    "log": {"low", "high"},
    "linear": {"low", "high", "step"},
    "ordinal": {"values"},
    "categorical": {"values"},
    "boolean": set[str](),
}
"""Keys every scale needs; the others of the four are not allowed."""

_MOST_LEVELS: Final = 10_000
"""Of a linear scale; every two levels have a correlation of their own."""


def check_scale(
    scale: Scale,
    low: float | None,
    high: float | None,
    step: int | None,
    values: tuple[Value, ...] | None,
) -> None:
    """Check that a scale has what it needs and nothing else.

    Raises:
        ValueError: a key is missing or out of place, or a bound does not suit the scale.
    """
    pairs = {"low": low, "high": high, "step": step, "values": values}
    given = {key for key, value in pairs.items() if value is not None}
    if given != _NEEDS[scale]:
        keys = sorted(_NEEDS[scale])
        needed = series(keys) if keys else "no low, high, step or values"
        raise ValueError(
            f"scale {scale!r} needs {needed}; got {', '.join(sorted(given)) or 'none'}"
        )
    if values is not None and (not values or len({type(v) for v in values}) > 1):
        raise ValueError("values must be one or more of one type")
    if low is not None and high is not None:
        _check_bounds(scale, low, high)
        if step and (int(high) - int(low)) // step >= _MOST_LEVELS:
            raise ValueError(f"step {step} gives more than {_MOST_LEVELS} levels")


def _check_bounds(scale: Scale, low: float, high: float) -> None:
    if max(abs(low), abs(high)) > sys.float_info.max:
        raise ValueError(f"low {show(low)} or high {show(high)} is too large")
    if low > high:
        raise ValueError(f"low {low} is above high {high}")
    if scale != "linear" and low <= 0:
        raise ValueError(f"a {scale} scale begins above 0; put {low} under specials")
    if scale == "linear" and any(int(x) != x for x in (low, high)):
        raise ValueError(f"low {low} and high {high} must be whole numbers")
    if scale == "log2" and any(int(x) != x or int(x) & (int(x) - 1) for x in (low, high)):
        raise ValueError(f"low {low} and high {high} must be powers of two")


def scale_levels(
    scale: Scale,
    low: float | None,
    high: float | None,
    step: int | None,
    values: tuple[Value, ...] | None,
) -> tuple[Value, ...]:
    """Return the values of a scale in its order; the arguments satisfy `check_scale`."""
    if scale == "boolean":
        return (False, True)
    if values is not None:
        return values
    assert low is not None  # noqa: S101 - check_scale
    assert high is not None  # noqa: S101 - check_scale
    if scale == "log2":
        return tuple(1 << k for k in range(int(low).bit_length() - 1, int(high).bit_length()))
    if scale == "log":
        return _one_two_five(low, high)
    assert step is not None  # noqa: S101 - check_scale
    return tuple(range(int(low), int(high) + 1, step))


def _one_two_five(low: float, high: float) -> tuple[Value, ...]:
    """Return low, every 1, 2, 5 times a power of ten between, and high."""
    first, last = Decimal(repr(low)), Decimal(repr(high))
    series = {
        Decimal(digit).scaleb(exponent)
        for exponent in range(first.adjusted(), last.adjusted() + 1)
        for digit in (1, 2, 5)
    }
    chosen = sorted({first, last, *(x for x in series if first < x < last)})
    is_float = float in {type(low), type(high)}
    return tuple(float(x) if is_float else int(x) for x in chosen)


def coerce(kind: type, value: Value, unit: str = "") -> Value:
    """Return a value as the type a parameter has.

    Args:
        kind: bool, int, float or str.
        value: from a file (typed) or from a command line (text).
        unit: of the parameter: a text may be a size for bytes, a duration for ms, else a number.

    Raises:
        ValueError: the value does not fit; says what is wanted.
    """
    if kind is str or (kind is bool and isinstance(value, bool)):
        if isinstance(value, str) or kind is bool:
            return value
    elif kind is bool and value in ("true", "false"):
        return value == "true"
    elif kind is not bool and not isinstance(value, bool):
        return _real(value) if kind is float else _whole(value, unit)
    wanted = {bool: "true or false", str: "a text", int: "a whole number", float: "a number"}[kind]
    raise ValueError(f"{show(value)} is not {wanted}")


def _real(value: Value) -> float:
    try:
        number = float(value)
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{show(value)} is not a number")
    return number


def _whole(value: Value, unit: str) -> int:
    if not isinstance(value, str):
        if isinstance(value, float) and not value.is_integer():
            raise ValueError(f"{show(value)} is not a whole number")
        return int(value)
    text = value.strip()
    if re.fullmatch("[+-]?[0-9]+", text):
        return int(text)
    if unit == "bytes":
        return parse_size(text)
    if unit == "ms":
        return _milliseconds(text)
    counted = f"{unit} is counted in whole numbers" if unit else "give a plain one, such as 4"
    raise ValueError(f"{show(value)} is not a whole number; {counted}")


def _milliseconds(text: str) -> int:
    try:
        ns = parse_duration(text)
    except ValueError:
        ns = 1
    if ns % NS_PER_UNIT["ms"]:
        raise ValueError(
            f'{show(text)} is not a whole number of milliseconds, nor such as "5 ms" or "2 s"'
        )
    return ns // NS_PER_UNIT["ms"]


@dataclass(frozen=True)
class Levels:
    """All levels of a parameter, in three groups that stand in this order."""

    unset: tuple[None, ...]
    """One None, or nothing when the parameter cannot be unset."""
    specials: tuple[Value, ...]
    """Values with a meaning of their own."""
    scale: tuple[Value, ...]
    """Values of the scale, rising."""
    ends: tuple[Value, Value]
    """First and last value of the whole scale, which the default may be."""
    default: Value | None = None
    """What unset stands for, where that is known; it is then no level of its own."""

    @property
    def all(self) -> tuple[Level, ...]:
        """The groups joined; unset stands where its number would."""
        rest = self.specials + self.scale
        if not isinstance(self.default, int | float) or isinstance(self.default, bool):
            return self.unset + rest
        before = tuple(x for x in rest if not isinstance(x, str) and x < self.default)
        return before + self.unset + tuple(x for x in rest if x not in before)

    def only(self, wanted: Sequence[Value], *, is_free: bool) -> Levels:
        """Return exactly the wanted values, and unset where it exists.

        Args:
            wanted: values in any order.
            is_free: True for a numeric scale, on which any value between its ends may be wanted.

        Raises:
            ValueError: a value lies outside the levels.
        """
        others = [value for value in wanted if self.default is None or value != self.default]
        for value in others:
            self._check_within(value, is_free=is_free)
        numbers = {value for value in others if not isinstance(value, str)}
        texts = [level for level in self.specials + self.scale if isinstance(level, str)]
        kept = [text for text in texts if text in others]
        return replace(self, specials=(), scale=(*kept, *sorted(numbers)))

    def between(self, low: float | None, high: float | None) -> Levels:
        """Return the part of a numeric scale between two ends, with unset and the specials.

        Raises:
            ValueError: an end is outside of the scale, nothing is left between them, or
                the levels are not numbers.
        """
        numbers = [x for x in self.scale if isinstance(x, int | float)]
        if len(numbers) < len(self.scale) or isinstance(self.scale[0], bool):
            raise ValueError("low and high are for numbers; give an array of values")
        first, last = self.ends
        extent = f"the scale runs from {show(first)} to {show(last)}"
        for end in (low, high):
            if end is not None and not first <= end <= last:  # type: ignore[operator]
                raise ValueError(f"{show(end)} is outside the search space; {extent}")
        least, most = first if low is None else low, last if high is None else high
        scale = tuple(x for x in numbers if least <= x <= most)  # type: ignore[operator]
        kept = (*scale, *([self.default] if isinstance(self.default, int | float) else []))
        if not any(least <= x <= most for x in kept):  # type: ignore[operator]
            raise ValueError(f"no level lies between {show(low)} and {show(high)}; {extent}")
        return replace(self, scale=scale)

    def _check_within(self, value: Value, *, is_free: bool) -> None:
        if value in self.specials + self.scale:
            return
        first, last = self.ends
        is_number = not isinstance(value, str) and not isinstance(first, str)
        if is_free and is_number and first <= value <= last:  # type: ignore[operator]
            return
        raise ValueError(
            f"{show(value)} is outside the search space; allowed: {self.shown(is_free=is_free)}"
        )

    def shown(self, *, is_free: bool) -> str:
        """Return the levels for a message; of a scale on which any value may stand its ends."""
        words = [show(x) for x in (*self.unset, *self.specials)]
        words = ['"unset"' if word == "null" else word for word in words]
        if is_free:
            return ", ".join([*words, f"{show(self.ends[0])} to {show(self.ends[1])}"])
        return ", ".join([*words, *map(show, self.scale)])
