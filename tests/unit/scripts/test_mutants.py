"""The files of every target of the mutants are there, and what is gone kills none."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doubles.places import ROOT


def test_targets_are_up_to_date():
    command = [sys.executable, str(ROOT / "scripts" / "mutants.py"), "--check"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_test_that_is_gone_is_gone_from_the_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    mutants = importlib.import_module("mutants")
    checkout, folder = tmp_path / "checkout", tmp_path / "copy"
    monkeypatch.setattr(mutants, "ROOT", checkout)
    (checkout / "tests").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", checkout], check=True)
    test = checkout / "tests" / "test_one.py"
    test.touch()

    assert mutants._copy_checkout(folder)  # noqa: SLF001 - what is checked
    assert not mutants._copy_checkout(folder)  # noqa: SLF001 - what is checked
    test.unlink()

    assert mutants._copy_checkout(folder)  # noqa: SLF001 - what is checked
    assert not list(folder.rglob("*.py"))
