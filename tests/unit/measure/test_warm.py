"""Memory is touched by rand_malloc, and what cannot be touched stops nothing."""

from pathlib import Path

import pytest

from tuner.measure import warm
from tuner.measure.warm import warm_memory


def test_rand_malloc_gets_the_amount(tmp_path: Path):
    asked = tmp_path / "asked"
    emulator = tmp_path / "rand_malloc"
    emulator.write_text(f'#!/bin/sh\necho "$@" >> {asked}\n')
    emulator.chmod(0o755)
    warm_memory(3, emulator)
    assert asked.read_text() == "--warm=3\n"


def test_a_gigabyte_is_touched_unless_another_amount_is_named(monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []
    monkeypatch.setattr(warm, "ask_emulator", lambda word, _: asked.append(word))
    monkeypatch.setattr(warm, "WARM_MIB", 1024)  # of tests it is 0
    warm_memory()
    warm_memory(0)
    assert asked == ["--warm=1024"]


def test_failure_is_no_reason_to_stop(tmp_path: Path):
    broken = tmp_path / "rand_malloc"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    warm_memory(3, broken)
    warm_memory(3, tmp_path / "none")
