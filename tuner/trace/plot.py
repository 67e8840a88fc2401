"""The picture of a trace: live bytes over time, sizes, lifetimes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tuner.drawing.figure import (
    FORMATS,
    WIDTH,
    Figure,
    Spec,
    category,
    label_layers,
    layer,
    quantity,
    save_figure,
)
from tuner.drawing.style import ACCENT, CONTRAST, MUTED
from tuner.errors import SpecError
from tuner.trace.info import Histogram, TraceInfo, filled_bins
from tuner.units import show_size

_TIME_UNITS: Final = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_SIZE_UNITS: Final = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "bytes"))
_MOST_TICKS: Final = 10
"""Labels under a histogram: as many as fit beside each other."""
_SERIES: Final = ("blocks", "their bytes")


def trace_figure(info: TraceInfo, title: str, name: str) -> Figure:
    """Draw a trace.

    Args:
        info: its statistics.
        title: what program it is of.
        name: of the file, without suffix.
    """
    totals = info.totals
    text = (
        f"{title}: {totals.n_events:,} events, {totals.n_threads} "
        f"thread{'s'[: totals.n_threads > 1]}, peak {show_size(totals.peak_live_bytes)}"
    )
    sizes = _histogram(info.size, "sizes", "requested bytes, from")
    lifetimes = _histogram(info.lifetime, "lifetimes", "events from birth to free, from")
    spec: Spec = {
        "title": {"text": text, "fontSize": 14, "offset": 14},
        "vconcat": [_curve(info), {"hconcat": [sizes, lifetimes]}],
    }
    return Figure(name, text, spec)


def format_of(path: Path) -> str:
    """Return the format that the suffix of a file's name chooses.

    Raises:
        SpecError: an unknown suffix.
    """
    suffix = path.suffix.removeprefix(".")
    if suffix not in FORMATS:
        raise SpecError(f"{path}: unknown kind of picture; use one of .{', .'.join(FORMATS)}")
    return suffix


def save(info: TraceInfo, title: str, path: Path) -> None:
    """Draw a trace into a file.

    Raises:
        SpecError: an unknown suffix.
        OutputError: the file cannot be written.
    """
    save_figure(trace_figure(info, title, path.stem), path.parent, (format_of(path),))


def _curve(info: TraceInfo) -> Spec:
    time_scale, time_unit = _unit_for(info.totals.duration_ns, _TIME_UNITS)
    size_scale, size_unit = _unit_for(info.totals.peak_live_bytes, _SIZE_UNITS)
    rows = [
        {"x": float(time) / time_scale, "y": float(live) / size_scale}
        for time, live in zip(info.curve.time_ns, info.curve.live_bytes, strict=True)
    ]
    end = rows[-1]["x"] if rows else 1.0
    mean = info.mean_live_bytes / size_scale
    position = {
        "x": quantity("x", f"time ({time_unit})", scale={"domain": [0, end or 1.0], "nice": False}),
        "y": quantity("y", f"requested bytes alive ({size_unit})", stack=None),
    }
    area = {
        "type": "area",
        "interpolate": "step-after",
        "color": ACCENT,
        "fillOpacity": 0.18,
        "line": {"color": ACCENT, "strokeWidth": 1.3},
    }
    rule = {"type": "rule", "color": MUTED, "strokeDash": [5, 3], "strokeWidth": 1.2}
    name = {"x": end, "y": mean, "text": f"mean {show_size(info.mean_live_bytes)}", "colour": MUTED}
    text = {"align": "left", "baseline": "middle", "dx": 5}
    return {
        "width": WIDTH,
        "height": 220,
        "layer": [
            layer(rows, area, **position),
            layer([name], rule, y=position["y"]),
            *label_layers([name], position, text),
        ],
    }


def _histogram(histogram: Histogram, title: str, label: str) -> Spec:
    """Draw the shares of blocks and of bytes side by side, per power of two."""
    bins = list(filled_bins(histogram))
    n_blocks = max(1, sum(blocks for _, _, blocks, _ in bins))
    n_bytes = max(1.0, sum(size for *_, size in bins))
    rows = [
        {"bin": _short_count(low), "series": series, "share": 100 * share}
        for low, _, blocks, size in bins
        for series, share in zip(_SERIES, (blocks / n_blocks, size / n_bytes), strict=True)
    ]
    scale = {"domain": list(_SERIES), "range": [ACCENT, CONTRAST]}
    step = -(-len(bins) // _MOST_TICKS) or 1
    ticks = {"labelAngle": 0, "values": [_short_count(low) for low, *_ in bins][::step]}
    return {
        "title": title,
        "width": WIDTH / 2 - 30,
        "height": 150,
        **layer(
            rows,
            {"type": "bar"},
            x=category("bin", title=label, sort=None, axis=ticks),
            xOffset=category("series"),
            y=quantity("share", "share (%)"),
            color=category("series", scale=scale),
        ),
    }


def _unit_for(value: float, units: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """Return the largest unit that is not above the value, else the smallest one."""
    return next((unit for unit in units if value >= unit[0]), units[-1])


def _short_count(value: float) -> str:
    """Return a power of two as people read it: ``512``, ``64k``, ``2M``; k is 1024."""
    for unit in ("", "k", "M", "G"):
        if value < 1024:  # noqa: PLR2004 - the binary step
            return f"{value:.0f}{unit}"
        value /= 1024
    return f"{value:.0f}T"
