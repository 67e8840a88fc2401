"""Files are unpacked on the way; errors name the place."""

import gzip
import os
from pathlib import Path

import pytest
from pydantic import BaseModel

from tuner import zstd
from tuner.errors import TraceError
from tuner.importers.source import BadCallError, Source

TEXT = b"one\r\n" + b"two\n" * 1000


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd.compress])
def test_a_file_is_unpacked(tmp_path: Path, pack: object):
    assert callable(pack)
    (tmp_path / "file").write_bytes(pack(TEXT))

    lines = list(Source(tmp_path / "file").lines())

    assert (lines[:2], len(lines)) == (["one", "two"], 1001)


@pytest.mark.parametrize("n_lost", [5, 20])
def test_damaged_zstd_is_refused(tmp_path: Path, n_lost: int):
    (tmp_path / "file").write_bytes(zstd.compress(TEXT)[:-n_lost])

    with pytest.raises(TraceError, match="cannot be read"):
        list(Source(tmp_path / "file").lines())


def test_an_error_has_the_line_it_was_raised_at(tmp_path: Path):
    (tmp_path / "file").write_bytes(TEXT)
    source = Source(tmp_path / "file")

    def read() -> None:
        for line in source.lines():
            if line == "two":
                raise BadCallError("not this")

    with pytest.raises(TraceError, match=r"file:2: not this$"), source.errors():
        read()


def test_a_line_without_end_is_no_text(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"x" * (2 << 20))

    source = Source(tmp_path / "file")
    with pytest.raises(TraceError, match=r"file:1: a line of more than 1 MiB"), source.errors():
        list(source.lines())


@pytest.mark.parametrize(("limit", "most"), [("_MOST_BYTES", 5999), ("_MOST_VALUES", 3999)])
def test_too_much_json_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
):
    monkeypatch.setattr(f"tuner.importers.source.{limit}", most)
    (tmp_path / "file").write_bytes(gzip.compress(b"[]," * 2000))

    source = Source(tmp_path / "file")
    with pytest.raises(TraceError, match="file: more JSON than fits"), source.errors():
        source.document(BaseModel)


def test_where_memory_runs_out_the_file_is_named():
    with pytest.raises(TraceError, match="a: there is not"), Source(Path("a")).errors():
        raise MemoryError


def test_a_pipe_is_refused_since_it_can_be_read_only_once():
    there, here = os.pipe()
    os.write(here, TEXT)
    os.close(here)
    with pytest.raises(TraceError, match=r"not a regular file; write its content into one first"):
        Source(Path(f"/dev/fd/{there}")).start(4)
    os.close(there)
