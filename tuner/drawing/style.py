"""How each allocator looks, the same in every figure and table.

Colours are distinct for people with the common colour vision deficiencies
(Okabe and Ito, "Color Universal Design", 2008), and never carry a meaning
alone: every allocator also has a marker, or its name beside its line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Look:
    """Colour and marker of one allocator."""

    colour: str
    """``#rrggbb``, at least 3:1 against white."""
    shape: str
    """Marker: a name of Vega's, or an SVG path in a square from -1 to 1."""


_PENTAGON: Final = "M0,-1L.95,-.31L.59,.81L-.59,.81L-.95,-.31Z"
_HEXAGON: Final = "M.5,-.87L1,0L.5,.87L-.5,.87L-1,0L-.5,-.87Z"
_STAR: Final = (
    "M0,-1.2L.3,-.41L1.14,-.37L.48,.16L.71,.97L0,.5L-.71,.97L-.48,.16L-1.14,-.37L-.3,-.41Z"
)
_SALTIRE: Final = "M-.9,-.5L-.5,-.9L0,-.4L.5,-.9L.9,-.5L.4,0L.9,.5L.5,.9L0,.4L-.5,.9L-.9,.5L-.4,0Z"

CROSSED: Final = "M-1,-1L1,1M-1,1L1,-1"
"""Marker of what breaks a constraint."""

_LOOKS: Final = {
    "glibc": Look("#4d4d4d", "square"),
    "tcmalloc": Look("#0072b2", "triangle-up"),
    "jemalloc": Look("#d55e00", "circle"),
    "mimalloc": Look("#008a64", "diamond"),
    "exgen": Look("#a33b7d", _STAR),
}
_FURTHER: Final = (
    Look("#7a5c00", _PENTAGON),
    Look("#3f7fbf", _HEXAGON),
    Look("#8c1d40", "triangle-down"),
    Look("#6a51a3", "cross"),
    Look("#2b2b2b", _SALTIRE),
    Look("#a88400", "triangle-left"),
    Look("#1b7f7a", "triangle-right"),
)
"""For all others, in turn; in each further turn every colour has another marker."""

INK: Final = "#1c2430"
"""Text."""
MUTED: Final = "#5b6675"
"""Secondary text."""
FAINT: Final = "#a9b3bf"
"""Marks that stand back."""
GRID: Final = "#e3e7ec"
"""Grid lines."""
GOOD: Final = "#e8f4ee"
"""Background of the region that is better than the baseline everywhere."""
LIVE: Final = "#d5dde6"
"""Fill under the program's live bytes."""
ACCENT: Final = "#0072b2"
"""The only line of a figure."""
CONTRAST: Final = "#d55e00"
"""What stands beside `ACCENT`."""


def looks(names: Sequence[str]) -> dict[str, Look]:
    """Return the look of every name: the known allocators' own, further ones in turn."""
    others = [name for name in dict.fromkeys(names) if name not in _LOOKS]
    further = {name: _further(index) for index, name in enumerate(others)}
    return {name: _LOOKS.get(name) or further[name] for name in names}


def _further(index: int) -> Look:
    n = len(_FURTHER)
    return Look(_FURTHER[index % n].colour, _FURTHER[(index + index // n) % n].shape)


def look(allocator: str) -> Look:
    """Return the look of an allocator alone."""
    return looks([allocator])[allocator]
