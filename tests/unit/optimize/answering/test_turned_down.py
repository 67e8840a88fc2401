"""What a guard turned down is said, with what would allow it."""

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tuner.errors import SpecError
from tuner.optimize.answering.turned_down import (
    TurnedDown,
    best_trade,
    parse_program_constraint,
    turned_down,
)
from tuner.optimize.proof.judgement import Gain, Rules
from tuner.optimize.quantities import CPU, MEAN, PEAK, SERVICE_NAMES

RULES = Rules()
NOISE = {CPU: 0.02}


def changes(mean: float, peak: float, cpu: float) -> dict[str, Gain]:
    """Return gains of one run, from changes such as -0.43."""
    shares = {MEAN: mean, PEAK: peak, CPU: cpu}
    logs = {name: -math.log1p(share) for name, share in shares.items()}
    return {name: Gain(x, -math.inf, math.inf) for name, x in logs.items()}


def bounded(mean: float, peak: float, cpu: float) -> dict[str, Gain]:
    """Return the same of rounds, whose bounds are close."""
    found = changes(mean, peak, cpu)
    return {n: replace(one, low=one.middle, high=one.middle) for n, one in found.items()}


def found(
    seen: Mapping[str, tuple[Mapping[str, Gain], tuple[str, ...] | None]],
    deployed: Mapping[str, Gain] | None = None,
    rules: Rules = RULES,
) -> tuple[TurnedDown, ...]:
    rows = [(label, gains, worse) for label, (gains, worse) in seen.items()]
    return turned_down(rows, rules, deployed, NOISE)


def test_a_great_gain_that_breaks_a_guard_is_said_with_what_allows_it():
    (one,) = found({"mimalloc": (changes(-0.02, 0.076, -0.43), None)})

    assert one.words == (
        "Turned down: mimalloc saves 43.0 % of CPU time but holds 7.6 % more peak memory "
        "(limit 1 %) in few runs; --constraint 'peak_memory <= default * 1.1' allows it."
    )
    name, share = parse_program_constraint(one.constraints[0])
    assert found({"mimalloc": (one.gains, None)}, rules=Rules(limits=((name, share),))) == ()


def test_what_is_worse_within_its_noise_is_allowed_too():
    (one,) = turned_down(
        [("jemalloc", changes(0.049, 0.109, -0.3), None)],
        RULES,
        None,
        {CPU: 0.02, MEAN: 0.02},
        expected={"jemalloc": {PEAK: 0.1, CPU: -0.1}},
    )

    assert one.broken == (MEAN, PEAK)
    assert len(one.constraints) == 2


def test_what_is_lost_is_never_written_as_its_limit():
    (one,) = found({"mimalloc": (changes(0.0, 0.0052, -0.2), (PEAK,))})
    gains = {**one.gains, PEAK: replace(one.gains[PEAK], limit=0.005)}

    assert "0.52 % more peak memory (limit 0.5 %)" in replace(one, gains=gains).words


def test_what_in_rounds_is_not_called_one_run():
    (one,) = found({"mimalloc": (changes(0.0, 0.05, -0.2), (PEAK,))})

    assert one.in_rounds
    assert "few runs" not in one.words
    few = {name: replace(gain, low=-math.inf, high=math.inf) for name, gain in one.gains.items()}
    assert "time, in few rounds, but" in replace(one, gains=few).words


def test_a_loss_whose_bounds_leave_room_for_a_gain_only_seems_to_be_one():
    one = bounded(-0.2, 0.05, 0.039)
    gains = {**one, CPU: replace(one[CPU], high=0.032)}

    words = found({"x": (gains, (PEAK, CPU))})[0].words

    assert "but holds 5.0 % more peak memory (limit 1 %) and seems to need 3.9 % more CPU" in words


def test_why_limits_of_the_same_quantity_differ_is_said():
    one = changes(0.0, 0.05, -0.2)
    gains = {**one, PEAK: replace(one[PEAK], limit=0.005, is_halved=True)}
    assert "(limit 0.5 %, halved as it repeats itself);" in found({"x": (gains, (PEAK,))})[0].words


def test_what_is_within_its_limit_is_not_said_to_be_lost():
    less = changes(-0.2, 0.017, 0.0), (PEAK,)
    (one,) = found({"jemalloc": (bounded(-0.3, 0.017, 0.008), (PEAK, CPU)), "less": less})

    assert one.broken == (PEAK,)
    assert "but holds 1.7 % more peak memory (limit 1 %); --constraint" in one.words


def test_what_new_runs_showed_goes_before_a_greater_gain_of_few_runs():
    shown = found(
        {"few": (changes(-0.55, 0.0, 0.16), None), "rounds": (changes(-0.47, 0.0, 0.08), (CPU,))}
    )

    assert [one.label for one in shown] == ["rounds"]


@pytest.mark.parametrize(
    ("gains", "why"),
    [
        (changes(-0.02, 0.0, -0.43), "no guard is broken"),
        (changes(0.0, 0.30, -0.20), "it loses more than it gains"),
        (changes(0.0, 0.02, -0.05), "the gain of one run is within its noise"),
        (changes(-0.20, 0.0, 0.06), "the loss of one run is within its noise"),
    ],
)
def test_what_is_no_trade_is_not_said(gains: dict[str, Gain], why: str):
    assert found({"x": (gains, None)}) == (), why


def test_less_than_what_is_deployed_is_not_said():
    deployed = changes(0.0, 0.0, -0.42)

    assert found({"mimalloc": (changes(0.0, 0.076, -0.43), None)}, deployed) == ()
    assert found({"mimalloc": (changes(0.0, 0.076, -0.60), None)}, deployed)


def test_less_memory_than_counts_is_no_trade():
    seen = {"a": (changes(-0.08, 0.05, 0.0), (PEAK,))}

    assert len(found(seen)) == 1
    floor = Rules(floors=((MEAN, 0.1),))
    assert found(seen, rules=floor) == ()
    (one,) = found({"a": (changes(-0.08, 0.05, -0.07), (PEAK,))}, rules=floor)
    assert one.gained[0] == CPU


def test_of_each_guard_the_greatest_gain_is_said():
    shown = found(
        {
            "a": (changes(0.0, 0.05, -0.2), (PEAK,)),
            "b": (changes(0.0, 0.06, -0.4), (PEAK,)),
            "c": (changes(0.04, 0.0, -0.3), (MEAN,)),
            "failed": ({}, None),
        }
    )

    assert [one.label for one in shown] == ["b", "c"]


def test_what_loses_more_for_no_greater_gain_is_not_said():
    less = changes(-0.228, 0.017, -0.015), None
    more = changes(-0.226, 0.051, 0.079), None

    assert [one.label for one in found({"more": more, "less": less})] == ["less"]
    assert len(found({"more": (changes(-0.3, 0.051, 0.079), None), "less": less})) == 2


@pytest.mark.parametrize(
    ("expected", "n"),
    [
        ({PEAK: 0.05, CPU: -0.01}, 1),
        ({PEAK: -0.05, CPU: -0.01}, 1),
        ({PEAK: 0.05, CPU: 0.01}, 0),
        ({}, 0),
    ],
)
def test_few_runs_count_where_emulation_expects_the_same(expected: dict[str, float], n: int):
    rows = [("mimalloc", changes(0.0, 0.076, -0.43), None)]

    assert len(turned_down(rows, RULES, None, NOISE, expected={"mimalloc": expected})) == n
    proven = [("mimalloc", changes(0.0, 0.076, -0.43), (PEAK,))]
    assert len(turned_down(proven, RULES, None, NOISE, expected={})) == 1


@pytest.mark.parametrize(("smoothed", "n"), [(0.2, 1), (0.01, 0), (None, 0)])
def test_what_was_never_emulated_counts_by_all_runs_together(smoothed: float | None, n: int):
    gains = changes(0.0, 0.055, -0.2)
    gains[CPU] = replace(gains[CPU], smoothed=smoothed)
    rows = [("found by runs", gains, None)]

    assert len(turned_down(rows, RULES, None, NOISE, expected={"another": {}})) == n


@pytest.mark.parametrize(("mean", "n"), [(0.05, 1), (0.01, 0)])
def test_of_few_runs_a_loss_on_average_is_expected_too(mean: float, n: int):
    rows = [("x", changes(0.076, 0.0, -0.43), None)]

    assert len(turned_down(rows, RULES, None, NOISE, expected={"x": {MEAN: mean, CPU: -0.01}})) == n


def test_what_gains_most_in_all_for_the_smallest_loss_is_first():
    seen = {
        "tcmalloc": (changes(0.2, 0.24, -0.42), (MEAN, PEAK)),
        "jemalloc": (changes(-0.121, 0.056, -0.389), None),
        "exgen": (changes(-0.237, 0.017, -0.331), None),
    }

    first, second = found(seen, changes(-0.12, -0.12, 0.007))

    assert (first.label, second.label) == ("exgen", "tcmalloc")
    assert "saves 33.1 % of CPU time and 23.7 % of mean memory but holds 1.7 %" in first.words


def test_what_its_own_runs_did_not_show_is_not_said_of_a_setting():

    def few(gains: dict[str, Gain], name: str, change: float) -> dict[str, Gain]:
        """Return the same where all runs together say another change of one."""
        return {**gains, name: replace(gains[name], smoothed=-math.log1p(change))}

    (one,) = found({"x": (few(changes(-0.2, 0.05, 0.02), CPU, -0.05), None)})

    assert one.gained == (MEAN,)
    assert found({"x": (few(changes(0.0, 0.05, 0.02), CPU, -0.2), None)}) == ()
    assert found({"x": (few(changes(-0.2, -0.01, 0.0), PEAK, 0.05), None)}) == ()


def test_three_times_the_least_effect_is_said_beside_the_greatest_gain():
    (one,) = found({"x": (changes(-0.0295, 0.05, -0.2), (PEAK,))})

    assert one.gained == (CPU, MEAN)


def test_where_all_lose_in_sum_what_in_rounds_goes_first_too():
    shown = found(
        {
            "few": (changes(0.121, 0.12, -0.2), None),
            "rounds": (changes(0.12, 0.12, -0.2), (MEAN, PEAK)),
        }
    )

    assert [one.label for one in shown] == ["rounds"]


def test_a_service_names_its_own_metrics():
    quantity = SERVICE_NAMES["rate"]
    gains = {MEAN: Gain(0.5, 0.4, 0.6), quantity: Gain(-0.1, -0.1, -0.1, is_more_better=True)}
    rules = Rules(goals=(MEAN,), guards=(MEAN, quantity))

    (one,) = turned_down([("x", gains, (quantity,))], rules, None, {}, is_service=True)

    assert one.constraints == ("rate >= default - 12 %",)


def test_two_losses_of_a_kind_have_one_verb():
    (one,) = turned_down([("x", bounded(0.09, 0.11, -0.21), (MEAN, PEAK))], RULES, None, NOISE)

    assert one.words == (
        "Turned down: x saves 21.0 % of CPU time but holds 9.0 % more mean memory (limit 1 %) "
        "and 11.0 % more peak memory (limit 1 %); --constraint 'mean_memory <= default * 1.11' "
        "--constraint 'peak_memory <= default * 1.14' allow it."
    )


@pytest.mark.parametrize("text", ["peak <= default * 1.1", "cpu_time >= default", "nonsense"])
def test_a_constraint_that_is_not_understood_says_what_is(text: str):
    with pytest.raises(SpecError, match=r"constraint .*cpu_time"):
        parse_program_constraint(text)


@pytest.mark.parametrize(
    ("seen", "best"),
    [
        ({"a": changes(0.0, 0.06, -0.2), "b": changes(-0.05, 0.06, -0.2)}, "b"),
        ({"a": changes(0.065, 0.087, -0.28), "b": changes(0.003, 0.042, -0.235)}, "b"),
        ({"within the guards": changes(0.0, 0.0, -0.2)}, None),
        ({"loses more": changes(0.0, 0.3, -0.2)}, None),
        ({"little": changes(0.0, 0.02, -0.025)}, None),
    ],
)
def test_the_best_trade_gains_much_and_breaks_a_guard(
    seen: Mapping[str, Mapping[str, Gain]], best: str | None
):
    assert best_trade(seen, RULES, NOISE) == best


def test_memory_of_less_than_counts_is_no_trade():
    seen = {"small": changes(-0.2, 0.02, 0.0)}
    assert best_trade(seen, replace(RULES, floors=((MEAN, 0.25),)), NOISE) is None
    assert best_trade(seen, replace(RULES, floors=((MEAN, 0.15),)), NOISE) == "small"
