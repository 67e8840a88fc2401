"""When the window of a recording begins and ends."""

import signal
from pathlib import Path

import pytest

from tuner.recording import window
from tuner.recording.program import WINDOW_SIGNAL
from tuner.recording.window import READY, SIGNAL, STOP, WindowPlan, WindowWatch


@pytest.fixture(autouse=True)
def blind(monkeypatch: pytest.MonkeyPatch):
    """Let the watcher not look."""
    monkeypatch.setattr(window, "run_build_trace", lambda *_: {"is_over": False})
    monkeypatch.setattr(window, "_POLL_S", 60.0)


def test_a_signal_counts_though_the_program_ends_before_it_is_looked_at(tmp_path: Path):
    watch = WindowWatch(WindowPlan(begin=SIGNAL), tmp_path)

    with watch:
        watch.take_signal(WINDOW_SIGNAL)

    assert watch.missed is None


def test_a_time_counts_though_the_program_ends_before_it_is_looked_at(tmp_path: Path):
    with WindowWatch(WindowPlan(begin=0.0), tmp_path) as watch:
        pass

    assert watch.missed is None


def test_a_time_that_never_came_is_told_with_its_unit(tmp_path: Path):
    with WindowWatch(WindowPlan(begin=300.0), tmp_path) as watch:
        pass

    assert watch.missed is not None
    assert "the program ended within 5 min, so --from 5 min never came" in watch.missed


def test_a_signal_is_passed_on_without_waiting_for_a_probe(tmp_path: Path):
    probes = iter([False, False])
    plan = WindowPlan(begin=READY, end=STOP, is_ready=lambda: next(probes))

    with WindowWatch(plan, tmp_path) as watch:
        watch.take_signal(signal.SIGTERM)

    assert list(probes) == [False, False]
