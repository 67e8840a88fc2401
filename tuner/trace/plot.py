"""The picture of a trace: live bytes over time, sizes, lifetimes.

Colours are told apart by people with the common colour vision deficiencies
(Okabe and Ito, "Color Universal Design", 2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from tuner.errors import OutputError
from tuner.trace.info import Histogram, TraceInfo, filled_bins
from tuner.units import show_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS: Final = ("png", "svg", "pdf")
"""Suffixes of the files that can be written."""

_BLOCKS, _BYTES, _INK, _MUTED, _GRID = "#0072b2", "#d55e00", "#1c2430", "#5b6675", "#e3e7ec"

_TIME_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_SIZE_UNITS = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "bytes"))

_MOST_TICKS = 8
"""Labels under a histogram: as many as fit beside each other."""


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


def _style(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=10, color=_INK)
    axes.grid(visible=True, axis="y", color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=_MUTED, labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(_MUTED)


def _draw_curve(axes: Axes, info: TraceInfo) -> None:
    time_scale, time_unit = _unit_for(info.totals.duration_ns, _TIME_UNITS)
    size_scale, size_unit = _unit_for(info.totals.peak_live_bytes, _SIZE_UNITS)
    times, live = info.curve.time_ns / time_scale, info.curve.live_bytes / size_scale
    mean = info.mean_live_bytes / size_scale
    _style(axes, f"requested bytes alive [{size_unit}]")
    axes.fill_between(times, live, step="post", color=_BLOCKS, alpha=0.18, linewidth=0)
    axes.plot(times, live, drawstyle="steps-post", color=_BLOCKS, linewidth=1.1)
    axes.axhline(mean, color=_MUTED, linewidth=1, linestyle="--")
    axes.annotate(
        f"mean {show_size(info.mean_live_bytes)}",
        (1.0, mean),
        xycoords=("axes fraction", "data"),
        xytext=(-2, 3),
        textcoords="offset points",
        ha="right",
        fontsize=8,
        color=_MUTED,
    )
    axes.set_xlabel(f"time [{time_unit}]", fontsize=9, color=_MUTED)
    axes.set_xlim(0, max(float(times[-1]) if len(times) else 1.0, 1e-9))
    axes.set_ylim(bottom=0)


def _draw_histogram(axes: Axes, title: str, histogram: Histogram, label: str) -> None:
    """Draw the shares of blocks and of bytes side by side, per power of two."""
    bins = list(filled_bins(histogram))
    _style(axes, title)
    n_blocks = max(1, sum(blocks for _, _, blocks, _ in bins))
    n_bytes = max(1.0, sum(size for *_, size in bins))
    places = range(len(bins))
    width = 0.42
    blocks_at = [place - width / 2 for place in places]
    bytes_at = [place + width / 2 for place in places]
    axes.bar(
        blocks_at, [100 * b / n_blocks for _, _, b, _ in bins], width, color=_BLOCKS, label="blocks"
    )
    axes.bar(
        bytes_at, [100 * s / n_bytes for *_, s in bins], width, color=_BYTES, label="their bytes"
    )
    step = max(1, -(-len(bins) // _MOST_TICKS))
    axes.set_xticks(
        list(places)[::step], [_short_count(low) for low, *_ in bins][::step], fontsize=8
    )
    axes.set_xlabel(label, fontsize=9, color=_MUTED)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:.0f} %"))
    # Beside the title, where no bar can be.
    axes.legend(
        frameon=False,
        fontsize=8,
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        borderaxespad=0.2,
        ncols=2,
    )


def draw(info: TraceInfo, title: str) -> Figure:
    """Draw a trace.

    Args:
        info: its statistics.
        title: what program it is of.
    """
    figure = Figure(figsize=(10, 6.4), layout="constrained")
    axes: dict[str, Any] = figure.subplot_mosaic([["curve", "curve"], ["size", "lifetime"]])
    totals = info.totals
    figure.suptitle(
        f"{title}: {totals.n_events:,} events, {totals.n_threads} "
        f"thread{'s'[: totals.n_threads > 1]}, peak {show_size(totals.peak_live_bytes)}",
        fontsize=11,
        color=_INK,
        x=0.01,
        ha="left",
    )
    _draw_curve(axes["curve"], info)
    _draw_histogram(axes["size"], "sizes", info.size, "requested bytes, from")
    _draw_histogram(
        axes["lifetime"], "lifetimes", info.lifetime, "events of the trace from birth to free, from"
    )
    return figure


def save(info: TraceInfo, title: str, path: Path) -> None:
    """Draw a trace into a file; the suffix of its name chooses the format.

    Raises:
        OutputError: an unknown suffix, or the file cannot be written.
    """
    if path.suffix.removeprefix(".") not in FORMATS:
        message = f"{path}: unknown kind of picture; use one of .{', .'.join(FORMATS)}"
        raise OutputError(message)
    try:
        draw(info, title).savefig(path, dpi=150)
    except OSError as error:
        message = f"{path}: cannot be written: {error.strerror}"
        raise OutputError(message) from error
