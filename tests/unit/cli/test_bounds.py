"""Every number on every command line has ends, and is refused beyond them before anything runs."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from tests.doubles.command_line import CommandLine
from tuner.cli import main
from tuner.cli.app import build_app
from tuner.errors import OutputError, SpecError

WRONG_COMMAND_LINE = 2
REFUSED = (WRONG_COMMAND_LINE, SpecError.exit_code)

ABSURD = {
    "N": ("99999999999999999999999", "-1", "many"),
    "CORE": ("99999999999999999999999", "1023", "-1"),
    "PID": ("99999999999999999999999", "0"),
    "FACTOR": ("1e300", "nan", "-1"),
    "SHARE": ("1e300", "nan", "-1"),
    "DURATION": ("87600000 h", "60", "-1 s"),
    "SIZE": ("1000000 TiB", "64K"),
    "N,...": ("1,99999999999999999999999", "0"),
    "SIZE,...": ("64,1000000 TiB", "0"),
}
"""What stands for a number in the help -> an absurd value."""


class Number(NamedTuple):
    command: tuple[str, ...]
    name: str
    """As messages name it."""
    words: tuple[str, ...]
    """What follows the command, ``{}`` for the number."""
    values: tuple[str, ...]

    def line(self, value: str) -> list[str]:
        return [*self.command, *(word.format(value) for word in self.words)]


def numbers() -> Iterator[Number]:
    def walk(command: Any, words: tuple[str, ...]) -> Iterator[Number]:
        for name, part in getattr(command, "commands", {}).items():
            yield from walk(part, (*words, name))
        for wanted in [] if hasattr(command, "commands") else command.params:
            if wanted.metavar in ABSURD and not wanted.hidden:
                name = wanted.opts[0] if wanted.param_type_name == "option" else wanted.metavar
                given = tuple(given_words(command.params, wanted))
                yield Number(words, name, given, ABSURD[wanted.metavar])

    yield from walk(typer.main.get_command(build_app()), ())


def given_words(params: list[Any], wanted: Any) -> Iterator[str]:
    needed = [p for p in params if p.required or p is wanted]
    for one in needed:
        if one.param_type_name == "option":
            yield f"{one.opts[0]}={'{}' if one is wanted else 'none'}"
    yield "--"
    for one in needed:
        if one.param_type_name == "argument":
            yield "{}" if one is wanted else "none"


NUMBERS = [(number, value) for number in numbers() for value in number.values]


def test_all_numbers_are_found():
    assert len({(number.command, number.name) for number, _ in NUMBERS}) > 50


@pytest.mark.parametrize(
    ("number", "value"),
    NUMBERS,
    ids=[f"{number.command[0]} {number.name} {value}" for number, value in NUMBERS],
)
def test_an_absurd_number_is_refused(
    number: Number, value: str, working_folder: Path, capsys: pytest.CaptureFixture[str]
):
    code = main.run(number.line(value))
    err = capsys.readouterr().err
    assert code in REFUSED, err
    assert number.name in err
    assert not list(working_folder.iterdir()), "nothing is left behind"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("optimize", "--time", "0s"), "--time: '0s' is not from 1 s to 1000 h"),
        (("optimize", "--time", "1 ns"), "--time: '1 ns' is not from 1 s to 1000 h"),
        (("optimize", "--time", "87600 h"), "--time: '87600 h' is not from 1 s to 1000 h"),
        (("optimize", "--least", "0 %"), "--least: '0 %' is not from 0.01 % to 100 %"),
        (("validate", "run", "--timeout", "9999 h"), "--timeout: '9999 h' is not from 1 ms"),
        (("emulate", "none", "--timeout", "0 s"), "--timeout: '0 s' is not from 1 ms"),
        (("bench", "--budget", "0 s"), "--budget: '0 s' is not from 1 s"),
    ],
)
def test_the_message_names_the_option_and_its_ends(
    words: tuple[str, ...], expected: str, cli: CommandLine
):
    assert expected in cli.fails(
        SpecError.exit_code, *([*words, "--", "true"] if words[0] != "bench" else words)
    )


def test_a_core_that_may_not_be_used_is_refused_with_those_that_may(
    monkeypatch: pytest.MonkeyPatch, cli: CommandLine
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5, 2})
    assert "--cpu 3: give one of 2, 5\n" in cli.fails(
        SpecError.exit_code, "validate", "run", "--cpu", "3", "--", "true"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("record", "-o", "dir/", "--", "true"),
        ("record", "-o", "dir/.", "--", "true"),
        ("record", "--output=dir/", "--", "true"),
        ("fit", "none", "-o", "dir/"),
        ("vary", "none", "-o", "dir/"),
        ("import", "none", "-o", "dir/"),
        ("export", "none", "-o", "dir/"),
        ("trace", "thin", "none", "-o", "dir/"),
        ("trace", "recover", "none", "-o", "dir/"),
    ],
    ids=" ".join,
)
def test_the_name_of_a_folder_is_none_of_a_file(
    words: tuple[str, ...], working_folder: Path, cli: CommandLine
):
    assert "names a folder; name the file to write" in cli.fails(OutputError.exit_code, *words)
    assert not list(working_folder.iterdir()), "nothing is left behind"
