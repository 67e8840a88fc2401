"""A saved plan is replayed in one process, without anything a simulated machine lacks."""

import subprocess
from pathlib import Path

import pytest

from tests.doubles.traces import write_mixed_trace
from tuner.resources import native_file

pytestmark = pytest.mark.end_to_end

N_EVENTS = 5_000
REPLAY_FAILED, USAGE, UNREADABLE = range(1, 4)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(native_file("rand_malloc")), *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_mixed_trace(tmp_path_factory.mktemp("traces") / "mixed.trace", 1, N_EVENTS)


@pytest.fixture
def plan(trace: Path, tmp_path: Path) -> Path:
    path = tmp_path / "mixed.plan"
    done = run("--save-plan", path, trace)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return path


def n_verified(plan: Path) -> int:
    done = run("--replay-plan", plan)
    assert done.returncode == 0, done.stderr
    name, _, blocks = done.stdout.split()
    assert name == "replay"
    return int(blocks)


def test_replay_verifies_blocks_and_repeats(plan: Path):
    first = run("--replay-plan", plan)
    assert n_verified(plan) > 1000
    assert run("--replay-plan", plan).stdout == first.stdout


def test_empty_replay_verifies_nothing(plan: Path):
    assert run("--replay-plan", plan, "empty").stdout == "replay 0000000000000000 0\n"


def test_first_events_alone(trace: Path, plan: Path, tmp_path: Path):
    brief = tmp_path / "brief.plan"
    assert run("--first", 500, "--save-plan", brief, trace).returncode == 0
    assert 0 < n_verified(brief) < n_verified(plan)


def test_what_is_no_plan_is_an_error(plan: Path, tmp_path: Path):
    broken = tmp_path / "broken.plan"
    broken.write_bytes(plan.read_bytes()[:-1])
    for path in (broken, Path("/etc/passwd"), tmp_path / "missing"):
        done = run("--replay-plan", path)
        assert (done.returncode, done.stdout) == (UNREADABLE, "")
        assert str(path) in done.stderr


def test_wrong_word_is_an_error(plan: Path):
    done = run("--replay-plan", plan, "full")
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert "FILE [empty]" in done.stderr


def test_place_that_cannot_be_written_is_an_error(trace: Path):
    done = run("--save-plan", "/no/such/folder/plan", trace)
    assert done.returncode == REPLAY_FAILED
    assert "/no/such/folder/plan" in done.stderr
