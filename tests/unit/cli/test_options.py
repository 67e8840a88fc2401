"""Options that do not apply are refused by name, with the exit code of a wrong command line."""

import os
import sys
from pathlib import Path

import pytest

from tests.doubles.command_line import CommandLine
from tuner.cli.main import run
from tuner.cli.options import refuse_input
from tuner.errors import MissingToolError, SpecError

WRONG_COMMAND_LINE = 2


def refused(cli: CommandLine, *arguments: str) -> str:
    return " ".join(cli.fails(WRONG_COMMAND_LINE, "validate", "no-such-run", *arguments).split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--rounds 3 --seed 2 --details", "--rounds, --seed do not apply without a COMMAND to"),
        ("--validation 3 -- true", "--validation does not apply to a COMMAND"),
        ("--allocators x -- true", "--allocators does not apply without --ready"),
        ("--output x -- true", "--output does not apply without --ready"),
        ("--front 2 --points knee -- true", "--front does not apply without the word front in"),
        ("--ignore-output --output-file x -- true", "not apply with --output-file"),
    ],
)
def test_an_option_of_another_validation_is_refused(cli: CommandLine, words: str, said: str):
    assert said in refused(cli, *words.split())


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
def test_a_form_of_validation_has_its_own_options(cli: CommandLine, command: str, option: str):
    assert option in cli.fails(WRONG_COMMAND_LINE, command, "no-such-run", option, "x")


def test_what_is_no_number_is_refused_in_plain_words(cli: CommandLine):
    message = refused(cli, "--rounds", "many", "--", "true")
    assert message.endswith("Error: Invalid value for '--rounds': must be a whole number")


@pytest.mark.parametrize(
    ("words", "is_hinted_at"),
    [
        (["optimize", "ls", "--color"], True),
        (["record", "-z", "ls"], True),
        (["optimize", "--color", "--", "ls"], False),
        (["optimize", "ls", "--time"], False),
        (["front", "--color"], False),
    ],
)
def test_where_an_option_of_the_program_stands_is_said(
    cli: CommandLine, words: list[str], *, is_hinted_at: bool
):
    message = " ".join(cli.fails(WRONG_COMMAND_LINE, *words).split())
    assert ("; if it is the program's: malloc-tuner " in message) is is_hinted_at


@pytest.mark.parametrize("pid", ["malloc.json", "0", "-3", "1.5"])
def test_the_process_comes_before_its_export(cli: CommandLine, pid: str):
    assert "it comes first, the export second: check PID EXPORT" in cli.fails(
        WRONG_COMMAND_LINE, "check", "--", pid, "12"
    )


@pytest.mark.parametrize("command", ["validate", "gem5"])
def test_rounds_beyond_any_patience_are_refused(cli: CommandLine, command: str):
    words = [command, "no-such-run", "--rounds", "99999999999999999999"]
    assert "must be at most 10000" in " ".join(
        cli.fails(
            WRONG_COMMAND_LINE, *words, *(["--", "true"] if command == "validate" else [])
        ).split()
    )


def test_what_the_environment_gives_is_not_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GEM5", "no-such-gem5")
    assert run(["validate", "no-such-run", "--", "true"]) != WRONG_COMMAND_LINE
    assert "does not apply" not in capsys.readouterr().err


def test_what_waits_on_standard_input_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "input").write_bytes(b"words")
    read, write = os.pipe()
    os.write(write, b"words")
    for source in ((tmp_path / "input").open(), os.fdopen(read)):
        with source, monkeypatch.context() as context:
            context.setattr(sys, "stdin", source)
            with pytest.raises(SpecError, match="standard input is not passed on"):
                refuse_input()
    os.close(write)


@pytest.mark.parametrize("is_pipe", [False, True])
def test_an_empty_standard_input_is_none(monkeypatch: pytest.MonkeyPatch, is_pipe: bool):
    read, write = os.pipe()
    os.close(write)
    piped = os.fdopen(read)
    with Path(os.devnull).open() as nothing, piped, monkeypatch.context() as context:
        context.setattr(sys, "stdin", piped if is_pipe else nothing)
        refuse_input()


def test_a_trace_is_no_program_to_optimize(tmp_path: Path, cli: CommandLine):
    trace = tmp_path / "my app.trace"
    trace.write_bytes(b"")
    assert f"`malloc-tuner tune '{trace}'`" in cli.fails(
        MissingToolError.exit_code, "optimize", trace
    )
