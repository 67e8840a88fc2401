"""The picture of a trace."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from matplotlib.patches import Rectangle

from tests.doubles.traces import TraceMaker
from tuner.trace.file import Trace
from tuner.trace.info import describe
from tuner.trace.plot import draw


@pytest.mark.slow
def test_no_legend_covers_a_bar(tmp_path: Path) -> None:
    maker = TraceMaker()
    for size in (1, 8, 1 << 20):  # the last bin is the highest, under the corner
        maker.free(maker.allocate(size))
    path = maker.write(tmp_path / "app.trace")
    with Trace(path) as trace:
        figure = draw(describe(trace), "app")
    figure.savefig(io.BytesIO())  # decides where everything goes

    for axes in figure.axes:
        legend = axes.get_legend()
        bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
        assert not bars or legend
        if legend:
            room = legend.get_window_extent()
            assert not any(room.overlaps(bar.get_window_extent()) for bar in bars)
