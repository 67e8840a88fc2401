"""How runs of malloc_bench end."""

import json
from pathlib import Path

import pytest

from tests.doubles.bench import result
from tuner.errors import MissingToolError
from tuner.measure.driver import BenchDriver
from tuner.records import Status


def driver_that(tmp_path: Path, script: str) -> BenchDriver:
    program = tmp_path / "driver"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return BenchDriver(program)


@pytest.mark.parametrize(
    ("script", "limit_s", "status", "reason"),
    [
        ("echo bad >&2; kill -SEGV $$", 600.0, Status.FAILED, "killed by SIGSEGV: bad"),
        ("exit 3", 600.0, Status.FAILED, "exit status 3"),
        ("echo '{}'", 600.0, Status.FAILED, "the report of malloc_bench is not understood"),
        ("sleep 600", 0.1, Status.TIMED_OUT, "stopped at the time limit of 0.1 s"),
    ],
)
def test_endings_of_the_driver_are_states(
    tmp_path: Path, script: str, limit_s: float, status: Status, reason: str
):
    ended = driver_that(tmp_path, script).run(["ring"], {}, None, limit_s)

    assert ended.status is status
    assert ended.reason is not None
    assert ended.reason.startswith(reason)
    assert ended.values is None


def test_malloc_of_another_library_is_refused(tmp_path: Path):
    text = json.dumps(result().model_dump(mode="json", by_alias=True))
    library = tmp_path / "libmine.so"

    ended = driver_that(tmp_path, f"echo '{text}'").run(["ring"], {}, library, 10)

    assert ended.status is Status.REFUSED
    assert ended.reason == f"malloc comes from /lib/libc.so.6, not {library}"


def test_a_missing_driver_is_an_error(tmp_path: Path):
    with pytest.raises(MissingToolError, match="cannot be started"):
        BenchDriver(tmp_path / "nothing").run(["ring"], {}, None, 1)
