"""The sentences of a report."""

from __future__ import annotations

from dataclasses import replace

from tests.doubles.runs import MIB, measurement
from tests.doubles.small_runs import BASELINE, BETTER, RUN, SMALL, run_of
from tuner.front.picks import Pick, standard_picks
from tuner.records import Status
from tuner.report.wording import headline, measured_facts, pick_cards
from tuner.store import Recheck


def test_headline_names_the_gains_of_the_best_compromise() -> None:
    picks = standard_picks(RUN.trials, RUN.campaign.objectives, "glibc")

    assert headline(RUN, picks) == (
        "In emulation, glibc with 1 setting needs 20.0 % less mean heap and 10.0 % less cost "
        "than glibc's default."
    )


def test_headline_promises_nothing_when_every_point_trades() -> None:
    run = run_of(BASELINE, SMALL)
    picks = standard_picks(run.trials, run.campaign.objectives, "glibc")

    assert headline(run, picks).startswith("No measured configuration is at least as good")


def test_headline_of_a_campaign_without_success() -> None:
    assert headline(RUN, []) == "No configuration succeeded and held every constraint."


def test_picks_of_one_trial_share_a_card() -> None:
    cards = pick_cards(RUN, [Pick("knee", BETTER, "a"), Pick("no-regret", BETTER, "b")])

    assert [card.names for card in cards] == [("knee", "no-regret")]
    assert cards[0].rule == "a; b"
    assert [change.direction for change in cards[0].changes] == ["better"] * 3


def test_facts_tell_how_often_the_front_was_measured_again() -> None:
    again = measurement(80.4 * MIB, 0.9e8)
    run = replace(RUN, rechecks=(Recheck(1, 1, Status.OK, None, again),))

    facts = dict(measured_facts(run))["Emulation"]

    assert dict(facts)["repeatability"] == (
        "1 re-measurements of 1 configurations; greatest difference: mean heap 0.50% and cost 0.00%"
    )
