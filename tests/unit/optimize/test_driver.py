"""Which child stands for a command that only starts others, and what is said where none does."""

from __future__ import annotations

from tuner.optimize.driver import ChildWork, followed_words, heaviest_child, is_unfollowed
from tuner.optimize.driver import unfollowed_words as words_of

COMMAND = ("./nightly",)
OWN = ChildWork(COMMAND, 0.01)


def test_the_child_with_most_events_stands_for_the_command() -> None:
    most = ChildWork(("cc1", "a.c"), 0.6)

    assert heaviest_child(COMMAND, [most, OWN]) == most.argv
    assert heaviest_child(COMMAND, [ChildWork(("cc1",), 0.4), OWN]) is None
    assert heaviest_child(COMMAND, [ChildWork(COMMAND, 0.9)]) is None
    assert heaviest_child(COMMAND, []) is None


def test_where_none_does_the_heaviest_are_named_and_the_command_is_not() -> None:
    """It said to give the command of the child, and not which."""
    workers = [ChildWork((f"app-{n}", "x" * 60), 0.3 - 0.1 * n) for n in range(4)]

    said = words_of(COMMAND, 0.97, [OWN, *workers])

    assert said.startswith("97 % of the CPU time is that of child processes, whose memory")
    assert said.count(" of all events)") == 3
    assert f"app-0 {'x' * 41}... (30 % of all events); app-1" in said
    assert "nightly" not in said
    assert words_of(COMMAND, 0.97, []).endswith("Give the command of one of them.")


def test_that_children_do_the_work_is_known_by_what_is_said() -> None:
    assert is_unfollowed(["", words_of(COMMAND, 0.97, [])])
    assert not is_unfollowed([followed_words(COMMAND, ("cc1",), 0.9)])
