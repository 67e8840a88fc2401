"""The share of time that workers are busy, and its simulation."""

from argparse import Namespace
from contextlib import nullcontext
from pathlib import Path

import pytest

from benchmarks import scale
from benchmarks.harness import Call
from benchmarks.scale import (
    SIMULATED,
    SLEEPING,
    TWO,
    busy_share,
    good,
    lines,
    simulate,
    targets,
)
from tuner.errors import ProgramError
from tuner.measure.executor import Attempts
from tuner.measure.remote import EmulationKit
from tuner.records import Configuration, Measurement, Outcome, Status


def test_workers_that_always_have_a_task_are_busy():
    spans = [(float(n), n + 1.0) for n in range(10)] * 2

    assert busy_share(spans, 2) == pytest.approx(1.0)


def test_gaps_between_tasks_are_idle():
    """One of two workers pauses half of the time."""
    steady = [(float(n), n + 1.0) for n in range(10)]
    pausing = [(float(n), n + 0.5) for n in range(10)]

    assert busy_share(steady + pausing, 2) == pytest.approx(0.75)


def test_a_coordinator_that_is_too_slow_leaves_workers_idle():
    """100 workers with tasks of a second need 100 a second; it hands out 50."""
    assert simulate(100, 1.0, 0.02) == pytest.approx(0.5, abs=0.1)
    assert simulate(100, 1.0, 0.0001) > 0.95


def test_batches_wait_for_the_slowest():
    assert simulate(100, 1.0, 0.0001, batch=100) < 0.5


def test_an_evaluation_that_failed_is_not_fast():
    one = Configuration("glibc")
    measured = Measurement({"mean_heap": 1.0})

    assert good([Attempts(0, one, Outcome.succeeded(measured))]) == [measured]
    with pytest.raises(ProgramError, match=r"glibc.*: crashed"):
        good([Attempts(0, one, Outcome.did_not_succeed(Status.FAILED, "crashed"))])
    with pytest.raises(ProgramError, match=r"glibc.*: lost; lost"):
        good([Attempts(0, one, None, ("lost", "lost"))])


def test_one_and_two_workers_take_turns_to_be_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    begun: list[int] = []
    monkeypatch.setattr(scale, "Emulation", lambda *_: None)
    monkeypatch.setattr(scale, "load_calibration", lambda: None)
    monkeypatch.setattr(EmulationKit, "of", lambda *_: None)
    monkeypatch.setattr(scale, "cluster", lambda *_: nullcontext(""))
    monkeypatch.setattr(scale, "_elapsed_s", lambda *words: begun.append(words[-1]))
    options = Namespace(smoke=False, tasks=1, rounds=2)

    scale._two(Call(scale.BENCHMARK, options, tmp_path, {}))  # noqa: SLF001 - the order itself

    assert begun == [1, 2, 2, 1]


def test_workers_are_simulated_with_the_time_of_the_coordinator_that_was_measured(tmp_path: Path):
    options = Namespace(smoke=True, parts=[SIMULATED], simulated_mean=1.0)
    without = Call(scale.BENCHMARK, options, tmp_path, {})
    slow = Call(scale.BENCHMARK, options, tmp_path, {SLEEPING: {"cpu_per_task_s": 0.02}})

    scale.measure(without)
    scale.measure(slow)

    assert (without.left_out, without.parts) == ([SIMULATED], {})
    assert slow.parts[SIMULATED][0]["hand_out_s"] == 0.02


def test_the_target_is_the_median_of_the_rounds():
    parts = {TWO: [{"1": 2.0, "2": 1.0}, {"1": 1.92, "2": 1.0}, {"1": 1.95, "2": 1.0}]}

    (target,) = targets(parts)

    assert target.value == pytest.approx(1.95)
    assert target.is_met
    assert list(lines(parts)) == ["two workers against one: 1.95 times (1.92 at least)"]
