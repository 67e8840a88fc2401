"""One description of a figure becomes files: the same bytes each time, with text as text."""

import re
from pathlib import Path

import pytest

from tuner.drawing.figure import (
    Figure,
    colours,
    embedding_script,
    layer,
    log_axis,
    quantity,
    save_figure,
)

ROWS = [{"x": 1, "y": 10.123456, "who": "bob"}, {"x": 2, "y": 20, "who": "bob"}]


def figure() -> Figure:
    encoding = {"x": quantity("x", "threads"), "y": quantity("y", "peak RSS (MiB)")}
    spec = layer(ROWS, {"type": "line"}, **encoding, color=colours("who", ["bob"], ["al", "bob"]))
    return Figure("rss", "Peak RSS", {"width": 200, "height": 100, **spec})


def test_files_are_what_their_suffix_says(tmp_path: Path):
    paths = save_figure(figure(), tmp_path / "new")

    assert [path.name for path in paths] == ["rss.png", "rss.svg", "rss.pdf"]
    assert {path.read_bytes()[:4] for path in paths} == {b"\x89PNG", b"<svg", b"%PDF"}


def test_the_same_description_gives_the_same_bytes(tmp_path: Path):
    kinds = ("png", "svg")
    first = [path.read_bytes() for path in save_figure(figure(), tmp_path / "a", kinds)]
    second = [path.read_bytes() for path in save_figure(figure(), tmp_path / "b", kinds)]

    assert first == second


def test_text_stays_text_and_colours_are_those_of_all_names(tmp_path: Path):
    (path,) = save_figure(figure(), tmp_path, ("svg",))
    svg = path.read_text()

    assert ">peak RSS (MiB)</text>" in svg
    assert "#3f7fbf" in svg  # the second of the further looks, though the first is not drawn
    assert "#7a5c00" not in svg


def test_level_and_upright_lines_are_short_paths_and_others_stay_lines(tmp_path: Path):
    """Neighbours that look alike are one path, so the groups of the drawing are as before."""
    ends = {"x": quantity("x", "x"), "y": quantity("y", "y"), "x2": {"field": "to"}}
    rows = [{"x": 1.0, "to": 3.0, "y": up, "up": 2.0} for up in (2.0, 2.0, 4.0)]
    spec = layer(rows, {"type": "rule"}, **ends, y2={"field": "up"})

    (path,) = save_figure(Figure("rules", "Rules", spec), tmp_path, ("svg",))
    svg = path.read_text()

    assert re.search(r'<path d="M100,150h200M100,150h200"', svg)
    assert re.search(r'<line [^>]*x2="[^"]+" y2="[^"]+"', svg)
    assert not re.search(r"<path[^>]* y2=", svg)


def test_marks_that_look_alike_are_described_once(tmp_path: Path):
    rows = [{"x": x, "y": 20, "who": "bob" if x < 4 else "al"} for x in (1, 2, 3, 4)]
    encoding = {"x": quantity("x", "threads"), "y": quantity("y", "RSS")}
    spec = layer(rows, {"type": "point"}, **encoding, color=colours("who", ["al", "bob"]))

    (path,) = save_figure(Figure("marks", "Marks", spec), tmp_path, ("svg",))
    svg = path.read_text()
    ((name, colour),) = re.findall(r'<path id="([^"]*)" d="[^"]*"[^>]* stroke="([^"]*)"', svg)

    places = re.findall(rf'<use xlink:href="#{name}" x="([^"]*)"', svg)
    assert len(set(places)) == 3
    assert svg.count(colour) == 2, "and in the legend"


def test_texts_of_one_line_have_a_place_and_others_are_moved(tmp_path: Path):
    axes = {"x": {"field": "x", "title": ["two", "lines"]}, "y": quantity("y", "one")}
    spec = layer(ROWS, {"type": "point"}, **axes)

    (path,) = save_figure(Figure("texts", "Texts", spec), tmp_path, ("svg",))
    texts = re.findall(r"<text[^>]*>(?:<tspan)?", path.read_text())

    assert {one.endswith("<tspan") for one in texts} == {True, False}
    for one in texts:
        assert ("transform=" in one) == (one.endswith("<tspan") or "rotate" in one)


def test_numbers_in_text_are_not_cut(tmp_path: Path):
    encoding = {"x": quantity("x", "share of 5.688"), "y": quantity("y", "RSS")}
    mark = {"type": "line", "opacity": 0.35}
    spec = layer(ROWS, mark, **encoding, color=colours("who", ["bob"], ["al", "bob"]))

    (path,) = save_figure(Figure("rss", "Peak RSS", spec), tmp_path, ("svg",))

    assert ">share of 5.688</text>" in path.read_text()
    assert 'opacity="0.35"' in path.read_text()


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.8, 30.0, [1.0, 2.0, 5.0, 10.0, 20.0]),
        (1.0, 1e5, [1.0, 10.0, 100.0, 1000.0, 10000.0, 100000.0]),
    ],
)
def test_logarithmic_axis_names_few_round_numbers(low: float, high: float, expected: list[float]):
    assert log_axis(low, high)["axis"]["values"] == pytest.approx(expected)


@pytest.mark.parametrize(("low", "high"), [(20.9, 46.0), (15.0, 30.0), (101.0, 109.0)])
def test_a_short_logarithmic_axis_has_numbers_too(tmp_path: Path, low: float, high: float):
    rows = [{"x": 1, "y": low}, {"x": 2, "y": high}]
    y = quantity("y", "memory", **log_axis(low, high))
    spec = layer(rows, {"type": "point"}, x=quantity("x", "threads"), y=y)

    (path,) = save_figure(Figure("short", "Short", spec), tmp_path, ("svg",))

    texts = [float(text) for text in re.findall(r">([0-9.]+)</text>", path.read_text())]
    assert len([value for value in texts if low <= value <= high]) > 1


def test_the_script_is_kept_and_a_damaged_one_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    scripts = iter(f"script {n} " * 1000 for n in range(3))
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda _snippet: next(scripts))

    def script() -> str:
        embedding_script.cache_clear()
        return embedding_script()[:8]

    assert script() == "script 0"
    (kept,) = (tmp_path / "malloc-tuner").iterdir()
    assert script() == "script 0"
    kept.write_bytes(kept.read_bytes()[:20])
    assert script() == "script 1"
    kept.write_bytes(b"no script")
    assert [script(), script()] == ["script 2"] * 2
    embedding_script.cache_clear()


def test_a_script_that_cannot_be_kept_is_made_all_the_same(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    embedding_script.cache_clear()

    assert "vegaEmbed" in embedding_script()
