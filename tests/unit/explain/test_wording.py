"""The sentences of an explanation."""

from collections.abc import Sequence

import pytest

from tests.doubles.runs import MIB, trial
from tests.doubles.small_runs import run_of
from tuner.explain.levels import Danger, Level
from tuner.explain.wording import danger_text, point_text, reduced_text
from tuner.front.ablation import Without, ablate
from tuner.front.kept import RECOMMENDED
from tuner.front.picks import Pick
from tuner.records import Configuration

JEMALLOC = Configuration.of("jemalloc", {"narenas": 1})


def test_a_value_that_only_loses_is_not_said_to_fail():
    danger = Danger("narenas", (Level(64, 20, 1, {"cost": 1.3}),), above=8)

    assert danger_text(danger) == "narenas above 8: cost +30.0 %"


def test_a_value_that_mostly_fails_says_so():
    danger = Danger("narenas", (Level(64, 20, 11, {"cost": 1.0}),))

    assert danger_text(danger) == "narenas = 64: 11 of 20 trials failed"


def test_what_is_left_is_enough_only_if_nothing_is_lost():
    assert reduced_text(Without(JEMALLOC, 3, {"cost": 1.001})).startswith("enough is jemalloc")
    gained = reduced_text(Without(JEMALLOC, 3, {"mean_heap": 1.0014, "cost": 0.9942}))
    assert gained == "enough is jemalloc narenas=1: mean heap +0.14 %, cost -0.58 %"
    lost = reduced_text(Without(JEMALLOC, 3, {"cost": 1.2}))
    assert lost == "needless one by one, not together: jemalloc narenas=1: cost +20.0 %"
    failed = reduced_text(Without(JEMALLOC, None, None, "killed by SIGSEGV"))
    assert failed.endswith("jemalloc narenas=1: fails: killed by SIGSEGV")


def test_what_gains_when_taken_away_is_said_to_be_better_without():
    point = Configuration.of("jemalloc", {"narenas": 1, "tcache": False})
    run = run_of(
        trial(1, point, 40.0 * MIB, 1e8),
        trial(2, point.without("narenas"), 40.1 * MIB, 0.9e8),
        trial(3, point.without("tcache"), 40.1 * MIB, 1e8),
    )

    lines = list(point_text(ablate(run, Pick(RECOMMENDED, run.trial(1), "proved it better"))))

    assert sum(line.endswith("cost -10.0 %; better without (trial 2)") for line in lines) == 1
    assert sum(line.endswith("; needless (trial 3)") for line in lines) == 1


@pytest.mark.parametrize(
    ("tried", "words"),
    [
        ([], ["  what it does without each of these is not recorded; --measure emulates that"]),
        (
            [1],
            [
                "  with one setting taken away, all others as they are:",
                "    without narenas=1  mean heap +50.0 %, cost +100 % (trial 2)",
                "    not recorded without tcache; --measure emulates that",
            ],
        ),
    ],
)
def test_what_is_not_recorded_is_one_line(tried: Sequence[int], words: list[str]):
    point = Configuration.of("jemalloc", {"narenas": 1, "tcache": False})
    less = [trial(2, point.without("narenas"), 60.0 * MIB, 2e8)] if tried else []
    run = run_of(trial(0, Configuration("glibc")), trial(1, point, 40.0 * MIB, 1e8), *less)
    pick = Pick(RECOMMENDED, run.trial(1), "proved it better")

    heading, whose, *lines = point_text(ablate(run, pick))

    assert heading == f"recommended, trial 1: {point}"
    assert whose == "  what `optimize` deploys (proved it better)"
    assert lines == words
