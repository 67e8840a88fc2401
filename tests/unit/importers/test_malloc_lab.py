"""Malloc labs."""

from pathlib import Path

import pytest

from tests.doubles.imported import refuse
from tuner.importers.malloc_lab import FORMAT


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1\n2\n3\n", r":3: the weight was expected, not ''"),
        ("1\nx\n3\n1\n", r":2: the number of blocks was expected, not 'x'"),
        ("9\n2\n1\n1\nq 0\n", r":5: 'a ID BYTES', .* was expected, not 'q 0'"),
        ("9\n2\n1\n1\na 2 5\n", r":5: block 2: the head announces 2 blocks"),
        ("9\n2\n2\n1\na 1 5\n", r":5: ends after 1 requests; the head announces 2"),
        ("9\n2\n1\n1\na 1 5\nf 1\n", r":6: ends after 2 requests; the head announces 1"),
    ],
)
def test_a_malformed_file_is_one_error_that_says_where(
    tmp_path: Path, content: str, message: str
) -> None:
    refuse(tmp_path, "malloc-lab", content, message)


def test_a_head_may_have_blank_lines_and_what_has_only_these_is_passed_over_at_once() -> None:
    """It would take years where they can be divided among the lines of the head in all ways."""
    assert FORMAT.recognise(b"\n9\n\n 2 \n1\n1\n\na 0 5\n")
    assert not FORMAT.recognise(b"1\n2\n3" + b"\n" * 60_000)
