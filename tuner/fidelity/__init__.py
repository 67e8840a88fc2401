"""How well a workload profile stands for its trace: a panel of configurations on both."""

from tuner.fidelity.panel import draw_panel, measure_panel
from tuner.fidelity.program import ProgramPanel, environments_of, judge_program, measure_program
from tuner.fidelity.verdict import Panel, judge, judge_shrunk
from tuner.profile.fidelity import SCHEMA

__all__ = [
    "SCHEMA",
    "Panel",
    "ProgramPanel",
    "draw_panel",
    "environments_of",
    "judge",
    "judge_program",
    "judge_shrunk",
    "measure_panel",
    "measure_program",
]
