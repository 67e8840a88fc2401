"""The pictures of gem5_case.py: what each setting costs and saves, and how the emulator ranks."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.gem5_case_figures import Results, allocators, change, labels, over_tuned, picks
from tuner.report.style import look


def draw(results: Results, folder: Path) -> list[Path]:
    """Write the pictures and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = {"gem5-case-changes.svg": _changes(results), "gem5-case-ranks.svg": _ranks(results)}
    paths = []
    for name, figure in figures.items():
        path = folder / name
        figure.savefig(path, metadata={"Date": None})
        paths.append(path)
    return paths


def _changes(results: Results) -> Figure:
    figure = Figure(figsize=(7.5, 5.0), layout="constrained")
    axes = figure.add_subplot()
    chosen = picks(results).values()
    for name in allocators(results):
        style = look(name)
        for label in labels(results, name):
            heap = change(results, "held-out", label, "mean_heap")
            cpu = change(results, "held-out", label, "cpu_ns")
            if heap is None or cpu is None:
                continue
            is_default = label.endswith(" default")
            where = (100 * (cpu.median - 1), 100 * (heap.median - 1))
            axes.plot(
                *where,
                style.marker,
                color=style.colour,
                fillstyle="none" if is_default else "full",
                markersize=11 if label in chosen else 7,
                label=name if is_default else None,
            )
            axes.annotate(
                label.partition(" ")[2],
                where,
                xytext=(5, 4),
                textcoords="offset points",
                fontsize=7,
                color=style.colour,
            )
    axes.axhline(0, color="0.7", linewidth=0.8, zorder=0)
    axes.axvline(0, color="0.7", linewidth=0.8, zorder=0)
    axes.set_xlabel("CPU time of gem5, change from glibc's default (%)")
    axes.set_ylabel("mean heap of gem5, change from glibc's default (%)")
    axes.set_title("Simulations held out; hollow: defaults, large: picked", fontsize=10)
    axes.legend(frameon=False)
    return figure


def _ranks(results: Results) -> Figure:
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    _rank(results, left, "mean_heap", "mean_heap", 1e6)
    _rank(results, right, "cost", "cpu_ns", 1e9)
    left.set_xlabel("emulated mean heap (MB)")
    left.set_ylabel("mean heap of gem5 (MB)")
    right.set_xlabel("emulated cost (million instructions)")
    right.set_ylabel("CPU time of gem5 (s)")
    left.legend(frameon=False)
    return figure


def _rank(results: Results, axes: Axes, emulated: str, metric: str, unit: float) -> None:
    for name in allocators(results):
        pairs = []
        for label, point in results["points"].items():
            real = over_tuned(results, label, metric)
            if label.startswith(f"{name} ") and real is not None and point["emulated"]:
                pairs.append((point["emulated"][emulated] / 1e6, real / unit))
        if pairs:
            style = look(name)
            axes.plot(*zip(*pairs, strict=True), style.marker, color=style.colour, label=name)
