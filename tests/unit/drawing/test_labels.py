"""Labels hide neither each other nor leave the plot."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.drawing.labels import Box, place_labels, spread


@settings(max_examples=25)
@given(st.lists(st.tuples(st.floats(0.0, 800.0), st.floats(0.0, 400.0)), max_size=8))
def test_labels_stay_inside_the_plot(anchors: list[tuple[float, float]]):
    sizes = [(90.0, 16.0)] * len(anchors)

    places = place_labels(anchors, sizes, [], (800.0, 400.0))

    for (x, y), place in zip(anchors, places, strict=True):
        left, bottom = x + place.dx - 45.0, y + place.dy - 8.0
        assert Box(left, bottom, left + 90.0, bottom + 16.0).is_inside(800.0, 400.0)


def test_labels_of_neighbours_do_not_overlap():
    anchors = [(400.0, 200.0), (405.0, 200.0), (400.0, 205.0), (395.0, 195.0)]

    places = place_labels(anchors, [(90.0, 16.0)] * 4, [], (800.0, 400.0))

    boxes = [
        Box(x + p.dx - 45.0, y + p.dy - 8.0, x + p.dx + 45.0, y + p.dy + 8.0)
        for (x, y), p in zip(anchors, places, strict=True)
    ]
    overlaps = [a.overlap(b) for i, a in enumerate(boxes) for b in boxes[:i]]
    assert overlaps == [0.0] * 6


def test_labels_in_a_crowd_hide_points_rather_than_each_other():
    """There is room for one of them beside their point."""
    crowd = [
        (float(x), float(y))
        for x in range(240, 560, 12)
        for y in range(84, 316, 12)
        if not (395 < x < 520 and 205 < y < 245)
    ]

    first, second = place_labels(
        [(400.0, 200.0)] * 2, [(90.0, 16.0)] * 2, 5 * crowd, (800.0, 400.0)
    )

    assert abs(first.dx - second.dx) >= 90.0 or abs(first.dy - second.dy) >= 16.0


@given(st.lists(st.floats(0.0, 100.0), max_size=9))
def test_names_in_a_column_keep_their_distance_and_order(places: list[float]):
    found = spread(places, 10.0, 100.0)

    ordered = sorted(found)
    assert all(b - a > 10.0 - 1e-6 for a, b in itertools.pairwise(ordered))
    assert all(-1e-6 <= place <= 100.0 + 1e-6 for place in found)
    for (a, place_a), (b, place_b) in itertools.combinations(zip(places, found, strict=True), 2):
        assert a == b or (a < b) == (place_a < place_b)


def test_names_that_have_room_stay_where_they_are():
    assert spread([70.0, 10.0, 40.0], 10.0, 100.0) == [70.0, 10.0, 40.0]
