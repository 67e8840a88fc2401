"""The front in a terminal: a dozen points in 100 columns."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.doubles.runs import MIB, synthetic_run, trial
from tuner.campaign.summary import summarise
from tuner.front.kept import pick_of_trial
from tuner.front.picks import standard_picks
from tuner.metrics import Metric, find_metrics, objective_names
from tuner.records import Configuration
from tuner.report.columns import show_change
from tuner.report.table import INFEASIBLE, TrialRow, front_table
from tuner.report.terminal import MOST_POINTS, condensed, marks, table_text
from tuner.runs import REQUEST_FILE, Run


def run_of(points: list[tuple[float, float]]) -> Run:
    run = synthetic_run(n_trials=4, allocators=("glibc",), rechecks=False)
    made = [
        trial(i, Configuration.of("glibc", {"mxfast": i} if i else {}), heap * MIB, cost)
        for i, (heap, cost) in enumerate(points)
    ]
    return Run(run.folder, run.campaign, tuple(made))


def test_points_with_equal_figures_are_one_row():
    run = run_of([(100.0, 1000.0), (50.0, 900.0), (50.1, 899.0), (50.2, 898.0), (60.0, 500.0)])

    table, alike = condensed(front_table(run, ("mean_heap", "cost")))

    assert [row.trial.number for row in table.rows] == [1, 4, 0]
    assert alike == {1: 2}


def test_what_dominates_a_default_is_named_where_it_is_folded_away():
    run = run_of([(50.05, 900.5), (50.1, 899.0), (50.0, 900.0), (60.0, 500.0)])
    picks = [pick_of_trial(run, 1)]

    assert "dominated by 2" in table_text(front_table(run, ("mean_heap", "cost"), picks))


def test_what_an_infeasible_default_breaks_is_named(tmp_path: Path):
    run = run_of([(100.0, 1000.0), (50.0, 900.0)])
    first, *others = run.trials
    campaign = replace(run.campaign, constraints=("peak_heap <= 40 KiB",))
    broken = Run(run.folder, campaign, (replace(first, violation=0.5), *others))

    text = table_text(front_table(broken, ("mean_heap", "cost")))

    assert "infeasible: breaks peak_heap <= 40 KiB." in text
    assert "infeasible" not in table_text(front_table(run, ("mean_heap", "cost")))

    (tmp_path / REQUEST_FILE).write_text("{}")
    text = table_text(front_table(replace(broken, folder=tmp_path), ("mean_heap", "cost")))
    whose = "the guard of peak memory that `optimize` began with"
    assert f"infeasible: breaks peak heap <= 40.0 KiB, {whose}." in " ".join(text.split())
    table = front_table(broken, ("mean_heap", "cost"))
    (row,) = [row for row in table.rows if row.state == INFEASIBLE]
    assert marks(replace(row, picks=("recommended",))) == "recommended"


def test_each_value_of_many_trials_is_read_once(monkeypatch: pytest.MonkeyPatch):
    run = run_of([*((50.0 + i, 5000.0 - 100 * i) for i in range(40)), *[(200.0, 9000.0)] * 20])
    table = front_table(run, ("mean_heap", "cost"), everything=True)
    monkeypatch.setattr(TrialRow, "__eq__", None)
    with patch.object(Metric, "value", return_value=1.0) as value:
        condensed(table)

    assert value.call_count == 2 * 60


def test_points_are_counted_as_the_campaign_counts_them():
    run = run_of([(100.0, 1000.0), (50.0, 900.0), (60.0, 500.0), (50.0, 900.0)])
    picks = [pick_of_trial(run, number) for number in (1, 3)]

    text = table_text(front_table(run, ("mean_heap", "cost"), picks))

    assert "2 points (3 trials) are on the front of mean_heap, cost; changes" in text
    assert summarise(run.campaign, run.trials).n_front == 2


@pytest.mark.parametrize(("cost", "mark"), [(901.0, "near the front"), (990.0, "dominated")])
def test_a_pick_that_is_simpler_is_near_the_front(cost: float, mark: str):
    run = run_of([(100.0, 1000.0), (50.0, 900.0), (50.1, cost)])

    text = table_text(front_table(run, ("mean_heap", "cost"), [pick_of_trial(run, 2)]))

    assert f"trial-2, {mark}" in " ".join(line[-16:].strip() for line in text.splitlines())
    assert ("and simpler" in text) is (mark == "near the front")


def test_what_is_near_the_front_stands_right_after_it():
    run = run_of([(100.0, 1000.0), (50.0, 900.0), (110.0, 1100.0), (50.1, 901.0)])

    picks = [pick_of_trial(run, number) for number in (2, 3)]
    rows = front_table(run, ("mean_heap", "cost"), picks).rows

    assert [row.trial.number for row in rows] == [1, 3, 0, 2]


def test_figures_are_as_good_as_equal_by_what_they_are_of_the_whole_program(
    monkeypatch: pytest.MonkeyPatch,
):
    run = run_of([(100.0, 1000.0), (50.0, 900.0), (56.0, 890.0), (75.0, 500.0)])
    alone = front_table(run, ("mean_heap", "cost"))
    inside = replace(alone, whole={"mean_heap": 2000.0 * MIB, "cost": 10_000.0})

    assert condensed(alone)[1] == {}
    assert condensed(inside)[1] == {1: 1}
    for columns in (60, 160):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert "change of" in table_text(inside)
    assert "values are the allocator's own" in " ".join(table_text(inside).split())


def test_a_dozen_points_are_shown_unless_all_are_wanted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "100")
    run = run_of([(200.0, 9000.0), *((50.0 + i, 5000.0 - 100 * i) for i in range(40))])
    full = front_table(run, ("mean_heap", "cost"))

    table, _ = condensed(full)
    text = table_text(full)

    assert len(table.rows) <= MOST_POINTS + 1
    assert f"{41 - len(table.rows)} more points of the front: --all" in text
    assert "more points" not in table_text(full, everything=True)
    assert max(map(len, text.splitlines()[: len(table.rows)])) <= 100


@pytest.mark.parametrize("n_objectives", [2, 6])
def test_a_front_fits_100_columns_at_any_number_of_objectives(
    monkeypatch: pytest.MonkeyPatch, n_objectives: int
):
    monkeypatch.setenv("COLUMNS", "80")
    names = [name for name in objective_names() if name != "p99_latency"][:n_objectives]
    run = synthetic_run(spread=0.03)
    picks = standard_picks(run.trials, names, "glibc")
    table = front_table(run, names, picks, everything=True)

    text = table_text(table, everything=True)

    assert max(map(len, text.splitlines())) <= 100
    for row in table.rows:
        for metric in find_metrics(names):
            assert metric.label in text
            assert show_change(row.ratios[metric.name]) in text


def test_the_picks_in_the_table_are_explained_below_it():
    run = synthetic_run(spread=0.03)
    names = ("mean_heap", "cost")
    picks = standard_picks(run.trials, names, "glibc")
    shown = [pick for pick in picks if pick.name in {"balanced", "no-regret"}]

    text = " ".join(table_text(front_table(run, names, shown)).split())

    assert (
        "no-regret: balanced among the points that emulation finds worse than glibc's default"
        in text
    )
    assert "no-regret:" not in table_text(front_table(run, names))
    assert "Changes are those of the allocator's own heap and work" in text


def test_the_words_below_the_table_fit_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    names = ("mean_heap", "cost")

    text = table_text(front_table(run_of([(1.0, 4.0), (2.0, 3.0)]), names))

    below = text[text.index("on the front of") :].splitlines()
    assert len(below) > 1
    assert max(map(len, below)) <= 40


def test_a_pick_that_equals_a_point_of_the_front_stands_in_its_place():
    run = run_of([(100.0, 1000.0), (50.0, 900.0), (50.0, 900.0), (60.0, 500.0)])
    pick = pick_of_trial(run, 2)

    numbers = [row.trial.number for row in front_table(run, ("mean_heap", "cost"), [pick]).rows]

    assert numbers == [1, 2, 3, 0]


@pytest.mark.parametrize(
    ("columns", "is_whole", "is_below"),
    [("80", True, True), ("100", True, False), ("60", False, True)],
)
def test_a_setting_is_broken_in_two_only_where_nothing_else_makes_the_table_fit(
    monkeypatch: pytest.MonkeyPatch, columns: str, *, is_whole: bool, is_below: bool
):
    monkeypatch.setenv("COLUMNS", columns)
    run = synthetic_run(n_trials=4, allocators=("glibc",), rechecks=False)
    settings = {"tcache_unsorted_limit": 4, "trim_threshold": 131072, "top_pad": 0}
    made = (
        trial(0, Configuration("glibc"), 100 * MIB, 1000.0),
        trial(1, Configuration.of("glibc", settings), 50 * MIB, 900.0),
    )
    names = ("mean_heap", "cost")

    picks = standard_picks(made, names, "glibc")
    text = table_text(front_table(Run(run.folder, run.campaign, made), names, picks))

    whole = {"tcache_unsorted_limit=4", "trim_threshold=131072"} <= set(text.split())
    assert whole == is_whole
    assert ("(balanced" in text) == is_below
    assert max(map(len, text.splitlines())) <= int(columns)
