"""One description of a figure, in Vega-Lite, for the page, SVG, PDF and PNG.

A figure is a plain dictionary in Vega-Lite's schema
(https://vega.github.io/vega-lite/docs/spec.html), so that describing one loads
nothing.  vl-convert, which holds Vega and a renderer, turns it into files
without a browser and without network; the page gets the same description
and the scripts that draw it.

Guarantee: the same description gives the same SVG and PNG, byte by byte, and
text in SVG and PDF stays text.  Limit: PDFs of one figure differ in the order
of their fonts' glyphs.
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from tuner import zstd
from tuner.drawing.labels import spread
from tuner.drawing.style import GRID, INK, MUTED, looks
from tuner.errors import OutputError
from tuner.output import write_bytes
from tuner.resources import cache_folder

Spec = dict[str, Any]
"""A part of a Vega-Lite description."""

FORMATS: Final = ("png", "svg", "pdf")
"""Suffixes of the files that can be written."""

WIDTH: Final = 700
"""Width of the plotting area of a usual figure in pixels; text has 12."""

_PNG_SCALE: Final = 2.0
"""Pixels of a PNG for one of the description."""

_FONT: Final = "Liberation Sans, Arial, Helvetica, sans-serif"
_CONFIG: Final[Spec] = {
    "font": _FONT,
    "background": "#ffffff",
    "padding": 6,
    "aria": False,
    "view": {"stroke": None},
    "axis": {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelColor": INK,
        "titleColor": INK,
        "gridColor": GRID,
        "domainColor": MUTED,
        "tickColor": MUTED,
        "titlePadding": 8,
    },
    "axisQuantitative": {"tickCount": 8},
    "axisBand": {"grid": False, "ticks": False, "domain": False},
    "legend": {
        "orient": "bottom",
        "direction": "horizontal",
        "title": None,
        "labelFontSize": 12,
        "labelColor": INK,
        "symbolSize": 80,
        "columnPadding": 18,
        "columns": 6,
    },
    "title": {
        "anchor": "start",
        "frame": "group",
        "fontSize": 12,
        "fontWeight": "bold",
        "color": INK,
    },
    "text": {"fontSize": 11.5, "color": INK},
    "concat": {"spacing": 26},
}


@dataclass(frozen=True)
class Figure:
    """A description with its names."""

    name: str
    """Of its files, without a suffix, and of its place in the page."""
    title: str
    """For people: what it shows."""
    spec: Spec
    """Vega-Lite, with its data, without `config`."""


def described(figure: Figure) -> Spec:
    """Return the whole description, as Vega-Lite takes it."""
    return {"description": figure.title, **figure.spec, "config": _CONFIG}


@functools.cache
def embedding_script() -> str:
    """Return Vega-Embed with all it needs, as a script that defines `vegaEmbed`.

    Bundling takes seconds, so the script is kept in the user's cache; where that cannot be read
    or written, it is bundled again.
    """
    import vl_convert  # noqa: PLC0415 - loaded by the commands that draw

    version = metadata.version("vl-convert-python")
    kept = cache_folder() / f"vega-{version}.js.zst"
    with contextlib.suppress(OSError, zstd.ZstdError, UnicodeDecodeError):
        return zstd.decompress(kept.read_bytes()).decode()
    script: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    with contextlib.suppress(OutputError):
        write_bytes(kept, zstd.compress(script.encode()))
    return script


def save_figure(figure: Figure, folder: Path, suffixes: Collection[str] = FORMATS) -> list[Path]:
    """Write a figure in some formats, and return the files.

    Raises:
        OutputError: the folder cannot be written.
    """
    import vl_convert  # noqa: PLC0415 - as above

    svg = _slim(vl_convert.vegalite_to_svg(described(figure)))
    files = []
    for suffix in suffixes:
        path = folder / f"{figure.name}.{suffix}"
        if suffix == "svg":
            content = svg.encode()
        elif suffix == "pdf":
            content = vl_convert.svg_to_pdf(svg)
        else:
            content = vl_convert.svg_to_png(svg, scale=_PNG_SCALE)
        write_bytes(path, content)
        files.append(path)
    return files


def files_text(figure: Figure, folder: Path) -> str:
    """Return the files of a figure in all formats, in a few words."""
    first, *others = FORMATS
    return f"{folder / figure.name}.{first}, " + ", ".join(f".{suffix}" for suffix in others)


def _slim(svg: str) -> str:
    """Drop what no viewer shows: hundredths of pixels, roles of Vega's groups, empty paths.

    Ends of lines at 0, lines' usual width, the width of strokes that are not there, and moves by
    nothing go too.  Lines become paths, which are shorter, neighbours one.  Texts of one line have
    a place, not a move.  The font stands once, where it is one for all texts.
    """
    fonts = set(re.findall(r' font-family="[^"]*"', svg))
    if len(fonts) == 1:
        (font,) = fonts
        svg = svg.replace(font, "").replace("<svg", f"<svg{font}", 1)
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r'(?<!opacity="0)(\.\d)\d+', r"\1", tag[0]), svg)
    svg = re.sub(r' (?:role|aria-[a-z]+|class|pointer-events)="[^"]*"', "", svg)
    svg = re.sub(r'(<line[^>]*?) [xy]2="0"', r"\1", svg.replace(' opacity="1"', ""))
    svg = re.sub(r'(<line[^>]*?) stroke-width="1"', r"\1", svg)
    svg = svg.replace(' transform="translate(0,0)"', "")
    text = r'(<text[^>]*?) transform="translate\(([^,)]+),([^)]+)\)"([^>]*>)(?!<tspan)'
    svg = re.sub(text, r'\1 x="\2" y="\3"\4', svg)
    svg = re.sub(r'(<path(?![^>]* stroke=")[^>]*?) stroke-width="[^"]*"', r"\1", svg)
    svg = re.sub(r'<path d="[^"]*"(?: display="none")?/>', "", svg)
    moved = r'<line transform="translate\(([^,)]+),([^)]+)\)" ([xy])2="([^"]+)"(?! [xy]2)'
    svg = re.sub(moved, _path, svg)
    line = r'<path d="M[-.\d]+,[-.\d]+[hv][-.\d]+"'
    alike = rf"{line}((?![^>]*opacity)[^>]*)/>(?:{line}\1/>)+"
    return _with_shared_marks(re.sub(alike, _joined, svg))


def _with_shared_marks(svg: str) -> str:
    """Describe marks that differ in their place alone once."""
    mark = r'<path transform="translate\(([^,)]+),([^)]+)\)" ([^>]*)/>'
    counts = Counter(looks for _, _, looks in re.findall(mark, svg))
    names = {looks: f"mark{number}" for number, (looks, n) in enumerate(counts.items()) if n > 1}
    if not names:
        return svg

    def placed(found: re.Match[str]) -> str:
        x, y, looks = found.groups()
        name = names.get(looks)
        return f'<use xlink:href="#{name}" x="{x}" y="{y}"/>' if name else found[0]

    marks = "".join(f'<path id="{name}" {looks}/>' for looks, name in names.items())
    head, end, body = svg.partition(">")
    return f"{head}{end}<defs>{marks}</defs>{re.sub(mark, placed, body)}"


def _joined(alike: re.Match[str]) -> str:
    """Return one path for several that differ in their lines alone."""
    lines = re.findall(r' d="([^"]*)"', alike[0])
    return f'<path d="{"".join(lines)}"{alike[1]}/>'


def _path(line: re.Match[str]) -> str:
    """Return the beginning of a path that is an upright or a level line."""
    x, y, axis, length = line.groups()
    return f'<path d="M{x},{y}{"h" if axis == "x" else "v"}{length}"'


# Parts of descriptions


def layer(values: Sequence[Mapping[str, Any]], mark: Spec, **encoding: Any) -> Spec:
    """Return a layer: rows, the mark that draws each, and what of a row it shows."""
    return {"data": {"values": list(values)}, "mark": mark, "encoding": encoding}


def quantity(field: str, title: str | None = None, **more: Any) -> Spec:
    """Return the encoding of a number.

    Args:
        field: of the rows.
        title: of the axis; None leaves it to other layers.
        more: `scale`, `axis` and so on.
    """
    named = {} if title is None else {"title": title}
    return {"field": field, "type": "quantitative", **named, **more}


def log_axis(low: float, high: float) -> Spec:
    """Return scale and axis of a logarithmic quantity: 1, 2, 5 of each decade, or decades alone.

    Where at most one of these lies between the ends, others are named.

    Args:
        low: least value, above 0.
        high: greatest value.
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if last - first <= _FEW_DECADES else (1,)
    ticks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    shown = [tick for tick in ticks if low <= tick <= high]
    named: Spec = {"values": shown} if len(shown) > 1 else {"tickCount": _FEW_TICKS}
    return {
        "scale": {"type": "log", "domain": [low, high], "nice": False},
        "axis": {**named, "format": ",~r"},
    }


_FEW_TICKS: Final = 4
"""About as many numbers has an axis on which at most one of 1, 2, 5 lies."""
_FEW_DECADES: Final = 3
"""Up to here 2 and 5 are named too."""


def category(field: str, **more: Any) -> Spec:
    """Return the encoding of a name."""
    return {"field": field, "type": "nominal", **more}


def colours(field: str, names: Sequence[str], among: Sequence[str] = (), **more: Any) -> Spec:
    """Return the encoding of an allocator's colour.

    Args:
        field: of the rows.
        names: what is drawn, in the order of the legend.
        among: all names that share looks, if there are more.
        more: `legend` and so on.
    """
    known = looks(among or names)
    scale = {"domain": list(names), "range": [known[name].colour for name in names]}
    return category(field, scale=scale, **more)


def shapes(field: str, names: Sequence[str], among: Sequence[str] = (), **more: Any) -> Spec:
    """Return the encoding of an allocator's marker; arguments as those of `colours`."""
    known = looks(among or names)
    scale = {"domain": list(names), "range": [known[name].shape for name in names]}
    return category(field, scale=scale, **more)


def label_layers(rows: Sequence[Mapping[str, Any]], position: Spec, mark: Spec) -> list[Spec]:
    """Return text on a white halo, so that lines and marks behind it do not hide it.

    Args:
        rows: with `text` (a list has one line each) and `colour`.
        position: encoding of x and y.
        mark: further properties of the text: `align`, `dx` ...
    """
    text = {"text": category("text")}
    halo = {"type": "text", "stroke": "#ffffff", "strokeWidth": 3, "strokeOpacity": 0.85, **mark}
    ink = {"type": "text", **mark}
    colour = category("colour", scale=None)
    return [
        layer(rows, {**halo, "strokeJoin": "round", "aria": False}, **position, **text),
        layer(rows, ink, **position, **text, color=colour),
    ]


def end_names(
    ends: Sequence[Mapping[str, Any]], position: Spec, domain: tuple[float, float], height_px: float
) -> list[Spec]:
    """Name lines at the right end, without a legend; a leader connects each name and its line.

    Args:
        ends: last point of every line (`x`, `y`) with `text` and `colour`.
        position: encoding of x and y; `x` ends where the lines do.
        domain: of y.
        height_px: of the plotting area.
    """
    low, high = domain
    gap = _NAME_PX * (high - low) / height_px
    places = spread([end["y"] - low for end in ends], gap, high - low)
    rows = [{**end, "end": end["y"], "y": low + y} for end, y in zip(ends, places, strict=True)]
    line = {"type": "rule", "strokeWidth": 0.8, "xOffset": 14, "x2Offset": 2}
    target: Spec = {"x2": {"field": "x"}, "y2": {"field": "end"}}
    text = {"align": "left", "baseline": "middle", "dx": 17}
    leaders = layer(rows, line, **position, **target, color=category("colour", scale=None))
    return [leaders, *label_layers(rows, position, text)]


_NAME_PX: Final = 15.0
"""Least distance of two names in a column."""
