"""The page of mutants says what was sampled, and every target's files are there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_page_and_targets_are_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "mutants.py"), "--check"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
