"""What is run, in which order, within which budget, and what a later session adds."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.bench import ALICE, BOB, LARSON, RING, FakeDriver, sample
from tuner.bench.journal import (
    Comparison,
    kept_seconds,
    load_comparison,
    read_sample,
    sample_record,
)
from tuner.bench.plan import BenchPlan, Task
from tuner.bench.rounds import run_missing, spread
from tuner.bench.summary import failures
from tuner.compare.loop import Observer, TimeBudget
from tuner.errors import StoreError
from tuner.measure.driver import DriverResult
from tuner.records import Outcome, Status


def run(folder: Path, driver: FakeDriver, plan: BenchPlan) -> Comparison:
    return run_missing(plan, [ALICE, BOB], folder, driver)


PLAN = BenchPlan((RING, LARSON, Task("overhead", 1, 8)), 0.1, 2)


def test_every_task_meets_every_subject_in_every_round(tmp_path: Path):
    driver = FakeDriver()

    found = run(tmp_path, driver, PLAN)

    assert sorted(driver.calls) == sorted(
        [*[("ring", "alice"), ("ring", "bob"), ("larson", "alice"), ("larson", "bob")] * 2,
         ("overhead", "alice"), ("overhead", "bob")]
    )  # fmt: skip
    assert len(found.samples) == len(driver.calls)


def test_environments_take_the_same_room(tmp_path: Path):
    driver = FakeDriver()

    run(tmp_path, driver, PLAN)

    rooms = {sum(len(n) + len(v) for n, v in e.items()) for e in driver.environments}
    assert len(rooms) == 1


def test_a_second_session_runs_only_what_is_missing(tmp_path: Path):
    run(tmp_path, FakeDriver(), PLAN)
    path = tmp_path / "samples.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-2]) + lines[-2][:40])  # a kill cut a line off
    driver = FakeDriver()

    found = run(tmp_path, driver, PLAN)

    assert len(driver.calls) == 2
    assert len(load_comparison(tmp_path).samples) == len(found.samples) == 10


class SlowDriver(FakeDriver):
    """Takes a second a run on a clock of its own."""

    now_s = 0.0

    def run(self, *arguments: Any) -> Outcome[DriverResult]:
        self.now_s += 1.0
        return super().run(*arguments)


def within(folder: Path, budget_s: float, plan: BenchPlan = PLAN) -> tuple[SlowDriver, int]:
    """Return the driver after runs within a budget, and how many were left out."""
    driver, left_out = SlowDriver(), [0]
    budget = TimeBudget(budget_s, lambda: driver.now_s)
    observer: Observer[Task, DriverResult] = Observer(on_left_out=left_out.append)
    run_missing(plan, [ALICE, BOB], folder, driver, observer, budget)
    return driver, sum(left_out)


def test_a_budget_is_kept_by_what_runs_took(tmp_path: Path):
    driver, n_left_out = within(tmp_path, 7.0)

    assert driver.now_s == 6.0, "a task is run on every subject or on none"
    assert n_left_out == 4
    assert within(tmp_path, 7.0)[0].now_s == 4.0, "the same command makes the rest"


def test_the_first_task_is_run_whatever_the_budget(tmp_path: Path):
    driver, n_left_out = within(tmp_path, 0.5)

    assert (driver.now_s, n_left_out) == (2.0, 8)


def test_what_a_budget_leaves_out_is_spread_over_workloads():
    tasks = [Task(w, n) for w in ("ring", "larson") for n in (1, 2, 4, 16, 64)]
    first = spread(tasks)[:4]

    assert sorted(spread(tasks), key=str) == sorted(tasks, key=str)
    assert [task.workload for task in first] == ["ring", "larson"] * 2
    assert {task.threads for task in first} == {4, 2}


def test_a_later_session_keeps_the_length_of_a_run(tmp_path: Path):
    assert kept_seconds(tmp_path) is None
    run(tmp_path, FakeDriver(), PLAN)
    assert kept_seconds(tmp_path) == PLAN.seconds


def test_a_subject_that_failed_a_task_is_not_run_on_it_again(tmp_path: Path):
    crash = Outcome.did_not_succeed(Status.FAILED, "killed by SIGSEGV")
    driver = FakeDriver({"bob": crash})

    found = run(tmp_path, driver, PLAN)

    assert driver.calls.count(("ring", "bob")) == 1
    assert driver.calls.count(("ring", "alice")) == 2
    assert "bob: ring, 2 threads: killed by SIGSEGV" in failures(found)


def test_another_comparison_in_the_folder_is_refused(tmp_path: Path):
    run(tmp_path, FakeDriver(), PLAN)

    with pytest.raises(StoreError, match="other seconds"):
        run(tmp_path, FakeDriver(), BenchPlan(PLAN.tasks, 0.2, 2))
    with pytest.raises(StoreError, match="other subjects"):
        run_missing(PLAN, [ALICE], tmp_path, FakeDriver())


@pytest.mark.parametrize("text", ["", "{}\n", "not json\n", '{"schema":"x","version":1}\n'])
def test_a_damaged_journal_is_refused(tmp_path: Path, text: str):
    (tmp_path / "samples.jsonl").write_text(text)

    with pytest.raises(StoreError, match=r"samples\.jsonl"):
        load_comparison(tmp_path)


def test_a_folder_without_samples_is_an_error(tmp_path: Path):
    with pytest.raises(StoreError, match="there are no samples"):
        load_comparison(tmp_path)


def test_samples_survive_their_file():
    curve = {"time_ns": [1, 2], "live_bytes": [3, 4], "rss_bytes": [5, 6]}
    kept = sample("alice", 2, curve=curve)

    assert read_sample(json.loads(json.dumps(sample_record(*kept)))) == kept


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"workload":"ring"', '"workload":"rung"', "line 2 is damaged .*'rung': there is none"),
        ('"subjects":', '"objects":', "line 1 is damaged .*subjects"),
    ],
)
def test_damage_is_named(tmp_path: Path, old: str, new: str, message: str):
    run(tmp_path, FakeDriver(), BenchPlan((RING,), 0.1, 1))
    path = tmp_path / "samples.jsonl"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(StoreError, match=message):
        load_comparison(tmp_path)
