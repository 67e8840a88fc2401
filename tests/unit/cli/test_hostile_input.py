"""Hostile input, and places where nothing can be written: one clear error."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doubles.command_line import CommandLine
from tuner.config.reading import read_toml
from tuner.errors import OutputError, SpecError, TraceError
from tuner.profile.file import read_profile

WORKLOADS = Path(__file__).resolve().parents[3] / "configs" / "workloads"
TRACE = WORKLOADS / "gem5-suite" / "traces" / "text-minor.trace"


@pytest.mark.parametrize("path", [Path("/dev/zero"), Path("/tmp")])
def test_a_device_is_not_read_to_its_end(path: Path):
    with pytest.raises(TraceError, match="not a regular file"):
        read_profile(path)
    with pytest.raises(SpecError, match="not a regular file"):
        read_toml(path)


def test_a_missing_profile_is_reported_in_words(tmp_path: Path):
    with pytest.raises(TraceError, match=r"x: cannot be read: No such file or directory$"):
        read_profile(tmp_path / "x")


def test_names_that_are_no_text_leave_as_their_bytes(tmp_path: Path):
    trace = tmp_path / os.fsdecode(b"a \xff.trace")
    trace.write_bytes(TRACE.read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "tuner.cli.main", "trace", "info", trace],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"},
    )
    assert b"a \xff.trace" in done.stdout
    folder = os.fspath(tmp_path / os.fsdecode(b"no \xff"))
    words = [sys.executable, "-m", "tuner.cli.main", "front", folder]
    missing = subprocess.run(words, capture_output=True, check=False)
    assert b"no \xff" in missing.stderr


def test_what_an_output_cannot_encode_is_a_question_mark(tmp_path: Path):
    trace = tmp_path / os.fsdecode("ä".encode() + b" \xff.trace")
    trace.write_bytes(TRACE.read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "tuner.cli.main", "trace", "info", trace],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert b"? \xff.trace" in done.stdout


def test_a_campaign_on_a_name_that_is_no_text_is_refused(tmp_path: Path, cli: CommandLine):
    trace = tmp_path / os.fsdecode(b"a\xff.trace")
    trace.write_bytes(TRACE.read_bytes())
    assert r"a\xff.trace: holds bytes that are not UTF-8" in cli.fails(
        SpecError.exit_code, "tune", trace, "-o", tmp_path / "run"
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [
        (">/dev/full", OutputError.exit_code, "standard output: cannot be written (No space left"),
        (">&-", 0, ""),
        ("2>&-", 0, ""),
    ],
)
def test_output_that_goes_nowhere_is_no_defect(redirection: str, code: int, said: str):
    command = f'"$0" -m tuner.cli.main trace info "$1" {redirection}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, TRACE], capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert said in done.stderr
    assert "defect" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("tune", "{path}", "-o", "run"),
        ("bench", "--library", "mine={path}"),
        ("bench", "--pick", "{path}:balanced"),
        ("emulate", str(TRACE), "-a", "jemalloc:{path}"),
    ],
    ids=" ".join,
)
def test_a_path_that_cannot_be_reached_is_no_defect(
    words: tuple[str, ...], working_folder: Path, cli: CommandLine
):
    path = "a" * 256
    assert f"{path}: cannot be reached (File name too long)" in cli.fails(
        SpecError.exit_code, *[word.format(path=path) for word in words]
    )


def test_a_current_folder_that_is_gone_is_no_defect(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    assert "the current folder is gone" in cli.fails(3, "tune", TRACE, "-o", "/run")
