"""mtrace of glibc."""

from pathlib import Path

import pytest

from tests.doubles.imported import refuse


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("= Start\n@ a:[0x1] + 0x10\n", r":2: a line of mtrace was expected"),
        ("@ a:[0x1] > 0x10 0x5\n", r":1: '<' and '>' of a realloc"),
        ("@ a:[0x1] < 0x10\n@ a:[0x1] - 0x10\n", r":2: '<' and '>' of a realloc"),
        ("@ a:[0x1] < 0x10\n", r":1: ends in the middle of a realloc"),
    ],
)
def test_a_malformed_file_is_one_error_that_says_where(
    tmp_path: Path, content: str, message: str
) -> None:
    refuse(tmp_path, "mtrace", content, message)
