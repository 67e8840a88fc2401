"""What probes and the loader print."""

import subprocess

import pytest

from tuner.allocators.probe import Tunable, parse_tunables, run_probe
from tuner.errors import SettingError


def test_a_signal_without_a_name_ends_a_test_program_too(monkeypatch: pytest.MonkeyPatch):
    ended = subprocess.CompletedProcess([], -35, "", "out of memory\n")
    monkeypatch.setattr("tuner.allocators.probe._run", lambda *_: ended)

    with pytest.raises(SettingError, match="ended a test program with signal 35: out of memory"):
        run_probe({})


def test_the_list_of_the_loader_is_read_in_hexadecimal_and_decimal():
    text = (
        "glibc.malloc.trim_threshold: 0xffffffffffffffff (min: 0x0, max: 0xffffffffffffffff)\n"
        "glibc.malloc.check: 0 (min: 0, max: 3)\nnoise\n"
    )
    assert parse_tunables(text) == {
        "glibc.malloc.trim_threshold": Tunable(2**64 - 1, 0, 2**64 - 1),
        "glibc.malloc.check": Tunable(0, 0, 3),
    }
