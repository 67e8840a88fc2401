"""The commands that need gem5, on a machine without it."""

from pathlib import Path

import pytest

import tuner.library  # take load_run when they are imported: before it is replaced
import tuner.validate.with_gem5  # noqa: F401
from tests.doubles.command_line import CommandLine
from tests.doubles.runs import synthetic_run
from tuner.errors import MissingToolError

COMMANDS = pytest.mark.parametrize("command", ["gem5", "gem5-inside"])


@pytest.fixture(autouse=True)
def without_gem5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.runs.load_run", lambda _: synthetic_run(n_trials=20))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("GEM5", raising=False)


def said(cli: CommandLine, *words: object) -> str:
    (line,) = cli.fails(MissingToolError.exit_code, *words).splitlines()
    assert "build gem5 as https://" in line
    assert line.endswith("give its gem5.opt with --gem5 or GEM5")
    return line


@COMMANDS
def test_without_gem5_one_line_says_how_to_get_it(cli: CommandLine, command: str):
    assert ": gem5.opt: not found; " in said(cli, command, "a-run")


@COMMANDS
def test_a_file_that_is_no_program_is_no_missing_file(
    cli: CommandLine, tmp_path: Path, command: str
):
    path = tmp_path / "notes"
    path.touch()

    assert f"{path}: cannot be executed; " in said(cli, command, "a-run", "--gem5", path)
