"""The figures of benchmarks/allocators.py on made-up samples whose answers are known."""

import re
from typing import Any

import pytest

from benchmarks.allocator_tables import (
    failure_lines,
    figure_table,
    floor_lines,
    memory_lines,
    safety_lines,
    standing_lines,
)
from benchmarks.allocator_targets import comparison_of, judge_threads
from benchmarks.results import read_results, results_path
from benchmarks.rounds import medians
from tuner.bench.journal import sample_record
from tuner.bench.plan import Task
from tuner.measure.driver import DriverResult
from tuner.records import Outcome


def samples(field: str, values: dict[str, dict[str, list[float]]]) -> list[dict[str, Any]]:
    """Return one sample per value: program -> subject -> values by round."""
    return [
        {"task": program, "subject": subject, "round": n, "status": "ok", field: value}
        for program, row in values.items()
        for subject, column in row.items()
        for n, value in enumerate(column)
    ]


TIMES = {
    "cc1": {"glibc": [1.0] * 5 + [9.0], "mimalloc": [0.8] * 6, "exgen": [0.76] * 6},
    "python": {"glibc": [2.0] * 6, "mimalloc": [1.6] * 6, "exgen": [1.64] * 6},
    "true": {"glibc": [0.001] * 6, "mimalloc": [0.001] * 6, "exgen": [0.004] * 6},
}
PEAKS = {
    "cc1": {"glibc": [100.0] * 6, "mimalloc": [200.0] * 6, "exgen": [100.0] * 6},
    "true": {"glibc": [1.0] * 6, "mimalloc": [2.0] * 6, "exgen": [1.0] * 6},
}


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_spread_is_shown_from_half_a_percent_on():
    mib = 2.0**20
    columns = {
        "glibc": [99 * mib, 100 * mib, 101 * mib],
        "exgen": [100 * mib, 100 * mib, 100.9 * mib],
    }
    part = {"rows": samples("bytes", {"drift": columns}), "subjects": ["glibc", "exgen"]}

    assert cells(list(memory_lines({"memory": part}))[-1]) == ["drift", "100.0 ±1%", "100.0"]


def class_part(times_ns: dict[str, dict[str, int]]) -> dict[str, Any]:
    """Return a part of runs of ten operations: workload -> subject -> CPU time of one, ns."""
    latency = {"clock_overhead_ns": 1.0, "malloc": None, "free": None}
    driven = {
        "schema": "malloc-tuner.malloc_bench", "version": 1, "threads": 1, "size": None,
        "seed": 1, "malloc_from": None, "operations": 10, "wall_ns": 1, "faults": 0,
        "peak_rss_bytes": 1, "end_rss_bytes": 1, "usable_bytes": None, "resident_bytes": None,
        "latency": latency, "curve": None,
    }  # fmt: skip
    samples = [
        sample_record(
            (0, Task(workload, 1), subject),
            Outcome.succeeded(
                DriverResult.model_validate({**driven, "workload": workload, "cpu_ns": 10 * ns})
            ),
        )
        for workload, row in times_ns.items()
        for subject, ns in row.items()
    ]
    labels = list(next(iter(times_ns.values())))
    return {"subjects": labels, "header": {"seconds": 0.1}, "samples": samples}


def test_the_floor_is_compared_where_both_are_known():
    peaks = {"python": {"glibc": [20.0], "exgen": [25.0]}, "perl": {"glibc": [9.0]}}
    subjects = ["glibc", "exgen"]
    parts = {
        "floor": {"rows": samples("floor_bytes", {"python": {"glibc": [10.0]}})},
        "programs": {"rows": samples("peak_rss_bytes", peaks), "subjects": subjects},
    }

    assert [line.split()[1:4:2] for line in floor_lines(parts)][3:] == [
        ["glibc", "0.500"],
        ["exgen", "0.400"],
    ]


@pytest.mark.slow
def test_every_allocator_stands_where_it_is_held_to_the_same_targets():
    comparison = comparison_of(read_results(results_path("allocators"))["parts"]["threads"])
    judged = list(judge_threads(comparison))
    n_met, n_missed = sum(t.is_met for t in judged), sum(t.is_missed for t in judged)

    (row,) = [cells(x) for x in standing_lines(comparison) if x.startswith("| exgen ")]

    counts = [list(map(int, re.findall(r"\d+", cell))) for cell in row[1:]]
    assert list(map(sum, zip(*counts, strict=True))) == [n_met, n_missed, len(judged)]


def test_runs_without_a_result_are_listed():
    bad = {"task": "cc1", "subject": "x", "round": 0, "status": "failed", "reason": "died"}

    assert list(failure_lines({"programs": {"rows": [bad]}})) == [
        "programs: no result: cc1, x: died"
    ]


def test_table_has_means_over_what_both_ran():
    rows = medians(samples("cpu_s", {"a": {"glibc": [2.0], "x": [1.0]}, "b": {"glibc": [1.0]}}),
                   "cpu_s")  # fmt: skip

    *_, first, second, means = figure_table("time", rows, ("glibc", "x"), 1.0, 2)

    assert cells(first) == ["a", "2.00", "1.00"]
    assert cells(second) == ["b", "1.00", "-"]
    assert cells(means) == ["geometric mean / glibc's", "1.000", "0.500 of 1"]


def test_the_price_of_a_safety_setting_is_relative_to_glibcs_on_programs_that_run_long():
    rows = samples("cpu_s", TIMES) + samples("peak_rss_bytes", PEAKS)
    part = {"subjects": ["glibc", "exgen"], "rows": rows}
    *_, glibc, exgen = map(cells, safety_lines({"safety": part}))
    assert glibc == ["glibc", "1.000", "1.000"]
    assert exgen == ["exgen", f"{(0.76 * 0.82) ** 0.5:.3f}", "1.000"]
