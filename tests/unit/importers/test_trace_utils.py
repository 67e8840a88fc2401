"""glibc's malloc trace utilities."""

from pathlib import Path

import pytest

from tests.doubles.imported import import_bytes, refuse
from tuner.errors import TraceError


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x" * 65, r": ends within a record"),
        ("\x00\x00\x00\x00\x63" + "\x00" * 59, r": record 0: type 99 is unknown"),
    ],
)
def test_a_malformed_file_of_glibc_trace_is_one_error_that_says_where(
    tmp_path: Path, content: str, message: str
) -> None:
    refuse(tmp_path, "glibc-trace", content, message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("\x08\x05\x09", r": byte 3: the workload ends here; was it cut off"),
        ("\x02", r": byte 1: operation 2 does not belong into the head"),
    ],
)
def test_a_malformed_file_of_glibc_workload_is_one_error_that_says_where(
    tmp_path: Path, content: str, message: str
) -> None:
    refuse(tmp_path, "glibc-workload", content, message)


def test_threads_that_wait_for_each_other_are_an_error(tmp_path: Path) -> None:
    head = b"\x08\x05\x09\x02\x0a\x01\x0b\x09\x01"

    with pytest.raises(TraceError, match="all threads wait for each other"):
        import_bytes(tmp_path, head + b"\x07\x01\x01", "glibc-workload")


def test_a_thread_behind_the_end_is_an_error(tmp_path: Path) -> None:
    head = b"\x08\x05\x09\x02\x0a\x01\x0b" + b"\x81" + b"\x80" * 8 + b"\0\x01"

    with pytest.raises(TraceError, match=r"thread 0 begins at byte \d+, behind the end"):
        import_bytes(tmp_path, head + b"\x01", "glibc-workload")
