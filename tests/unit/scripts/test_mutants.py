"""The files of every target of the mutants are there."""

import subprocess
import sys

from tests.doubles.places import ROOT


def test_targets_are_up_to_date():
    command = [sys.executable, str(ROOT / "scripts" / "mutants.py"), "--check"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
