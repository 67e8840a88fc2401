"""Which child stands for a command that only starts others, and what is said where none does."""

from __future__ import annotations

from tuner.optimize.driver import ChildWork, heaviest_child, unfollowed_words

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
    workers = [ChildWork((f"/bin/app-{n}", "x" * 60), 0.3 - 0.1 * n) for n in range(4)]

    what, heaviest, advice = unfollowed_words(COMMAND, 0.97, [OWN, *workers])

    assert what.startswith("97 % of the CPU time is that of child processes, whose memory")
    assert heaviest.startswith(f"the heaviest: app-0 {'x' * 41}... (30 %), app-1 ")
    assert heaviest.endswith(" (10 % of all events of malloc and free)")
    assert f"`malloc-tuner optimize -- /bin/app-0 {'x' * 60}`" in advice


def test_where_there_are_only_forks_their_traces_are_named() -> None:
    _, advice = unfollowed_words(COMMAND, 0.97, [OWN, OWN])

    assert advice.endswith("`malloc-tuner record --follow -o children.trace -- ./nightly`")
