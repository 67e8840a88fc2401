"""CPU time and standard input of a program and its descendants."""

import subprocess
import time
from pathlib import Path

import pytest

from tuner.recording import descendants
from tuner.recording.descendants import DescendantWatch


def test_of_each_it_is_seen_what_it_uses_and_what_it_reads(tmp_path: Path):
    (tmp_path / "a.txt").touch()
    last = "while read -r line; do echo $line; done; exec sleep 60"
    script = f"sh -c 'echo; exec sleep 60' < a.txt | sh -c '{last}'; true"
    process = subprocess.Popen(
        ["/bin/sh", "-c", script],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    watch = DescendantWatch(process.pid)
    try:
        assert process.stdout
        process.stdout.readline()
        until_s = time.monotonic() + 30.0
        while time.monotonic() < until_s:  # one that becomes another program shows nothing
            watch.look()
            if len(watch.found) > 2 and all(one.reads for one in watch.found.values()):
                break
    finally:
        subprocess.run(["kill", "-9", "--", f"-{process.pid}"], check=True)
        process.communicate()
    own, *others = watch.found.values()
    watch.look()

    assert own.reads == "/dev/null"
    assert [one.reads for one in others if not one.reads.startswith("pipe:")] == [
        str(tmp_path / "a.txt")
    ]
    assert any(one.reads.startswith("pipe:") for one in others)
    assert all(one.cpu_ns > 0 for one in watch.found.values())


def test_children_of_all_threads_are_found_though_one_thread_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(descendants, "_PROC", tmp_path)
    for thread, children in (("1", "10 "), ("2", None), ("3", "11 ")):
        folder = tmp_path / "1" / "task" / thread
        folder.mkdir(parents=True)
        if children is not None:
            (folder / "children").write_text(children)

    assert sorted(descendants.descendants(1)) == [10, 11]


def test_of_what_has_ended_nothing_is_seen_and_nothing_fails():
    process = subprocess.Popen(["true"])
    process.wait()
    watch = DescendantWatch(process.pid)

    with watch:
        watch.look()

    assert watch.found == {}
