"""The commands that need gem5, on a machine without it."""

from pathlib import Path

import pytest

import tuner.library  # take load_run when they are imported: before it is replaced
import tuner.validate.with_gem5  # noqa: F401
from tests.doubles.runs import synthetic_run
from tuner.cli.main import run
from tuner.errors import MissingToolError

COMMANDS = pytest.mark.parametrize("command", ["gem5", "gem5-inside"])


def said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, path: Path, *words: str
) -> str:
    """Return the one line with which a command ends that does not find gem5 in a path."""
    monkeypatch.setattr("tuner.runs.load_run", lambda _: synthetic_run(n_trials=20))
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.delenv("GEM5", raising=False)
    assert MissingToolError.exit_code == run(words)
    (line,) = capsys.readouterr().err.splitlines()
    assert "build gem5 as https://" in line
    assert line.endswith("give its gem5.opt with --gem5 or GEM5")
    return line


@COMMANDS
def test_without_gem5_one_line_says_how_to_get_it(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: str,
) -> None:
    assert ": gem5.opt: not found; " in said(capsys, monkeypatch, tmp_path, command, "a-run")


@COMMANDS
def test_a_file_that_is_no_program_is_no_missing_file(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: str,
) -> None:
    (tmp_path / "notes").touch()
    words = (command, "a-run", "--gem5", str(tmp_path / "notes"))

    assert f"{tmp_path}/notes: cannot be executed; " in said(capsys, monkeypatch, tmp_path, *words)
