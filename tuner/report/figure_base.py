"""What all matplotlib figures share: fonts, lines, sizes and how they become files.

Text stays text in SVG and PDF, so that it can be searched and restyled.  The
same input gives the same bytes: no dates, no random identifiers.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tuner.output import write_bytes
from tuner.report.style import GRID, INK, MUTED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE: Final[Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "malloc-tuner",
    "pdf.fonttype": 42,
}
"""matplotlib's settings; use within `mpl.rc_context`."""

_PNG_DPI = 200
_METADATA: Final[Mapping[str, dict[str, str | None]]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}
"""What would change from run to run."""

FORMATS: Final = tuple(_METADATA)
"""png, svg, pdf."""

WIDTH_IN = 6.3
"""Width of a figure in inches: the text width of a one-column page."""


def save_figure(
    figure: Figure, folder: Path, name: str, suffixes: Collection[str] = FORMATS
) -> Iterator[Path]:
    """Write a figure in some formats and yield each file when it is written.

    Raises:
        OutputError: the folder cannot be written.
    """
    for suffix in suffixes:
        content = io.BytesIO()
        figure.savefig(content, format=suffix, dpi=_PNG_DPI, metadata=_METADATA[suffix])
        path = folder / f"{name}.{suffix}"
        write_bytes(path, content.getvalue())
        yield path
