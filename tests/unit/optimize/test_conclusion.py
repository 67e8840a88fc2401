"""From what the runs prove to the answer."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.doubles.clock import Clock
from tuner.compare.plan import Course
from tuner.optimize import conclusion as module
from tuner.optimize.answering.answer import Decision, write_answer
from tuner.optimize.choosing.proposals import Proposal
from tuner.optimize.choosing.selected import selected_of
from tuner.optimize.conclusion import Conclusion
from tuner.optimize.confirming.confirmation import Confirmed
from tuner.optimize.confirming.held_out import HeldOutStanding
from tuner.optimize.proof.duets import AT_ONCE
from tuner.optimize.proof.evidence import showable_gain
from tuner.optimize.proof.judgement import Gain, Rules, Standing, State
from tuner.optimize.proof.noise import RUNS_TO_KNOW, noise_of
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.optimize.request import Request
from tuner.optimize.tuned import AS_IS, OWN_MALLOC, Reference, Sample, Tuned, values_of
from tuner.optimize.work import EXPLORATION_FILE, Watch, Work, run_seconds
from tuner.records import Configuration, Outcome
from tuner.runs import CONFIRMATION_FILES

USES = {MEAN: 1e6, PEAK: 2e6, CPU: 1e9}
REFERENCE = Reference(("app",), USES, 0, None, None, wall_s=1.0, timeout_s=30.0)
CHOSEN = {"mimalloc": Configuration("mimalloc")}


class App:
    """Has a name."""

    command = ("app",)


@pytest.fixture
def conclusion(tmp_path: Path) -> Conclusion:
    request = Request(("app",), 100.0, ("glibc", "mimalloc"))
    work = Work(tmp_path, request, cast("Tuned", App()), Watch(100.0, lambda: 0.0))
    return Conclusion(work, REFERENCE)


def course(*cpu: float, load: float = 1.0) -> Course[None, Sample]:
    """Return rounds in which the program as it is takes these shares of a candidate's CPU time.

    Args:
        cpu: a share a round.
        load: factor by which every round is slower than the one before.
    """
    found: Course[None, Sample] = Course(AS_IS)
    for number, share in enumerate(cpu):
        slow = USES[CPU] * load**number
        for label, took in ((AS_IS, slow * share), ("mimalloc", slow)):
            found.add((number, None, label), Outcome.succeeded({**USES, CPU: took}))
    return found


def noise_of_one(found: Confirmed) -> float:
    """Return what a run varies by; that of the candidate does not."""
    return noise_of(values_of(found.course, AS_IS)[CPU], has_floor=False) / math.sqrt(2.0)


def confirmed(state: State, cpu_gain: float) -> Confirmed:
    gains = {
        MEAN: Gain(0.0, 0.0, 0.0, is_exact=True),
        PEAK: Gain(0.0, 0.0, 0.0, is_exact=True),
        CPU: Gain(cpu_gain, cpu_gain - 0.05, cpu_gain + 0.05),
    }
    standing = Standing("mimalloc", 0, state, gains, (), (), (CPU,))
    noisy = course(0.95, 1.0, 1.05, 0.9, 1.1, 1.0)
    return Confirmed(CHOSEN, {"mimalloc": standing}, noisy, None, None)


def changed(found: Confirmed, gains: Mapping[str, Gain] | None = None, **fields: Any) -> Confirmed:
    """Return the same where the candidate has other gains, or stands otherwise."""
    one = found.standings["mimalloc"]
    one = replace(one, gains={**one.gains, **(gains or {})}, **fields)
    return replace(found, standings={"mimalloc": one})


def test_a_program_with_a_malloc_of_its_own_does_not_keep_glibc(conclusion: Conclusion):
    own = Conclusion(conclusion._work, replace(REFERENCE, notes=(OWN_MALLOC,)))  # noqa: SLF001
    answers = [one.conclude(None, confirmed(State.HOPELESS, 0.0)) for one in (conclusion, own)]

    kept = ["Keep glibc as it is.", "Keep its own malloc as it is."]
    assert [answer.sentence for answer in answers] == kept


def test_the_program_as_it_is_has_the_middle_of_all_its_runs_alone(conclusion: Conclusion):
    found = confirmed(State.HOPELESS, 0.0)
    runs = course(1.2, 1.3, 1.4, 1.5, 1.6)
    for number in range(5, 30):
        runs.add((number, None, AS_IS), Outcome.succeeded({**USES, CPU: 9e9, AT_ONCE: 2.0}))
    few = selected_of(course(1.1, 1.1), {})

    answers = conclusion.conclude(None, replace(found, course=runs)), conclusion.nothing_near(few)

    assert [answer.baseline[CPU] for answer in answers] == [1.3e9, 1.05e9]
    assert answers[0].baseline.keys() == USES.keys()
    assert conclusion.conclude(few, replace(found, course=runs)).baseline[CPU] == 1.2e9


def test_what_seems_to_gain_but_cannot_show_it_in_time_is_open(conclusion: Conclusion):
    answer = conclusion.conclude(None, confirmed(State.OUT_OF_REACH, 0.03))

    assert answer.decision is Decision.UNDECIDED
    assert answer.more_seconds > 0.0


@pytest.mark.parametrize(
    ("state", "gain"),
    [(State.OUT_OF_REACH, 0.001), (State.HOPELESS, 0.001), (State.OUT_OF_REACH, 0.008)],
)
def test_what_seems_to_gain_less_than_counts_keeps_what_is_there(
    conclusion: Conclusion, state: State, gain: float
):
    answer = conclusion.conclude(None, confirmed(state, gain))

    assert answer.decision is Decision.KEEP
    assert any("`--time 4min` here shows smaller ones" in one for one in answer.reasons)


LOST = (0.85, 0.9, 0.95, 0.87, 0.93, 0.9)
LOST_BY_MORE = (0.5, 0.8, 0.95, 0.6, 0.9, 0.8)


@pytest.mark.parametrize(
    ("shares", "step_s", "before_s", "advice"),
    [
        ((0.95, 1.0, 1.05, 0.9, 1.1, 1.0), 0.0, 0.0, "; `--time 4min` here shows smaller ones."),
        (LOST, 0.0, 0.0, "."),
        (LOST_BY_MORE, 85.0, 0.0, "; more --time, here or with a new -o, shows smaller ones."),
        (LOST_BY_MORE, 0.0, 85.0, "; more --time, here or with a new -o, shows smaller ones."),
        (LOST, 0.0, 85.0, "."),  # twice the time shows little more
    ],
)
def test_more_time_is_only_advised_where_something_would_run_in_it(
    tmp_path: Path, shares: tuple[float, ...], step_s: float, before_s: float, advice: str
):
    request = Request(("app",), 100.0, ("glibc", "mimalloc"))
    work = Work(tmp_path, request, cast("Tuned", App()), Watch(100.0, Clock(step_s=step_s)))
    work.before_s = before_s
    found = replace(confirmed(State.OUT_OF_REACH, 0.001), course=course(*shares))

    (said,) = Conclusion(work, REFERENCE).conclude(None, found).reasons

    assert said.partition(" does not show in the time given")[2] == advice


def test_more_time_than_a_weekend_is_not_advised(
    conclusion: Conclusion, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "MOST_ADVISED_S", 199.0)
    (said,) = conclusion.conclude(None, confirmed(State.OUT_OF_REACH, 0.001)).reasons

    assert said.endswith(" does not show in the time given.")


def test_rounds_of_earlier_calls_show_smaller_gains(conclusion: Conclusion):
    found = confirmed(State.HOPELESS, 0.001)
    (first,) = conclusion.conclude(None, found).reasons
    conclusion._work.before_s = 300.0  # noqa: SLF001

    (later,) = conclusion.conclude(None, found).reasons

    assert later < first


def test_a_quiet_program_hides_no_gain(conclusion: Conclusion):
    quiet = confirmed(State.HOPELESS, 0.0)
    quiet = Confirmed(CHOSEN, quiet.standings, course(*[1.0] * 6), None, None)

    assert conclusion.conclude(None, quiet).reasons == ()


@pytest.mark.parametrize(("width", "is_said"), [(0.03, True), (0.2, False)])
def test_a_proven_gain_names_the_constraint_that_settles_the_rest(
    conclusion: Conclusion, *, width: float, is_said: bool
):
    gains = {MEAN: Gain(0.1, 0.1, 0.1, is_exact=True), CPU: Gain(0.0, -width, width)}
    found = changed(confirmed(State.OPEN, 0.0), gains, n_rounds=20, better=(MEAN,))

    answer = conclusion.conclude(None, found)

    assert answer.decision is Decision.UNDECIDED
    said = any("--constraint 'cpu_time <= default * 1.05'" in one for one in answer.reasons)
    assert said is is_said


@pytest.mark.parametrize(("n_rounds", "said"), [(1, "1 round proves"), (3, "3 rounds prove")])
def test_rounds_that_prove_nothing_are_said_as_they_are(
    conclusion: Conclusion, n_rounds: int, said: str
):
    found = changed(confirmed(State.OPEN, 0.03), n_rounds=n_rounds, better=(), unsure=tuple(USES))

    assert (
        conclusion.conclude(None, found).missing == f"{said} too little of the best candidate yet"
    )


@pytest.mark.parametrize(("cpu", "is_said"), [(-0.19, True), (-0.001, False)])
def test_what_the_rounds_so_far_speak_against_is_said(
    conclusion: Conclusion, cpu: float, is_said: bool
):
    answer = conclusion.conclude(None, changed(confirmed(State.OPEN, cpu), n_rounds=2))

    said = "So far CPU time (limit 1 %) is worse: if that stays so, it is not deployed."
    assert (said in answer.reasons) is is_said


def test_where_nothing_is_proven_the_gain_is_open_beside_the_guard(conclusion: Conclusion):
    gains = {MEAN: Gain(0.006, -0.012, 0.03)}
    nothing = changed(confirmed(State.OPEN, 0.03), gains, n_rounds=40, unsure=(MEAN,))
    proven = changed(nothing, better=(CPU,))

    answer, other = conclusion.conclude(None, nothing), conclusion.conclude(None, proven)

    nor = "nor that mean memory is no worse"
    assert answer.missing == f"40 rounds prove no gain that counts yet, {nor}"
    assert other.missing == "whether mean memory is no worse"
    assert answer.more_seconds > 5.0 * other.more_seconds


def test_what_many_rounds_proved_is_nearer_than_what_few_seem_to_show(conclusion: Conclusion):
    found = confirmed(State.OPEN, 0.1)
    lucky = replace(found.standings["mimalloc"], n_rounds=4)
    nothing_sure = {name: Gain(0.1, -math.inf, math.inf) for name in USES}
    lucky = replace(lucky, gains=nothing_sure)
    gains = {**nothing_sure, MEAN: Gain(0.14, 0.13, 0.15), CPU: Gain(0.0, -0.06, 0.05)}
    known = Standing("glibc arena_max=1", 40, State.OPEN, gains, (MEAN,), (), (CPU,))
    both = {"mimalloc": lucky, known.label: known}

    answer = conclusion.conclude(None, replace(found, standings=both))

    assert answer.label == known.label
    assert answer.missing == "whether CPU time is no worse"


@pytest.mark.parametrize("low", [-0.0101, 0.011])
def test_what_is_nearly_settled_asks_for_as_many_rounds_again(conclusion: Conclusion, low: float):
    found = replace(confirmed(State.OPEN, 0.03), course=course(*[1.0, 1.001] * 10))
    found = changed(found, {CPU: Gain(0.3, low, 0.6)}, n_rounds=40)

    answer = conclusion.conclude(None, found)

    assert answer.more_seconds == pytest.approx(2.0 * 40 * run_seconds(REFERENCE))


def test_an_interval_that_is_still_wide_asks_for_more_rounds_than_ran(conclusion: Conclusion):
    found = replace(confirmed(State.OPEN, 0.03), course=course(*[1.0, 1.001] * 10))
    found = changed(found, {CPU: Gain(0.02, -0.08, 0.1)}, n_rounds=40, better=(MEAN,))

    answer = conclusion.conclude(None, found)

    assert answer.more_seconds > 2.0 * 40 * run_seconds(REFERENCE)


def test_of_a_noise_that_is_not_known_an_interval_says_how_many_rounds_are_missing(
    conclusion: Conclusion,
):
    found = replace(confirmed(State.OPEN, 0.03), course=course(1.0, 1.2, 0.9))
    found = changed(found, {CPU: Gain(0.2, -0.17, 0.6)}, n_rounds=10)

    answer = conclusion.conclude(None, found)

    assert answer.more_seconds > 10 * run_seconds(REFERENCE)


@pytest.mark.parametrize(("n_rounds", "is_short"), [(3, True), (9, False)])
def test_rounds_that_are_too_few_to_know_the_noise_ask_for_no_days(
    conclusion: Conclusion, n_rounds: int, is_short: bool
):
    """Several candidates give many differences, which three rounds share."""
    rounds = course(*[1.0, 3.0, 0.4, 2.2, 0.3, 1.7, 0.6, 2.6, 0.8][:n_rounds])
    settings = [f"mimalloc purge_delay={n}" for n in range(4)]
    for number, _, label in list(rounds.samples):
        if label == "mimalloc":
            for setting in settings:
                rounds.add((number, None, setting), rounds.samples[number, None, label])
    found = changed(confirmed(State.OPEN, 0.03), n_rounds=n_rounds)
    chosen = dict.fromkeys([*found.chosen, *settings], Configuration("mimalloc"))

    answer = conclusion.conclude(None, replace(found, course=rounds, chosen=chosen))

    most = 2.0 * RUNS_TO_KNOW * run_seconds(REFERENCE)
    assert (answer.more_seconds <= most) is is_short


def test_two_runs_that_differ_by_chance_do_not_ask_for_days(conclusion: Conclusion):
    found = confirmed(State.OPEN, 0.03)
    few = replace(found, course=course(1.0, 3.0))

    answer = conclusion.conclude(None, few)

    assert answer.decision is Decision.UNDECIDED
    assert answer.more_seconds <= conclusion.conclude(None, found).more_seconds
    assert not answer.noise, "two runs do not show how much it varies"


@pytest.mark.parametrize(
    ("low", "words"),
    [(-0.016, "at most 1.6 % worse"), (-math.inf, "4.0 %"), (-0.0102, ""), (0.2, "")],
)
def test_a_guard_that_holds_only_within_its_variation_is_said(
    conclusion: Conclusion, low: float, words: str
):
    gains = {name: Gain(0.1, 0.1, 0.1, is_exact=True) for name in USES} | {CPU: Gain(0.1, low, 0.2)}
    best = Standing("mimalloc", 20, State.CONFIRMED, gains, (MEAN,), (), (), scaled={CPU: 0.04})

    answer = conclusion.conclude(
        None, Confirmed(CHOSEN, {"mimalloc": best}, course(1.0), best, None)
    )

    assert answer.decision is Decision.DEPLOY
    said = [one for one in answer.reasons if "CPU time varies" in one]
    assert [words in one for one in said] == [True] * bool(words)


def test_what_few_runs_did_not_find_is_not_decided(conclusion: Conclusion, tmp_path: Path):
    runs = course(1.0)
    runs.add((0, None, "mimalloc"), Outcome.succeeded(USES))
    label = {"mimalloc": Proposal(CHOSEN["mimalloc"], 1, dict.fromkeys(USES, 0.0))}

    selected = replace(selected_of(runs, label), n_untried=8)
    answer = conclusion.nothing_near(selected)
    (tmp_path / EXPLORATION_FILE).touch()
    closed = conclusion.nothing_near(selected)

    assert closed.decision is Decision.KEEP
    assert closed.reasons[0].startswith("1 of 9 promising settings ran; a longer --time")
    assert answer.decision is Decision.UNDECIDED
    assert "1 of 9 promising settings ran, and none gains enough" in answer.sentence
    assert answer.more_seconds == pytest.approx(10.2)
    assert not any("was not needed" in line for line in answer.lines())


@pytest.mark.parametrize("is_chosen", [False, True])
def test_a_search_by_runs_goes_on_until_a_confirmation_has_begun(
    conclusion: Conclusion, tmp_path: Path, *, is_chosen: bool
):
    work = conclusion._work  # noqa: SLF001
    work.request = replace(work.request, is_direct=True)
    if is_chosen:
        (tmp_path / CONFIRMATION_FILES[0]).touch()

    answer = conclusion.nothing_near(replace(selected_of(course(1.0), {}), n_untried=8))

    assert answer.decision is (Decision.KEEP if is_chosen else Decision.UNDECIDED)


def test_an_answer_for_which_nothing_ran_keeps_its_day(conclusion: Conclusion, tmp_path: Path):
    found = confirmed(State.HOPELESS, 0.0)
    write_answer(tmp_path, replace(conclusion.conclude(None, found), date="2001-02-03"))

    again = conclusion.conclude(None, found)
    conclusion._work.made[AS_IS] = 1  # noqa: SLF001

    assert again.date == "2001-02-03" < conclusion.conclude(None, found).date


@pytest.mark.parametrize("is_over", [False, True])
def test_where_candidates_are_out_and_others_never_ran_it_is_not_decided_but_where_none_may_run(
    conclusion: Conclusion, tmp_path: Path, *, is_over: bool
):
    selected = replace(selected_of(course(1.0), {}), n_untried=8)
    for file in CONFIRMATION_FILES[not is_over :]:
        (tmp_path / file).touch()

    answer = conclusion.conclude(selected, confirmed(State.HOPELESS, 0.0))

    assert answer.decision is (Decision.KEEP if is_over else Decision.UNDECIDED)
    text = " ".join(" ".join(answer.lines()).split())
    needs = "0 of 8 promising settings ran; a longer --time tries more."
    assert ("0 of 8 promising settings ran, and none gains enough" in text) is not is_over
    assert (needs in text) is is_over
    assert "was not needed" not in text


def test_what_a_guard_turned_down_is_in_the_answer(conclusion: Conclusion):
    runs = course(1.0, 1.01)
    runs.drop((1, None, "mimalloc"))
    fast = {MEAN: 1e6, PEAK: 2.16e6, CPU: 0.57e9}
    runs.add((0, None, "mimalloc"), Outcome.succeeded(fast))
    expected = {MEAN: 0.0, PEAK: 0.07, CPU: -0.1}
    label = {"mimalloc": Proposal(CHOSEN["mimalloc"], 1, expected)}

    answer = conclusion.nothing_near(selected_of(runs, label))

    (found,) = answer.turned_down
    assert answer.decision is Decision.KEEP
    assert found.constraints == ("peak_memory <= default * 1.1",)
    assert any("Turned down: mimalloc saves 43" in line for line in answer.lines())
    assert answer.as_record()["turned_down"][0]["broken"] == ["peak_memory"]
    assert math.isclose(found.gains[PEAK].change, 0.08)

    explored = {"mimalloc": Proposal(CHOSEN["mimalloc"], None, expected)}
    assert not conclusion.nothing_near(selected_of(runs, explored)).turned_down, "expected by none"
    runs.leave(None, "mimalloc", "killed by SIGSEGV")
    assert not conclusion.nothing_near(selected_of(runs, label)).turned_down, "it crashed"


def test_a_trade_names_every_guard_that_has_to_allow_it(conclusion: Conclusion):
    gains = {
        MEAN: Gain(math.log(1 / 1.058), -math.inf, math.inf),
        PEAK: Gain(math.log(1 / 1.023), -0.023, -0.022, is_exact=True),
        CPU: Gain(0.17, -math.inf, math.inf),
    }
    one = Standing("mimalloc", 3, State.WORSE, gains, (), (PEAK,), ())
    found = Confirmed(CHOSEN, {"mimalloc": one}, course(1.0, 1.1, 0.9), None, None)

    (trade,) = conclusion.conclude(None, found).turned_down

    assert trade.broken == (MEAN, PEAK)
    assert trade.constraints == ("mean_memory <= default * 1.08", "peak_memory <= default * 1.04")
    assert not conclusion.conclude(None, changed(found, state=State.FAILED)).turned_down


@pytest.mark.parametrize(
    ("mean", "sure", "cpu_low", "likely_worse", "is_said"),
    [
        (0.10, 0.10, -0.024, (), True),
        (0.10, 0.05, -0.024, (), True),
        (0.10, 0.10, -0.024, (CPU,), False),
        (0.10, 0.05, -0.2, (), False),
        (0.052, 0.052, -0.024, (), False),
        (0.07, 0.07, -0.03, (), False),
    ],
)
def test_beside_a_winner_it_is_said_what_more_is_open(
    conclusion: Conclusion,
    mean: float,
    sure: float,
    cpu_low: float,
    likely_worse: tuple[str, ...],
    *,
    is_said: bool,
):
    none = Gain(0.0, 0.0, 0.0, is_exact=True)
    saves = Gain(0.05, 0.05, 0.05, is_exact=True)
    best = Standing(
        "exgen", 9, State.CONFIRMED, {MEAN: saves, PEAK: none, CPU: none}, (MEAN,), (), ()
    )
    gains = {MEAN: Gain(mean, sure, mean), PEAK: none, CPU: Gain(0.0, cpu_low, 0.01)}
    other = Standing(
        "mimalloc", 9, State.HOPELESS, gains, (MEAN,), (), (CPU,), likely_worse=likely_worse
    )
    chosen = {**CHOSEN, "exgen": Configuration("exgen")}
    found = Confirmed(chosen, {"exgen": best, "mimalloc": other}, course(1.0, 1.1), best, None)

    answer = conclusion.conclude(None, found)

    bad = replace(found, held_out=HeldOutStanding(replace(best, state=State.FAILED), {}))
    assert conclusion.conclude(None, bad).decision is not Decision.DEPLOY
    assert answer.decision is Decision.DEPLOY
    words = (
        "More is open: mimalloc saves 9.5 % of mean memory, but its rounds leave open whether CPU "
        "time is up to 2.4 % worse; --constraint 'cpu_time <= default * 1.04' would allow it."
    )
    assert answer.reasons == ((words,) if is_said else ())
    work = conclusion._work  # noqa: SLF001
    work.request = replace(work.request, held_out=("app", "other"))
    also = (f"{words[:-1]}, if the held-out input does, too.",)
    assert conclusion.conclude(None, found).reasons == (also if is_said else ())
    conclusion._rules = Rules(floors=((MEAN, 0.06),))  # noqa: SLF001
    assert not conclusion.conclude(None, found).reasons, "64 KiB are more than what is open"


@pytest.mark.parametrize(
    ("sure", "why"), [(0.02, "is proven to gain less"), (0.1, "has more settings")]
)
def test_what_is_proven_too_and_seems_to_gain_more_is_named(
    conclusion: Conclusion, sure: float, why: str
):
    none = Gain(0.0, 0.0, 0.0, is_exact=True)
    gains = {MEAN: Gain(0.1, 0.09, 0.11), PEAK: none, CPU: none}
    best = Standing("exgen", 9, State.CONFIRMED, gains, (MEAN,), (), ())
    more = {**gains, MEAN: Gain(0.15, sure, 0.2)}
    other = replace(best, label="mimalloc", gains=more)
    chosen = {**CHOSEN, "exgen": Configuration("exgen")}
    found = Confirmed(chosen, {"exgen": best, "mimalloc": other}, course(1.0, 1.1), best, None)

    (reason,) = conclusion.conclude(None, found).reasons

    assert reason == f"Proven, too: mimalloc, which seems to gain more than that, but {why}."
    assert not conclusion.conclude(None, replace(found, left_out=["a=1"])).reasons


def test_allocators_whose_default_did_not_run_are_named(conclusion: Conclusion):
    work = conclusion._work  # noqa: SLF001
    work.request = replace(work.request, allocators=("glibc", "mimalloc", "exgen:/lib/x.so"))
    found = confirmed(State.OPEN, 0.03)

    assert conclusion.conclude(None, found).not_run == ("exgen",)
    assert conclusion.nothing_near(selected_of(course(1.0), {})).not_run == ()


def test_what_surely_gains_more_is_open_however_much_its_rounds_leave_open(conclusion: Conclusion):
    none = Gain(0.0, 0.0, 0.0, is_exact=True)
    saves = Gain(0.08, 0.05, 0.1)
    best = Standing(
        "exgen", 9, State.CONFIRMED, {MEAN: saves, PEAK: none, CPU: none}, (MEAN,), (), ()
    )
    gains = {MEAN: Gain(0.2, 0.15, 0.25), PEAK: none, CPU: Gain(0.1, -0.11, 0.3)}
    other = Standing("mimalloc", 9, State.OUT_OF_REACH, gains, (MEAN,), (), (CPU,))
    chosen = {**CHOSEN, "exgen": Configuration("exgen")}
    found = Confirmed(chosen, {"exgen": best, "mimalloc": other}, course(1.0, 1.1), best, None)

    (reason,) = conclusion.conclude(None, found).reasons

    assert reason == (
        "More is open: mimalloc saves 18.1 % of mean memory, but its rounds leave open whether CPU "
        "time is up to 11.6 % worse; a longer --time goes on with it."
    )
    rows = conclusion.conclude(None, found).as_record()["subjects"]
    assert {row["label"]: row["is_open"] for row in rows} == {"exgen": False, "mimalloc": True}


def test_a_run_of_a_moment_more_may_settle_what_is_open(conclusion: Conclusion):
    short = replace(REFERENCE, wall_s=0.001)
    one = Conclusion(conclusion._work, short)  # noqa: SLF001

    answer = one.conclude(None, changed(confirmed(State.OPEN, 0.2), n_rounds=6))

    assert answer.more_seconds == 1.0
    assert answer.may_be_settled


def test_of_what_no_round_bounds_no_number_is_said(conclusion: Conclusion):
    none = Gain(0.0, 0.0, 0.0, is_exact=True)
    saves, open_ = Gain(0.05, 0.05, 0.05, is_exact=True), Gain(0.0, -math.inf, math.inf)
    gains = {MEAN: saves, PEAK: none, CPU: none}
    best = Standing("exgen", 9, State.CONFIRMED, gains, (MEAN,), (), ())
    gains = {MEAN: replace(saves, middle=0.1, low=0.1, high=0.1), PEAK: none, CPU: open_}
    other = Standing("mimalloc", 4, State.OPEN, gains, (MEAN,), (), (CPU,))
    chosen = {**CHOSEN, "exgen": Configuration("exgen")}
    found = Confirmed(chosen, {"exgen": best, "mimalloc": other}, course(1.0, 1.1), best, None)

    (reason,) = conclusion.conclude(None, found).reasons

    assert reason == (
        "More is open: mimalloc saves 9.5 % of mean memory, but its rounds leave open whether CPU "
        "time is no worse; a longer --time goes on with it."
    )


def test_a_candidate_in_reserve_that_no_time_was_left_for_leaves_the_answer_open(
    conclusion: Conclusion,
):
    found = confirmed(State.HOPELESS, 0.0)
    more = {**CHOSEN, "exgen": Configuration("exgen")}

    answer = conclusion.conclude(None, replace(found, chosen=more))

    assert answer.decision is Decision.UNDECIDED
    assert answer.missing == "whether exgen gains enough, which no time was left to run"
    assert answer.more_seconds > 0.0


def test_an_answer_that_is_known_is_not_opened_by_what_never_ran(conclusion: Conclusion):
    found = replace(selected_of(course(1.0), {}), n_untried=3)
    assert conclusion.nothing_near(found).decision is Decision.UNDECIDED

    conclusion._work.is_settled = True  # noqa: SLF001

    assert conclusion.nothing_near(found).decision is Decision.KEEP


def test_a_known_answer_advises_more_than_the_longest_time_and_hides_what_it_hid(
    conclusion: Conclusion,
):
    work = conclusion._work  # noqa: SLF001
    found = confirmed(State.HOPELESS, 0.001)
    first = conclusion.conclude(None, found).reasons
    work.before_s, work.longest_s = 60.0, 100.0
    work.watch.seconds, work.is_settled = 10.0, True

    assert conclusion.conclude(None, found).reasons == first
    assert "does not show" in first[0]


def test_of_too_few_rounds_the_selection_says_which_gains_do_not_show(conclusion: Conclusion):
    found = confirmed(State.HOPELESS, 0.0)
    few = replace(found, course=course(1.0, 1.3))
    selected = replace(selected_of(course(1.0), {}), beyond={CPU: 0.02})

    (reason,) = conclusion.conclude(selected, few).reasons

    assert reason.startswith("A gain of CPU time below 3.0 % does not show")
    assert conclusion.conclude(None, few).reasons == ()


def test_a_candidate_in_reserve_takes_no_part_in_the_rounds_of_others(conclusion: Conclusion):
    found = confirmed(State.HOPELESS, 0.001)
    one = found.standings["mimalloc"]
    reserve = replace(one, label="exgen", n_rounds=0)
    chosen = {**CHOSEN, "exgen": Configuration("exgen")}
    standings = {"mimalloc": one, "exgen": reserve}
    both = replace(found, chosen=chosen, standings=standings, n_claims=2)
    rounds = int(100.0 / run_seconds(REFERENCE) / 2)
    noise = noise_of_one(found)
    gain = Rules().least + showable_gain(noise, rounds, Rules().error / len(Rules().goals) / 2)

    (reason,) = conclusion.conclude(None, both).reasons

    assert reason.startswith(f"A gain of CPU time below {100.0 * gain:.1f} % does not show")


def test_a_load_that_slows_whole_rounds_hides_no_gain(conclusion: Conclusion):
    found = replace(confirmed(State.HOPELESS, 0.001), course=course(*[1.0] * 20, load=1.1))

    assert conclusion.conclude(None, found).reasons == ()


@pytest.mark.parametrize(("high", "least"), [(0.011, "2.0"), (0.021, "2.5")])
def test_no_gain_is_said_to_be_hidden_that_an_interval_excludes(
    conclusion: Conclusion, high: float, least: str
):
    gains = {CPU: Gain(0.001, -0.009, high)}
    known = changed(confirmed(State.HOPELESS, 0.001), gains, n_rounds=90)

    (reason,) = conclusion.conclude(None, known).reasons

    assert reason.startswith(f"A gain of CPU time below {least} % does not show")


@pytest.mark.parametrize("hidden", [(), (CPU,), (MEAN, CPU)])
def test_where_none_could_show_its_gain_it_says_which_gains_do_not_show(
    conclusion: Conclusion, hidden: tuple[str, ...]
):
    """No candidate is left, so the same run does nothing more.

    What the time left after the selection shows differs from call to call, and is not said.
    """
    words = (
        "A gain of CPU time below 8.4 % does not show in the time given; more --time, here or with "
        "a new -o, shows smaller ones."
    )
    runs = course(1.0, 0.92, 1.08, 0.92, 1.08)
    selected = replace(selected_of(runs, {}), beyond=dict.fromkeys(hidden, 0.03))

    answer = conclusion.nothing_near(selected)

    assert answer.decision is Decision.KEEP
    assert answer.reasons == ((words,) if hidden else ())
    done = conclusion.nothing_near(replace(selected, may_show=False)).reasons
    assert not any("more --time" in one for one in done), "no time would find one"


def test_what_is_too_small_to_count_is_not_what_the_time_hides(tmp_path: Path):
    rules = Rules(floors=((MEAN, 0.9),))
    request = Request(("app",), 100.0, ("glibc", "mimalloc"), rules)
    work = Work(tmp_path, request, cast("Tuned", App()), Watch(100.0, lambda: 0.0))
    runs = course(1.0, 0.92, 1.08, 0.92, 1.08)
    selected = replace(selected_of(runs, {}), beyond=dict.fromkeys((MEAN, CPU), 0.03))

    (said,) = Conclusion(work, REFERENCE).nothing_near(selected).reasons

    assert said.startswith("A gain of CPU time below 8.4 % does not show")


def test_nothing_is_said_of_small_gains_where_work_was_counted(conclusion: Conclusion):
    found = replace(confirmed(State.HOPELESS, 0.001), counted={"mimalloc": 0.001})

    assert not any("does not show" in one for one in conclusion.conclude(None, found).reasons)


def test_a_proposal_says_for_how_many_runs_there_is_time(conclusion: Conclusion):
    answer = conclusion.proposal_only([], 5)

    assert answer.decision is Decision.UNDECIDED
    assert answer.missing == "what is left of the time allows fewer than 5 runs of the program"
    assert answer.more_seconds == pytest.approx(33 * run_seconds(REFERENCE) / 0.6)


@pytest.mark.parametrize(("expected", "is_proposed"), [(-0.1, True), (0.0, False)])
def test_only_what_emulation_expects_to_gain_is_proposed(
    conclusion: Conclusion, expected: float, *, is_proposed: bool
):
    known = Proposal(Configuration("mimalloc"), None, {MEAN: expected, PEAK: 0.0, CPU: 0.0})

    reasons = conclusion.proposal_only([known], 5).reasons

    assert (reasons[:1] == ("Emulation proposes mimalloc, which no run has confirmed.",)) is (
        is_proposed
    )


def test_settings_that_emulation_took_away_are_among_those_left_out(conclusion: Conclusion):
    tried = Proposal(Configuration.of("mimalloc", {"arena": 4}), 1, {})
    labels = {"mimalloc arena=4": tried}
    selected = replace(selected_of(course(1.0), {}), labels=labels, n_untried=8)
    found = confirmed(State.CONFIRMED, 0.5)
    conclusion._work.trials["mimalloc"] = 1  # noqa: SLF001

    answer = conclusion.conclude(selected, replace(found, best=found.standings["mimalloc"]))

    assert answer.as_record()["left_out"] == ["arena=4"]
    assert any("a longer --time tries more" in one for one in answer.reasons), (
        "deployed all the same"
    )
