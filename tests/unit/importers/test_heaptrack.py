"""heaptrack."""

from pathlib import Path

from tests.doubles.imported import import_bytes


def test_times_are_kept_where_there_are_any(tmp_path: Path):
    raw = b"v 10400 3\n+ 64 1 10\nc 5\n+ 64 1 20\nc a\n- 10\n"
    imported, events = import_bytes(tmp_path, raw)

    assert events["time_ns"].tolist() == [0, 5_000_000, 10_000_000]
    assert not any(text.startswith("times: events are") for text in imported.lost)
