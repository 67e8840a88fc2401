"""What is shown while a campaign runs, with a clock of our own."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from tests.doubles import runs, synthetic
from tests.doubles.clock import Clock
from tuner.campaign.live import LiveProgress
from tuner.campaign.progress import LineProgress, Scoreboard, clock_text
from tuner.campaign.summary import summarise
from tuner.front.dominance import reference_point
from tuner.measure.evaluation import MAY_NOT_REPEAT
from tuner.records import Configuration, Status, Trial
from tuner.store import CampaignRecord, Recheck, WorkloadRecord

MIB = 1 << 20
RECORD: CampaignRecord = synthetic.record(budget=10)
DEFAULT = runs.trial(0, Configuration("glibc"), 100.0 * MIB, 1e8)
OTHER = runs.trial(1, Configuration("jemalloc"), 80.0 * MIB, 1.2e8)
BETTER = runs.trial(2, Configuration.of("jemalloc", {"decay": 0}), 50.0 * MIB, 9e7)
FAILED = runs.failed_trial(3, Configuration.of("glibc", {"pad": 0}), Status.FAILED, "killed")
REFERENCE = reference_point([DEFAULT, OTHER])


def scoreboard(clock: Clock, *trials: Trial) -> Scoreboard:
    scores = Scoreboard(clock)
    scores.start(RECORD)
    assert REFERENCE is not None
    for trial in trials:
        clock.now_s += 0.5
        scores.add(trial, is_new=True)
    scores.set_reference(REFERENCE)
    return scores


def test_rate_and_eta_follow_the_new_trials():
    clock = Clock()
    scores = scoreboard(clock, DEFAULT, OTHER, BETTER, FAILED)

    assert (scores.n_trials, scores.budget, scores.n_failed) == (4, 10, 1)
    assert scores.rate == pytest.approx(2.0)
    assert scores.eta_s == pytest.approx(3.0)


@pytest.mark.parametrize(("pause_s", "is_slow"), [(50.0, False), (110.0, True)])
def test_a_slow_campaign_gets_advice_once(pause_s: float, is_slow: bool):
    """6 of 10 evaluations are to come: 5 minutes are no reason for advice, 11 are."""
    clock, out = Clock(), io.StringIO()
    progress = LineProgress(out, clock)
    progress.started(replace(RECORD, trace_path="/my traces/app.trace"), 0, 1)
    for trial in (DEFAULT, OTHER, BETTER, FAILED, BETTER):
        clock.now_s += pause_s
        progress.trial_ended(trial, is_new=True)

    assert out.getvalue().count("left; a shorter workload") == is_slow
    assert out.getvalue().count("trace thin '/my traces/app.trace' -o") == is_slow


def test_trials_from_the_store_do_not_count_for_the_rate():
    clock = Clock()
    scores = Scoreboard(clock)
    scores.start(RECORD)
    for trial in (DEFAULT, OTHER):
        scores.add(trial, is_new=False)

    assert (scores.n_trials, scores.rate, scores.eta_s) == (2, None, None)
    clock.now_s += 4.0
    scores.add(BETTER, is_new=True)
    assert scores.rate == pytest.approx(0.25)
    assert scores.eta_s == pytest.approx(28.0)


def test_the_gain_is_the_same_whether_the_reference_comes_first_or_last():
    assert REFERENCE is not None
    early = Scoreboard(Clock())
    early.start(RECORD)
    early.set_reference(REFERENCE)
    for trial in (DEFAULT, OTHER, BETTER):
        early.add(trial, is_new=True)

    late = scoreboard(Clock(), DEFAULT, OTHER, BETTER)

    assert early.gain is not None
    assert early.gain > 1.0
    assert early.gain == late.gain


def test_the_gain_of_a_growing_front_equals_that_of_all_trials():
    run = runs.synthetic_run(n_trials=120, spread=0.05)
    scores = Scoreboard(Clock())
    scores.start(run.campaign)
    for trial in run.trials:
        scores.add(trial, is_new=True)
    assert run.campaign.reference is not None
    scores.set_reference(run.campaign.reference)

    assert scores.gain == pytest.approx(summarise(run.campaign, run.trials).gain)


def test_the_best_of_each_objective_is_shown_with_its_change():
    scores = scoreboard(Clock(), DEFAULT, OTHER, BETTER)

    assert scores.best_texts() == ["mean_heap 50.0 MiB (-50.0 %)", "cost 90.00 M (-10.0 %)"]


def test_changes_are_of_the_whole_program_where_it_was_recorded():
    """The line said -70 % of a cost, of which the summary said -2 %: of all CPU time."""
    workload = WorkloadRecord(program=(("mean_heap", 1000 * MIB), ("cost", 3e8)))
    scores = Scoreboard(Clock())
    scores.start(replace(RECORD, workload=workload))
    for trial in (DEFAULT, OTHER, BETTER):
        scores.add(trial, is_new=True)

    assert "mean_heap 50.0 MiB (-5.0 %), cost 90.00 M (-1.0 %) of the whole" in scores.quality()


@pytest.mark.parametrize(
    ("second", "first", "is_said"), [("cost", 0, True), ("cost", 1, False), ("faults", 0, False)]
)
def test_of_the_whole_program_is_said_where_all_figures_are(
    second: str, first: int, *, is_said: bool
):
    """Not before the baseline is known, nor beside faults, of which the recording knows nothing."""
    names = ("mean_heap", second)
    workload = WorkloadRecord(program=(("mean_heap", 1000 * MIB), ("cost", 3e8)))
    scores = Scoreboard(Clock())
    scores.start(replace(RECORD, objectives=names, workload=workload))
    for number, name in [(0, "glibc"), (1, "jemalloc")][first:]:
        scores.add(runs.trial(number, Configuration(name), names=names), is_new=True)

    assert ("of the whole program" in scores.quality()) is is_said


def test_what_needs_nothing_of_something_is_all_of_it_better():
    scores = scoreboard(Clock(), DEFAULT)
    scores.add(runs.trial(2, Configuration.of("jemalloc", {"decay": 0}), 0.0), is_new=True)

    assert scores.best_texts()[0] == "mean_heap 0 B (-100.0 %)"


def test_an_infeasible_trial_is_never_the_best():
    scores = scoreboard(Clock(), DEFAULT, replace(BETTER, violation=0.1))

    assert scores.best["mean_heap"] == DEFAULT
    assert scores.gain == pytest.approx(1.0)


def test_one_line_says_it_all():
    text = scoreboard(Clock(), DEFAULT, OTHER, BETTER, FAILED).summary()

    assert text.startswith("4/10 configurations, 2.0/s, 0:03 left, hypervolume ")
    assert text.endswith(" (-50.0 %), cost 90.00 M (-10.0 %), 1 failed")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0:00"), (61.0, "1:01"), (3599.6, "1:00:00"), (7325.0, "2:02:05")]
)
def test_durations_are_short(seconds: float, text: str):
    assert text == clock_text(seconds)


def test_lines_are_rare_and_the_last_trial_always_has_one():
    clock, out = Clock(), io.StringIO()
    progress = LineProgress(out, clock)
    progress.started(RECORD, 0, 2)
    for number in range(10):
        clock.now_s += 3.0
        trial = runs.trial(number, Configuration.of("glibc", {"pad": number}))
        progress.trial_ended(trial, is_new=True)

    lines = out.getvalue().splitlines()
    assert lines[0] == (
        "synthetic: 10 configurations of glibc 2.36, jemalloc 5.3.0, "
        "minimising mean_heap and cost, 2 at a time"
    )
    assert [line.split()[0] for line in lines[1:]] == ["4/10", "8/10", "10/10"]


def test_how_many_run_at_a_time_is_not_said_before_workers_are_there():
    out = io.StringIO()
    LineProgress(out, Clock()).started(RECORD, 0, 0)

    assert out.getvalue().rstrip().endswith("minimising mean_heap and cost")


def test_everything_else_is_printed_at_once():
    out = io.StringIO()
    progress = LineProgress(out, Clock())
    progress.started(RECORD, 7, 1)
    progress.failed_attempt(Configuration("jemalloc"), "out of processes")
    progress.failed_attempt(Configuration("glibc"), MAY_NOT_REPEAT)
    progress.stopping()
    progress.recheck_started(5)

    assert [line.split("; ")[-1] for line in out.getvalue().splitlines()] == [
        "continuing after 7",
        "jemalloc default: an attempt failed and does not count: out of processes",
        f"glibc default: {MAY_NOT_REPEAT}",
        "Ctrl-C again to kill them",
        "measuring 5 trials of the front again",
    ]


def test_the_live_display_shows_bar_scores_and_messages():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=110)
    assert REFERENCE is not None
    with LiveProgress(console) as live:
        live.started(RECORD, 0, 2)
        live.trial_ended(DEFAULT, is_new=True)
        live.reference_known(REFERENCE)
        live.trial_ended(FAILED, is_new=True)
        live.failed_attempt(Configuration("jemalloc"), "out of [processes]")
        live.stopping()
        live.recheck_started(3)
        live.recheck_ended(Recheck(0, 1, DEFAULT.outcome))

    text = out.getvalue()
    for words in (
        "synthetic: 10 configurations",
        "out of [processes]",
        "recheck",
        "1/3",
        "1 failed",
    ):
        assert words in text
    assert "best emulated mean_heap 100.0 MiB" in text


# The summary at the end


def test_the_summary_names_every_pick_once():
    trials = [DEFAULT, OTHER, BETTER, FAILED]
    record = replace(RECORD, reference=REFERENCE)

    found = summarise(record, trials)

    (picked,) = found.picked
    assert picked.names == ("balanced", "no-regret", "best-mean_heap", "best-cost")
    assert picked.trial == BETTER
    assert picked.ratios == pytest.approx((0.5, 0.9))
    assert (found.n_trials, found.n_failed, found.n_infeasible, found.n_front) == (4, 1, 0, 1)
    assert found.gain is not None
    assert found.gain > 1.0


def test_the_summary_names_what_is_exported():
    """No-regret is, also where it is no other pick."""
    default = runs.trial(0, Configuration("glibc"), 60.0, 1e8)
    trades = runs.trial(1, Configuration.of("glibc", {"mxfast": 0}), 30.0, 1.1e8)
    free = runs.trial(2, Configuration.of("glibc", {"mxfast": 16}), 54.0, 1e8)
    fast = runs.trial(3, Configuration.of("glibc", {"mxfast": 32}), 90.0, 0.9e8)

    found = summarise(RECORD, [default, trades, free, fast])

    assert ("no-regret",) in [picked.names for picked in found.picked]


def test_defaults_that_failed_are_no_matter_but_the_baseline():
    dead = runs.failed_trial(1, Configuration("jemalloc"), Status.FAILED, "killed")

    found = summarise(RECORD, [DEFAULT, dead, BETTER])

    assert [picked.trial for picked in found.picked] == [BETTER]
    assert found.gain is None
