"""A whole recording; real programs are in tests/end_to_end/test_record.py."""

from __future__ import annotations

import subprocess
import sys


def test_recording_needs_neither_numpy_nor_the_reader_of_programs() -> None:
    """Their start costs more than the recording of a short program."""
    code = "import sys, tuner.recording; print({'numpy', 'elftools', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout == "set()\n"
