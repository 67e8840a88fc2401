"""glibc's malloc trace utilities."""

from pathlib import Path

import pytest

from tests.doubles.imported import import_bytes
from tuner.errors import TraceError


def test_threads_that_wait_for_each_other_are_an_error(tmp_path: Path):
    head = b"\x08\x05\x09\x02\x0a\x01\x0b\x09\x01"

    with pytest.raises(TraceError, match="all threads wait for each other"):
        import_bytes(tmp_path, head + b"\x07\x01\x01", "glibc-workload")


def test_a_thread_behind_the_end_is_an_error(tmp_path: Path):
    head = b"\x08\x05\x09\x02\x0a\x01\x0b" + b"\x81" + b"\x80" * 8 + b"\0\x01"

    with pytest.raises(TraceError, match=r"thread 0 begins at byte \d+, behind the end"):
        import_bytes(tmp_path, head + b"\x01", "glibc-workload")
