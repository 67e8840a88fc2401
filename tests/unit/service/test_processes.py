"""Which processes a service has."""

from pathlib import Path

import pytest

from tuner.service import processes


def test_children_of_all_threads_are_found_though_one_thread_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
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


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"PATH=/bin\0A_CONF=x:1\0", None),
        (b"PATH=/bin\0", "A_CONF"),
        (b"", "A_CONF"),
        (b"\0" * 40, None),
        (b" process nginx -c a=b\0\0\0", None),
    ],
)
def test_a_variable_is_missed_only_where_a_process_shows_what_it_was_started_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, expected: str | None
):
    """A service that writes its title over its environment may have had it."""
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "environ").write_bytes(content)

    assert processes.lacking([7, 8], {"A_CONF": "x:1"}) == expected


@pytest.mark.parametrize(
    ("given", "found", "arrived"),
    [
        ("A_CONF=x:1", "A_CONF=x:16", False),
        ("GLIBC_TUNABLES=g.a=1", "GLIBC_TUNABLES=g.a=16", False),
        ("GLIBC_TUNABLES=g.a=1:g.b=2", "GLIBC_TUNABLES=g.b=2:g.c=3:g.a=1", True),
        ("GLIBC_TUNABLES=g.a=1", "GLIBC_TUNABLES=g.a=1:g.a=2", False),
        ("LD_PRELOAD=/l/a.so", "LD_PRELOAD=/l/b.so:/l/a.so", True),
        ("LD_PRELOAD=/l/a.so", "LD_PRELOAD=/l/a.so.2", False),
    ],
)
def test_a_start_script_may_add_to_a_list_and_change_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, found: str, *, arrived: bool
):
    """What merely stood in the value that it exports was taken for arrived."""
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "environ").write_text(found)
    name, _, value = given.partition("=")

    assert processes.lacking([7], {name: value}) == (None if arrived else name)
