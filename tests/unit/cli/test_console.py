"""What commands print fits a page, and a log."""

import sys

import pytest
from rich.table import Table

from tuner.cli.console import PAGE_WIDTH, folded, print_note, stderr_progress, stdout_console


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_note_is_one_line_where_it_is_searched(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_terminal: bool
):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)

    print_note("a price " * 20 + "of this machine")

    lines = capsys.readouterr().err.splitlines()
    assert (len(lines) > 1, max(map(len, lines)) <= PAGE_WIDTH) == (is_terminal, is_terminal)


@pytest.mark.parametrize(("columns", "most"), [("60", 60), ("200", PAGE_WIDTH)])
def test_a_page_is_as_wide_as_the_terminal_but_no_wider_than_can_be_read(
    monkeypatch: pytest.MonkeyPatch, columns: str, most: int
):
    monkeypatch.setenv("COLUMNS", columns)

    assert most - 6 < max(map(len, folded("words " * 60, 2).splitlines())) <= most


def test_brackets_of_a_table_stay_as_they_are(capsys: pytest.CaptureFixture[str]):
    table = Table("mine[new] a[/b]")

    stdout_console(table).print(table)

    assert "mine[new] a[/b]" in capsys.readouterr().out


def test_figures_between_colons_stay_as_they_are(capsys: pytest.CaptureFixture[str]):
    table = Table("heap.c:100: free")

    stdout_console(table).print(table)
    assert f" {table.columns[0].header} " in capsys.readouterr().out
    with stderr_progress() as bar:
        bar.say("heap.c:100: free")
    assert "heap.c:100: free" in capsys.readouterr().err
