"""What is measured again at the end of a campaign, and what is said of other numbers."""

from dataclasses import replace
from typing import Literal

import pytest

from tests.doubles.runs import MIB, campaign_record, measurement, trial
from tuner.campaign.recheck import MAX_REPEATS, disagreements, n_missing, plan
from tuner.records import Configuration, Outcome, Status, Trial
from tuner.store import CampaignRecord, Recheck

DEFAULT = trial(0, Configuration("glibc"), 60.0 * MIB, 200e6)
FRONT = [
    trial(number, Configuration.of("jemalloc", {"narenas": number}), heap * MIB, cost * 1e6)
    for number, heap, cost in ((1, 10.0, 100.0), (2, 20.0, 90.0), (3, 21.0, 10.0))
]
"""The ends, and between them one that adds little."""


def record(n: int, threads: Literal["baton", "free"] = "baton") -> CampaignRecord:
    """Return a campaign that measures so many again."""
    found = campaign_record(("glibc", "jemalloc"), ("mean_heap", "cost"), 100)
    emulation = replace(found.emulation, threads=threads)
    return replace(found, recheck_share=n / 100, emulation=emulation)


def planned(n: int, threads: Literal["baton", "free"] = "baton") -> list[tuple[int, int]]:
    return [(one.number, repeat) for one, repeat in plan(record(n, threads), [*FRONT, DEFAULT])]


def test_the_default_comes_first_then_the_front_by_number():
    assert planned(10) == [(0, 1), (1, 1), (2, 1), (3, 1)]


def test_with_room_for_few_the_default_and_the_ends_of_the_front_stay():
    assert planned(3) == [(0, 1), (1, 1), (3, 1)]


def test_with_room_for_one_or_none_there_is_no_front():
    assert planned(1) == [(0, 1)]
    assert planned(0) == []


def test_numbers_that_scatter_are_measured_several_times():
    found = planned(50, "free")

    assert found[:5] == [(0, 1), (1, 1), (2, 1), (3, 1), (0, 2)]
    assert len(found) == 4 * MAX_REPEATS


def test_what_has_numbers_is_not_missing():
    done = Recheck(1, 1, Outcome.succeeded(measurement(10.0 * MIB, 100e6)))
    failed = Recheck(2, 1, Outcome.did_not_succeed(Status.FAILED, "killed"))

    assert n_missing(record(10), [DEFAULT, *FRONT], [done, failed]) == 3


def said(again: Recheck, first: Trial = FRONT[0]) -> list[str]:
    return disagreements([first], [again])


def test_the_same_numbers_again_are_not_mentioned():
    assert said(Recheck(1, 1, Outcome.succeeded(measurement(10.0 * MIB, 100e6)))) == []


@pytest.mark.parametrize("heap", [9.0, 11.0])
def test_other_numbers_are_named_with_their_trial(heap: float):
    found = said(Recheck(1, 1, Outcome.succeeded(measurement(heap * MIB, 100e6))))

    assert f"trial 1 (jemalloc narenas=1): mean_heap was {10 * MIB}, is {heap * MIB:.17g}" in found


def test_a_failure_is_named_with_its_reason():
    found = said(Recheck(1, 1, Outcome.did_not_succeed(Status.FAILED, "killed by SIGSEGV")))

    assert found == ["trial 1 (jemalloc narenas=1): now killed by SIGSEGV"]


def test_trials_that_are_not_judged_are_left_out():
    assert disagreements([DEFAULT], [Recheck(1, 1, Outcome.succeeded(measurement(1.0, 1.0)))]) == []
