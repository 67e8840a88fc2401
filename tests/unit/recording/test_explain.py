"""A recording without events is explained."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.programs import SINGLE, compile_
from tuner.errors import ProgramError
from tuner.recording import record
from tuner.recording.explain import (
    FEW_EVENTS,
    few_events,
    is_static,
    small_objects_words,
    why_no_events,
    why_nothing,
)
from tuner.recording.program import Ending

ENDED = Ending(0, None, 0.1, 0.1, 1)
NO_EVENTS = "nothing was recorded: it called no allocation function of a library"


def test_a_program_that_allocates_nothing_is_explained(tmp_path: Path):
    with pytest.raises(ProgramError, match=NO_EVENTS):
        record(["true"], tmp_path / "a.trace")
    assert not list(tmp_path.iterdir())


def test_a_program_that_fails_before_it_allocates_is_said_to_fail():
    words = why_no_events(["app"], replace(ENDED, exit_status=3))

    assert "nothing was recorded: it exited with status 3 and called no allocation" in words
    killed = why_no_events(["app"], replace(ENDED, exit_status=None, signal_name="SIGSEGV"))
    assert killed.endswith("it was ended by SIGSEGV before it called an allocation function")


def test_follow_is_not_advised_where_it_was_given():
    assert "`record --follow` takes them" in why_no_events(["app"], ENDED)
    assert "--follow" not in why_no_events(["app"], ENDED, background=())
    words = why_no_events(["app"], ENDED, background=(7,))
    assert "it went on in the background (process 7)" in words
    assert words.endswith("; nothing was recorded")


def test_of_few_events_it_is_said_where_the_others_may_be():
    words = few_events(["./app"], FEW_EVENTS - 1, follow=False) or ""

    assert words.startswith("these are few events: ./app may start the program that does the work")
    assert words.endswith("or call one by other names than malloc's, such as mi_malloc")
    assert "--follow" not in (few_events(["./app"], 1, follow=True) or "--follow")
    assert few_events(["./app"], FEW_EVENTS, follow=False) is None


@pytest.mark.parametrize(
    ("program", "begin"),
    [
        ("/usr/bin/python3.11", "CPython keeps small objects itself: with PYTHONMALLOC=malloc "),
        ("php-fpm8.2", "PHP keeps small objects itself: with USE_ZEND_ALLOC=0 "),
        ("/usr/libexec/cc1plus", None),
        ("/opt/pythonic/phpunit", None),
    ],
)
def test_who_has_small_objects_is_named_where_the_program_is_one(program: str, begin: str | None):
    """It was said of a compiler that CPython and PHP bring an allocator of their own."""
    words = small_objects_words(program, {})

    assert words is None if begin is None else (words or "").startswith(begin)


def test_a_switch_that_is_set_is_not_advised():
    assert small_objects_words("python3", {"PYTHONMALLOC": "malloc"}) is None
    assert small_objects_words("python3", {"PYTHONMALLOC": "debug"}) is not None


def test_a_static_program_that_is_loaded_anywhere_is_static_and_the_loader_is_not(tmp_path: Path):
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").split()
    loader = next(Path(word) for word in maps if word.rpartition("/")[2].startswith("ld-"))

    assert is_static(compile_(tmp_path, SINGLE, "-static-pie"))
    assert not is_static(loader)


@pytest.mark.parametrize(
    ("mode", "why"),
    [(0o4755, "it is setuid or setgid"), (0o755, "the recorder did not start in it")],
)
def test_a_script_that_did_not_load_the_recorder_may_be_setuid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, why: str
):
    program = tmp_path / "app"
    program.write_text("#!/bin/sh\n")
    program.chmod(mode)
    monkeypatch.setattr(os, "geteuid", lambda: program.stat().st_uid + 1)

    assert why in why_nothing([str(program)], ENDED)
