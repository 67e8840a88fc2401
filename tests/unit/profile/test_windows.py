"""Windows cover a trace."""

from pathlib import Path

import numpy as np

from tests.doubles.traces import load, write_mixed_trace
from tuner.profile.windows import cut_windows
from tuner.trace.file import Op
from tuner.trace.lives import find_lives


def test_windows_begin_at_thread_events_and_cover_everything(tmp_path: Path):
    events = load(write_mixed_trace(tmp_path / "mixed.trace", 4, 4000))
    cuts = cut_windows(events, find_lives(events).live_bytes, 16, 64)
    assert cuts[0] == 0
    assert cuts[-1] == len(events)
    assert (np.diff(cuts) > 0).all()
    is_thread = events["op"] >= Op.THREAD_START
    inside = np.setdiff1d(np.flatnonzero(is_thread), cuts)
    assert is_thread[inside - 1].all(), "only behind another one"
