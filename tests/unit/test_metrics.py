"""The table of metrics: a metric is one entry, and all else follows."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.doubles import synthetic
from tests.doubles.places import DATA
from tests.doubles.runs import measurement
from tuner.config import campaign_from_options
from tuner.errors import MissingToolError, SpecError
from tuner.measure.emulator import parse_result
from tuner.metrics import (
    INSIDE,
    METRICS,
    REAL,
    Kind,
    Metric,
    find_metrics,
    find_objective,
    objective_names,
)
from tuner.records import Configuration, Measurement, Origin, Outcome, Trial
from tuner.report.table import front_table, table_json
from tuner.runs import load_run
from tuner.store import Store

RESULT = DATA / "emulator_result.json"

TOY = Metric(
    "chunks", "chunks", Kind.COUNT, "chunks mapped", "heap.chunks",
    is_objective=True, missing="rebuild the emulator", real=("faults",),
)  # fmt: skip


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Metric:
    monkeypatch.setitem(METRICS, TOY.name, TOY)
    return TOY


def printed(**members: object) -> str:
    return json.dumps({**json.loads(RESULT.read_text()), **members})


def tried(number: int, measured: Measurement, value: float) -> Trial:
    configuration = Configuration.of("glibc", {"pad": number} if number else {})
    origin = Origin.SEARCH if number else Origin.DEFAULT
    return Trial(number, configuration, origin, Outcome.succeeded(measured), (value,), 0.0)


@pytest.mark.usefixtures("toy")
def test_a_new_metric_is_one_entry(tmp_path: Path):
    read = parse_result(printed(heap={"chunks": 12})).measurement
    assert read["chunks"] == 12
    assert campaign_from_options(
        trace="app.trace", allocators=["glibc"], objectives=["chunks"]
    ).metrics == {"chunks"}

    record = synthetic.record(objectives=("chunks",))
    with Store.create(tmp_path, record) as store:
        store.add_trial(tried(0, measurement(chunks=12), 12.0))
        store.add_trial(tried(1, measurement(chunks=9), 9.0))
    run = load_run(tmp_path)
    document = json.loads(table_json(front_table(run, ["chunks"])))

    assert [row["measured"]["chunks"] for row in document["rows"]] == [9, 12]
    assert [row["ratio_to_baseline"]["chunks"] for row in document["rows"]] == [0.75, 1.0]
    assert document["units"]["chunks"] == "count"


def test_an_old_store_gets_the_columns_of_new_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    old = measurement()
    with Store.create(tmp_path, synthetic.record()) as store:
        store.add_trial(tried(0, old, 1.0))
    monkeypatch.setitem(METRICS, TOY.name, TOY)

    with Store.open(tmp_path) as store:
        assert store.trials()[0].measurement == old, "reading changes nothing"
    with Store.open(tmp_path, writable=True) as store:
        store.add_trial(tried(1, measurement(chunks=9), 1.0))
        found = [trial.measurement for trial in store.trials()]

    assert found == [old, measurement(chunks=9)]
    with closing(sqlite3.connect(tmp_path / "store.sqlite")) as raw, raw:
        assert raw.execute("SELECT chunks FROM trial ORDER BY number").fetchall() == [(None,), (9,)]


@pytest.mark.usefixtures("toy")
def test_a_metric_that_lacks_says_what_to_do():
    with pytest.raises(MissingToolError, match="chunks: rebuild the emulator"):
        measurement(chunks=None).value("chunks")


def test_a_measurement_knows_no_other_names():
    with pytest.raises(SpecError, match="'heap' is no metric; allowed: mean_heap, peak_heap"):
        Measurement({"heap": 1.0})


def test_unknown_objective_inside_a_machine_is_an_error():
    with pytest.raises(SpecError, match=r"'mpki' is no objective .* allowed: l1d_mpki"):
        find_metrics(["mpki"], INSIDE, "objective inside a simulated machine")


def test_missing_and_none_are_the_same():
    assert Measurement({"faults": 1, "cost": None}) == Measurement({"faults": 1})


def test_every_metric_is_found_under_its_own_name_and_field():
    for table in (METRICS, REAL):
        assert [metric.name for metric in table.values()] == list(table)
        assert len({metric.field for metric in table.values()}) == len(table)


def test_what_confirms_an_objective_is_in_the_table():
    assert {name for metric in METRICS.values() for name in metric.real} <= REAL.keys()


def test_only_objectives_can_be_minimised():
    assert "wall" not in objective_names()
    with pytest.raises(SpecError, match="objective 'wall' is unknown"):
        find_objective("wall")
