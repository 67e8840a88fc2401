"""A service under supervise, here a script in its place."""

import os
from pathlib import Path

import pytest

from tests.doubles.waiting import wait_until
from tuner.errors import ProgramError
from tuner.service.guard import Guard

SCRIPT = """#!/bin/sh
while [ "$1" != --report ]; do shift; done
report() {{
  echo '{{"event": "sample", "time_ns": 1, "processes": 1, "anon_bytes": 1,' \\
    '"lazy_free_bytes": 0, "shared_bytes": 0, "file_bytes": 0, "unshared_processes": 0,' \\
    '"threads": 1, "cpu_ns": 1}}'
}}
{{ report; {then} }} > "/dev/fd/$2"
"""


def guard(folder: Path, then: str) -> Guard:
    """Return a guard that got one sample, of a supervise that then does as it is told."""
    supervise = folder / "supervise"
    supervise.write_text(SCRIPT.format(then=then))
    supervise.chmod(0o755)
    found = Guard(["server"], dict(os.environ), folder / "out", supervise=supervise)
    wait_until(lambda: bool(found.uses))
    return found


def test_a_sample_that_does_not_come_is_an_error_and_no_earlier_one(tmp_path: Path):
    """The memory after a load would have been that before it."""
    with (
        guard(tmp_path, "cat > /dev/null;") as service,
        pytest.raises(ProgramError, match=r"server: .* not be measured within 0 s"),
    ):
        service.sample(timeout_s=0.0)


def test_where_all_has_ended_the_last_sample_stands(tmp_path: Path):
    with guard(tmp_path, ":;") as service:
        wait_until(lambda: service.is_over)

        assert service.sample(timeout_s=0.0) == service.uses[-1]
