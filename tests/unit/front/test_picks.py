"""The rules of the picks."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doubles.fronts import BASELINE, NAMES, TRIALS, tried
from tests.doubles.runs import MIB, trial
from tuner.errors import SelectionError
from tuner.front.picks import (
    NO_GAIN,
    best_pick,
    find_knee,
    first_pick,
    select_balanced,
    standard_picks,
)
from tuner.records import Configuration, Outcome, Trial

CORNER = [(90.0, 1100.0), (92.0, 905.0), (95.0, 900.0), (120.0, 890.0)]

Points = list[tuple[float, float]]


def tried_all(points: Points) -> list[Trial]:
    return [tried(number, *point) for number, point in enumerate(points, start=1)]


def changes(one: Trial) -> tuple[float, float]:
    base, found = BASELINE.measured, one.measured
    heap, cost = (found.value(name) / base.value(name) - 1.0 for name in ("mean_heap", "cost"))
    return heap, cost


def with_values(one: Trial, **changes: float) -> Trial:
    return replace(one, outcome=Outcome.succeeded(one.measured.with_values(**changes)))


def best_of(trials: Iterable[Trial], metric: str) -> Trial:
    return best_pick(trials, metric, NAMES, BASELINE).trial


def balanced_of(trials: Iterable[Trial]) -> Trial:
    return select_balanced(trials, NAMES, BASELINE)


def knee_of(trials: Iterable[Trial]) -> Trial | None:
    return find_knee(trials, NAMES, BASELINE)


def numbers_picked(trials: Sequence[Trial]) -> list[int | None]:
    found = [balanced_of(trials), knee_of(trials), *(best_of(trials, name) for name in NAMES)]
    return [one.number if one else None for one in found]


DEMO = [
    (90.07, 338.0),
    (93.40, 327.0),
    (93.78, 320.0),
    (94.16, 317.0),
    (95.77, 316.5),
    (98.49, 295.0),
]
"""Heap and cost of a front of the demo: 8 % of heap for 4 % of the baseline's cost, in a line."""


def test_balanced_is_the_least_sum_of_changes():
    found = balanced_of(tried_all(DEMO))

    assert changes(found) == pytest.approx((-0.0993, -0.662))


def test_a_straight_front_has_no_knee():
    assert knee_of(tried_all(DEMO)) is None


def test_a_knee_is_clearly_better_than_the_ends():
    ends = [(90.0, 1000.0), (100.0, 900.0)]

    assert knee_of(tried_all([*ends, (94.6, 950.0)])) is None
    assert knee_of(tried_all([*ends, (94.4, 950.0)])) is not None


def test_an_end_far_away_does_not_move_the_balanced_pick():
    trials = tried_all(CORNER)
    far = tried(9, 89.9, 90_000.0)

    assert balanced_of([*trials, far]) == balanced_of(trials)


def test_best_gives_up_next_to_nothing_for_much():
    trials = tried_all([(50.0, 1500.0), (50.24, 1100.0), (50.26, 900.0)])

    assert best_of(trials, "mean_heap") == trials[1]
    assert best_of(trials, "cost") == trials[2]


def with_settings(number: int, n_settings: int, heap_mib: float, cost: float) -> Trial:
    names = ("arena_max", "mxfast", "tcache_count", "top_pad")
    settings = dict.fromkeys(names[:n_settings], number)
    return trial(number, Configuration.of("glibc", settings), heap_mib * MIB, cost)


def test_within_the_tie_no_setting_displaces_the_default():
    near = [tried(1, 99.6, 1000.0), tried(2, 100.0, 996.0)]

    assert balanced_of([BASELINE, *near]) == BASELINE
    assert best_of([BASELINE, *near], "mean_heap") == BASELINE
    assert best_of([BASELINE, *near], "cost") == BASELINE
    assert balanced_of([BASELINE, tried(1, 99.4, 1000.0)]).number == 1


def test_the_default_of_another_allocator_is_preferred_to_settings_only():
    other = trial(1, Configuration("jemalloc"), 80.2 * MIB, 800.0)
    trials = [BASELINE, other, tried(2, 80.0, 800.0)]

    assert balanced_of(trials) == other
    assert best_of([BASELINE, trial(1, Configuration("jemalloc"), 99.9 * MIB, 999.0)], "cost") == (
        BASELINE
    )


def test_within_the_tie_fewer_settings_are_preferred():
    many, few, far = (
        with_settings(1, 3, 50.0, 500.0),
        with_settings(2, 1, 50.2, 500.0),
        with_settings(3, 1, 50.6, 500.0),
    )

    assert balanced_of([BASELINE, many, few, far]) == few
    assert best_of([BASELINE, many, few, far], "mean_heap") == few
    assert balanced_of([BASELINE, many, far]) == many


def test_fewer_settings_are_not_bought_with_the_other_objective():
    many, few = with_settings(1, 3, 50.0, 500.0), with_settings(2, 1, 50.2, 900.0)

    assert best_of([BASELINE, many, few], "mean_heap") == many


def test_a_best_pick_says_how_far_it_is_above_the_least():
    least, near = tried(1, 50.0, 1500.0), tried(2, 50.2, 1100.0)
    simple = with_settings(3, 0, 50.1, 1500.0)
    equal = with_settings(4, 0, 50.001, 1500.0)

    def rule(*trials: Trial) -> str:
        return best_pick(trials, "mean_heap", NAMES, BASELINE).rule

    assert rule(least) == "least mean heap"
    assert rule(least, near) == "least mean heap, or 0.4 % above it for less cost"
    assert rule(least, simple) == "least mean heap, or 0.2 % above it as the simpler setting"
    assert rule(least, equal) == "least mean heap, or next to it as the simpler setting"


def test_best_breaks_ties_by_the_others_then_by_number():
    trials = tried_all([(50.0, 1500.0), (50.0, 1400.0), (50.0, 1400.0)])

    assert best_of(trials, "mean_heap") == trials[1]


def test_best_of_an_objective_whose_least_is_0():
    one, other = tried_all([(90.0, 1000.0)] * 2)
    some, none = with_values(one, faults=1), with_values(other, faults=0)

    assert best_pick([some, none], "faults", NAMES, BASELINE).trial == none


def test_best_of_one_objective_is_its_least():
    trials = tried_all([(50.2, 900.0), (50.0, 1500.0)])

    assert best_pick(trials, "mean_heap", ("mean_heap",), BASELINE).trial == trials[1]


def test_an_objective_that_is_0_for_the_baseline_counts_in_its_own_units():
    base = with_values(BASELINE, faults=0)
    one, other = tried_all([(100.0, 1000.0)] * 2)
    few, many = with_values(one, faults=1), with_values(other, faults=3)

    assert select_balanced([many, few], ("cost", "faults"), base) == few


def test_three_objectives_have_a_knee():
    names = ("mean_heap", "cost", "faults")
    points = [(50, 2000, 4000), (200, 500, 4000), (200, 2000, 1000), (60, 600, 1200)]
    base = with_values(BASELINE, faults=2000)
    trials = [
        with_values(tried(number, heap, cost), faults=faults)
        for number, (heap, cost, faults) in enumerate(points)
    ]

    assert find_knee(trials, names, base) == trials[3]
    assert find_knee(trials[:3], names, base) is None


def test_what_is_not_feasible_is_never_picked():
    broken = replace(tried(8, 1.0, 1.0), violation=0.5)

    assert balanced_of([*TRIALS, broken]).number != 8
    assert best_of([*TRIALS, broken], "cost").number != 8
    with pytest.raises(SelectionError, match="no trial succeeded"):
        balanced_of([broken, TRIALS[6]])


def test_values_are_compared_at_the_resolution_of_the_campaign():
    steps = (("mean_heap", 0.05),)
    coarse = [replace(one, resolution=steps) for one in tried_all([(50, 1000.0), (49.9, 1000.0)])]

    assert balanced_of(coarse) == best_of(coarse, "mean_heap") == coarse[0]


# 1/16 MiB and whole instructions: sums are exact, so that scaling moves no tie.
VALUES = st.integers(16, 3200).map(lambda sixteenths: sixteenths / 16)
CLOUDS = st.lists(st.tuples(VALUES, st.integers(100, 4000).map(float)), min_size=1, max_size=30)


@given(CLOUDS)
def test_no_trial_beats_the_balanced_pick_by_more_than_it_gives_up(points: Points):
    trials = tried_all(points)
    heap, cost = changes(balanced_of(trials))

    for other in trials:
        other_heap, other_cost = changes(other)
        assert (other_heap - heap) + (other_cost - cost) >= -0.005 - 1e-9


@given(CLOUDS)
def test_no_trial_near_the_least_beats_a_best_pick(points: Points):
    trials = tried_all(points)
    for position, name in enumerate(NAMES):
        chosen = points[best_of(trials, name).number - 1]
        least = min(point[position] for point in points)

        assert chosen[position] <= 1.005 * least
        for point in points:
            is_near = point[position] <= 1.005 * least
            assert not (is_near and point[1 - position] < chosen[1 - position])
            assert not (point != chosen and point[0] <= chosen[0] and point[1] <= chosen[1])


@given(CLOUDS, st.randoms(use_true_random=False))
def test_picks_do_not_depend_on_the_order_of_trials(points: Points, random: Random):
    trials = tried_all(points)
    shuffled = random.sample(trials, len(trials))

    assert numbers_picked(shuffled) == numbers_picked(trials)


@given(CLOUDS, st.integers(-8, 8), st.integers(-8, 8))
def test_picks_do_not_depend_on_units(points: Points, heap: int, cost: int):
    def scaled(one: Trial) -> Trial:
        found = one.measured
        return replace(
            one,
            outcome=Outcome.succeeded(
                found.with_values(
                    mean_heap=found.value("mean_heap") * 2.0**heap,
                    cost=found.value("cost") * 2.0**cost,
                )
            ),
        )

    trials = [scaled(one) for one in tried_all(points)]
    base = scaled(BASELINE)

    balanced = select_balanced(trials, NAMES, base)
    knee = find_knee(trials, NAMES, base)
    bests = [best_pick(trials, name, NAMES, base).trial for name in NAMES]
    found = [one.number if one else None for one in (balanced, knee, *bests)]
    assert found == numbers_picked(tried_all(points))


@given(CLOUDS, st.data())
def test_dominated_trials_do_not_change_the_picks(points: Points, data: st.DataObject):
    worse = [
        (heap + data.draw(st.integers(0, 64)) / 16, cost + data.draw(st.integers(0, 500)))
        for heap, cost in data.draw(st.lists(st.sampled_from(points), max_size=10))
    ]

    assert numbers_picked(tried_all([*points, *worse])) == numbers_picked(tried_all(points))


STEPS = st.lists(st.tuples(st.integers(1, 64), st.integers(1, 400)), min_size=2, max_size=12)


def bent(steps: list[tuple[int, int]], *, is_convex: bool) -> Points:
    """Return a front whose steps become ever flatter (convex) or ever steeper."""
    ordered = sorted(steps, key=lambda step: step[1] / step[0], reverse=is_convex)
    points = [(50.0, 10_000.0)]
    for heap, cost in ordered:
        points.append((points[-1][0] + heap / 16, points[-1][1] - cost))
    return points


@given(STEPS)
def test_a_concave_front_has_no_knee(steps: list[tuple[int, int]]):
    assert knee_of(tried_all(bent(steps, is_convex=False))) is None


@given(STEPS, STEPS)
def test_a_convex_front_has_a_knee_where_its_exchange_turns_bad(
    good: list[tuple[int, int]], bad: list[tuple[int, int]]
):
    steep = [(heap, 10 * heap + cost) for heap, cost in good]  # 1/16 % of heap for over 1 % of cost
    flat = [(1000 * heap, min(heap, cost)) for heap, cost in bad]
    trials = tried_all(bent([*steep, *flat], is_convex=True))

    assert knee_of(trials) == trials[len(steep)]


def test_no_regret_pick_is_worse_nowhere():
    picks = {pick.name: pick for pick in standard_picks(TRIALS, NAMES, "glibc")}

    assert picks["no-regret"].trial.number in {1, 3}
    assert picks["best-mean_heap"].trial.number == 2
    assert picks["best-cost"].trial.number == 3


def test_what_costs_nothing_is_meant_where_no_pick_is_named():
    picks = standard_picks(TRIALS, NAMES, "glibc")
    without = [pick for pick in picks if pick.name != "no-regret"]

    assert getattr(first_pick(picks), "name", None) == "no-regret"
    assert getattr(first_pick(without), "name", None) == "balanced"
    assert first_pick([]) is None


@pytest.mark.parametrize(("heap", "gains"), [(99.6, False), (99.4, True)])
def test_no_regret_needs_a_gain_above_the_tie(heap: float, gains: bool):
    found = standard_picks((BASELINE, tried(1, heap, 1000.0)), NAMES, "glibc")

    assert ("no-regret" in [pick.name for pick in found]) == gains


@pytest.mark.parametrize(("share", "is_picked"), [(1.004, True), (1.006, False)])
def test_no_regret_holds_the_peak_that_is_no_objective(share: float, is_picked: bool):
    peak = share * BASELINE.measured.value("peak_heap")
    better = with_values(tried(1, 90.0, 900.0), peak_heap=peak)

    found = standard_picks((BASELINE, better), NAMES, "glibc")

    assert ("no-regret" in [pick.name for pick in found]) == is_picked


def test_no_regret_pick_is_absent_when_the_default_is_not_beaten():
    picks = standard_picks((BASELINE, TRIALS[2]), NAMES, "glibc")

    assert [pick.name for pick in picks] == ["balanced", "best-mean_heap", "best-cost"]
    assert "gains more than 0.5 % in one objective" in NO_GAIN


def test_no_pick_without_a_feasible_trial():
    assert standard_picks(TRIALS[6:], NAMES, "glibc") == []
