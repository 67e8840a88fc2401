"""A table is described once, for page and terminal."""

import io

from rich.console import Console

from tuner.report.grid import Grid, Row, ranking_grid
from tuner.stats import Concordance
from tuner.validate.ranking import Ranking


def drawn(grid: Grid) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=120).print(grid.drawn())
    return [" ".join(line.split()) for line in text.getvalue().splitlines()]


def test_changes_stand_below_the_values_and_what_is_out_has_none():
    rows = (
        Row(("base",), ("1.0",)),
        Row(("lean",), ("0.9",), ("-10 % [-12, -8]",)),
        Row(("bad",), ("-",), is_out=True),
    )
    lines = drawn(Grid("what", ("subject",), ("heap (MiB)",), rows))

    assert lines == [
        "what", "heap", "subject (MiB)", "base 1.0", "lean 0.9", "-10 %", "[-12, -8]", "bad out",
    ]  # fmt: skip


def test_a_ranking_says_what_was_ranked_and_how_well():
    found = [
        Ranking("cost", "cpu", None, 4, 0.5, Concordance(0.75, 4)),
        Ranking("mean_heap", "mean_heap", "glibc", 3, None, None),
    ]
    grid = ranking_grid(found, "the real program does")

    assert grid.title == "Does the emulator rank as the real program does?"
    assert grid.rows[0].names == ("cost", "CPU time", "all")
    assert grid.rows[0].values == ("4", "0.50", "75 % of 4")
    assert grid.rows[1].values == ("3", "all ties", "none differ")
