"""Which processes a service has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.service import processes


def test_children_of_all_threads_are_found_though_one_thread_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    for thread, children in (("1", "10 "), ("2", None), ("3", "11 ")):
        folder = tmp_path / "1" / "task" / thread
        folder.mkdir(parents=True)
        if children is not None:
            (folder / "children").write_text(children)
    for pid in ("10", "11"):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cmdline").write_bytes(b"worker\0")
        (tmp_path / pid / "maps").write_text("")

    assert {one.pid for one in processes.processes_below(1)} == {10, 11}
