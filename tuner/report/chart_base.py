"""What all charts of the page share: plotly's JSON form, fonts, axes, margins.

Charts are plain dictionaries in plotly's own schema, so that building a page
does not load the plotting library; a test checks them against the schema.
SVG traces only: WebGL is missing in printers and in many virtual machines.
"""

from __future__ import annotations

from typing import Any

from tuner.report.style import GRID, INK, MUTED

Chart = dict[str, Any]
"""A plotly figure (``data``, ``layout``), and what our script knows:

``narrow``: annotations that replace those of the layout on a narrow screen;
``columns``: number of columns that the chart needs, which may scroll sideways.
"""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def chart_layout(height: int, **changes: Any) -> dict[str, Any]:
    """Return the common layout, with changes merged into its parts."""
    axis = {
        "gridcolor": GRID,
        "linecolor": MUTED,
        "ticks": "outside",
        "tickcolor": MUTED,
        "zeroline": False,
        "automargin": True,
        "title": {"standoff": 10},
    }
    layout: dict[str, Any] = {
        "height": height,
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "font": {"family": FONT, "size": 13, "color": INK},
        "margin": {"l": 60, "r": 16, "t": 16, "b": 90},
        "legend": {
            "orientation": "h",
            "yref": "container",
            "y": 0.0,
            "yanchor": "bottom",
            "x": 0.0,
            "font": {"size": 12},
        },
        "hoverlabel": {"align": "left", "bgcolor": "#ffffff", "font": {"color": INK}},
        "hovermode": "closest",
        "xaxis": dict(axis),
        "yaxis": dict(axis),
    }
    for key, value in changes.items():
        layout[key] = {**layout[key], **value} if isinstance(layout.get(key), dict) else value
    return layout
