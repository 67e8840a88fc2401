"""The figures of benchmarks/allocators.py on made-up samples whose answers are known."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.allocator_tables import (
    class_lines,
    common,
    comparison_of,
    failure_lines,
    figure_table,
    flatness,
    floor_lines,
    geometric,
    judge_cache,
    judge_classes,
    judge_gem5,
    judge_memory,
    judge_prices,
    judge_programs,
    judge_threads,
    long_ones,
    memory_lines,
    safety_lines,
    standing_lines,
)
from benchmarks.harness import Target
from benchmarks.results import read_results, results_path
from benchmarks.rounds import medians
from tuner.bench.journal import sample_record
from tuner.bench.plan import Task
from tuner.measure.driver import DriverResult
from tuner.records import Outcome

SUBJECTS = ("glibc", "mimalloc", "exgen")


def samples(field: str, values: dict[str, dict[str, list[float]]]) -> list[dict[str, Any]]:
    """Return one sample per value: program -> subject -> values by round."""
    return [
        {"task": program, "subject": subject, "round": n, "status": "ok", field: value}
        for program, row in values.items()
        for subject, column in row.items()
        for n, value in enumerate(column)
    ]


TIMES = {
    "cc1": {"glibc": [1.0, 1.0, 9.0], "mimalloc": [0.8] * 3, "exgen": [0.76] * 3},
    "python": {"glibc": [2.0] * 3, "mimalloc": [1.6] * 3, "exgen": [1.64] * 3},
    "true": {"glibc": [0.001] * 3, "mimalloc": [0.001] * 3, "exgen": [0.004] * 3},
}
PEAKS = {
    "cc1": {"glibc": [100.0], "mimalloc": [200.0], "exgen": [100.0]},
    "true": {"glibc": [1.0], "mimalloc": [2.0], "exgen": [1.0]},
}


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def by_name(targets: list[Target]) -> dict[str, Target]:
    return {target.what: target for target in targets}


def test_memory_is_held_against_the_peers_that_were_measured() -> None:
    found = samples(
        "bytes",
        {
            "drift": {"glibc": [100.0], "jemalloc": [150.0], "exgen": [120.0]},
            "resting": {"exgen": [120.0]},
        },
    )

    told = {target.what: (target.value, target.is_met) for target in judge_memory(found)}

    assert told == {
        "exgen: memory, drift / jemalloc's": (0.8, True),
        "exgen: memory, drift / glibc's": (1.2, False),
    }


def test_a_spread_is_shown_from_half_a_percent_on() -> None:
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


def test_classes_are_judged_against_the_best_peer_and_growth_without_glibc() -> None:
    part = class_part(
        {
            "pairs-8k": {"glibc": 10, "tcmalloc": 20, "exgen": 16},
            "grow-half": {"glibc": 10, "tcmalloc": 100, "exgen": 100},
        }
    )

    told = by_name(list(judge_classes(comparison_of(part))))

    assert told["pairs-8k: CPU time / best of the 2 compared"].value == pytest.approx(1.6)
    assert told["grow-half: CPU time / best of the 1 compared"].value == pytest.approx(1.0)
    assert told["classes: CPU time, geometric mean / best of the 2 compared"].value > 1
    assert [cells(line)[0] for line in class_lines({"classes": part})][2:] == [
        "pairs-8k",
        "grow-half",
    ]


def test_check_may_cost_twice_the_instructions_of_a_pair() -> None:
    counts = {"glibc": [90.0], "exgen": [100.0], "exgen-check": [210.0], "exgen-junk": [400.0]}
    found = samples("instructions", {"pairs of 64 bytes": counts, "perl": counts})

    told = {target.what: (target.value, target.is_met) for target in judge_prices(found)}

    assert told == {"exgen-check: instructions, pairs of 64 bytes / exgen's": (2.1, False)}


def test_medians_ignore_an_outlier_and_failed_runs() -> None:
    bad = {"task": "cc1", "subject": "glibc", "round": 3, "status": "failed", "reason": "x"}

    assert medians([*samples("cpu_s", TIMES), bad], "cpu_s")["cc1"]["glibc"].median == 1.0


def test_short_programs_have_no_time() -> None:
    assert set(long_ones(medians(samples("cpu_s", TIMES), "cpu_s"))) == {"cc1", "python"}


def test_a_mean_needs_every_program() -> None:
    rows = medians(samples("cpu_s", {"a": {"x": [2.0], "y": [1.0]}, "b": {"x": [8.0]}}), "cpu_s")

    assert geometric(rows, "x") == pytest.approx(4.0)
    assert geometric(rows, "y") is None
    assert set(common(rows, ["x", "y"])) == {"a"}


def test_programs_are_judged_against_the_best_peer() -> None:
    kept = samples("cpu_s", TIMES) + samples("peak_rss_bytes", PEAKS)

    found = by_name(list(judge_programs(kept, SUBJECTS)))

    mean = found["exgen: time, geometric mean / best of the 2 compared"]
    assert mean.value == pytest.approx((0.95 * 1.025) ** 0.5)
    assert mean.note == "best is mimalloc"
    assert not mean.is_met
    worst = found["exgen: time, worst program / best of the others"]
    assert worst.value == pytest.approx(1.025)
    assert worst.note.startswith("python")
    assert not worst.is_met
    assert found["exgen: peak RSS, geometric mean / mimalloc's"].value == pytest.approx(0.5)
    assert found["exgen: peak RSS, geometric mean / glibc's"].is_met


def test_a_peer_that_failed_a_program_is_not_the_best_of_the_mean() -> None:
    times = {name: dict(row) for name, row in TIMES.items()}
    del times["python"]["mimalloc"]

    found = by_name(list(judge_programs(samples("cpu_s", times), SUBJECTS)))

    assert found["exgen: time, geometric mean / best of the 1 compared"].note == "best is glibc"


def test_cache_misses_are_judged_against_the_best_peer() -> None:
    kept = samples("l1_mpki", {"python": {"glibc": [20.0], "mimalloc": [22.0], "exgen": [21.0]}})

    (found,) = judge_cache(kept)

    assert found.value == pytest.approx(1.05)
    assert not found.is_met


def test_gem5_is_judged_against_glibc_and_the_best() -> None:
    kept = samples("cpu_s", {"gem5": {"glibc": [10.0], "mimalloc": [9.0], "exgen": [8.5]}})

    found = by_name(list(judge_gem5(kept)))

    assert found["exgen: gem5, cpu_s / glibc's"].value == pytest.approx(0.85)
    assert found["exgen: gem5, cpu_s / best of the 2 compared"].value == pytest.approx(8.5 / 9)


def test_the_floor_is_compared_where_both_are_known() -> None:
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
def test_every_allocator_stands_where_it_is_held_to_the_same_targets() -> None:
    comparison = comparison_of(read_results(results_path("allocators"))["parts"]["threads"])
    judged = list(judge_threads(comparison))
    n_met = sum(target.is_met for target in judged)

    (row,) = [line.split() for line in standing_lines(comparison) if line.startswith("| exgen ")]

    assert sum(map(int, row[3::4])) == n_met
    assert sum(map(int, row[5::4])) == len(judged)


def test_a_heap_that_grows_is_not_flat() -> None:
    live = [100] * 40

    assert flatness(live, [120] * 40) == 1.0
    assert flatness(live, list(range(100, 140))) == pytest.approx(134.5 / 114.5)
    assert flatness([100] * 4, [1, 2, 3, 4]) is None


def test_a_target_says_which_way_is_better() -> None:
    assert Target("a", 1.1, 1.0, at_least=True).is_met
    assert not Target("a", 1.1, 1.0).is_met
    assert str(Target("a", 1.1, 1.0, note="b")) == "MISSED a: 1.100 (<= 1.000); b"


def test_runs_without_a_result_are_listed() -> None:
    bad = {"task": "cc1", "subject": "x", "round": 0, "status": "failed", "reason": "died"}

    assert list(failure_lines({"programs": {"rows": [bad]}})) == [
        "programs: no result: cc1, x: died"
    ]


def test_table_has_means_over_what_both_ran() -> None:
    rows = medians(samples("cpu_s", {"a": {"glibc": [2.0], "x": [1.0]}, "b": {"glibc": [1.0]}}),
                   "cpu_s")  # fmt: skip

    *_, first, second, means = figure_table("time", rows, ("glibc", "x"), 1.0, 2)

    assert cells(first) == ["a", "2.00", "1.00"]
    assert cells(second) == ["b", "1.00", "-"]
    assert cells(means) == ["geometric mean / glibc's", "1.000", "0.500 of 1"]


def test_the_price_of_a_safety_setting_is_relative_to_glibcs_on_programs_that_run_long() -> None:
    rows = samples("cpu_s", TIMES) + samples("peak_rss_bytes", PEAKS)
    part = {"subjects": ["glibc", "exgen"], "rows": rows}
    *_, glibc, exgen = map(cells, safety_lines({"safety": part}))
    assert glibc == ["glibc", "1.000", "1.000"]
    assert exgen == ["exgen", f"{(0.76 * 0.82) ** 0.5:.3f}", "1.000"]
