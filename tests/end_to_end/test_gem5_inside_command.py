"""`malloc-tuner gem5-inside`, on a program with gem5's manners and real allocators."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.doubles.places import FAKE_GEM5, ROOT, write_suite
from tests.doubles.waiting import wait_until
from tuner.cli.main import run

pytestmark = pytest.mark.end_to_end

INSIDE = """
version = 1
machines = ["core.json"]

[[programs]]
name = "answer"
guest = "answer"
arguments = ["7"]
"""


@pytest.fixture
def suite(tmp_path: Path) -> str:
    return write_suite(tmp_path / "inside.toml", INSIDE, "answer", "empty")


def validate(folder: Path, suite: str, *options: str) -> int:
    words = ["gem5-inside", str(folder), "--gem5", FAKE_GEM5, "--suite", suite]
    return run([*words, "--points", "balanced", "--objectives", "cycles,ipc", *options])


def n_kept(folder: Path) -> int:
    return (folder / "gem5" / "inside.jsonl").read_text().count('"kind":"run"')


def test_picks_and_defaults_run_inside(
    folder: Path, suite: str, capsys: pytest.CaptureFixture[str]
):
    assert validate(folder, suite) == 0
    out = capsys.readouterr().out
    assert "answer on core (gem5)" in out
    rows = [line.split()[:2] for line in out.splitlines()]
    for row in (["glibc", "default"], ["jemalloc", "default"], ["jemalloc", "balanced"]):
        assert row in rows
    assert "Does the emulator rank as simulated machines do?" in out
    assert "Best in cycles, IPC, none better in all: glibc-default." in out
    assert n_kept(folder) == 6
    assert validate(folder, suite, "--workers", "2") == 0
    assert n_kept(folder) == 6


def test_same_command_again_runs_nothing(folder: Path, suite: str):
    assert validate(folder, suite) == 0
    assert validate(folder, suite, "--workers", "2") == 0
    assert n_kept(folder) == 6


def test_report_shows_what_was_run_inside(folder: Path, suite: str, tmp_path: Path):
    assert validate(folder, suite) == 0
    assert run(["report", str(folder)]) == 0
    page = (folder / "report.html").read_text()
    assert "Inside simulated machines" in page
    assert "answer on core" in page


def test_program_that_fails_leaves_records_with_reasons(
    folder: Path, suite: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("MALLOC_CONF", "ignored: guests have their own environment")
    (folder.parent / "core.json").write_text('{"cpu": {}, "wrong": 1}')
    assert validate(folder, suite, "--gem5", str(broken_gem5(folder.parent))) == 16
    out = " ".join(capsys.readouterr().out.split())
    assert 'answer on core is out: gem5: exit status 3: "panic: no luck"' in out
    assert n_kept(folder) == 6


def test_gem5_ends_with_a_killed_validation(folder: Path, suite: str, tmp_path: Path):
    number = tmp_path / "pid"
    gem5 = broken_gem5(tmp_path, f"echo $$ > {number}.new\nmv {number}.new {number}\nsleep 600")
    words = ["gem5-inside", str(folder), "--gem5", str(gem5), "--suite", suite]
    program = [sys.executable, "-m", "tuner.cli.main", *words, "--points", "balanced"]
    validation = subprocess.Popen(program, cwd=ROOT)
    wait_until(number.exists)
    validation.kill()
    validation.wait()
    wait_until(lambda: not Path("/proc", number.read_text().strip()).exists())


def broken_gem5(folder: Path, what: str = 'echo "panic: no luck" >&2\nexit 3') -> Path:
    """A gem5 that prints its version and simulates nothing."""
    path = folder / "broken-gem5"
    path.write_text(f'#!/bin/sh\ncase "$*" in *" -c "*) exec {FAKE_GEM5} "$@";; esac\n{what}\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("options", "code"),
    [(["--objectives", "l1d"], 3), (["--programs", "answers"], 3), (["--gem5", "no-such-gem5"], 4)],
)
def test_mistakes_have_their_exit_codes(folder: Path, suite: str, options: list[str], code: int):
    assert validate(folder, suite, *options) == code


def test_inside_needs_gem5(folder: Path, suite: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("GEM5", raising=False)
    assert run(["gem5-inside", str(folder), "--suite", suite]) == 4
