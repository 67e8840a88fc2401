"""CPU time and standard input of a program and its descendants."""

import subprocess
import time
from pathlib import Path

import pytest

from tuner.recording import descendants
from tuner.recording.descendants import DescendantWatch


def test_of_each_it_is_seen_what_it_uses_and_what_it_reads(tmp_path: Path):
    (tmp_path / "a.txt").touch()
    script = "sh -c 'exec sleep 60' < a.txt | sh -c 'read -r line; exec sleep 60'; true"
    process = subprocess.Popen(
        ["/bin/sh", "-c", script],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    watch = DescendantWatch(process.pid)

    def all_is_seen() -> bool:  # a child has its parent's input at first, and ran for no time
        reads = [one.reads.partition(":")[0] for one in watch.found.values()]
        seen = {"/dev/null", str(tmp_path / "a.txt"), "pipe"} <= set(reads) and len(reads) == 3
        return seen and all(one.cpu_ns > 0 for one in watch.found.values())

    try:
        until_s = time.monotonic() + 30.0
        while not all_is_seen() and time.monotonic() < until_s:
            watch.look()
    finally:
        subprocess.run(["kill", "-9", "--", f"-{process.pid}"], check=True)
        process.wait()
    seen = watch.found[process.pid]
    watch.look()

    assert all_is_seen()
    assert seen.reads == "/dev/null"


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
