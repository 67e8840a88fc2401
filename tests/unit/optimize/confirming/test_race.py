"""The confirmation: rounds until it is decided; losers leave; what is chosen."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tuner.compare.loop import compare
from tuner.compare.plan import Course, Step
from tuner.optimize.confirming import race as of_race
from tuner.optimize.confirming.race import Race, choose, is_decided, leading, standings
from tuner.optimize.proof.judgement import Gain, Rules, Standing, State, judge
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.optimize.tuned import AS_IS, Sample
from tuner.records import Outcome, Status

RULES = Rules()


Samples = Mapping[tuple[int, None, str], Outcome[Sample]]
"""Round, task and subject -> what a run showed."""


class Nowhere:
    """Keeps no sample: for runs that only a later answer would need again."""

    def kept(self) -> tuple[()]:
        return ()

    def keep(self, step: Step[None], sample: Outcome[Sample]) -> None:
        """Forget it."""


class Kept(Nowhere):
    """Has samples of an earlier call."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def kept(self) -> tuple[tuple[tuple[int, None, str], Outcome[Sample]], ...]:  # type: ignore[override]
        return tuple(self._samples.items())


Ratios = Mapping[str, tuple[float, float, float]]
"""Label -> ratios to the program as it is: mean memory, peak memory, CPU time."""


def program(ratios: Ratios, noise: float = 0.01) -> Callable[[Step[None]], Outcome[Sample]]:
    rng = np.random.default_rng(4)
    known = {AS_IS: (1.0, 1.0, 1.0), **ratios}

    def run(step: Step[None]) -> Outcome[Sample]:
        if step.subject not in known:
            return Outcome.did_not_succeed(Status.FAILED, "killed by SIGSEGV")
        mean, peak, cpu = known[step.subject]
        time = cpu * float(np.exp(rng.normal(0.0, noise)))
        return Outcome.succeeded({MEAN: 1e6 * mean, PEAK: 2e6 * peak, CPU: 1e9 * time})

    return run


def remembering(
    run: Callable[[Step[None]], Outcome[Sample]],
) -> tuple[list[Step[None]], Callable[[Step[None]], Outcome[Sample]]]:
    """Return a list of the steps that the second one runs."""
    ran: list[Step[None]] = []

    def counted(step: Step[None]) -> Outcome[Sample]:
        ran.append(step)
        return run(step)

    return ran, counted


def run_race(
    plan: Race, run: Callable[[Step[None]], Outcome[Sample]], kept: Nowhere | None = None
) -> Course[None, Sample]:
    return compare(plan, run, kept or Nowhere(), baseline=AS_IS)


def racing(labels: Iterable[str], **options: Any) -> Race:
    return Race(tuple(labels), RULES, lambda _: True, **options)


def race(
    ratios: Ratios, labels: tuple[str, ...] | None = None, most: int = 60, noise: float = 0.01
) -> tuple[dict[str, Standing], Course[None, Sample]]:
    names = labels or tuple(ratios)
    plan = racing(names, most_rounds=most, rounds_left=lambda _: math.inf)
    course = run_race(plan, program(ratios, noise))
    return standings(course, names, RULES), course


def n_rounds(course: Course[None, Sample], label: str) -> int:
    return sum(name == label for _, _, name in course.samples)


def test_one_in_reserve_comes_in_when_the_first_is_given_up():
    ratios = {"same": (1.0, 1.0, 1.0), "good": (0.9, 1.0, 1.0), "better": (0.8, 1.0, 1.0)}
    plan = racing(ratios, most_rounds=60, at_once=1)

    course = run_race(plan, program(ratios))
    found = plan.standings(course)

    rounds = {label: {n for n, _, name in course.samples if name == label} for label in ratios}
    assert found["good"].state is State.CONFIRMED
    assert max(rounds["same"]) < min(rounds["good"])
    assert not rounds["better"]
    assert found["better"].n_rounds == 0


def test_one_that_comes_in_has_some_rounds_before_one_that_gains_less_runs_alone():
    ratios = {"costly": (0.8, 1.05, 1.0), "small": (0.96, 1.0, 1.0), "great": (0.8, 1.0, 1.0)}
    plan = racing(ratios, most_rounds=60, at_once=2, rounds_left=lambda _: 60.0)

    found = plan.standings(run_race(plan, program(ratios)))

    assert found["great"].state is State.CONFIRMED
    assert found["small"].state is State.OPEN


def test_one_with_a_guard_that_cannot_be_proven_waits_for_those_in_reserve():
    ratios = {"costly": (0.6, 0.6, 1.012), "good": (0.8, 0.8, 0.99)}
    plan = racing(ratios, most_rounds=60, at_once=1, rounds_left=lambda _: 60.0)

    course = run_race(plan, program(ratios))
    found = plan.standings(course)

    assert found["good"].state is State.CONFIRMED
    assert found["costly"].state is State.OPEN
    assert n_rounds(course, "costly") < n_rounds(course, "good")


def test_where_no_guard_can_be_proven_the_first_one_goes_on():
    ratios = {"first": (0.6, 0.6, 1.02), "second": (0.8, 0.8, 1.02)}
    has_time = iter([True] * 11 + [False])
    plan = Race(
        tuple(ratios), RULES, lambda _: next(has_time), at_once=1, rounds_left=lambda _: 60.0
    )

    course = run_race(plan, program(ratios))

    assert 0 < n_rounds(course, "second") < n_rounds(course, "first")


def test_one_for_which_the_time_left_is_too_short_does_not_come_in():
    ratios = {"first": (0.6, 0.6, 1.02), "second": (0.6, 0.6, 1.02)}
    left = iter(range(9, -1, -1))
    plan = racing(ratios, most_rounds=9, at_once=1, rounds_left=lambda _: next(left))

    course = run_race(plan, program(ratios))

    assert n_rounds(course, "first") == 9
    assert n_rounds(course, "second") == 0


def test_a_race_with_a_reserve_goes_on_where_it_was():
    ratios = {"same": (1.0, 1.0, 1.0), "good": (0.99, 1.0, 1.0)}

    def run(most: int, kept: Nowhere) -> Course[None, Sample]:
        plan = racing(ratios, most_rounds=most, at_once=1)
        return run_race(plan, program(ratios), kept)

    first = run(12, Nowhere())
    samples = {key: Outcome.succeeded(one.good) for key, one in first.samples.items() if one.good}
    again = run(20, Kept(samples))

    assert n_rounds(first, "good") > 0
    assert n_rounds(again, "same") == n_rounds(first, "same")
    assert n_rounds(again, "good") > n_rounds(first, "good")


def test_a_better_one_is_confirmed_and_ends_the_race():
    found, course = race({"good": (0.9, 0.9, 1.0)})

    assert found["good"].state is State.CONFIRMED
    assert n_rounds(course, AS_IS) < 60


def test_what_an_answer_confirmed_has_no_more_rounds():
    course, run = Course[None, Sample](AS_IS), program({"good": (0.8, 0.8, 0.95)})
    for most_rounds, is_answered in ((40, False), (80, True)):
        plan = racing(
            ["good"], most_rounds=most_rounds, is_enough=lambda _: False, is_answered=is_answered
        )
        course = run_race(plan, run, Kept(course.samples))

        assert course.n_rounds == 40


def test_a_loser_leaves_before_the_winner_is_known():
    found, course = race({"good": (0.995, 1.0, 0.98), "bad": (1.2, 1.2, 1.0)})

    assert found["bad"].state is State.WORSE
    assert n_rounds(course, "bad") < n_rounds(course, "good")


def test_one_that_crashes_is_out_and_says_why():
    found, course = race({"good": (0.9, 1.0, 1.0)}, ("good", "crashing"))

    assert found["crashing"].state is State.FAILED
    assert found["crashing"].reason == "killed by SIGSEGV"
    assert n_rounds(course, "crashing") == 1


def test_a_crash_of_an_earlier_call_is_told():
    label = b"crashing".decode()  # as a journal's is: equal, and another object
    crash = Outcome.did_not_succeed(Status.FAILED, "killed by SIGSEGV")
    kept = {(0, None, label): crash}
    plan = Race(("crashing",), RULES, lambda _: False)
    course = run_race(plan, program({}), Kept(kept))

    assert standings(course, ("crashing",), RULES)["crashing"].reason == "killed by SIGSEGV"


def test_nothing_to_gain_ends_early():
    found, course = race({"same": (1.0, 1.0, 1.0)})

    assert found["same"].state is State.HOPELESS
    assert n_rounds(course, AS_IS) <= 40


def test_it_ends_when_the_time_is_up():
    plan = Race(("a",), RULES, lambda _: False)

    course = run_race(plan, program({"a": (0.9, 0.9, 0.9)}))

    assert course.samples == {}


def test_once_a_gain_is_likely_the_time_is_its_own():
    ratios = {"good": (0.8, 0.8, 1.0), "less": (0.9, 0.9, 1.0)}

    found, course = race(ratios, noise=0.03)

    assert found["good"].state is State.CONFIRMED
    assert n_rounds(course, "good") > 2 * n_rounds(course, "less")


def test_where_the_first_one_breaks_a_guard_the_others_go_on():
    ratios = {"greedy": (0.5, 0.5, 1.1), "good": (0.9, 0.9, 1.0)}

    found, course = race(ratios, noise=0.02)

    assert found["greedy"].stuck == (CPU,)
    assert n_rounds(course, "greedy") <= n_rounds(course, "good")
    assert found["good"].state is State.CONFIRMED


def test_a_race_of_one_leader_goes_on_with_it():
    ratios = {"good": (0.8, 0.8, 1.0), "less": (0.9, 0.9, 1.0)}
    _, first = race(ratios, most=8, noise=0.06)

    ran, counted = remembering(program(ratios, noise=0.06))
    plan = racing(ratios, most_rounds=10, rounds_left=lambda _: math.inf)
    run_race(plan, counted, Kept(first.samples))

    assert n_rounds(first, "less") < 8
    assert {step.subject for step in ran} == {AS_IS, "good"}
    assert {step.round for step in ran} == {8, 9}


def samples_of(
    run: Callable[[Step[None]], Outcome[Sample]], *rounds: tuple[str, ...]
) -> dict[tuple[int, None, str], Outcome[Sample]]:
    """Return the samples of an earlier call, of these subjects in each round."""
    steps = (
        Step(number, at, None, subject)
        for number, subjects in enumerate(rounds)
        for at, subject in enumerate(subjects)
    )
    return {step.key: run(step) for step in steps}


@pytest.mark.parametrize("later", [(), ((AS_IS, "good"),)], ids=["the last", "an earlier one"])
def test_a_round_that_had_another_leader_stays_as_it_was(later: tuple[tuple[str, ...], ...]):
    ratios = {"good": (0.8, 0.8, 1.0), "less": (0.9, 0.9, 1.0)}
    run = program(ratios, noise=0.06)
    rounds = [(AS_IS, *ratios)] * 8 + [(AS_IS, "less"), *later]

    plan = racing(ratios, most_rounds=12)
    course = run_race(plan, run, Kept(samples_of(run, *rounds)))

    assert (8, None, "good") not in course.samples
    assert (len(rounds), None, "good") in course.samples


@pytest.mark.parametrize(
    ("rounds", "missing"),
    [
        ([(AS_IS, "good")], (0, None, "less")),
        ([(AS_IS, "good", "less"), ("good",)], (1, None, AS_IS)),
    ],
    ids=["the first", "one without the program as it is"],
)
def test_a_round_that_was_cut_short_is_finished(
    rounds: list[tuple[str, ...]], missing: tuple[int, None, str]
):
    run = program({"good": (0.99, 1.0, 1.0), "less": (0.99, 1.0, 1.0)})
    plan = racing(["good", "less"], most_rounds=len(rounds))

    course = run_race(plan, run, Kept(samples_of(run, *rounds)))

    assert missing in course.samples


def test_the_greatest_sure_gain_is_chosen():
    found, _ = race({"some": (0.97, 1.0, 1.0), "more": (0.90, 1.0, 1.0)})

    best = choose(found, {"some": 0, "more": 5}, RULES)

    assert best is not None
    assert best.label == "more"


def standing(label: str, gain: float, state: State = State.CONFIRMED) -> Standing:
    gains = {MEAN: Gain(gain, gain, gain, is_exact=True)}
    return Standing(label, 10, state, gains, (MEAN,), (), ())


def test_no_one_leads_where_no_gain_is_likely():
    assert leading({"open": standing("open", 0.1, State.OPEN)}, ["open"]) == []


def test_what_the_time_left_will_not_prove_does_not_lead():
    found = {
        "stuck": replace(standing("stuck", 0.3, State.OPEN), promise=0.3, stuck=(CPU,)),
        "less": replace(standing("less", 0.1, State.OPEN), promise=0.1),
    }

    assert leading(found, list(found), more_rounds=9) == ["less"]
    assert leading(found, list(found), more_rounds=11) == ["stuck"], "its rounds may yet show it"
    assert leading({"stuck": found["stuck"]}, ["stuck"], more_rounds=9) == ["stuck"]


@pytest.mark.parametrize(
    ("gains", "n_settings", "chosen"),
    [
        pytest.param((0.102, 0.100), (4, 0), 1, id="of-equal-gains-the-one-with-fewer-settings"),
        pytest.param((0.100, 0.102), (2, 2), 1, id="of-as-many-settings-the-greater-gain"),
        pytest.param((0.2, 0.1), (4, 0), 0, id="no-fewer-settings-at-the-cost-of-a-gain"),
    ],
)
def test_the_greater_gain_is_chosen_and_of_equal_ones_the_fewest_settings(
    gains: tuple[float, float], n_settings: tuple[int, int], chosen: int
):
    found = {name: standing(name, gain) for name, gain in zip("ab", gains, strict=True)}

    best = choose(found, dict(zip("ab", n_settings, strict=True)), RULES)

    assert best is not None
    assert best.label == "ab"[chosen]


def test_nothing_is_chosen_where_nothing_is_confirmed():
    assert choose({"x": standing("x", 0.5, State.OPEN)}, {"x": 0}, RULES) is None


@pytest.mark.parametrize(("gain", "is_over"), [(0.08, True), (0.20, False)])
def test_one_that_may_still_win_by_much_holds_the_answer_up(gain: float, is_over: bool):
    found = [standing("sure", 0.1), standing("open", gain, State.OPEN)]

    assert is_decided(found, RULES) is is_over


def test_what_the_time_cannot_show_is_given_up_early():

    def ended(more: float) -> Course[None, Sample]:
        plan = racing(["same"], rounds_left=lambda _: more)
        return run_race(plan, program({"same": (1.0, 1.0, 1.0)}, 0.05))

    short, long = ended(50.0), ended(500.0)
    assert n_rounds(short, AS_IS) <= 20
    assert n_rounds(short, AS_IS) < n_rounds(long, AS_IS)
    assert standings(short, ["same"], RULES)["same"].state is State.OUT_OF_REACH


def test_a_small_loss_beside_a_great_gain_does_not_take_all_of_the_time():
    found, course = race({"costly": (0.9, 0.9, 1.025)}, most=200, noise=0.02)

    assert found["costly"].state is State.HOPELESS
    assert found["costly"].worse == ()
    assert n_rounds(course, "costly") < 60


def test_a_gain_that_the_time_may_show_is_not_given_up():
    plan = racing(["good"], most_rounds=60, rounds_left=lambda _: 50.0)
    course = run_race(plan, program({"good": (1.0, 1.0, 0.94)}, 0.03))

    assert standings(course, ["good"], RULES)["good"].state is State.CONFIRMED


def test_time_is_asked_for_every_run_of_the_next_round():
    asked: list[int] = []
    rounds: list[int] = []

    def has_time(n_runs: int) -> bool:
        asked.append(n_runs)
        return len(asked) < 3

    def rounds_left(n_runs: int) -> float:
        rounds.append(n_runs)
        return 1e6

    plan = Race(("a", "b", "c"), RULES, has_time, rounds_left=rounds_left)
    run_race(plan, program({"a": (0.99, 1.0, 1.0), "b": (1.0, 1.0, 1.0)}))

    assert asked == [4, 3, 3], "the third crashes in the first round"
    assert rounds == [4, 3, 3]


def test_what_is_to_come_counts_beside_what_was_run(monkeypatch: pytest.MonkeyPatch):
    _, course = race({"good": (0.99, 1.0, 1.0)}, most=5)
    in_all: list[float] = []

    def judged(*what: Any, n_in_all: float, **more: Any) -> Standing:
        in_all.append(n_in_all)
        return judge(*what, n_in_all=n_in_all, **more)

    monkeypatch.setattr(of_race, "judge", judged)
    standings(course, ["good"], RULES, more_rounds=7.0)

    assert in_all == [12.0]


def test_one_that_left_by_what_seemed_to_repeat_itself_comes_back():
    run = program({"good": (0.9, 1.006, 1.0), "other": (1.0, 1.0, 0.985)})

    def varied(step: Step[None]) -> Outcome[Sample]:
        values = dict(run(step).good or {})
        values[PEAK] *= 1.0 + 0.004 * (step.round % 3) * (step.round > 3)
        return Outcome.succeeded(values)

    plan = racing(["good", "other"], most_rounds=60)
    course = run_race(plan, varied)

    assert plan.standings(course)["good"].state is State.CONFIRMED


def test_a_guard_that_varies_is_looked_at_in_the_second_half_of_the_time():
    """Looked at after every round, the middle of few of them is soon within the limit by luck.

    Where the number of rounds is given, as `validate` of a service does, in their second half.
    """
    ratios = {"less": (0.9, 1.0, 1.0)}
    runs = program(ratios, noise=0.03)
    n_rounds = 0

    def run(step: Step[None]) -> Outcome[Sample]:
        nonlocal n_rounds
        n_rounds += step.subject == AS_IS
        return runs(step)

    plan = racing(ratios, rounds_left=lambda _: 60.0 - n_rounds)
    course = run_race(plan, run)
    timed = plan.standings(course)["less"]
    endless = race(ratios, noise=0.03)[0]["less"]
    number = racing(ratios, most_rounds=60)
    limited = number.standings(run_race(number, runs))["less"]

    assert endless.state is timed.state is limited.state is State.CONFIRMED
    assert timed.scaled.keys() == endless.scaled.keys() == limited.scaled.keys() == {CPU}
    assert endless.n_rounds < 30 <= timed.n_rounds < 40
    assert 30 <= limited.n_rounds < 40

    capped = racing(ratios, rounds_left=lambda _: 1e9, most_rounds=60)
    assert capped.standings(run_race(capped, runs))["less"].state is State.CONFIRMED

    again = racing(ratios, rounds_left=lambda _: 1e3, is_answered=True)
    kept = run_race(again, run, Kept(dict(course.samples)))
    assert (len(kept.samples), again.standings(kept)["less"]) == (len(course.samples), timed)


@pytest.mark.parametrize(
    ("varying", "state"),
    [({}, State.WORSE), ({"exgen": frozenset({PEAK})}, State.CONFIRMED)],
)
def test_a_peak_that_an_allocator_does_not_repeat_is_not_judged_by_two_rounds_that_agree(
    varying: Mapping[str, frozenset[str]], state: State
):
    """It is within its limit, and beyond half of it."""
    label = "exgen purge_delay=0"
    plan = racing([label], varying=varying)

    course = run_race(plan, program({label: (0.9, 1.008, 1.0)}))

    assert plan.standings(course)[label].state is state
