"""Allocators look different, and the same everywhere."""

from tuner.drawing.style import look, looks

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
