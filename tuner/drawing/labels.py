"""Places the names of points in a plot so that they hide neither each other nor points.

Greedy: labels are placed one after the other, each in that of a few dozen
positions around its point that overlaps least with the labels placed before,
with all points, with the lines from points to their labels and with the edge; near
positions win ties.  Source: the
candidate-position model of Christensen, Marks and Shieber, "An empirical study
of algorithms for point-feature label placement", ACM Transactions on Graphics
14, 1995, whose greedy variant is enough for a dozen labels.

All coordinates are pixels, y upwards.  `spread` is the same for names in one column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_N_DIRECTIONS = 16
_DISTANCES = (16.0, 30.0, 48.0, 70.0, 96.0)
"""Gap between the point and its label."""
_POINT_RADIUS = 6.0
_FAR = 400.0
"""Distance that costs as much as 1 below."""
_LABEL_COST = 400.0
"""Cost of hiding another label: more than of any number of points."""
_LEADER_COST = 0.8
"""Cost of each dot of a leader under a label."""
_LEADER_STEPS = 12
"""A leader is checked at this many places."""
_POINT_COST = 6.0
"""Cost of hiding points."""
_OUTSIDE_COST = 1000.0
"""Cost of a label that leaves the plot: more than any overlap."""


@dataclass(frozen=True)
class Box:
    """A rectangle: left, bottom, right, top."""

    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: Box) -> float:
        """Return the shared area."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(0.0, width) * max(0.0, height)

    def is_inside(self, width: float, height: float) -> bool:
        """Return whether the box lies in a plot of that size."""
        return (
            self.left >= 0.0 and self.bottom >= 0.0 and self.right <= width and self.top <= height
        )


@dataclass(frozen=True)
class Placed:
    """Where a label's centre goes, relative to its point."""

    dx: float
    dy: float


def place_labels(
    anchors: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    obstacles: Sequence[tuple[float, float]],
    plot: tuple[float, float],
) -> list[Placed]:
    """Choose a place for every label.

    Args:
        anchors: position of each label's point.
        sizes: width and height of each label.
        obstacles: positions of points that should stay visible: all that are drawn.
        plot: width and height of the plot.

    Returns:
        One place per label, in the same order.
    """
    taken: list[Box] = []
    leaders: list[Box] = []
    points = [
        Box(x - _POINT_RADIUS, y - _POINT_RADIUS, x + _POINT_RADIUS, y + _POINT_RADIUS)
        for x, y in (*obstacles, *anchors)
    ]
    placed = []
    for anchor, size in zip(anchors, sizes, strict=True):
        options = [
            (dx, dy, _box((dx, dy), anchor, size), _leader((dx, dy), anchor, size))
            for dx, dy in _candidates(size)
        ]
        costs = [
            math.hypot(dx, dy) / _FAR
            + _LABEL_COST * _covered(box, taken)
            + _LEADER_COST * (_crossings(leader, taken) + _crossings(leaders, [box]))
            + _POINT_COST * _covered(box, points)
            + _OUTSIDE_COST * (not box.is_inside(*plot))
            for dx, dy, box, leader in options
        ]
        dx, dy, box, leader = options[costs.index(min(costs))]
        placed.append(Placed(dx, dy))
        taken.append(box)
        leaders.extend(leader)
    return placed


def spread(places: Sequence[float], gap: float, top: float) -> list[float]:
    """Move names that stand in one column apart, each as little as needed.

    Args:
        places: where each name would stand, 0 .. `top`.
        gap: least distance of two names.
        top: of the column; as many names as fit stay below it.

    Returns:
        A place for every name, in the same order.

    >>> spread([5.0, 5.0, 9.0], 2.0, 10.0)
    [4.0, 6.0, 9.0]
    """
    order = sorted(range(len(places)), key=places.__getitem__)
    groups: list[tuple[float, list[int]]] = []
    for index in order:
        middle, members = places[index], [index]
        while groups and groups[-1][0] + gap * (len(groups[-1][1]) + len(members)) / 2 > middle:
            _, before = groups.pop()
            members = before + members
            half = gap * (len(members) - 1) / 2
            mean = sum(places[member] for member in members) / len(members)
            middle = min(max(mean, half), max(top - half, half))
        groups.append((middle, members))
    found = [0.0] * len(places)
    for middle, members in groups:
        for place, member in enumerate(members):
            found[member] = middle + gap * (place - (len(members) - 1) / 2)
    return found


def _leader(
    place: tuple[float, float], anchor: tuple[float, float], size: tuple[float, float]
) -> list[Box]:
    """Return small boxes along the line from a point to its label, both ends left out."""
    own = _box(place, anchor, size)
    dots = []
    for step in range(1, _LEADER_STEPS):
        share = step / _LEADER_STEPS
        x, y = anchor[0] + share * place[0], anchor[1] + share * place[1]
        dot = Box(x - 1.0, y - 1.0, x + 1.0, y + 1.0)
        if not dot.overlap(own):
            dots.append(dot)
    return dots


def _crossings(dots: Sequence[Box], boxes: Sequence[Box]) -> int:
    """Count the dots of leaders that lie in a box."""
    return sum(dot.overlap(box) > 0.0 for dot in dots for box in boxes)


def _covered(box: Box, others: Sequence[Box]) -> float:
    """Return the area shared with others, in areas of the box itself."""
    area = (box.right - box.left) * (box.top - box.bottom)
    return sum(box.overlap(other) for other in others) / area


def _candidates(size: tuple[float, float]) -> list[tuple[float, float]]:
    """Return centre offsets, near ones first, starting at the upper right."""
    offsets = []
    for distance in _DISTANCES:
        for step in range(_N_DIRECTIONS):
            angle = math.pi / 4.0 + step * 2.0 * math.pi / _N_DIRECTIONS
            dx, dy = math.cos(angle), math.sin(angle)
            offsets.append((dx * (distance + size[0] / 2.0), dy * (distance + size[1] / 2.0)))
    return offsets


def _box(place: tuple[float, float], anchor: tuple[float, float], size: tuple[float, float]) -> Box:
    x, y = anchor[0] + place[0], anchor[1] + place[1]
    return Box(x - size[0] / 2.0, y - size[1] / 2.0, x + size[0] / 2.0, y + size[1] / 2.0)
