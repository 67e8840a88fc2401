"""The pictures of gem5_case.py: what each setting costs and saves, and how the emulator ranks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gem5_case_figures import Results, allocators, change, labels, over_tuned, picks
from tuner.drawing.figure import (
    WIDTH,
    Figure,
    Spec,
    colours,
    label_layers,
    layer,
    quantity,
    save_figure,
    shapes,
)
from tuner.drawing.style import MUTED, looks

_CHANGE = "change from glibc's default (%)"


def draw(results: Results, folder: Path) -> list[Path]:
    """Write the pictures and return their paths."""
    figures = (_changes(results), _ranks(results))
    return [path for figure in figures for path in save_figure(figure, folder, ("svg",))]


def _changes(results: Results) -> Figure:
    rows = list(_change_rows(results))
    names = allocators(results)
    position = {
        "x": quantity("x", f"CPU time of gem5, {_CHANGE}", axis={"format": "+~r"}),
        "y": quantity("y", f"mean heap of gem5, {_CHANGE}", axis={"format": "+~r"}),
    }
    looks_ = {"color": colours("allocator", names), "shape": shapes("allocator", names)}
    size = {"condition": {"test": "datum.is_picked", "value": 180}, "value": 60}
    point = {"type": "point", "opacity": 1, "strokeWidth": 1.8}
    zero = {"type": "rule", "color": MUTED}
    text = {"align": "left", "baseline": "middle", "dx": 9}
    spec: Spec = {
        "title": "Simulations held out; hollow: defaults, large: picked",
        "width": WIDTH,
        "height": 420,
        "layer": [
            layer([{"x": 0}], zero, x=quantity("x")),
            layer([{"y": 0}], zero, y=quantity("y")),
            *(
                layer([r for r in rows if r["is_default"] != filled], {**point, "filled": filled},
                      **position, **looks_, size=size)
                for filled in (True, False)
            ),
            *label_layers(rows, position, text),
        ],
    }  # fmt: skip
    return Figure("gem5-case-changes", "Heap and CPU time of gem5 under every setting", spec)


def _change_rows(results: Results) -> Iterator[dict[str, Any]]:
    chosen = picks(results).values()
    known = looks(allocators(results))
    for name in allocators(results):
        for label in labels(results, name):
            heap = change(results, "held-out", label, "mean_heap")
            cpu = change(results, "held-out", label, "cpu_ns")
            if heap is not None and cpu is not None:
                yield {
                    "x": 100 * (cpu.median - 1),
                    "y": 100 * (heap.median - 1),
                    "allocator": name,
                    "is_default": label.endswith(" default"),
                    "is_picked": label in chosen,
                    "text": label.partition(" ")[2],
                    "colour": known[name].colour,
                }


def _ranks(results: Results) -> Figure:
    heap = _rank(
        results,
        ("mean_heap", "mean_heap", 1e6),
        ("emulated mean heap (MB)", "mean heap of gem5 (MB)"),
    )
    cost = _rank(
        results,
        ("cost", "cpu_ns", 1e9),
        ("emulated cost (million instructions)", "CPU time of gem5 (s)"),
    )
    title = "Emulated and measured on gem5, setting by setting"
    return Figure("gem5-case-ranks", title, {"hconcat": [heap, cost]})


def _rank(results: Results, metrics: tuple[str, str, float], titles: tuple[str, str]) -> Spec:
    emulated, metric, unit = metrics
    rows = [
        {"x": point["emulated"][emulated] / 1e6, "y": real / unit, "allocator": name}
        for name in allocators(results)
        for label, point in results["points"].items()
        if label.startswith(f"{name} ")
        and point["emulated"]
        and (real := over_tuned(results, label, metric)) is not None
    ]
    names = allocators(results)
    zero = {"zero": False}
    point = layer(
        rows,
        {"type": "point", "filled": True, "size": 60, "opacity": 1},
        x=quantity("x", titles[0], scale=zero),
        y=quantity("y", titles[1], scale=zero),
        color=colours("allocator", names),
        shape=shapes("allocator", names),
    )
    return {"width": WIDTH / 2 - 30, "height": 280, **point}
