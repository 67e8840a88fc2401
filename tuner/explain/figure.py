"""The picture of an explanation: the share of each setting, for the front and each objective."""

from __future__ import annotations

from typing import Any, Final

from tuner.drawing.figure import Figure, Spec, category, colours, layer, quantity
from tuner.drawing.style import CONTRAST, INK, MUTED
from tuner.explain.explanation import AllocatorExplained, Explanation
from tuner.explain.wording import label
from tuner.report.parallel import show_value
from tuner.units import show_percent

_MOST: Final = 8
"""Settings that are drawn of an allocator."""
_PANEL_PX: Final = 190
_ROW_PX: Final = 19


def importance_figure(explanation: Explanation) -> Figure:
    """Draw one row for each setting that matters, one panel for each target, the front first.

    A dangerous setting carries in the first panel from where on it is.
    """
    rows, names = [], []
    for found in explanation.allocators:
        for one in found.settings[:_MOST]:
            names.append(f"{found.allocator} {one.name}")
            rows += _rows(found, one.name)
    targets = list(explanation.by_allocator)
    most = max((row["high"] for row in rows), default=0.1)
    allocators = [found.allocator for found in explanation.allocators]
    panels = [
        _panel(
            [row for row in rows if row["target"] == target], target, names, allocators, most,
            _notes(explanation, most, target) if target == targets[0] else [],
            is_first=target == targets[0],
        )
        for target in targets
    ]  # fmt: skip
    spec: Spec = {"hconcat": panels, "spacing": 14}
    return Figure("importance", "Share of the variance that each setting has a part in", spec)


def _rows(found: AllocatorExplained, name: str) -> list[dict[str, Any]]:
    shares = found.importance.shares[name]
    return [
        {
            "name": f"{found.allocator} {name}",
            "allocator": found.allocator,
            "target": target,
            "share": share.value,
            "low": max(0.0, share.value - 2.0 * share.error),
            "high": min(1.0, share.value + 2.0 * share.error),
            "tip": f"{name}: {show_percent(share.value)} of {label(target)}",
        }
        for target, share in shares.items()
    ]


def _notes(explanation: Explanation, most: float, target: str) -> list[dict[str, Any]]:
    notes = []
    for found in explanation.allocators:
        for one in found.settings[:_MOST]:
            if one.danger is None:
                continue
            danger = one.danger
            if danger.above is not None:
                where = f"harms above {show_value(danger.above)}"
            elif danger.below is not None:
                where = f"harms below {show_value(danger.below)}"
            else:
                where = f"harms: {', '.join(show_value(level.value) for level in danger.levels)}"
            name = f"{found.allocator} {one.name}"
            share = found.importance.shares[one.name].get(target)
            end = min(1.0, share.value + 2.0 * share.error) if share else 0.0
            is_long = end > most / 2.0
            notes.append({"name": name, "share": 0.0 if is_long else end, "text": where})
    return notes


def _panel(  # noqa: PLR0917 - internal, one call
    rows: list[dict[str, Any]],
    target: str,
    names: list[str],
    allocators: list[str],
    most: float,
    notes: list[dict[str, Any]],
    *,
    is_first: bool,
) -> Spec:
    axis: Spec = {"labelLimit": 260} if is_first else {"labels": False}
    place = category("name", sort=names, title=None, axis=axis, scale={"domain": names})
    domain = {"domain": [0.0, most], "nice": False}
    x = quantity("share", label(target), scale=domain, axis={"format": "%", "tickCount": 4})
    colour = colours("allocator", allocators, legend=None)
    bar: Spec = {"type": "bar", "height": {"band": 0.62}, "opacity": 0.75}
    span: Spec = {"type": "rule", "color": INK, "strokeWidth": 1.2}
    text: Spec = {"type": "text", "align": "left", "baseline": "middle", "dx": 5, "fontSize": 10.5}
    words: Spec = {"x": x, "y": place, "text": category("text")}
    layers = [
        layer(rows, bar, x=x, y=place, color=colour, tooltip={"field": "tip"}),
        layer(rows, span, x=quantity("low", scale=domain), x2={"field": "high"}, y=place),
        layer(notes, {**text, "stroke": "#ffffff", "strokeWidth": 3}, **words),
        layer(notes, {**text, "color": CONTRAST}, **words),
    ]
    if not rows:
        message = [{"text": "not predictable from these trials"}]
        grey: Spec = {"type": "text", "color": MUTED}
        layers.append(layer(message, grey, text=category("text")))
    return {"width": _PANEL_PX, "height": _ROW_PX * len(names), "layer": layers}
