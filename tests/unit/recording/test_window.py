"""When the window of a recording begins and ends."""

from pathlib import Path

import pytest

from tuner.recording import window
from tuner.recording.program import WINDOW_SIGNAL
from tuner.recording.window import SIGNAL, WindowPlan, WindowWatch


def test_a_signal_counts_though_the_program_ends_before_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(window, "run_build_trace", lambda *_: {"is_over": False})
    monkeypatch.setattr(window, "_POLL_S", 60.0)
    watch = WindowWatch(WindowPlan(begin=SIGNAL), tmp_path)

    with watch:
        watch.take_signal(WINDOW_SIGNAL)

    assert watch.missed is None
