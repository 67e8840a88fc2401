"""What processes call themselves."""

from __future__ import annotations

from pathlib import Path

from tuner.recording.titles import read_titles


def test_a_process_is_known_by_what_it_calls_itself_last(tmp_path: Path) -> None:
    """A server writes its role over its arguments; an image after exec has a second spool."""
    proc = tmp_path / "proc"
    for number, words in ((12, b"postgres: checkpointer \0\0\0"), (13, b""), (14, b"a\0b\xff\0")):
        (proc / str(number)).mkdir(parents=True)
        (proc / str(number) / "cmdline").write_bytes(words)
    for name in ("12.spool", "13.spool", "14-2.spool", "15.spool"):
        (tmp_path / name).touch()

    assert read_titles(tmp_path, proc) == {12: "postgres: checkpointer", 14: "a b\ufffd"}
