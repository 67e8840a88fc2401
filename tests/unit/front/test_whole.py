"""Changes of the heap as shares of the whole program."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.fronts import BASELINE, NAMES, TRIALS, tried
from tests.doubles.runs import MIB, synthetic_run, write_run
from tuner.front.picks import select_balanced, standard_picks
from tuner.front.whole import campaign_whole, expected_ratio, ns_per_instruction, whole_program
from tuner.report.page import compute_report, render_page
from tuner.report.table import front_table, row_document, table_csv
from tuner.report.terminal import table_text, whole_words
from tuner.report.wording import headline, pick_cards
from tuner.runs import Run, load_run
from tuner.store import CampaignRecord, WorkloadRecord

RUN = synthetic_run(n_trials=4)


def record(**program: float) -> CampaignRecord:
    return recorded(None, **program)


def recorded(recorded_with: str | None, **program: float) -> CampaignRecord:
    workload = WorkloadRecord(program=tuple(program.items()), recorded_with=recorded_with)
    return replace(RUN.campaign, workload=workload)


def run_with(**program: float) -> Run:
    return replace(RUN, campaign=record(**program), trials=TRIALS)


def test_what_the_program_has_beyond_the_heap_stays():
    peak = BASELINE.measured.value("peak_heap")
    campaign = record(peak_heap=peak + 60 * MIB, cost=10_000.0)
    in_ns = replace(campaign, calibration=replace(campaign.prices, ns_per_instruction=1.0))

    whole = whole_program(in_ns, TRIALS, BASELINE)

    assert whole["peak_heap"] == peak + 60 * MIB
    assert whole["mean_heap"] == 160 * MIB
    assert whole["cost"] == 10_000.0
    assert expected_ratio(whole, "mean_heap", 80.0 * MIB, 100.0 * MIB) == pytest.approx(0.875)
    assert expected_ratio(whole, "cost", 500.0, 1000.0) == pytest.approx(0.95)
    assert expected_ratio(whole, "faults", 1.0, 2.0) is None
    assert expected_ratio(whole, "cost", None, 1000.0) is None


def test_a_mean_that_was_measured_counts_and_no_share_exceeds_the_heaps_own():
    whole = whole_program(record(mean_heap=130.0 * MIB, cost=1.0), TRIALS, BASELINE)

    assert whole["mean_heap"] == 130.0 * MIB
    assert whole["cost"] == 1000.0, "prices may say more than the program's CPU time"
    assert whole["peak_heap"] - whole["mean_heap"] == (
        BASELINE.measured.value("peak_heap") - BASELINE.measured.value("mean_heap")
    ), "what is beyond the heap stays"


def test_no_change_takes_away_more_than_all_there_is():
    whole = {"mean_heap": 10.0 * MIB, "cost": 400.0}

    assert expected_ratio(whole, "mean_heap", 80.0 * MIB, 100.0 * MIB) == 0.0
    assert expected_ratio(whole, "cost", 500.0, 1000.0) == 0.0
    assert expected_ratio(whole, "cost", 700.0, 1000.0) == pytest.approx(0.25)


def test_the_whole_is_that_under_the_baseline_not_under_what_was_recorded():
    other = tried(1, 140.0, 1400.0, "jemalloc")
    other = replace(other, configuration=replace(other.configuration, settings=()))
    campaign = recorded("/usr/lib/libjemalloc.so.2", mean_heap=200.0 * MIB)

    assert whole_program(campaign, (BASELINE, other), BASELINE)["mean_heap"] == 160.0 * MIB
    assert whole_program(campaign, (BASELINE, other), other)["mean_heap"] == 200.0 * MIB


def test_of_the_runs_of_optimize_the_least_cpu_time_counts(tmp_path: Path):
    drawn = synthetic_run(tmp_path / "run", n_trials=4)
    write_run(replace(drawn, campaign=record(cost=8e8)))
    (drawn.folder / "reference.json").write_text('{"values": {"CPU time": 8e8}}')
    one = '\n{"subject": "as it is", "values": {"CPU time": %d}}'
    (drawn.folder / "confirmation.jsonl").write_text(f"{{}}{one % 7e8}{one % 4e8}\n")

    assert load_run(drawn.folder).campaign.workload.program == (("cost", 4e8),)


def test_nothing_is_known_without_a_recording():
    assert whole_program(record(), TRIALS, BASELINE) == {}
    assert whole_program(record(cost=1.0), TRIALS, None) == {}
    assert campaign_whole(record(), TRIALS) == {}


def test_an_allocator_that_is_a_hundredth_of_the_work_weighs_a_hundredth():
    names = NAMES
    whole = {"mean_heap": 100.0 * MIB, "cost": 100_000.0}

    assert select_balanced(TRIALS, names, BASELINE).number == 3
    assert select_balanced(TRIALS, names, BASELINE, whole).number == 2
    picks = {p.name: p.trial.number for p in standard_picks(TRIALS, names, "glibc", whole)}
    assert picks["balanced"] == 2


def test_people_see_shares_of_the_program_and_files_have_both():
    ns = ns_per_instruction(RUN.campaign)
    run = run_with(mean_heap=1000.0 * MIB, cost=10_000.0 * ns)

    table = front_table(run, NAMES)
    text = table_text(table)

    row = row_document(next(row for row in table.rows if row.trial.number == 1))
    assert row["ratio_to_baseline"]["mean_heap"] == pytest.approx(0.8)
    assert row["expected_of_program"]["mean_heap"] == pytest.approx(0.98)
    line = next(one for one in csv.DictReader(table_csv(table).splitlines()) if one["trial"] == "1")
    for name, value in row["expected_of_program"].items():
        assert float(line[f"{name}_expected_of_program"]) == value
    assert "-2.00 %" in text
    assert "-20.0 %" not in text
    assert "about those of the whole program" in " ".join(text.split())
    mixed = table_text(replace(table, validated={"cost": 3}))
    assert "validation 3; mean heap by few runs" in " ".join(mixed.split())
    assert "those of the whole program" not in table_text(front_table(run_with(), NAMES))
    assert "peak_heap" in table.whole
    assert "peak heap" not in text, "no column is it"
    assert "whole program" not in " ".join(whole_words(table, ["faults"]))


def test_the_report_speaks_of_the_program():
    ns = ns_per_instruction(RUN.campaign)
    run = run_with(mean_heap=1000.0 * MIB, cost=10_000.0 * ns)
    table = front_table(run, NAMES)
    picks = standard_picks(TRIALS, NAMES, "glibc", table.whole)

    said = "changes mean heap by -0.50 % and cost by -3.00 % of the whole program"
    assert said in headline(run, picks, table.whole)
    cards = pick_cards(run, picks, table.whole)
    card = next(card for card in cards if card.trial == 3)
    assert (card.changes[0].change, card.changes[0].of) == ("-0.50 %", "of the program")
    page = render_page(compute_report(run))
    assert page.count(">expected of the program</p>") == len(cards)
    assert "<small>of the program</small>" not in page, "said once for all"
