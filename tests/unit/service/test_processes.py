"""Which processes a service has."""

import shutil
from pathlib import Path

import pytest

from tuner.resources import native_file
from tuner.service import processes


def test_what_a_container_maps_is_read_where_its_process_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A name means another file there, and another one in the next container."""
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    for pid, brought in (("8", "librecorder.so"), ("9", "instruction_count_1.so")):
        inside = tmp_path / pid / "root" / "opt"
        inside.mkdir(parents=True)
        shutil.copyfile(native_file(brought), inside / "libmalloc_x.so")
        (tmp_path / pid / "cmdline").write_bytes(b"worker\0")
        row = "0-1 r-xp 0 00:01 5                /opt/libmalloc_x.so\n"
        (tmp_path / pid / "maps").write_text(row)

    found = [processes.process_of(pid) for pid in (8, 9)]
    assert [one.libraries for one in found if one] == [("/opt/libmalloc_x.so",), ()]


@pytest.mark.parametrize(
    ("given", "content", "is_lacking"),
    [
        ("A_CONF=x:1", b"PATH=/bin\0A_CONF=x:1\0", False),
        ("A_CONF=x:1", b"PATH=/bin\0A_CONF=x:16\0", True),
        ("A_CONF=x:1", b"PATH=/bin\0", True),
        ("A_CONF=x:1", b"", True),
        ("A_CONF=x:1", b"\0" * 40, False),
        ("A_CONF=x:1", b" process nginx -c a=b\0\0\0", False),
        ("GLIBC_TUNABLES=g.a=1", b"GLIBC_TUNABLES=g.a=16", True),
        ("GLIBC_TUNABLES=g.a=1:g.b=2", b"GLIBC_TUNABLES=g.b=2:g.c=3:g.a=1", False),
        ("GLIBC_TUNABLES=g.a=1", b"GLIBC_TUNABLES=g.a=1:g.a=2", True),
        ("LD_PRELOAD=/l/a.so", b"LD_PRELOAD=/l/b.so:/l/a.so", False),
        ("LD_PRELOAD=/l/a.so", b"LD_PRELOAD=/l/a.so.2", True),
    ],
)
def test_a_variable_is_missed_only_where_a_process_shows_what_it_was_started_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, content: bytes, *, is_lacking: bool
):
    """A title may stand over the environment; a start script may have added to a list."""
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "environ").write_bytes(content)
    name, _, value = given.partition("=")

    assert processes.lacking([7, 8], {name: value}) == (name if is_lacking else None)
