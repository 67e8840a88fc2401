"""What is said of other load on the machine."""

from dataclasses import replace

import pytest

from tuner.measure.clocks import Snapshot
from tuner.optimize.proof.disturbance import disturbance_words

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
