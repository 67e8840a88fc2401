"""Version numbers of allocators and ranges of them: ``>=2.42,<2.43``.

A version is its leading dotted numbers; what follows ("5.3.0-0-g54ea", "2.36-9+deb12")
is dropped.  Missing parts count as zero, so 2.1 equals 2.1.0.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LEADING = re.compile(r"\d+(?:\.\d+)*")
_BOUND = re.compile(r"(?P<sign>>=|<=|==|>|<)\s*(?P<version>\d+(?:\.\d+)*)")
_COMPARE: Final[Mapping[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
_N_PARTS = 6
"""Versions are compared over this many numbers; no allocator has more."""


def parse_version(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version text, padded with zeros for comparison.

    Raises:
        ValueError: the text does not begin with a number.

    Example:
        >>> parse_version("5.3.0-0-g54eaed1d") < parse_version("5.3.1")
        True
    """
    match = _LEADING.match(text.strip())
    if match is None:
        message = f"{text!r} is not a version number"
        raise ValueError(message)
    numbers = tuple(int(part) for part in match[0].split("."))
    return (numbers + (0,) * _N_PARTS)[:_N_PARTS]


@dataclass(frozen=True)
class VersionRange:
    """All versions that satisfy every one of some bounds; the empty range text means any."""

    text: str
    """Bounds joined by commas, as written: ``>=2.42,<2.43``."""

    def __post_init__(self) -> None:
        """Check the text.

        Raises:
            ValueError: a bound is not an operator followed by a version.
        """
        for bound in self._bounds():
            if _BOUND.fullmatch(bound) is None:
                message = f'{bound!r} is not a version bound such as ">=2.42" or "<3"'
                raise ValueError(message)

    def _bounds(self) -> list[str]:
        return [bound.strip() for bound in self.text.split(",")] if self.text.strip() else []

    def __contains__(self, version: str) -> bool:
        """Return whether a version satisfies every bound."""
        wanted = parse_version(version)
        matches = (_BOUND.fullmatch(bound) for bound in self._bounds())
        return all(
            _COMPARE[match["sign"]](wanted, parse_version(match["version"]))
            for match in matches
            if match
        )
