"""A saved plan is replayed in one process, without anything a simulated machine lacks."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.doubles.traces import TraceMaker, write_mixed_trace
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


def test_seed_is_that_of_the_contents(trace: Path, tmp_path: Path):
    checksums = []
    for seed in (1, 2):
        plan = tmp_path / f"{seed}.plan"
        assert run("--seed", seed, "--save-plan", plan, trace).returncode == 0
        checksums.append(run("--replay-plan", plan).stdout.split()[1])
        replayed = json.loads(run("--seed", seed, "--runs", "memory", trace).stdout)
        assert checksums[-1] == replayed["checksum"]
    assert checksums[0] != checksums[1]


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


@pytest.mark.parametrize("words", [(), ("plan", "full")])
def test_wrong_words_are_an_error(words: tuple[str, ...]):
    done = run("--replay-plan", *words)
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert "FILE [empty]" in done.stderr


@pytest.mark.parametrize("option", ["--save-plan", "--keep"])
def test_nothing_but_a_plan_is_overwritten(trace: Path, plan: Path, tmp_path: Path, option: str):
    mine = tmp_path / "mine.trace"
    mine.write_bytes(trace.read_bytes())
    done = run("--runs", "memory", option, mine, mine)
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert str(mine) in done.stderr
    assert mine.read_bytes() == trace.read_bytes()
    plan.write_bytes(plan.read_bytes()[:-1])
    assert run("--runs", "memory", option, plan, mine).returncode == 0


def test_what_is_replayed_from_is_not_overwritten(trace: Path, tmp_path: Path):
    kept = tmp_path / "kept"
    assert run("--runs", "memory", "--keep", kept, trace).returncode == 0
    before = kept.read_bytes()
    done = run("--keep", kept, "--save-plan", kept, trace)
    assert (done.returncode, kept.read_bytes() == before) == (USAGE, True)
    assert "kept: is in use as --keep" in done.stderr


@pytest.mark.parametrize(("touch", "untouched"), [("recorded", 63 << 8), ("none", 0)])
def test_pages_are_touched_as_ordered(tmp_path: Path, touch: str, untouched: int):
    maker = TraceMaker()
    maker.allocate(64 << 20, untouched=untouched)
    trace, plan = maker.write(tmp_path / "part.trace"), tmp_path / "part.plan"
    assert run("--save-plan", plan, "--touch", touch, trace).returncode == 0

    with subprocess.Popen([native_file("rand_malloc"), "--replay-plan", plan]) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
    assert status == 0
    assert usage.ru_minflt < 1000


@pytest.mark.parametrize("option", ["--save-plan", "--keep"])
def test_place_that_cannot_be_written_is_an_error(trace: Path, option: str):
    done = run("--runs", "memory", option, "/no/such/folder/plan", trace)
    assert done.returncode == REPLAY_FAILED
    assert "/no/such/folder/plan" in done.stderr
