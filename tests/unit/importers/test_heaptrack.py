"""heaptrack."""

from pathlib import Path

import pytest

from tests.doubles.imported import import_bytes, refuse


def test_times_are_kept_where_there_are_any(tmp_path: Path) -> None:
    raw = b"v 10400 3\n+ 64 1 10\nc 5\n+ 64 1 20\nc a\n- 10\n"
    imported, events = import_bytes(tmp_path, raw)

    assert events["time_ns"].tolist() == [0, 5_000_000, 10_000_000]
    assert not any(text.startswith("times: events are") for text in imported.lost)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("v 20000 9\n", r":1: format version 9; 3 is the newest"),
        ("v 1 3\n+ 5 1\n", r":2: not a line of heaptrack: '\+' with 2 numbers, after 0 kinds"),
        ("v 1 3\n- xyz\n", r":2: a line of heaptrack was expected"),
        ("v 1 3\nc ffffffffffffffff\n+ 5 1 9\n", r":3: \d+ s since the start: no program runs"),
        ("v 1 3\n+ 5\n", r":2: not a line of heaptrack: '\+' with 1 numbers, after 0 kinds"),
    ],
)
def test_a_malformed_file_is_one_error_that_says_where(
    tmp_path: Path, content: str, message: str
) -> None:
    refuse(tmp_path, "heaptrack", content, message)
