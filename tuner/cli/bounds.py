"""Options with ends, and callbacks that refuse numbers out of their range.

Click knows the ends of whole numbers; quantities with a unit and factors have callbacks, whose
messages say more.
"""

from collections.abc import Callable
from typing import Any

import typer

from tuner.errors import SpecError
from tuner.limits import usable_core
from tuner.units import Range


def number(least: int, most: int, text: str) -> Any:  # noqa: ANN401 - as typer.Option
    """Return the option of a whole number between two ends, which are included."""
    return typer.Option(min=least, max=most, metavar="N", help=text)


def duration(limits: Range, text: str) -> Any:  # noqa: ANN401 - as typer.Option
    """Return the option of a time with its unit, within limits."""
    return typer.Option(metavar="DURATION", callback=within(limits), help=text)


def core(text: str, metavar: str = "CORE") -> Any:  # noqa: ANN401 - as typer.Option
    """Return the option of a core that this process may use."""
    return typer.Option(min=0, metavar=metavar, callback=usable_core, help=text)


def within(limits: Range) -> Callable[[typer.CallbackParam, str | None], str | None]:
    """Return a callback that refuses a quantity out of a range, or that is none.

    The callback raises SpecError, which names the option.
    """

    def check(param: typer.CallbackParam, value: str | None) -> str | None:
        return None if value is None else limits.check_option(_name(param), value)

    return check


def each_within(limits: Range) -> Callable[[typer.CallbackParam, str | None], str | None]:
    """Return the same as `within` for a list with commas."""
    check_one = within(limits)

    def check(param: typer.CallbackParam, value: str | None) -> str | None:
        for word in (value or "").split(","):
            if word.strip():
                check_one(param, word)
        return value

    return check


def factor_within(least: float, most: float) -> Callable[[typer.CallbackParam, float], float]:
    """Return a callback that refuses a factor out of a range, ends included, or that is none.

    The callback raises SpecError, which names the option.
    """

    def check(param: typer.CallbackParam, value: float) -> float:
        if not least <= value <= most:  # also for NaN, which `min` and `max` let through
            raise SpecError(f"{_name(param)} {value:g}: a factor from {least:g} to {most:g}")
        return value

    return check


def _name(param: typer.CallbackParam) -> str:
    return max(param.opts, key=len)
