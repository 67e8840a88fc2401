"""Picks on workloads that nothing was tuned for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.runs import synthetic_run, write_run
from tuner.campaign import held_out
from tuner.campaign.held_out import held_out_lines, measure_held_out, read_held_out
from tuner.measure.evaluation import Evaluation
from tuner.records import Configuration, Measurement, Outcome, Status
from tuner.runs import Run, load_run


class Emulated:
    """In place of the emulator: the default takes 100, every setting 90 of all; one fails."""

    asked: tuple[Configuration, ...] = ()

    def __init__(self, _emulation: object) -> None:
        pass

    def evaluate(self, configuration: Configuration) -> Evaluation:
        type(self).asked += (configuration,)
        if configuration.allocator == "mimalloc":
            return Outcome.did_not_succeed(Status.FAILED, "killed by SIGABRT")
        value = 100.0 if configuration.is_default else 90.0
        return Outcome.succeeded(Measurement({"mean_heap": value, "cost": 2 * value}))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(held_out, "EmulatorEvaluator", Emulated)
    monkeypatch.setattr(Emulated, "asked", ())
    return load_run(write_run(replace(synthetic_run(tmp_path / "run", n_trials=80))))


def measure(run: Run, *workloads: Path) -> None:
    measure_held_out(run, workloads, [object()] * len(workloads))  # type: ignore[list-item]


def test_picks_and_default_are_measured_on_each_and_shown_apart(run: Run, tmp_path: Path) -> None:
    one, other = tmp_path / "one.trace", tmp_path / "other.trace"
    one.write_bytes(b"1")
    other.write_bytes(b"2")

    measure(run, one, other)
    lines = list(held_out_lines(run))

    assert {row["workload"] for row in read_held_out(run.folder)} == {"one.trace", "other.trace"}
    assert lines[0].startswith("held out, not tuned for")
    assert any("one.trace, " in line and "(-10.0%)" in line for line in lines)
    assert all("(-10.0%)" in line or "SIGABRT" in line or "(+0.0%)" in line for line in lines[1:])


def test_what_was_measured_is_not_measured_again(run: Run, tmp_path: Path) -> None:
    workload = tmp_path / "one.trace"
    workload.write_bytes(b"1")
    measure(run, workload)
    asked = Emulated.asked

    measure(run, workload)

    assert asked == Emulated.asked
    assert asked[0] == Configuration("glibc")


def test_nothing_is_shown_where_nothing_was_held_out(run: Run) -> None:
    assert list(held_out_lines(run)) == []
