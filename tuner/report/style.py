"""How each allocator looks, the same in every table, chart and figure.

Colours are told apart by people with the common colour vision deficiencies
(Okabe and Ito, "Color Universal Design", 2008), and never carry a meaning
alone: every allocator also has a marker and a dash of its own.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """Colour, marker and line of one allocator."""

    colour: str
    """``#rrggbb``, at least 3:1 against white."""
    symbol: str
    """Marker in plotly's words."""
    marker: str
    """The same marker in matplotlib's words."""


_LOOKS = {
    "glibc": Look("#4d4d4d", "square", "s"),
    "tcmalloc": Look("#0072b2", "triangle-up", "^"),
    "jemalloc": Look("#d55e00", "circle", "o"),
    "mimalloc": Look("#008a64", "diamond", "D"),
    "exgen": Look("#a33b7d", "star", "*"),
}
_FURTHER = (
    Look("#7a5c00", "pentagon", "p"),
    Look("#3f7fbf", "hexagon", "h"),
    Look("#8c1d40", "triangle-down", "v"),
)

INK = "#1c2430"
"""Text."""
MUTED = "#5b6675"
"""Secondary text."""
FAINT = "#a9b3bf"
"""Marks that stand back."""
GRID = "#e3e7ec"
"""Grid lines."""
GOOD = "#e8f4ee"
"""Background of the region that is better than the baseline everywhere."""
LIVE = "#c9d3df"
"""Fill under the program's live bytes."""


def look(allocator: str) -> Look:
    """Return the look of an allocator; unknown ones get a further look, always the same."""
    if allocator in _LOOKS:
        return _LOOKS[allocator]
    return _FURTHER[sum(allocator.encode()) % len(_FURTHER)]


def shade(rank: float) -> str:
    """Return the colour of a rank from 0.0 (least of the first objective) to 1.0.

    A cut of the viridis map (Smith and van der Walt, 2015) without its light end,
    which vanishes on white.
    """
    stops = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 185, 80))
    place = min(max(rank, 0.0), 1.0) * (len(stops) - 1)
    index = min(int(place), len(stops) - 2)
    share = place - index
    mixed = (
        round(a + (b - a) * share) for a, b in zip(stops[index], stops[index + 1], strict=True)
    )
    return "#{:02x}{:02x}{:02x}".format(*mixed)
