"""Comparisons of allocators: what is run, what is kept, what a kill leaves, what is computed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tuner.bench.journal import (
    Comparison,
    Journal,
    Sample,
    kept_seconds,
    load_comparison,
    make_header,
    sample_from,
    sample_record,
)
from tuner.bench.plan import Plan, Task, make_tasks, seconds_within
from tuner.bench.rounds import Budget, count_missing, run_missing, spread
from tuner.bench.subjects import (
    Subject,
    check_labels,
    configured_subject,
    library_subject,
    with_variables,
)
from tuner.bench.summary import (
    CALLS,
    PEAK_RSS,
    THROUGHPUT,
    USABLE_RATIO,
    estimates,
    failures,
    geometric_means,
    tasks_of,
)
from tuner.drawing.style import looks
from tuner.errors import MissingToolError, SpecError, StoreError
from tuner.measure.driver import BenchDriver, DriverResult, DriverRun
from tuner.records import Status
from tuner.report.bench_figures import write_bench_figures

RING = Task("ring", 2)
LARSON = Task("larson", 16)
ALICE, BOB = Subject("alice", None), Subject("bob", None, (("B", "1"),))


def result(task: Task = RING, **changes: Any) -> DriverResult:
    """Return a result as malloc_bench writes it."""
    times = {"n": 9, "p50_ns": 4.0, "p90_ns": 5.0, "p99_ns": 60.0, "p999_ns": 700.0, "max_ns": 8e3}
    fields = {
        "schema": "malloc-tuner.malloc_bench",
        "version": 1,
        "workload": task.workload,
        "threads": task.threads,
        "size": task.size,
        "seed": 1,
        "malloc_from": "/lib/libc.so.6",
        "operations": 1000,
        "wall_ns": 10**6,
        "cpu_ns": 2 * 10**6,
        "faults": 7,
        "peak_rss_bytes": 1 << 20,
        "end_rss_bytes": 1 << 19,
        "usable_bytes": None,
        "resident_bytes": None,
        "latency": {"clock_overhead_ns": 10.0, "malloc": times, "free": None},
        "curve": None,
    }
    return DriverResult.model_validate_json(json.dumps(fields | changes))


def sample(label: str, number: int, task: Task = RING, **changes: Any) -> Sample:
    return Sample(task, label, number, Status.OK, None, result(task, **changes))


def comparison(*samples: Sample) -> Comparison:
    return Comparison(make_header([ALICE, BOB], Plan((RING,), 0.1, 3)), samples)


class FakeDriver:
    """Answers every run from a table of endings; the rest succeeds."""

    def __init__(self, endings: Mapping[str, DriverRun] | None = None) -> None:
        self.calls: list[tuple[str, str]] = []
        self.environments: list[Mapping[str, str]] = []
        self.endings = endings or {}

    def run(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        library: Path | None,
        timeout_s: float,
    ) -> DriverRun:
        who = "bob" if "B" in environment else "alice"
        self.calls.append((words[0], who))
        self.environments.append(environment)
        return self.endings.get(who) or DriverRun(Status.OK, None, result())


# What is run


def test_every_workload_has_tasks() -> None:
    tasks = make_tasks(threads=(1, 2, 16))

    assert Task("ring", 16) in tasks
    assert Task("sizes", 2, 2) in tasks
    assert Task("sizes", 1, 32 << 20) in tasks
    assert Task("memory", 1) in tasks
    assert Task("churn", 2) in tasks
    assert len(set(tasks)) == len(tasks)


def test_a_workload_of_two_sides_is_not_run_by_one_thread() -> None:
    assert make_tasks(["xmalloc"], (1, 2, 4)) == (Task("xmalloc", 2), Task("xmalloc", 4))


def test_an_unknown_workload_is_an_error_that_names_the_others() -> None:
    with pytest.raises(SpecError, match=r"workload 'ringo'.*larson"):
        make_tasks(["ringo"])


def test_time_of_a_run_follows_from_the_budget() -> None:
    tasks = make_tasks(["larson"], (2, 4))

    assert seconds_within(60, tasks, 5, 2) == pytest.approx((60 - 2) / 20 / 1.7, abs=0.01)
    assert seconds_within(1, tasks, 5, 2) == 0.02
    assert seconds_within(1e6, tasks, 5, 2) == 2.0


def test_words_for_the_driver() -> None:
    plan = Plan((), 0.25, 3, seed=7)

    assert plan.words(Task("sizes", 2, 64)) == [
        *("sizes", "--threads", "2", "--seed", "7", "--seconds", "0.25", "--size", "64")
    ]
    assert "--seconds" not in plan.words(Task("memory", 1))


# Who is compared


@pytest.mark.parametrize("text", ["mine", "mine=", "=/lib/x.so"])
def test_a_library_needs_a_name_and_a_path(text: str) -> None:
    with pytest.raises(SpecError, match="NAME=PATH"):
        library_subject(text)


def test_a_library_that_is_not_there_is_told() -> None:
    with pytest.raises(MissingToolError, match=r"/no/such\.so: no such file"):
        library_subject("mine=/no/such.so")


def test_a_path_that_the_loader_would_split_is_refused(tmp_path: Path) -> None:
    library = tmp_path / "a b.so"
    library.touch()

    with pytest.raises(SpecError, match="cannot be preloaded"):
        library_subject(f"mine={library}")


def test_settings_of_an_unknown_allocator_are_an_error() -> None:
    with pytest.raises(SpecError, match="nomalloc"):
        configured_subject("x=nomalloc,a=1")
    with pytest.raises(SpecError, match="LABEL=ALLOCATOR"):
        configured_subject("x=glibc,a")


def test_variables_reach_the_named_subject_only() -> None:
    subjects = with_variables([ALICE, BOB], ["bob:C=2=3"])

    assert [dict(s.variables) for s in subjects] == [{}, {"B": "1", "C": "2=3"}]


@pytest.mark.parametrize("text", ["bob", "bob:C", "carol:C=1", "bob:LD_PRELOAD=/x.so"])
def test_a_wrong_variable_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="--env"):
        with_variables([ALICE, BOB], [text])


def test_two_subjects_of_one_name_are_refused() -> None:
    with pytest.raises(SpecError, match="two subjects are called 'alice'"):
        check_labels([ALICE, BOB, ALICE])
    with pytest.raises(SpecError, match="nobody"):
        check_labels([])


# Rounds and journal


def run(folder: Path, driver: FakeDriver, plan: Plan) -> Journal:
    journal = Journal(folder, make_header([ALICE, BOB], plan))
    run_missing(plan, [ALICE, BOB], journal, driver, lambda _: None)
    return journal


PLAN = Plan((RING, LARSON, Task("overhead", 1, 8)), 0.1, 2)


def test_every_task_meets_every_subject_in_every_round(tmp_path: Path) -> None:
    driver = FakeDriver()

    journal = run(tmp_path, driver, PLAN)

    assert sorted(driver.calls) == sorted(
        [*[("ring", "alice"), ("ring", "bob"), ("larson", "alice"), ("larson", "bob")] * 2,
         ("overhead", "alice"), ("overhead", "bob")]
    )  # fmt: skip
    assert count_missing(PLAN, [ALICE, BOB], journal) == 0


def test_environments_take_the_same_room(tmp_path: Path) -> None:
    driver = FakeDriver()

    run(tmp_path, driver, PLAN)

    rooms = {sum(len(n) + len(v) for n, v in e.items()) for e in driver.environments}
    assert len(rooms) == 1


def test_a_second_session_runs_only_what_is_missing(tmp_path: Path) -> None:
    run(tmp_path, FakeDriver(), PLAN)
    path = tmp_path / "samples.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-2]) + lines[-2][:40])  # a kill cut a line off
    driver = FakeDriver()

    journal = run(tmp_path, driver, PLAN)

    assert len(driver.calls) == 2
    assert len(load_comparison(tmp_path).samples) == len(journal.comparison.samples) == 10


class SlowDriver(FakeDriver):
    """Takes a second a run on a clock of its own."""

    now_s = 0.0

    def run(self, *arguments: Any) -> DriverRun:
        self.now_s += 1.0
        return super().run(*arguments)


def within(folder: Path, budget_s: float, plan: Plan = PLAN) -> tuple[SlowDriver, int]:
    """Return the driver after runs within a budget, and how many were left out."""
    driver, left_out = SlowDriver(), [0]
    journal = Journal(folder, make_header([ALICE, BOB], plan))
    budget = Budget(budget_s, lambda: driver.now_s)
    run_missing(plan, [ALICE, BOB], journal, driver, lambda _: None, budget, left_out.append)
    return driver, sum(left_out)


def test_a_budget_is_kept_by_what_runs_took(tmp_path: Path) -> None:
    driver, n_left_out = within(tmp_path, 7.0)

    assert driver.now_s == 6.0, "a task is run on every subject or on none"
    assert n_left_out == 4
    assert within(tmp_path, 7.0)[0].now_s == 4.0, "the same command makes the rest"


def test_the_first_task_is_run_whatever_the_budget(tmp_path: Path) -> None:
    driver, n_left_out = within(tmp_path, 0.5)

    assert (driver.now_s, n_left_out) == (2.0, 8)


def test_what_a_budget_leaves_out_is_spread_over_workloads() -> None:
    tasks = [Task(w, n) for w in ("ring", "larson") for n in (1, 2, 4, 16, 64)]
    first = spread(tasks)[:4]

    assert sorted(spread(tasks), key=str) == sorted(tasks, key=str)
    assert [task.workload for task in first] == ["ring", "larson"] * 2
    assert {task.threads for task in first} == {4, 2}


def test_a_later_session_keeps_the_length_of_a_run(tmp_path: Path) -> None:
    assert kept_seconds(tmp_path) is None
    run(tmp_path, FakeDriver(), PLAN)
    assert kept_seconds(tmp_path) == PLAN.seconds


def test_a_subject_that_failed_a_task_is_not_run_on_it_again(tmp_path: Path) -> None:
    crash = DriverRun(Status.FAILED, "killed by SIGSEGV", None)
    driver = FakeDriver({"bob": crash})

    journal = run(tmp_path, driver, PLAN)

    assert driver.calls.count(("ring", "bob")) == 1
    assert driver.calls.count(("ring", "alice")) == 2
    assert "bob: ring, 2 threads: killed by SIGSEGV" in failures(journal.comparison)


def test_another_comparison_in_the_folder_is_refused(tmp_path: Path) -> None:
    run(tmp_path, FakeDriver(), PLAN)

    with pytest.raises(StoreError, match="other seconds"):
        Journal(tmp_path, make_header([ALICE, BOB], Plan(PLAN.tasks, 0.2, 2)))
    with pytest.raises(StoreError, match="other subjects"):
        Journal(tmp_path, make_header([ALICE], PLAN))


@pytest.mark.parametrize("text", ["", "{}\n", "not json\n", '{"schema":"x","version":1}\n'])
def test_a_damaged_journal_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "samples.jsonl").write_text(text)

    with pytest.raises(StoreError, match=r"samples\.jsonl"):
        load_comparison(tmp_path)


def test_a_folder_without_samples_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        load_comparison(tmp_path)


def test_samples_survive_their_file() -> None:
    curve = {"time_ns": [1, 2], "live_bytes": [3, 4], "rss_bytes": [5, 6]}
    kept = sample("alice", 2, curve=curve)

    assert sample_from(json.loads(json.dumps(sample_record(kept)))) == kept


# What is computed


def test_medians_are_over_the_rounds_of_a_subject() -> None:
    found = comparison(
        sample("alice", 0, operations=1000),
        sample("alice", 1, operations=3000),
        sample("alice", 2, operations=2000),
        sample("bob", 0, operations=4000),
    )

    rows = estimates(found, THROUGHPUT, tasks_of(found))

    assert rows[RING]["alice"].median == 2e6
    assert rows[RING]["alice"].interval is not None
    assert rows[RING]["bob"].interval is None
    assert geometric_means(rows, ["alice", "bob", "carol"], "alice") == {"alice": 1.0, "bob": 2.0}


def test_what_was_not_measured_is_absent() -> None:
    found = comparison(
        sample("alice", 0), Sample(RING, "bob", 0, Status.TIMED_OUT, "stopped", None)
    )

    assert set(estimates(found, PEAK_RSS, [RING])[RING]) == {"alice"}
    assert estimates(found, CALLS["free", "P99"], [RING]) == {}
    assert estimates(found, USABLE_RATIO, [RING]) == {}


def test_overhead_is_relative_to_the_request() -> None:
    task = Task("overhead", 1, 100)
    found = comparison(sample("alice", 0, task, usable_bytes=112, resident_bytes=120))

    assert estimates(found, USABLE_RATIO, [task])[task]["alice"].median == 1.12


# The driver's endings


def driver_that(tmp_path: Path, script: str) -> BenchDriver:
    program = tmp_path / "driver"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return BenchDriver(program)


@pytest.mark.parametrize(
    ("script", "limit_s", "status", "reason"),
    [
        ("echo bad >&2; kill -SEGV $$", 600.0, Status.FAILED, "killed by SIGSEGV: bad"),
        ("exit 3", 600.0, Status.FAILED, "exit status 3"),
        ("echo '{}'", 600.0, Status.FAILED, "the report of malloc_bench is not understood"),
        ("sleep 600", 0.1, Status.TIMED_OUT, "stopped at the time limit of 0.1 s"),
    ],
)
def test_endings_of_the_driver_are_states(
    tmp_path: Path, script: str, limit_s: float, status: Status, reason: str
) -> None:
    ended = driver_that(tmp_path, script).run(["ring"], {}, None, limit_s)

    assert ended.status is status
    assert ended.reason is not None
    assert ended.reason.startswith(reason)
    assert ended.result is None


def test_malloc_of_somebody_else_is_refused(tmp_path: Path) -> None:
    text = json.dumps(result().model_dump(mode="json", by_alias=True))
    library = tmp_path / "libmine.so"

    ended = driver_that(tmp_path, f"echo '{text}'").run(["ring"], {}, library, 10)

    assert ended.status is Status.REFUSED
    assert ended.reason == f"malloc comes from /lib/libc.so.6, not {library}"


def test_a_missing_driver_is_told(tmp_path: Path) -> None:
    with pytest.raises(MissingToolError, match="cannot be started"):
        BenchDriver(tmp_path / "nothing").run(["ring"], {}, None, 1)


def test_colours_do_not_move_up_where_the_first_subject_failed(tmp_path: Path) -> None:
    found = comparison(sample("bob", 0), sample("bob", 1))
    colours = looks(["alice", "bob"])
    drawn = {path.stem: path.read_text() for path in write_bench_figures(found, tmp_path, ("svg",))}

    assert {"throughput-threads", "memory-threads", "latency"} <= set(drawn)
    for text in drawn.values():
        assert colours["bob"].colour in text
        assert colours["alice"].colour not in text
