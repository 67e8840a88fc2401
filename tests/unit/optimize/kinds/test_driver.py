"""Which child stands for a command that only starts others, and what is said where none does."""

import sys
from pathlib import Path

from tuner.optimize.kinds.driver import ChildWork, heaviest_child, unfollowed_words, workers_of

COMMAND = ("./nightly",)
OWN = ChildWork(COMMAND, 0.01, is_own=True)


def test_the_child_with_most_events_stands_for_the_command():
    most = ChildWork(("cc1", "a.c"), 0.6)

    assert heaviest_child([most, OWN]) == most.argv
    assert heaviest_child([ChildWork(("cc1",), 0.4), OWN]) is None
    assert heaviest_child([ChildWork(COMMAND, 0.9, is_own=True)]) is None
    assert heaviest_child([]) is None


def test_where_none_does_the_heaviest_are_named_and_the_command_is_not():
    workers = [ChildWork((f"/bin/app-{n}", "x" * 60), 0.3 - 0.1 * n) for n in range(4)]

    what, heaviest, advice = unfollowed_words(COMMAND, 0.97, [OWN, *workers])

    assert what.startswith("97 % of the CPU time is that of child processes, whose memory")
    assert heaviest.startswith(f"the heaviest: app-0 {'x' * 41}... (30 %), app-1 ")
    assert heaviest.endswith(" (10 % of all events of malloc and free)")
    piped, _, alone = advice.partition("; else ")
    assert piped.endswith(" if it reads a pipe or a redirect, let a shell open a file: "
                          "`malloc-tuner optimize -- sh -c 'exec ./app < FILE'`")  # fmt: skip
    assert alone == f"`malloc-tuner optimize -- /bin/app-0 {'x' * 60}`"


def test_where_there_are_only_forks_their_traces_are_named():
    _, advice = unfollowed_words(COMMAND, 0.97, [OWN, OWN])

    assert advice.endswith("`malloc-tuner record --follow -o children.trace -- ./nightly`")


def test_forks_of_a_script_are_not_children_under_the_name_of_its_interpreter(tmp_path: Path):
    script = tmp_path / "nightly.py"
    script.write_text(f"#!{sys.executable} -S\nimport os\nif os.fork():\n  os.wait()\n")
    script.chmod(0o755)

    workers = workers_of([str(script)])

    assert [one.share for one in workers] == [1.0]
    assert heaviest_child(workers) is None
    assert "record --follow" in unfollowed_words([str(script)], 0.97, workers)[1]


def test_a_child_that_was_tried_is_named_and_not_advised():
    tried, long = ChildWork(("cc1", "a.c"), 0.6), ChildWork(("as", "x" * 999), 0.3)

    assert "record --follow" in unfollowed_words(COMMAND, 0.97, [tried], tried.argv)[-1]
    _, heaviest, advice = unfollowed_words(COMMAND, 0.97, [tried, long], tried.argv)
    assert heaviest.startswith("the heaviest: cc1 a.c (60 %), as xxx")
    assert f"`malloc-tuner optimize -- as {'x' * 194}...`" in advice
