"""Allocators look different, and the same everywhere."""

import pytest

from tuner.drawing.style import Look, look, looks

KNOWN = ("glibc", "tcmalloc", "jemalloc", "mimalloc", "exgen")


def test_known_allocators_differ_in_colour_and_marker():
    found = looks(KNOWN).values()

    assert len({one.colour for one in found}) == len({one.shape for one in found}) == 5


def test_further_names_get_looks_in_turn_and_leave_the_known_theirs():
    found = looks(["bob", "glibc", "alice"])

    assert len({one.colour for one in found.values()}) == 3
    assert found["glibc"] == look("glibc")
    assert looks(["bob", "alice"])["bob"] == found["bob"]


def test_many_names_can_be_told_apart():
    assert len(set(looks([f"seed-{n}" for n in range(20)]).values())) == 20


def contrast_to_white(colour: str) -> float:
    """Return the contrast ratio of WCAG 2.1."""
    shares = [int(colour[place : place + 2], 16) / 255.0 for place in (1, 3, 5)]
    red, green, blue = (s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares)
    return 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)


@pytest.mark.parametrize("found", looks([*KNOWN, *"abcdefg"]).values(), ids=lambda one: one.colour)
def test_colours_stand_out_from_white(found: Look):
    assert contrast_to_white(found.colour) >= 3.0
