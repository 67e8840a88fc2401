"""Classic records are read; what cannot be read is refused with its line."""

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner.errors import TraceError
from tuner.importers import records
from tuner.importers.records import read_records
from tuner.importers.source import BadCallError, Source

ON_FILES = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read_text(path: Path) -> np.ndarray:
    source = Source(path)
    with source.errors():
        return read_records(source)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("// nothing\n", "no records"),
        ("// x\n{1,2}\n", "order.c:2: a record"),
        ("// x\n{4,2,3},\n", "order.c:2: a record"),
        ("// x\n{1,0,3},\n", "order.c:2: a size"),
        ("// x\n{2,8,0},\n", "order.c:2: a lifetime"),
        ("// x\n{1,8,3e9},\n", "order.c:2: a lifetime"),
        ("// x\n{1,-8,3},\n", "order.c:2: a record"),
        ("// x\nmain() {}\n", "order.c:2: a record"),
        ("#define norder 2\n{1,8,3},\n", "ends after 1 of the 2 records"),
        ("#define norder x\n{1,8,3},\n", "order.c:1: a record"),
    ],
)
def test_what_is_wrong_is_reported_with_its_line(tmp_path: Path, text: str, message: str):
    path = tmp_path / "order.c"
    path.write_text(text)
    with pytest.raises(TraceError, match=message):
        read_text(path)


def test_too_many_records_are_refused_before_all_are_read(monkeypatch: pytest.MonkeyPatch):
    lines = iter(["{1,24,100},"] * 9)
    monkeypatch.setattr(records, "MOST_RECORDS", 2)
    with pytest.raises(BadCallError, match="more than 2 records"):
        read_records(cast("Source", SimpleNamespace(stripped_lines=lambda: lines)))
    assert len(list(lines)) == 6


@ON_FILES
@given(
    lines=st.lists(
        st.one_of(
            st.text("{}123.,e-/ \t\\n", max_size=30),
            st.just("{1,24,100},"),
            st.just("#define norder 3"),
            st.just("const struct{"),
        )
    )
)
def test_no_text_crashes_the_reader(tmp_path: Path, lines: list[str]):
    path = tmp_path / "order.c"
    path.write_text("//\n" + "\n".join(lines))
    with contextlib.suppress(TraceError):
        assert len(read_text(path)) > 0
