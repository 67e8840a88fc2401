"""Options that do not apply are refused by name, with the exit code of a wrong command line."""

from __future__ import annotations

import pytest

from tuner.cli.main import run

WRONG_COMMAND_LINE = 2


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the message of a refused call, in one line."""
    assert run(["validate", "no-such-run", *arguments]) == WRONG_COMMAND_LINE
    return " ".join(capsys.readouterr().err.split())


def test_without_a_command_nothing_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, "--rounds", "3", "--seed", "2", "--details")
    assert "--rounds, --seed do not apply without a COMMAND to measure" in message


def test_a_new_validation_has_no_number_yet(capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, "--validation", "3", "--", "true")
    assert "--validation does not apply to a COMMAND" in message


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("validate", "--gem5"),
        ("validate", "--inside"),
        ("validate", "--workers"),
        ("gem5", "--ignore-output"),
        ("gem5", "--objectives"),
        ("gem5-inside", "--rounds"),
        ("gem5-inside", "--seed"),
        ("gem5-inside", "--thp"),
    ],
)
def test_a_form_of_validation_has_its_own_options(
    capsys: pytest.CaptureFixture[str], command: str, option: str
) -> None:
    assert run([command, "no-such-run", option, "x"]) == WRONG_COMMAND_LINE
    assert option in capsys.readouterr().err


def test_a_number_of_front_points_needs_the_word(capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, "--front", "2", "--points", "knee", "--", "true")
    assert "--front does not apply without the word front in --points" in message


def test_a_file_to_compare_excludes_ignoring(capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, "--ignore-output", "--output-file", "x", "--", "true")
    assert "--ignore-output does not apply with --output-file" in message


def test_what_the_environment_gives_is_not_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEM5", "no-such-gem5")
    assert run(["validate", "no-such-run", "--", "true"]) != WRONG_COMMAND_LINE
    assert "does not apply" not in capsys.readouterr().err
