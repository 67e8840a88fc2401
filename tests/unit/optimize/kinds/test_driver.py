"""Which child stands for a command that only starts others, and what is said where none does."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.optimize.kinds import driver
from tuner.optimize.kinds.driver import ChildWork, heaviest_child, unfollowed_words, workers_of
from tuner.recording import Ending, RecordedProcess, RecordedTotals, Recording
from tuner.recording.descendants import ProcessUse

COMMAND = ("./nightly",)
OWN = ChildWork(COMMAND, 0.01, is_own=True)


def recording(*processes: tuple[str, int, int], cpu_s: float = 1.0) -> Recording:
    """Return one of programs with so many events, and so much CPU time that was seen, in ms."""
    uses = {pid: ProcessUse(ms * 1_000_000, "") for pid, (_, _, ms) in enumerate(processes) if ms}
    made = [
        RecordedProcess(Path("a"), (name,), pid, RecordedTotals(n, 1, 0), 0, 0, None, ())
        for pid, (name, n, _) in enumerate(processes)
    ]
    return Recording(tuple(made), Ending(0, None, 1.0, cpu_s, 1, pid=0, uses=uses))


@pytest.mark.parametrize(
    ("sort_ms", "names", "is_by_events"),
    [(800, ["sort", "awk", "sh"], False), (300, ["awk", "sort", "sh"], True)],
    ids=["CPU time", "events, where little of it was seen"],
)
def test_the_heaviest_is_that_with_most_cpu_time(
    monkeypatch: pytest.MonkeyPatch, sort_ms: int, names: Sequence[str], *, is_by_events: bool
):
    """Of a pipe with `sort`, that took 0.76 s of 0.9 s, `awk` was: it calls malloc most."""
    made = recording(("sh", 5, 10), ("sort", 100, sort_ms), ("awk", 900, 100))
    monkeypatch.setattr(driver, "record", lambda *_, **__: made)

    workers = workers_of(["sh"])

    assert [one.argv[0] for one in workers] == names
    assert {one.is_by_events for one in workers} == {is_by_events}
    assert sum(one.share for one in workers) == pytest.approx(1.0)
    unit = "events of malloc and free" if is_by_events else "CPU time"
    assert f"the heaviest by {unit}: {names[0]} (" in unfollowed_words(["sh"], 0.9, workers)[1]


def test_forks_are_one_and_what_was_not_recorded_has_its_share(monkeypatch: pytest.MonkeyPatch):
    made = recording(("sh", 5, 0), ("app", 100, 300), ("app", 100, 300), ("static", 0, 400))
    made = replace(made, processes=made.processes[:-1])
    monkeypatch.setattr(driver, "record", lambda *_, **__: made)

    assert [(one.argv[0], one.share) for one in workers_of(["sh"])] == [("app", 0.6), ("sh", 0.0)]


def test_a_child_that_reads_a_pipe_is_advised_with_a_file(tmp_path: Path):
    """`optimize -- awk PROGRAM` read an empty standard input."""
    piped = ChildWork(("/usr/bin/awk", "{print $1}"), 0.6, reads="pipe:[7]")
    given = replace(piped, reads=str(tmp_path / "a b"))
    alone = replace(piped, reads="/dev/null")
    (tmp_path / "a b").touch()

    said = [unfollowed_words(COMMAND, 0.9, [one])[-1] for one in (piped, given, alone)]

    assert said[0].startswith("awk reads what another program writes: have that in a file, then `")
    assert said[1].startswith("tune awk in its place, with the file that it reads: `")
    assert said[2] == "tune awk in its place: `malloc-tuner optimize -- /usr/bin/awk '{print $1}'`"
    for text, file in zip(said, ("FILE", f"'{tmp_path}/a b'"), strict=False):
        *_, sh, c, script = shlex.split(text.split("`")[1])
        assert (sh, c, script) == ("sh", "-c", f"exec /usr/bin/awk '{{print $1}}' < {file}")


def test_a_child_that_failed_without_its_input_is_advised_with_it():
    tried = ChildWork(("sort",), 0.9, reads="pipe:[7]")

    assert "sort reads what another" in unfollowed_words(COMMAND, 0.9, [tried], tried.argv)[-1]


def test_the_child_with_most_of_the_work_stands_for_the_command():
    most = ChildWork(("cc1", "a.c"), 0.6)

    assert heaviest_child([most, OWN]) == most.argv
    assert heaviest_child([ChildWork(("cc1",), 0.4), OWN]) is None
    assert heaviest_child([ChildWork(COMMAND, 0.9, is_own=True)]) is None
    assert heaviest_child([]) is None


def test_where_none_does_the_heaviest_are_named_and_the_command_is_not():
    workers = [ChildWork((f"/bin/app-{n}", "x" * 60), 0.3 - 0.1 * n) for n in range(4)]

    what, heaviest, advice = unfollowed_words(COMMAND, 0.97, [OWN, *workers])

    assert what.startswith("97 % of the CPU time is that of child processes, whose memory")
    assert heaviest.startswith(f"the heaviest by CPU time: app-0 {'x' * 41}... (30 %), app-1 ")
    assert heaviest.endswith(" (10 %)")
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
    assert heaviest.startswith("the heaviest by CPU time: cc1 a.c (60 %), as xxx")
    assert f"`malloc-tuner optimize -- as {'x' * 194}...`" in advice
