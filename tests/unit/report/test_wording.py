"""The sentences of a report."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.answers import write_record
from tests.doubles.runs import MIB, measurement, synthetic_run, write_run
from tests.doubles.small_runs import BASELINE, BETTER, RUN, SMALL, run_of, tried
from tuner.cli import main
from tuner.front.kept import all_picks
from tuner.front.picks import Pick, standard_picks
from tuner.measure.evaluation import MAY_NOT_REPEAT
from tuner.optimize.answering.recommendation import recommended
from tuner.records import Configuration, Outcome
from tuner.report.wording import (
    commands,
    deploy_sentence,
    headline,
    measured_facts,
    pick_cards,
    validated_sentence,
)
from tuner.runs import Run
from tuner.stats import Estimate, Interval
from tuner.store import Incident, Recheck, WorkloadRecord
from tuner.validate.decision import ValidationDecision
from tuner.validate.summary import ValidationSummary, summarize


def test_headline_names_the_gains_of_the_best_compromise():
    picks = standard_picks(RUN.trials, RUN.campaign.objectives, "glibc")

    assert headline(RUN, picks, {}) == (
        "In emulation, no-regret (glibc with 1 setting, trial 1) changes mean heap by -20.0 % "
        "and cost by -10.0 %, against glibc's default."
    )


def test_headline_says_keep_when_the_gain_is_a_tie():
    run = run_of(BASELINE, tried(1, 99.9, 0.999e8, mxfast=0))
    picks = standard_picks(run.trials, run.campaign.objectives, "glibc")

    assert headline(run, picks, {}) == (
        "No measured configuration gains 0.5 % or more at no cost (mean heap and cost). "
        "Keep glibc's default."
    )


def test_headline_leaves_what_to_do_to_a_validation():
    run = synthetic_run(n_trials=300, validation=True)
    summary = summarize(run, run.validations[0])
    traded = run_of(BASELINE, SMALL)
    picks = standard_picks(traded.trials, traded.campaign.objectives, "glibc")

    assert headline(traded, picks, {}, summary) == (
        "In emulation, no measured configuration gains 0.5 % or more at no cost "
        "(mean heap and cost)."
    )


def validated() -> tuple[Run, tuple[Pick, ...], ValidationSummary]:
    run = synthetic_run(n_trials=300, validation=True)
    return run, tuple(all_picks(run)), summarize(run, run.validations[0])


def test_what_the_program_made_of_a_pick_names_it():
    run, picks, summary = validated()

    assert (validated_sentence(run, picks, summary) or "").startswith(
        "On the real program, no-regret: mean heap "
    )


def test_the_headline_is_about_what_the_validation_recommends():
    run, picks, summary = validated()
    other = replace(summary, decision=ValidationDecision("mimalloc-default", ""))
    found = next(one for one in summary.subjects if one.subject.label == "no-regret")
    alike = replace(found, subject=replace(found.subject, label="mimalloc-default"))

    assert headline(run, picks, {}, other).startswith("In emulation, mimalloc-default (mimalloc ")
    said = validated_sentence(run, picks, other) or ""
    assert said.startswith("On the real program, mimalloc-default: ")
    same = replace(other, subjects=(alike,))
    assert headline(run, picks, {}, same).startswith("In emulation, mimalloc-default (")
    default = replace(found.subject, label="glibc-default", configuration=Configuration("glibc"))
    plain = replace(found, subject=replace(default, trial=0))
    shown = ValidationDecision("glibc-default", "")
    first, *others = pick_cards(run, picks, {}, replace(other, subjects=(plain,), decision=shown))
    assert (first.names, first.trial, first.settings) == (("glibc-default",), 0, ())
    assert len(others) == len(pick_cards(run, picks, {}))


def test_a_recommended_setting_of_no_trial_has_no_figures_of_the_trial_it_was_made_of():
    run, picks, summary = validated()
    found = next(one for one in summary.subjects if one.subject.label == "no-regret")
    less = Configuration(found.subject.configuration.allocator)
    assert less != found.subject.configuration
    run = replace(run, trials=tuple(t for t in run.trials if t.configuration != less))
    subject = replace(found.subject, label="recommended", configuration=less)
    decision = ValidationDecision("recommended", "Deploy it.")
    made = replace(summary, decision=decision, subjects=(replace(found, subject=subject),))

    assert headline(run, picks, {}, made) == headline(run, picks, {})
    cards = pick_cards(run, picks, {}, made)
    assert [card.names for card in cards] == [card.names for card in pick_cards(run, picks, {})]


def test_where_the_program_costs_more_no_card_says_worse_in_nothing():
    run, every, summary = validated()
    picks = [pick for pick in every if pick.name == "no-regret"]
    subject = next(one for one in summary.subjects if one.subject.label == "no-regret")
    dear = Estimate(1.66, Interval(1.59, 1.72), 12)
    claims = tuple(replace(claim, real_ratio=dear) for claim in subject.claims)
    rows = tuple(replace(s, claims=claims) if s is subject else s for s in summary.subjects)

    for found, said in ((summary, True), (replace(summary, subjects=rows), False)):
        (card,) = pick_cards(run, picks, {}, found)
        assert ("in emulation worse than the default of glibc in nothing" in card.rule) is said


def test_headline_of_a_campaign_without_success():
    assert headline(RUN, [], {}) == "No configuration succeeded and held every constraint."


def test_picks_of_one_trial_share_a_card():
    cards = pick_cards(RUN, [Pick("knee", BETTER, "a"), Pick("no-regret", BETTER, "b; a")], {})

    assert [card.names for card in cards] == [("knee", "no-regret")]
    assert cards[0].rule == "a; b"
    assert [change.direction for change in cards[0].changes] == ["better"] * 3
    values = {change.label: change.value for change in cards[0].changes}
    assert values["cost"] == "90.00 million instructions"


def test_facts_say_how_often_the_front_was_measured_again():
    again = measurement(80.4 * MIB, 0.9e8)
    run = replace(RUN, rechecks=(Recheck(1, 1, Outcome.succeeded(again)),))

    facts = dict(measured_facts(run))["Emulation"]

    assert dict(facts)["repeatability"].startswith("1 re-measurements of 1 configurations; ")
    assert dict(facts)["repeatability"].endswith(": mean heap 0.50 % and cost 0.00 %")


def test_what_may_have_moved_a_trial_is_not_called_a_retried_failure():
    reasons = ("out of processes", f"other numbers; {MAY_NOT_REPEAT}")
    run = replace(RUN, incidents=tuple(Incident(Configuration("glibc"), 1, r) for r in reasons))

    facts = dict(measured_facts(run))["Search"]

    assert dict(facts)["retried after a failure of the machine"] == "1"


def test_what_optimize_turned_down_is_the_last_card(tmp_path: Path):
    change = {"change": -0.1, "bounds": None, "exact": False}
    row = {"label": "glibc mxfast=0", "note": "", "changes": {"cpu_time": change}}
    write_record(tmp_path, subjects=[row], turned_down=[row | {"broken": ["peak_memory"]}])
    picks = [Pick("no-regret", BETTER, "a"), Pick("balanced", SMALL, "b")]

    _, last = pick_cards(RUN, picks, {}, None, recommended(tmp_path))

    assert (last.names, last.reason) == (("no-regret",), "worse in peak memory")
    assert [(one.label, one.change) for one in last.real] == [("CPU time", "-10.0 %")]


def test_the_card_of_what_optimize_deploys_has_its_settings_and_no_figures_of_more(tmp_path: Path):
    change = {"change": -0.1, "bounds": None, "exact": False}
    row = {"label": "glibc tcache_count=0", "note": "", "changes": {"cpu_time": change}}
    less = Configuration.of("glibc", {"tcache_count": 0})
    write_record(tmp_path, decision="deploy", configuration=less.key, trial=1, subjects=[row])
    picks = [Pick("recommended", BETTER, "a"), Pick("no-regret", BETTER, "b")]

    first, second = pick_cards(RUN, picks, {}, None, recommended(tmp_path))

    assert (first.names, first.settings, first.changes) == (
        ("recommended",), (("tcache_count", "0"),), (),
    )  # fmt: skip
    assert [(one.label, one.change) for one in first.real] == [("CPU time", "-10.0 %")]
    assert (second.names, len(second.changes), second.real) == (("no-regret",), 3, ())


@pytest.mark.parametrize(("change", "direction"), [(0.2, "better"), (-0.2, "worse")])
def test_more_requests_per_second_are_better(tmp_path: Path, change: float, direction: str):
    changes = {"requests/s": {"change": change, "bounds": None, "exact": False}}
    row = {"label": "glibc mxfast=0", "note": "", "changes": changes}
    write_record(tmp_path, subjects=[row])

    (card,) = pick_cards(RUN, [Pick("no-regret", BETTER, "a")], {}, None, recommended(tmp_path))

    (found,) = card.real
    assert (found.label, found.direction) == ("requests/s", direction)


def test_facts_hold_the_events_of_the_trace_and_the_allocator_that_is_brought():
    workload = WorkloadRecord(n_events=395114, recorded_with="/opt/redis/libjemalloc.so.2")
    run = replace(RUN, campaign=replace(RUN.campaign, workload=workload))

    facts = dict(dict(measured_facts(run))["Program"])

    assert facts["events"] == "395,114"
    assert facts["allocator of the program"].startswith("libjemalloc.so.2;")


def test_what_to_deploy_is_what_the_validation_recommends():
    run, picks, summary = validated()

    assert deploy_sentence(run, picks, {}, summary) == summary.decision.sentence
    assert (
        deploy_sentence(run, picks, {}, None) == "Validate it on the program before you deploy it."
    )
    assert deploy_sentence(RUN, [Pick("no-regret", BASELINE, "")], {}, None) is None


@pytest.mark.parametrize("names", [("faults",), ("mean_heap", "faults")])
def test_every_command_is_for_this_run(names: tuple[str, ...], working_folder: Path):
    folder = working_folder / "my run"
    run = synthetic_run(folder, names=names, n_trials=40, failures=False)
    trials = [
        replace(one, outcome=Outcome.succeeded(one.measured.with_values(cost=None)))
        for one in run.trials
    ]
    write_run(replace(run, trials=tuple(trials), rechecks=()))

    words = {word: shlex.split(text) for word, text in commands(run)}

    assert words["search again, same seed"][2] == str(folder / "campaign.toml")
    assert words["prove it on the program"][2] == str(folder)
    for what in ("choose a point", "deploy it"):
        program, *arguments = words[what]
        assert (program, main.run(arguments)) == ("malloc-tuner", 0)
    assert (working_folder / "malloc.env").is_file()
