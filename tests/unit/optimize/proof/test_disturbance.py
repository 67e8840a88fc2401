"""What is said of other load on the machine."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.optimize.proof import disturbance
from tuner.optimize.proof.disturbance import Snapshot, disturbance_words, snapshot

START = Snapshot(elapsed_s=10.0, busy_s=5.0, stolen_s=1.0, own_s=2.0)
QUIET = Snapshot(elapsed_s=110.0, busy_s=100.0, stolen_s=1.0, own_s=95.0)


def test_nothing_is_said_of_a_quiet_machine():
    assert disturbance_words(START, QUIET, 2) is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"busy_s": 190.0}, "Meanwhile other programs used 0.9 of 2 cores; on"),
        ({"stolen_s": 11.0}, "Meanwhile the host took 5 % of its time; on"),
        (
            {"busy_s": 190.0, "stolen_s": 11.0},
            "Meanwhile other programs used 0.9 of 2 cores and the host took 5 % of their time; on",
        ),
    ],
)
def test_what_disturbs_is_said(changes: dict[str, float], expected: str):
    said = disturbance_words(START, replace(QUIET, **changes), 2)

    assert said is not None
    assert said.startswith(expected)


@pytest.mark.parametrize(("n_threads", "is_said"), [(3, True), (1, False), (None, False)])
def test_of_threads_it_is_said_that_they_met_less_often(n_threads: int | None, is_said: bool):
    """Three that contend took 54 % more CPU time alone, and 6 % less beside two busy loops."""
    said = disturbance_words(START, replace(QUIET, busy_s=190.0), 2, n_threads)

    assert said is not None
    assert ("threads met less often than on a quiet machine" in said) is is_said


def test_what_is_given_back_by_the_clock_may_be_more_on_a_quiet_machine():
    said = disturbance_words(START, replace(QUIET, busy_s=190.0), 2, by_clock="exgen")

    assert said is not None
    assert "and exgen, which gives freed memory back after a time, may hold more" in said


def test_too_short_or_unknown_says_nothing():
    busy = replace(START, elapsed_s=10.5, busy_s=9.0)

    assert disturbance_words(START, busy, 2) is None
    assert disturbance_words(None, QUIET, 2) is None
    assert disturbance_words(START, None, 2) is None


def test_this_machine_has_clocks():
    now = snapshot()

    assert now is not None
    assert now.busy_s > 0.0
    assert now.own_s > 0.0


@pytest.mark.parametrize("n_kinds", [8, 10])
def test_time_that_is_neither_idle_nor_stolen_is_busy(
    n_kinds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Of older kernels, which report no guests, as well."""
    ticks = [100, 20, 30, 9000, 400, 5, 6, 70, 1, 1][:n_kinds]
    monkeypatch.setattr(disturbance, "_STAT", tmp_path / "stat")
    (tmp_path / "stat").write_text(f"cpu  {' '.join(map(str, ticks))}\ncpu0 1 2\n")

    now = snapshot()

    second = os.sysconf("SC_CLK_TCK")
    assert now is not None
    assert (now.busy_s, now.stolen_s) == (161 / second, 70 / second)


@pytest.mark.parametrize("text", ["cpu  1 2 3 4\n", None])
def test_a_system_that_tells_less_has_no_clocks(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(disturbance, "_STAT", tmp_path / "stat")
    if text is not None:
        (tmp_path / "stat").write_text(text)

    assert snapshot() is None
