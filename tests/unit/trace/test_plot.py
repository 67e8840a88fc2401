"""The picture of a trace."""

from pathlib import Path

import altair as alt
import pytest

from tests.doubles.traces import TraceMaker
from tuner.drawing.figure import described
from tuner.trace.file import Trace
from tuner.trace.info import TraceInfo, describe
from tuner.trace.plot import trace_figure


@pytest.fixture
def info(tmp_path: Path) -> TraceInfo:
    maker = TraceMaker()
    for size in (1, 8, 1 << 20):
        maker.free(maker.allocate(size))
    with Trace(maker.write(tmp_path / "app.trace")) as trace:
        return describe(trace)


def test_picture_obeys_the_schema_and_names_the_program(info: TraceInfo):
    figure = trace_figure(info, "app", "app")

    alt.VConcatChart.from_dict(described(figure), validate=True)
    assert figure.title == "app: 6 events, 1 thread, peak 1.0 MiB"


def test_points_at_the_same_time_are_not_added_up(info: TraceInfo):
    """Vega stacks areas by itself."""
    curve = trace_figure(info, "app", "app").spec["vconcat"][0]

    assert curve["layer"][0]["encoding"]["y"]["stack"] is None
