"""The front in a terminal: a dozen points in 100 columns."""

from __future__ import annotations

import pytest

from tests.doubles.runs import MIB, synthetic_run, trial
from tuner.front.picks import standard_picks
from tuner.records import Configuration
from tuner.report.table import front_table
from tuner.report.terminal import MOST_POINTS, condensed, table_text
from tuner.runs import Run


def run_of(points: list[tuple[float, float]]) -> Run:
    run = synthetic_run(n_trials=4, allocators=("glibc",), rechecks=False)
    made = [
        trial(i, Configuration.of("glibc", {"mxfast": i} if i else {}), heap * MIB, cost)
        for i, (heap, cost) in enumerate(points)
    ]
    return Run(run.folder, run.campaign, tuple(made))


def test_points_with_equal_figures_are_one_row() -> None:
    run = run_of([(100.0, 1000.0), (50.0, 900.0), (50.1, 899.0), (50.2, 898.0), (60.0, 500.0)])

    table, alike = condensed(front_table(run, ("mean_heap", "cost")))

    assert [row.trial.number for row in table.rows] == [1, 4, 0]
    assert alike == {1: 2}


def test_a_dozen_points_are_shown_unless_all_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    run = run_of([(200.0, 9000.0), *((50.0 + i, 5000.0 - 100 * i) for i in range(40))])
    full = front_table(run, ("mean_heap", "cost"))

    table, _ = condensed(full)
    text = table_text(full)

    assert len(table.rows) <= MOST_POINTS + 1
    assert f"{41 - len(table.rows)} more points of the front: --all" in text
    assert "more points" not in table_text(full, everything=True)
    assert max(map(len, text.splitlines()[: len(table.rows)])) <= 100


def test_a_front_with_picks_fits_100_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    run = synthetic_run(spread=0.03)
    picks = standard_picks(run.trials, ("mean_heap", "cost"), "glibc")

    lines = table_text(front_table(run, ("mean_heap", "cost"), picks)).splitlines()

    assert max(len(line) for line in lines if not line.startswith("Within")) <= 100
