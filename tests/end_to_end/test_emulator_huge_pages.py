"""A memory run that the kernel's huge pages disturbed is made again, three times at the most."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.programs import native
from tests.doubles.traces import write_mixed_trace
from tuner.resources import native_file

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def vmstat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that invents what the kernel counts."""
    return native(tmp_path_factory.mktemp("libraries"), "vmstat.c", "-shared", "-fPIC")


def replay(vmstat: Path, folder: Path, n_short: int, *options: str) -> tuple[dict[str, Any], int]:
    """Replay where the kernel is short in so many runs; returns the result and the runs made."""
    trace = write_mixed_trace(folder / "mixed.trace", 1, 2000)
    log = folder / "readings"
    environment = {"LD_PRELOAD": str(vmstat), "VMSTAT_LOG": str(log)}
    done = subprocess.run(
        [native_file("rand_malloc"), "--runs", "memory", *options, trace],
        env={**os.environ, **environment, "VMSTAT_SHORT": str(n_short)},
        check=True,
        capture_output=True,
    )
    return json.loads(done.stdout), (len(log.read_text()) + 1) // 2


@pytest.mark.parametrize(
    ("n_short", "n_runs", "fallbacks"), [(0, 1, 0), (1, 2, 0), (2, 3, 0), (3, 3, 1), (9, 3, 1)]
)
def test_a_run_that_was_short_of_huge_pages_is_made_again(
    vmstat: Path, tmp_path: Path, n_short: int, n_runs: int, fallbacks: int
):
    result, n_made = replay(vmstat, tmp_path, n_short)

    assert n_made == n_runs
    assert result["huge_pages"]["fallbacks"] == fallbacks
    assert result["huge_pages"]["collapses"] == 0


def test_without_huge_pages_nothing_is_repeated(vmstat: Path, tmp_path: Path):
    result, n_made = replay(vmstat, tmp_path, 9, "--thp", "never")

    assert n_made == 1
    assert result["huge_pages"] is None
