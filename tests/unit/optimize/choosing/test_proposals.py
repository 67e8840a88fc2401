"""What goes to the program: defaults, each allocator's best, a spread; and what is confirmed."""

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.doubles.runs import trial
from tuner.optimize.choosing.proposals import (
    Baseline,
    Estimated,
    Proposal,
    finalists,
    propose,
    representatives,
    spread_of,
    with_reserves,
    worthwhile,
)
from tuner.optimize.proof.judgement import Rules
from tuner.optimize.quantities import CPU, MEAN, PEAK, SERVICE_NAMES
from tuner.records import Configuration, Outcome, Trial

RULES = Rules()
MIB = 1 << 20
FLOOR = SERVICE_NAMES["floor"]


def proposal(
    mean: float, cpu: float, name: str = "exgen", peak: float = 0.0, **settings: int
) -> Proposal:
    expected = {MEAN: mean, PEAK: peak, CPU: cpu}
    return Proposal(Configuration.of(name, settings), 1, expected)


def estimated(mean: float, cpu: float, n_settings: int, doubt: float = 0.0) -> Estimated:
    """Return what is expected of so many settings."""
    settings = dict.fromkeys("abcdefghijklmno"[:n_settings], n_settings)
    logs = {MEAN: mean, PEAK: 0.0, CPU: cpu}
    doubts = {MEAN: doubt, PEAK: 0.0, CPU: doubt}
    return Estimated(Proposal(Configuration.of("exgen", settings), 1, logs), logs, doubts)


@pytest.mark.parametrize(
    ("fewer", "is_left_out"),
    [
        pytest.param(estimated(-0.085, -0.05, 3), True, id="a fifth of the gain"),
        pytest.param(estimated(-0.075, -0.05, 3), False, id="more than a fifth"),
        pytest.param(estimated(-0.085, -0.05, 14), False, id="more than counts for one setting"),
        pytest.param(estimated(-0.085, -0.035, 3), False, id="in another goal"),
        pytest.param(estimated(-0.085, -0.035, 3, doubt=0.02), True, id="a time in doubt"),
        pytest.param(estimated(-0.075, -0.05, 3, doubt=0.02), False, id="memory in doubt"),
    ],
)
def test_one_with_fewer_settings_stands_for_another(fewer: Estimated, *, is_left_out: bool):
    best = estimated(-0.1, -0.05, 15)

    found = representatives([best, fewer], RULES, 0.01)

    assert found == ([fewer] if is_left_out else [best, fewer])


@pytest.mark.parametrize(("cpu", "is_left_out"), [(0.004, True), (0.016, False)])
def test_what_breaks_a_guard_stands_for_none_that_may_hold_it(cpu: float, *, is_left_out: bool):
    best, fewer = estimated(-0.15, 0.0, 7, doubt=0.012), estimated(-0.14, cpu, 1, doubt=0.012)

    found = representatives([best, fewer], RULES, 0.01)

    assert found == ([fewer] if is_left_out else [best, fewer])


@pytest.mark.parametrize(("mean", "n_found"), [(-0.095, 1), (-0.08, 2)])
def test_of_as_many_settings_that_do_the_same_the_best_stands_for_all(mean: float, n_found: int):
    best, other = estimated(-0.1, 0.0, 2, doubt=0.02), estimated(mean, 0.01, 2, doubt=0.02)

    found = representatives([best, other], RULES, 0.01)

    assert found == [best, other][:n_found]


def test_steps_of_which_each_costs_little_are_not_taken_one_after_the_other():
    best, fewer, fewest = (estimated(-0.1 * 0.85**n, 0.0, 15 - 6 * n) for n in range(3))

    assert representatives([best, fewer, fewest], RULES, 0.01) == [fewer, fewest]


def test_what_a_setting_changes_is_added_to_the_whole_program():
    """The heap is 10 of 40 MiB: 20 % of it is 5 % of the program."""
    base = trial(0, Configuration("glibc"), 10.0 * MIB, 100e6)
    other = trial(1, Configuration("exgen"), 8.0 * MIB, 50e6)
    values = {MEAN: 40.0 * MIB, PEAK: 50.0 * MIB, CPU: 1e9}

    (found,) = propose([base, other], Baseline(values, base, 0.5))

    assert found.expected[MEAN] == pytest.approx(math.log(38.0 / 40.0))
    assert found.expected[CPU] == pytest.approx(math.log(0.975))


def test_what_a_program_with_a_library_of_its_own_runs_under_is_proposed_plain():
    base = trial(0, Configuration("jemalloc"), 10.0 * MIB, 100e6)
    baseline = Baseline({CPU: 1e9}, base, 0.5, is_plain=False)

    assert [one.configuration for one in propose([base], baseline)] == [base.configuration]


def test_no_more_work_can_be_saved_than_the_allocator_does():
    """Its work, at the prices of a busy machine, may seem more than all of the program's."""
    base = trial(0, Configuration("glibc"), 10.0 * MIB, 100e6)
    other = trial(1, Configuration("exgen"), 10.0 * MIB, 80e6)

    (found,) = propose([base, other], Baseline({CPU: 1e7}, base, 0.5))

    assert found.expected[CPU] == pytest.approx(math.log(0.8))


def with_end(one: Trial, heap: float | None) -> Trial:
    return replace(one, outcome=Outcome.succeeded(one.measured.with_values(final_heap=heap)))


def test_idle_memory_follows_the_heap_at_the_end():
    """Of a run whose trials do not have it nothing is expected of idle memory."""
    base = trial(0, Configuration("glibc"), 10.0 * MIB, 100e6)
    other = trial(1, Configuration("exgen"), 8.0 * MIB, 50e6)
    known = [with_end(base, 20.0 * MIB), with_end(other, 12.0 * MIB)]
    unknown = [with_end(base, None), with_end(other, None)]
    values = {FLOOR: 40.0 * MIB}

    (found,) = propose(known, Baseline(values, known[0], 0.5))
    (older,) = propose(unknown, Baseline(values, unknown[0], 0.5))

    assert found.expected[FLOOR] == pytest.approx(math.log(32.0 / 40.0))
    assert older.expected[FLOOR] == 0.0


def test_defaults_come_first_and_hopeless_settings_stay_out():
    default = proposal(0.30, 0.30, "tcmalloc")
    hopeless = proposal(-0.30, 0.50, a=1)
    good = [proposal(-0.01 * i, -0.10 + 0.01 * i, a=i) for i in range(8)]

    found = spread_of([hopeless, *good, default], RULES, 6)

    assert found[0] == default
    assert hopeless not in found
    assert len(found) == 6
    assert good[0] in found
    assert good[7] in found, "the other end of the front"


def test_where_few_can_run_the_most_promising_do():
    """Not the defaults by their names, of which the first may be hopeless."""
    defaults = [proposal(0.1 * i, 0.05, name) for i, name in enumerate(("exgen", "tcmalloc"), 1)]
    good, better = proposal(-0.02, 0.0, a=1), proposal(-0.10, 0.0, a=2)

    assert spread_of([*defaults, good, better], RULES, 1) == [better]
    assert len(spread_of([*defaults, good, better], RULES, 4)) == 4


def test_where_few_can_run_known_settings_come_first_but_for_one_place():
    """Whatever emulation expects of them; two of exgen had both places there was time for."""
    known = [replace(proposal(0.3, 0.3, "tcmalloc", a=i), is_known=True) for i in (2, 1)]
    better = proposal(-0.10, 0.0, a=3)

    assert spread_of([better, *known], RULES, 1) == known[:1]
    assert spread_of([better, *known], RULES, 2) == [known[0], better]
    assert spread_of(known, RULES, 2) == known


def test_a_setting_may_break_a_guard_by_the_slack_of_emulation_and_no_more():
    limit = math.log1p(RULES.least) + math.log1p(0.05)
    at = proposal(-0.30, 0.0, peak=limit, a=1)
    beyond = proposal(-0.40, 0.0, peak=limit + 1e-9, a=2)

    assert spread_of([at, beyond], RULES, 5) == [at]


def test_a_spread_is_a_spread():
    """Of ten points close together and one far away, three hold the far one."""
    near = [proposal(-0.05 - i * 1e-5, i * 1e-5, a=i) for i in range(10)]
    far = proposal(0.0, -0.20, a=99)

    assert far in spread_of([*near, far], RULES, 3)


def test_what_is_expected_to_be_as_its_default_does_not_run():
    """Of many that are alike the luckiest would be chosen."""
    default = proposal(0.02, 0.0, "tcmalloc")
    alike = [proposal(0.022, -0.002, "tcmalloc", a=i) for i in range(1, 4)]
    idle = [proposal(-0.002, 0.002, "glibc", a=i) for i in range(3)]
    other = proposal(0.0, 0.0, "tcmalloc", b=1)

    assert spread_of([*alike, *idle, other, default], RULES, 8) == [default, other]


def finals(
    *proposals: Proposal,
    n: int = 3,
    cpu_doubt: float = 0.0,
    rules: Rules = RULES,
    beyond: Mapping[str, float] | None = None,
) -> list[Proposal]:
    estimates = [Estimated(p, p.expected, {CPU: cpu_doubt}) for p in proposals]
    return [one.proposal for one in finalists(estimates, rules, n, beyond=beyond)]


def test_only_what_gains_and_breaks_no_guard_is_confirmed():
    gains = proposal(-0.05, 0.0, a=1)

    found = finals(gains, proposal(0.0, 0.0, a=2), proposal(-0.20, 0.0, peak=0.10, a=3))

    assert found == [gains]


@pytest.mark.parametrize(
    ("first", "second", "doubt"),
    [
        pytest.param((-0.30, -0.02), (-0.40, 0.012), 0.02, id="it is sure of its guards"),
        pytest.param((-0.25, 0.0), (-0.40, 0.08), 0.1, id="its guards seem to hold, none is sure"),
        pytest.param((-0.54, 0.026), (-0.56, 0.048), 0.05, id="it costs less, all seem to break"),
        pytest.param((-0.14, 0.005), (-0.02, -0.01), 0.03, id="it gains far more, less sure"),
    ],
)
def test_of_two_the_first_is_confirmed_first(
    first: tuple[float, float], second: tuple[float, float], doubt: float
):
    """Memory and CPU time of each; the doubt is of CPU time."""
    one, other = proposal(*first, a=2), proposal(*second, a=1)

    assert finals(other, one, n=1, cpu_doubt=doubt) == [one]
    assert finals(other, one, n=2, cpu_doubt=doubt) == [one, other]


def test_what_lies_within_its_doubt_does_not_say_which_one_is_confirmed():
    """A fifth of the memory at equal CPU time, or an eighth at -9 %, give or take 10 %."""
    more, lucky = proposal(-0.20, 0.0, a=1), proposal(-0.125, -0.09, a=2)

    assert finals(more, lucky, n=1, cpu_doubt=0.1) == [more]


def test_of_several_that_are_confirmed_one_gains_most_in_each_goal():
    """A sixth of the memory, or a twentieth of it and a CPU time that varies by 6 %."""
    fast = [proposal(-0.05, -0.12 - 0.001 * i, a=i) for i in range(4)]
    lean = proposal(-0.16, 0.0, "glibc", a=1)

    assert finals(*fast, lean, n=3, cpu_doubt=0.06) == [fast[3], lean, fast[2]]


def test_in_reserve_is_what_one_unlucky_run_may_have_turned_down():
    near, unlucky = proposal(-0.20, 0.0, a=1), proposal(-0.40, 0.13, a=2)
    costly, useless = proposal(-0.60, 0.40, a=3), proposal(0.0, 0.0, a=4)
    every = [Estimated(p, p.expected, {CPU: 0.05}) for p in (near, unlucky, costly, useless)]

    assert with_reserves(every, RULES, 1) == [near.configuration, unlucky.configuration]
    assert with_reserves(every[3:], RULES, 1) == []


def test_a_constraint_allows_what_a_guard_would_turn_down():
    allowed = Rules(limits=((PEAK, 0.12),))
    at, beyond = proposal(-0.05, 0.0, peak=0.11, a=1), proposal(-0.2, 0.0, peak=0.12, a=2)

    assert finals(at, beyond, rules=allowed) == [at]


def test_settings_must_beat_their_default_to_be_worth_their_words():
    default = proposal(-0.050, 0.0)
    barely = proposal(-0.053, 0.0, a=1)
    clearly = proposal(-0.080, 0.0, a=2)

    assert finals(default, barely) == [default]
    assert finals(default, barely, clearly) == [clearly, default]


def test_a_default_stands_for_no_setting_by_a_time_within_its_doubt():
    """One run of the default was 6 % faster, which varies by 8 %; the setting saves memory."""
    lucky, lean = proposal(0.0, -0.06), proposal(-0.05, 0.0, a=1)

    assert finals(lucky, lean, n=1, cpu_doubt=0.08) == [lean]
    assert finals(lucky, lean, n=1, cpu_doubt=0.01) == [lucky]


def test_no_more_than_asked_for_are_confirmed():
    many = [proposal(-0.05 - 0.01 * i, 0.0, a=i) for i in range(6)]

    assert len(finals(*many, n=2)) == 2


@pytest.mark.parametrize(("gain", "is_taken"), [(0.0301, True), (0.0299, False)])
def test_what_even_its_doubt_leaves_below_what_there_is_time_to_show_is_not_confirmed(
    gain: float, *, is_taken: bool
):
    """It must gain the threshold and 3 % more; 1 % of that is doubt."""
    one = proposal(0.0, -gain - RULES.threshold(CPU) + 0.01)

    found = finals(one, cpu_doubt=0.01, beyond={CPU: 0.03})

    assert found == ([one] if is_taken else [])


def test_one_goal_that_there_is_time_to_show_is_enough():
    one = proposal(-0.02, -0.02)

    assert finals(one, beyond={CPU: 0.03}) == [one]
    assert finals(one, beyond={CPU: 0.03, MEAN: 0.03}) == []


def test_a_guard_that_may_well_hold_turns_nothing_down():
    """A noisy run says +3 % of CPU time, give or take 4 %: the confirmation decides."""
    noisy = proposal(-0.10, 0.03, a=1)

    assert finals(noisy) == []
    assert finals(noisy, cpu_doubt=0.04) == [noisy]
    assert finals(noisy, cpu_doubt=0.01) == []


GAINS = {"arena_max": 0.02, "mxfast": 0.002, "tcache_count": 0.003, "trim_threshold": 0.0}
CHOSEN = Configuration.of("glibc", dict.fromkeys(GAINS, 1))


def loss(one: Configuration) -> float:
    """What is lost without settings, which do not depend on each other."""
    if one.is_default:
        return float("inf")
    return sum(gain for name, gain in GAINS.items() if name not in one.as_dict)


@pytest.mark.parametrize(
    ("worth", "most", "left"),
    [
        (0.0, 0.0, ["arena_max", "mxfast", "tcache_count"]),
        (0.0025, 0.01, ["arena_max"]),
        (0.0025, 0.0025, ["arena_max", "tcache_count"]),
        (0.1, 0.1, ["arena_max"]),
    ],
)
def test_settings_that_are_not_worth_their_words_go(worth: float, most: float, left: list[str]):
    assert sorted(worthwhile(CHOSEN, loss, worth, most).as_dict) == left
