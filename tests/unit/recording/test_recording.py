"""A whole recording; real programs are in tests/end_to_end/test_record.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tuner.errors import ProgramError
from tuner.recording import record

NO_EVENTS = "nothing was recorded: it called no allocation function of a library"


def test_a_program_that_allocates_nothing_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=NO_EVENTS):
        record(["true"], tmp_path / "a.trace")
    assert not list(tmp_path.iterdir())


def test_recording_needs_neither_numpy_nor_the_reader_of_programs() -> None:
    """Their start costs more than the recording of a short program."""
    code = "import sys, tuner.recording; print({'numpy', 'elftools', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout == "set()\n"
