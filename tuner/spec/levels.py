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

from decimal import Decimal
from typing import TYPE_CHECKING, Final, Literal

from tuner.records import Value
from tuner.spec.reading import show
from tuner.units import parse_size

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
        needed = " and ".join(sorted(_NEEDS[scale])) or "no low, high, step or values"
        message = f"scale {scale!r} needs {needed}; got {', '.join(sorted(given)) or 'none'}"
        raise ValueError(message)
    if values is not None and (not values or len({type(v) for v in values}) > 1):
        message = "values must be one or more of one type"
        raise ValueError(message)
    if low is not None and high is not None:
        _check_bounds(scale, low, high)


def _check_bounds(scale: Scale, low: float, high: float) -> None:
    if low > high:
        message = f"low {low} is above high {high}"
        raise ValueError(message)
    if scale != "linear" and low <= 0:
        message = f"a {scale} scale begins above 0; put {low} under specials"
        raise ValueError(message)
    if scale == "log2" and any(int(x) != x or int(x) & (int(x) - 1) for x in (low, high)):
        message = f"low {low} and high {high} must be powers of two"
        raise ValueError(message)


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
    is_float = isinstance(low, float) or isinstance(high, float)
    return tuple(float(x) if is_float else int(x) for x in chosen)


def coerce(kind: type, value: Value) -> Value:
    """Return a value as the type a parameter has; texts may be sizes or written numbers.

    Args:
        kind: bool, int, float or str.
        value: from a file (typed) or from a command line (text).

    Raises:
        ValueError: the value does not fit; says what is wanted.
    """
    if kind is str or (kind is bool and isinstance(value, bool)):
        if isinstance(value, str) or kind is bool:
            return value
    elif kind is bool and value in ("true", "false"):
        return value == "true"
    elif kind is not bool and not isinstance(value, bool):
        return _numeric(kind, value)
    wanted = {bool: "true or false", str: "a text", int: "a whole number", float: "a number"}[kind]
    message = f"{show(value)} is not {wanted}"
    raise ValueError(message)


def _numeric(kind: type, value: Value) -> int | float:
    if kind is float:
        return float(value)
    if isinstance(value, str):
        text = value.strip()
        return int(text) if text.lstrip("-").isdecimal() else parse_size(text)
    if value != int(value):
        message = f"{show(value)} is not a whole number"
        raise ValueError(message)
    return int(value)


def narrowed(
    levels: Sequence[Level],
    wanted: Sequence[Value] | None,
    low: float | None,
    high: float | None,
    *,
    is_free: bool,
) -> tuple[Level, ...]:
    """Return part of the levels of a parameter.

    Args:
        levels: all levels; None first if the setting may be unset.
        wanted: exactly these values, or None to cut by `low` and `high`.
        low: smallest number to keep; None = no bound.  Specials are kept in either case.
        high: greatest number to keep; None = no bound.
        is_free: True for a numeric scale, on which any value between its ends may be wanted.

    Raises:
        ValueError: a wanted value lies outside the levels, or nothing is left.
    """
    scale = [v for v in levels if v is not None]
    unset: tuple[Level, ...] = (None,) if None in levels else ()
    if wanted is not None:
        for value in wanted:
            _check_within(scale, value, is_free=is_free)
        return unset + tuple(dict.fromkeys(wanted))
    if not is_free:
        message = "has no low and high; give an array of values"
        raise ValueError(message)
    least = min(x for x in scale if isinstance(x, int | float) and x > 0)
    kept = tuple(
        x
        for x in scale
        if isinstance(x, int | float)
        and (x < least or ((low is None or x >= low) and (high is None or x <= high)))
    )
    if not any(x >= least for x in kept):
        message = f"no level lies between {low} and {high}; allowed: {least} to {scale[-1]}"
        raise ValueError(message)
    return unset + kept


def _check_within(scale: Sequence[Value], value: Value, *, is_free: bool) -> None:
    if any(x == value and type(x) is type(value) for x in scale):
        return
    numbers = [x for x in scale if isinstance(x, int | float) and not isinstance(x, bool)]
    if is_free and numbers and isinstance(value, int | float):
        positive = [x for x in numbers if x > 0]
        if min(positive) <= value <= max(positive):
            return
    shown = ", ".join(show(x) for x in scale)
    message = f"{show(value)} is outside the search space; allowed: {shown}"
    raise ValueError(message)
