"""What benchmarks/allocators.py holds exgen to, on made-up samples whose answers are known."""

from typing import Any

import pytest

from benchmarks.allocator_tables import class_lines, missed_lines
from benchmarks.allocator_targets import (
    common,
    comparison_of,
    flatness,
    geometric,
    judge_cache,
    judge_churn,
    judge_classes,
    judge_gem5,
    judge_memory,
    judge_prices,
    judge_programs,
    judge_threads,
    long_ones,
)
from benchmarks.harness import Target
from benchmarks.rounds import medians
from tests.doubles.bench import sample
from tests.unit.benchmarks.test_allocator_tables import PEAKS, TIMES, cells, class_part, samples
from tuner.bench.journal import Comparison

SUBJECTS = ("glibc", "mimalloc", "exgen")


def by_name(targets: list[Target]) -> dict[str, Target]:
    return {target.what: target for target in targets}


def test_memory_is_held_against_the_peers_that_were_measured():
    found = samples(
        "bytes",
        {
            "drift": {"glibc": [100.0] * 6, "jemalloc": [150.0] * 6, "exgen": [120.0] * 6},
            "resting": {"exgen": [120.0] * 6},
        },
    )

    told = {target.what: (target.value, target.is_met) for target in judge_memory(found)}

    assert told == {
        "exgen: memory, drift / jemalloc's": (0.8, True),
        "exgen: memory, drift / glibc's": (1.2, False),
    }


def test_classes_are_judged_against_the_best_peer_and_growth_without_glibc():
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


def test_check_may_cost_twice_the_instructions_of_a_pair():
    counts = {"glibc": [90.0], "exgen": [100.0], "exgen-check": [210.0], "exgen-junk": [400.0]}
    found = samples("instructions", {"pairs of 64 bytes": counts, "perl": counts})

    told = {target.what: (target.value, target.is_met) for target in judge_prices(found)}

    assert told == {"exgen-check: instructions, pairs of 64 bytes / exgen's": (2.1, False)}


def test_medians_ignore_an_outlier_and_failed_runs():
    bad = {"task": "cc1", "subject": "glibc", "round": 6, "status": "failed", "reason": "x"}

    assert medians([*samples("cpu_s", TIMES), bad], "cpu_s")["cc1"]["glibc"].median == 1.0


def test_short_programs_have_no_time():
    assert set(long_ones(medians(samples("cpu_s", TIMES), "cpu_s"))) == {"cc1", "python"}


def test_a_mean_needs_every_program():
    rows = medians(samples("cpu_s", {"a": {"x": [2.0], "y": [1.0]}, "b": {"x": [8.0]}}), "cpu_s")

    assert geometric(rows, "x") == pytest.approx(4.0)
    assert geometric(rows, "y") is None
    assert set(common(rows, ["x", "y"])) == {"a"}


def test_programs_are_judged_against_the_best_peer():
    kept = samples("cpu_s", TIMES) + samples("peak_rss_bytes", PEAKS)

    found = by_name(list(judge_programs(kept, SUBJECTS)))

    mean = found["exgen: time, geometric mean / best of the 2 compared"]
    assert mean.value == pytest.approx((0.95 * 1.025) ** 0.5)
    assert mean.note == "best is mimalloc"
    assert mean.is_missed
    worst = found["exgen: time, worst program / best of the others"]
    assert worst.value == pytest.approx(1.025)
    assert worst.note.startswith("python")
    assert worst.is_missed
    assert found["exgen: peak RSS, geometric mean / mimalloc's"].value == pytest.approx(0.5)
    assert found["exgen: peak RSS, geometric mean / glibc's"].is_met


def test_a_peer_that_failed_a_program_is_not_the_best_of_the_mean():
    times = {name: dict(row) for name, row in TIMES.items()}
    del times["python"]["mimalloc"]

    found = by_name(list(judge_programs(samples("cpu_s", times), SUBJECTS)))

    assert found["exgen: time, geometric mean / best of the 1 compared"].note == "best is glibc"


@pytest.mark.parametrize(
    ("metric", "exgen", "words"),
    [
        ("l1_mpki", 21.0, "exgen: python, L1 misses per thousand instructions / best of"),
        ("l2_misses", 19.0, "exgen: python, L2 misses / best of"),
    ],
)
def test_cache_misses_are_judged_against_the_best_peer(metric: str, exgen: float, words: str):
    """Misses themselves, too: more instructions are no fewer of them."""
    of_each = {"glibc": [20.0], "mimalloc": [22.0], "exgen": [exgen]}

    (found,) = judge_cache(samples(metric, {"python": of_each}))

    assert found.value == pytest.approx(exgen / 20.0)
    assert found.is_met == (exgen < 20.0)
    assert found.what.startswith(words)


def test_a_run_that_exgen_failed_is_a_missed_target():
    rows = samples("cpu_s", {"ls": {"glibc": [1.0] * 6, "exgen": [0.9] * 6}})
    failed = {**rows[-1], "task": "git", "status": "failed", "reason": "killed by SIGSEGV"}

    def missed(*beside: dict[str, Any]) -> list[str]:
        return list(missed_lines({"programs": {"subjects": ["exgen"], "rows": [*rows, *beside]}}))

    assert not any("without a result" in line for line in missed())
    assert any(line.startswith("| exgen: runs without a result") for line in missed(failed))


def test_gem5_is_judged_against_glibc_and_the_best():
    kept = samples("cpu_s", {"gem5": {"glibc": [10.0], "mimalloc": [9.0], "exgen": [8.5]}})

    found = by_name(list(judge_gem5(kept)))

    assert found["exgen: gem5, cpu_s / glibc's"].value == pytest.approx(0.85)
    assert found["exgen: gem5, cpu_s / best of the 2 compared"].value == pytest.approx(8.5 / 9)


def test_a_heap_that_grows_is_not_flat():
    live = [100] * 40

    assert flatness(live, [120] * 40) == 1.0
    assert flatness(live, list(range(100, 140))) == pytest.approx(134.5 / 114.5)
    assert flatness([100] * 4, [1, 2, 3, 4]) is None


def test_one_run_of_churn_decides_nothing():
    def judge(n_rounds: int) -> Target:
        curve = {"time_ns": [1] * 40, "live_bytes": [100] * 40, "rss_bytes": [120] * 40}
        placed = [sample("exgen", number, curve=curve) for number in range(n_rounds)]
        (found,) = judge_churn(Comparison(("exgen",), dict(placed), 0.1))
        return found

    once, often = judge(1), judge(6)

    assert (once.value, once.is_met, once.is_missed) == (1.0, False, False)
    assert often.is_met


def calls(p99_ns: float, empty_p99_ns: float | None) -> dict[str, Any]:
    """Return times of calls as malloc_bench writes them."""
    fields = dict.fromkeys(("p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"), p99_ns)
    empty = None if empty_p99_ns is None else {"n": 1, **dict.fromkeys(fields, empty_p99_ns)}
    return {"clock_overhead_ns": 8.0, "malloc": {"n": 1, **fields}, "free": None, "empty": empty}


def p99_target(
    exgen: list[float], peer: list[float], empty_p99_ns: float | None = 1.0
) -> dict[str, bool]:
    """Return what is told of the P99 of malloc in rounds with these values, in ns."""
    found = Comparison(
        ("bob", "exgen"),
        dict(
            sample(label, number, latency=calls(value, empty_p99_ns))
            for label, column in (("exgen", exgen), ("bob", peer))
            for number, value in enumerate(column)
        ),
        0.1,
    )
    target = by_name(list(judge_threads(found)))["ring, 2 threads: malloc P99 / bob's"]
    return {"met": target.is_met, "missed": target.is_missed}


MET = {"met": True, "missed": False}
MISSED = {"met": False, "missed": True}
OPEN = {"met": False, "missed": False}


def test_what_differs_in_every_round_by_more_than_the_clock_scatters_is_told_apart():
    assert p99_target([72.0] * 6, [70.0] * 6) == MISSED
    assert p99_target([68.0] * 6, [70.0] * 6) == MET
    assert p99_target([72.0] * 5 + [60.0], [70.0] * 6) == OPEN
    assert p99_target([2.0, 70.0] * 3, [2.0] * 6) == OPEN


def test_what_the_clock_itself_scatters_is_not_told_apart():
    assert p99_target([4.0] * 6, [2.0] * 6, 2.0) == OPEN
    assert p99_target([4.0] * 6, [2.0] * 6, 1.9) == MISSED
    assert p99_target([2.0] * 6, [4.0] * 6, 2.1) == OPEN
    assert p99_target([2.0] * 6, [4.0] * 6, 4.0) == OPEN


def test_fewer_than_six_rounds_decide_nothing():
    assert p99_target([72.0] * 5, [2.0] * 5) == OPEN


def test_without_empty_sections_the_cost_of_the_clock_is_in_doubt():
    assert p99_target([17.0] * 6, [10.0] * 6, None) == OPEN
    assert p99_target([19.0] * 6, [10.0] * 6, None) == MISSED


def test_throughput_is_judged_by_the_interval_of_its_ratio():
    def target(operations: list[int]) -> Target:
        placed = [
            sample(label, number, operations=n)
            for label, column in (("exgen", operations), ("bob", [1000] * 6))
            for number, n in enumerate(column)
        ]
        found = judge_threads(Comparison(("bob", "exgen"), dict(placed), 0.1))
        return by_name(list(found))["ring, 2 threads: throughput / bob's"]

    assert target([1100] * 6).is_met
    assert target([900] * 6).is_missed
    doubtful = target([900, 1100] * 3)
    assert (doubtful.is_met, doubtful.is_missed) == (False, False)
    assert str(doubtful).startswith("open   ring, 2 threads: throughput / bob's: 1.000 [0.900, 1.1")


def test_a_target_says_which_way_is_better():
    assert Target("a", 1.1, 1.0, at_least=True).is_met
    assert not Target("a", 1.1, 1.0).is_met
    assert str(Target("a", 1.1, 1.0, note="b")) == "MISSED a: 1.100 (<= 1.000); b"
