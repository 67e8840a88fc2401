"""The table of workloads that nothing was tuned for."""

import json
import re
from pathlib import Path

import pytest

from tests.doubles.runs import synthetic_run, write_run
from tuner.campaign.held_out import HELD_OUT_FILE, SCHEMA, read_held_out
from tuner.campaign.summary import summarise
from tuner.errors import StoreError
from tuner.records import Configuration
from tuner.report.held_out import held_out_grid
from tuner.report.page import compute_report, render_page
from tuner.runs import Run, load_run


def with_held_out(folder: Path, reason: str | None = None) -> Run:
    """Return a run whose picks take nine tenths of the default's on a held-out workload."""
    run = load_run(write_run(synthetic_run(folder, n_trials=80)))
    default = Configuration(run.campaign.baseline)
    picks = [one.trial.configuration for one in summarise(run.campaign, run.trials).picked]
    rows = [
        {
            "workload": "other.trace",
            "sha256": "ab",
            "configuration": one.key,
            "reason": reason if one != default else None,
            "values": dict.fromkeys(
                run.campaign.objectives,
                None if reason and one != default else 1000.0 if one == default else 900.0,
            ),
        }
        for one in dict.fromkeys([default, *picks])
    ]
    document = {"schema": "malloc-tuner.held-out", "version": 1, "rows": rows}
    (folder / HELD_OUT_FILE).write_text(json.dumps(document))
    return run


def test_the_default_comes_first_and_picks_are_against_it(tmp_path: Path):
    run = with_held_out(tmp_path / "run")

    grid = held_out_grid(run)

    assert grid is not None
    first, *rest = grid.rows
    assert first.names == ("other.trace", f"{run.campaign.baseline} as shipped")
    assert not first.changes
    assert rest
    assert any("10.0" in change for row in rest for change in row.changes)


def test_what_failed_says_why(tmp_path: Path):
    grid = held_out_grid(with_held_out(tmp_path / "run", "killed by SIGABRT"))

    assert grid is not None
    assert any("killed by SIGABRT" in row.names[1] and row.is_out for row in grid.rows)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "damaged"),
        ({"schema": SCHEMA, "version": 2, "rows": [{}]}, "is not of version 1"),
        ({"schema": SCHEMA, "version": 1, "rows": [{}]}, "damaged (no 'workload')"),
    ],
)
def test_rows_that_cannot_be_read_are_not_taken_for_none(
    tmp_path: Path, document: object, said: str
):
    """The next campaign there wrote its own over them."""
    (tmp_path / HELD_OUT_FILE).write_text(json.dumps(document))

    with pytest.raises(StoreError, match=re.escape(said)):
        read_held_out(tmp_path)


def test_the_page_has_it_where_something_was_held_out(tmp_path: Path):
    page = render_page(compute_report(with_held_out(tmp_path / "run")))
    without = render_page(compute_report(load_run(write_run(synthetic_run(tmp_path / "plain")))))

    assert "other.trace" in page
    assert "Held-out workloads" in page
    assert "Held-out workloads" not in without
    assert held_out_grid(load_run(tmp_path / "plain")) is None
