"""The sentences of an explanation."""

from tuner.explain.levels import Danger, Level
from tuner.explain.wording import danger_text, reduced_text
from tuner.front.ablation import Without
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
    lost = reduced_text(Without(JEMALLOC, 3, {"cost": 1.2}))
    assert lost == "needless one by one, not together: jemalloc narenas=1: cost +20.0 %"
    failed = reduced_text(Without(JEMALLOC, None, None, "killed by SIGSEGV"))
    assert failed.endswith("jemalloc narenas=1: fails: killed by SIGSEGV")
