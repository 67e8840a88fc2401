"""Options that do not apply are refused by name, with the exit code of a wrong command line."""

from __future__ import annotations

import pytest
import typer

from tuner.cli import validate
from tuner.cli.app import build_app
from tuner.cli.main import run

WRONG_COMMAND_LINE = 2

_VALUES = {
    "--rounds": "3",
    "--instrument": "none",
    "--cpu": "0",
    "--thp": "never",
    "--sample-ms": "5",
    "--seed": "2",
    "--output-file": "out",
    "--suite": "suite.toml",
    "--simulations": "all",
    "--objectives": "ipc",
    "--workers": "2",
    "--gem5": "gem5",
}


def words(option: str) -> list[str]:
    return [option, _VALUES[option]] if option in _VALUES else [option]


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the message of a refused call, in one line."""
    assert run(["validate", "no-such-run", *arguments]) == WRONG_COMMAND_LINE
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "option",
    [
        "--rounds",
        "--instrument",
        "--cpu",
        "--thp",
        "--seed",
        "--sample-ms",
        "--ignore-output",
        "--output-file",
    ],
)
def test_inside_refuses_what_it_would_ignore(
    capsys: pytest.CaptureFixture[str], option: str
) -> None:
    message = refused(capsys, "--gem5", "gem5", "--inside", *words(option))
    assert f"{option} does not apply with --inside" in message


@pytest.mark.parametrize(
    "option", ["--ignore-output", "--output-file", "--objectives", "--workers"]
)
def test_simulations_refuse_what_they_would_ignore(
    capsys: pytest.CaptureFixture[str], option: str
) -> None:
    message = refused(capsys, "--gem5", "gem5", *words(option))
    assert f"{option} does not apply to simulations on gem5" in message


@pytest.mark.parametrize(
    "option", ["--gem5", "--inside", "--suite", "--simulations", "--objectives", "--workers"]
)
def test_a_command_refuses_what_it_would_ignore(
    capsys: pytest.CaptureFixture[str], option: str
) -> None:
    message = refused(capsys, *words(option), "--", "true")
    assert f"{option} does not apply to a COMMAND" in message


def test_all_that_are_refused_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, "--workers", "2", "--inside", "--", "true")
    assert "--inside, --workers do not apply" in message


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


def test_every_option_of_validate_applies_somewhere() -> None:
    group = typer.main.get_command(build_app())
    parameters = group.commands["validate"].params  # type: ignore[attr-defined]
    names = {max(p.opts, key=len) for p in parameters if p.param_type_name == "option"}
    forms = validate.OF_COMMAND | validate.OF_GEM5 | validate.OF_INSIDE
    assert names == forms
