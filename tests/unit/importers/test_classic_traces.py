"""Classic records read like a trace; what cannot be read is refused with its line."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner.errors import TraceError
from tuner.profile.trust import caveat
from tuner.trace.file import Events, Op, Trace
from tuner.trace.lives import find_lives

ON_FILES = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
RECORDS = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.floats(1, 5000, allow_nan=False),
        st.floats(0.25, 300, allow_nan=False),
    ),
    min_size=1,
    max_size=300,
)


def write(path: Path, records: list[tuple[int, float, float]]) -> Path:
    rows = "".join(f"{{{kind},{size!r},{life!r}}},\n" for kind, size, life in records)
    path.write_text(f"// made up\n#define norder {len(records)}\n{rows}")
    return path


def read(path: Path, seed: int = 1) -> Events:
    with Trace(path, seed) as trace:
        return trace.read_all()


@ON_FILES
@given(records=RECORDS, seed=st.integers(0, 2**31 - 1))
def test_every_record_is_a_block_that_is_freed_once(
    tmp_path: Path, records: list[tuple[int, float, float]], seed: int
) -> None:
    """The reader checks that every free frees a live block."""
    path = write(tmp_path / "order.c", records)
    events = read(path, seed)
    births = events[events["op"] == Op.MALLOC]

    assert len(births) == len(records)
    assert np.count_nonzero(events["op"] == Op.FREE) == len(records)
    for (kind, size, _), made in zip(records, births["size"].tolist(), strict=True):
        assert made == int(size + 0.5) if kind < 3 else 1 <= made <= 2 * size + 1
    assert np.array_equal(events, read(path, seed))


def test_lives_of_type_1_are_what_the_record_says(tmp_path: Path) -> None:
    path = write(tmp_path / "order.c", [(1, 10, 0), (1, 20, 2), (1, 30, 1), (1, 40, 0.6)])
    events = read(path)

    assert events["op"].tolist() == [0, 4, 0, 0, 0, 4, 4, 4]
    assert find_lives(events).live_bytes.tolist() == [10, 0, 20, 50, 90, 70, 40, 0]


def test_they_are_of_low_fidelity(tmp_path: Path) -> None:
    with Trace(write(tmp_path / "order.c", [(1, 8, 1)])) as trace:
        said = caveat(trace)

    assert trace.level == "classic"
    assert said is not None
    assert "low fidelity (classic)" in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("// nothing\n", "no records"),
        ("// x\n{1,2}\n", "line 2: a record is"),
        ("// x\n{4,2,3},\n", "line 2: a record is"),
        ("// x\n{1,0,3},\n", "line 2: a size"),
        ("// x\n{2,8,0},\n", "line 2: a lifetime"),
        ("// x\n{1,8,3e9},\n", "line 2: a lifetime"),
        ("// x\n{1,-8,3},\n", "line 2: a record is"),
        ("// x\nmain() {}\n", "line 2: neither a record"),
        ("#define norder 2\n{1,8,3},\n", "ends after 1 of the 2 records"),
        ("#define norder x\n{1,8,3},\n", "line 1: norder"),
    ],
)
def test_what_is_wrong_is_reported_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "order.c"
    path.write_text(text)
    with pytest.raises(TraceError, match=message):
        Trace(path)


def test_a_seed_that_the_original_cannot_take_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "order.c", [(1, 8, 1)])
    with pytest.raises(TraceError, match="2147483647"):
        Trace(path, 2**31)


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
def test_no_text_crashes_the_reader(tmp_path: Path, lines: list[str]) -> None:
    path = tmp_path / "order.c"
    path.write_text("//\n" + "\n".join(lines))
    with contextlib.suppress(TraceError):
        assert len(read(path)) > 0
