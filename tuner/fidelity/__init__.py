"""How well a workload profile stands for its trace: a panel of configurations on both."""

from tuner.fidelity.panel import draw_panel, measure_panel
from tuner.fidelity.verdict import SCHEMA, Panel, judge

__all__ = ["SCHEMA", "Panel", "draw_panel", "judge", "measure_panel"]
