"""Fronts of any objectives, bounds, baselines and the standard picks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doubles.runs import MIB, failed_trial, synthetic_run, trial
from tuner import selection
from tuner.errors import MissingToolError, SelectionError, SpecError
from tuner.objectives import parse_constraint, violation
from tuner.records import Configuration, Status, Trial

NAMES = ("mean_heap", "cost")


def tried(number: int, heap_mib: float, cost: float, allocator: str = "glibc") -> Trial:
    settings = {"mxfast": number} if number else {}
    return trial(number, Configuration.of(allocator, settings), heap_mib * MIB, cost)


BASELINE = tried(0, 100.0, 1000.0)
TRIALS = (
    BASELINE,
    tried(1, 80.0, 990.0),  # better in both
    tried(2, 50.0, 1500.0),
    tried(3, 95.0, 700.0),
    tried(4, 80.0, 990.0),  # equals 1
    tried(5, 120.0, 2000.0),  # dominated
    failed_trial(6, Configuration.of("glibc", {"mxfast": 6}), Status.FAILED, "crashed"),
)


def test_front_is_ordered_and_names_its_equals() -> None:
    points = selection.front(TRIALS, NAMES)

    assert [point.trial.number for point in points] == [2, 1, 3]
    assert [point.equals for point in points] == [(), (4,), ()]
    assert points[1].values == (80.0 * MIB, 990.0)


def test_front_of_other_objectives_keeps_the_records_of_the_campaign() -> None:
    points = selection.front(TRIALS, ("cost",))

    assert [point.trial for point in points] == [TRIALS[3]]


def test_front_of_a_metric_that_was_not_measured_says_why() -> None:
    with pytest.raises(MissingToolError, match="p99_latency"):
        selection.front(TRIALS, ("p99_latency",))


def test_front_of_an_unknown_metric_names_the_known_ones() -> None:
    with pytest.raises(SpecError, match="mean_heap"):
        selection.front(TRIALS, ("heap",))


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=25),
)
def test_every_trial_is_on_the_front_equal_to_it_or_dominated(pairs: list[tuple[int, int]]) -> None:
    trials = [tried(number, heap, cost) for number, (heap, cost) in enumerate(pairs)]

    points = selection.front(trials, NAMES)

    covered = {number for point in points for number in (point.trial.number, *point.equals)}
    for number, (heap, cost) in enumerate(pairs):
        is_dominated = any(h <= heap and c <= cost and (h, c) != (heap, cost) for h, c in pairs)
        assert is_dominated != (number in covered)


def test_relative_bound_is_relative_to_the_baseline() -> None:
    compared = selection.baselines(TRIALS, "glibc")
    bound = selection.parse_bound("cost=-1%")

    assert [one.number for one in selection.within(TRIALS, (bound,), compared)] == [1, 3, 4]


def test_absolute_bound_takes_units() -> None:
    compared = selection.baselines(TRIALS, "glibc")
    bound = selection.parse_bound("mean_heap <= 80MiB")

    assert [one.number for one in selection.within(TRIALS, (bound,), compared)] == [1, 2, 4]


@pytest.mark.parametrize("over", [1e-9, 0.005, 0.01])
def test_a_bound_holds_at_its_limit_and_nowhere_above(over: float) -> None:
    trials = (BASELINE, tried(1, 80.0, 1250.0), tried(2, 80.0, 1250.0 * (1.0 + over)))
    compared = selection.baselines(trials, "glibc")

    for text in ("cost=+25%", "cost=1250"):
        fitting = selection.within(trials, (selection.parse_bound(text),), compared)
        assert [one.number for one in fitting] == [0, 1]


def test_own_baseline_compares_each_allocator_with_itself() -> None:
    jemalloc = trial(7, Configuration("jemalloc"), 60.0 * MIB, 5000.0)
    tuned = trial(8, Configuration.of("jemalloc", {"tcache": False}), 50.0 * MIB, 5020.0)
    trials = (*TRIALS, jemalloc, tuned)
    bound = selection.parse_bound("cost=+1%")

    fitting = selection.within(trials, (bound,), selection.baselines(trials, selection.OWN))

    assert [one.number for one in fitting] == [0, 1, 3, 4, 7, 8]


def test_nothing_fits_names_the_nearest_and_the_bound_that_excludes_it() -> None:
    bounds = [selection.parse_bound(text) for text in ("cost=-31%", "mean_heap=96MiB")]

    with pytest.raises(SelectionError) as caught:
        selection.within(TRIALS, bounds, selection.baselines(TRIALS, "glibc"))

    assert "nearest is trial 3 (glibc mxfast=3)" in str(caught.value)
    assert "--max cost=-31% excludes it" in str(caught.value)
    assert "its cost is 700, -30.00% against the baseline's 1.00 k" in str(caught.value)
    assert "mean_heap=96MiB" not in str(caught.value)


@pytest.mark.parametrize("text", ["cost", "=5", "cost=", "heap=+1%", "cost=cheap", "cost>=5"])
def test_bad_bound_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        selection.parse_bound(text)


def test_baseline_that_was_not_measured_is_refused() -> None:
    with pytest.raises(SelectionError, match=r"default of jemalloc was not measured.*glibc"):
        selection.baselines(TRIALS, "jemalloc")


# The rules of the picks

Points = list[tuple[float, float]]


def tried_all(points: Points) -> list[Trial]:
    return [tried(number, *point) for number, point in enumerate(points, start=1)]


def changes(one: Trial) -> tuple[float, float]:
    """Return how far mean heap and cost are from the baseline's."""
    base, found = selection.measured(BASELINE), selection.measured(one)
    heap, cost = (found.value(name) / base.value(name) - 1.0 for name in ("mean_heap", "cost"))
    return heap, cost


def best_of(trials: Iterable[Trial], metric: str) -> Trial:
    return selection.select_best(trials, metric, NAMES, BASELINE)


def balanced_of(trials: Iterable[Trial]) -> Trial:
    return selection.select_balanced(trials, NAMES, BASELINE)


def knee_of(trials: Iterable[Trial]) -> Trial | None:
    return selection.find_knee(trials, NAMES, BASELINE)


def numbers_picked(trials: Sequence[Trial]) -> list[int | None]:
    """Return the numbers of all picks: balanced, knee, both bests."""
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

CORNER = [(90.0, 1100.0), (92.0, 905.0), (95.0, 900.0), (120.0, 890.0)]
"""A front with a corner: its second point."""

BULGE = [(80.0, 1000.0), (88.0, 990.0), (95.0, 950.0), (99.0, 880.0), (100.0, 800.0)]
"""A concave front."""


def test_balanced_is_the_least_sum_of_changes() -> None:
    found = balanced_of(tried_all(DEMO))

    assert changes(found) == pytest.approx((-0.0993, -0.662))


def test_a_straight_front_has_no_knee() -> None:
    """Whichever end is balanced by a hair, nobody would call it a knee."""
    assert knee_of(tried_all(DEMO)) is None


def test_a_corner_is_a_knee() -> None:
    assert knee_of(tried_all(CORNER)) == tried_all(CORNER)[1]


def test_a_knee_is_clearly_better_than_the_ends() -> None:
    """The sum of a knee is below that of the ends by more than 0.5 % of the baseline."""
    ends = [(90.0, 1000.0), (100.0, 900.0)]

    assert knee_of(tried_all([*ends, (94.6, 950.0)])) is None
    assert knee_of(tried_all([*ends, (94.4, 950.0)])) is not None


def test_an_end_far_away_does_not_move_the_balanced_pick() -> None:
    trials = tried_all(CORNER)
    far = tried(9, 89.9, 90_000.0)

    assert balanced_of([*trials, far]) == balanced_of(trials)


def test_best_gives_up_next_to_nothing_for_much() -> None:
    trials = tried_all([(50.0, 1500.0), (50.24, 1100.0), (50.26, 900.0)])

    assert best_of(trials, "mean_heap") == trials[1]
    assert best_of(trials, "cost") == trials[2]


def test_best_breaks_ties_by_the_others_then_by_number() -> None:
    trials = tried_all([(50.0, 1500.0), (50.0, 1400.0), (50.0, 1400.0)])

    assert best_of(trials, "mean_heap") == trials[1]


def test_best_of_one_objective_is_its_least() -> None:
    trials = tried_all([(50.2, 900.0), (50.0, 1500.0)])

    assert selection.select_best(trials, "mean_heap", ("mean_heap",), BASELINE) == trials[1]


def test_an_objective_that_is_0_for_the_baseline_counts_in_its_own_units() -> None:
    still = selection.measured(BASELINE).with_values(faults=0)
    base = replace(BASELINE, measurement=still)
    few, many = (
        replace(one, measurement=selection.measured(one).with_values(faults=faults))
        for one, faults in zip(tried_all([(100.0, 1000.0)] * 2), (1, 3), strict=True)
    )

    assert selection.select_balanced([many, few], ("cost", "faults"), base) == few


def test_three_objectives_have_a_knee() -> None:
    names = ("mean_heap", "cost", "faults")
    points = [(50, 2000, 4000), (200, 500, 4000), (200, 2000, 1000), (60, 600, 1200)]
    base = replace(BASELINE, measurement=selection.measured(BASELINE).with_values(faults=2000))
    trials = [
        replace(one, measurement=selection.measured(one).with_values(faults=faults))
        for number, (heap, cost, faults) in enumerate(points)
        for one in [tried(number, heap, cost)]
    ]

    assert selection.find_knee(trials, names, base) == trials[3]
    assert selection.find_knee(trials[:3], names, base) is None


def test_what_is_not_feasible_is_never_picked() -> None:
    broken = replace(tried(8, 1.0, 1.0), violation=0.5)

    assert balanced_of([*TRIALS, broken]).number != 8
    assert best_of([*TRIALS, broken], "cost").number != 8
    with pytest.raises(SelectionError, match="no trial succeeded"):
        balanced_of([broken, TRIALS[6]])


def test_values_are_compared_as_coarsely_as_the_campaign_tells_them_apart() -> None:
    steps = (("mean_heap", 0.05),)
    coarse = [replace(one, resolution=steps) for one in tried_all([(50, 1000.0), (49.9, 1000.0)])]

    assert balanced_of(coarse) == best_of(coarse, "mean_heap") == coarse[0]


# 1/16 MiB and whole instructions: sums are exact, so that scaling moves no tie.
VALUES = st.integers(16, 3200).map(lambda sixteenths: sixteenths / 16)
CLOUDS = st.lists(st.tuples(VALUES, st.integers(100, 4000).map(float)), min_size=1, max_size=30)


@given(CLOUDS)
def test_no_trial_beats_the_balanced_pick_by_more_than_it_gives_up(points: Points) -> None:
    trials = tried_all(points)
    heap, cost = changes(balanced_of(trials))

    for other in trials:
        other_heap, other_cost = changes(other)
        assert (other_heap - heap) + (other_cost - cost) >= -1e-9


@given(CLOUDS)
def test_no_trial_near_the_least_beats_a_best_pick(points: Points) -> None:
    """Nor does any trial dominate it."""
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
def test_picks_do_not_depend_on_the_order_of_trials(points: Points, random: Random) -> None:
    trials = tried_all(points)
    shuffled = random.sample(trials, len(trials))

    assert numbers_picked(shuffled) == numbers_picked(trials)


@given(CLOUDS, st.integers(-8, 8), st.integers(-8, 8))
def test_picks_do_not_depend_on_units(points: Points, heap: int, cost: int) -> None:
    def scaled(one: Trial) -> Trial:
        found = selection.measured(one)
        return replace(
            one,
            measurement=found.with_values(
                mean_heap=found.value("mean_heap") * 2.0**heap,
                cost=found.value("cost") * 2.0**cost,
            ),
        )

    trials = [scaled(one) for one in tried_all(points)]
    base = scaled(BASELINE)

    balanced = selection.select_balanced(trials, NAMES, base)
    knee = selection.find_knee(trials, NAMES, base)
    bests = [selection.select_best(trials, name, NAMES, base) for name in NAMES]
    found = [one.number if one else None for one in (balanced, knee, *bests)]
    assert found == numbers_picked(tried_all(points))


@given(CLOUDS, st.data())
def test_dominated_trials_do_not_change_the_picks(points: Points, data: st.DataObject) -> None:
    worse = [
        (
            heap + data.draw(st.integers(0, 64)) / 16,
            cost + data.draw(st.integers(0, 500)),
        )
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
def test_a_concave_front_has_no_knee(steps: list[tuple[int, int]]) -> None:
    assert knee_of(tried_all(bent(steps, is_convex=False))) is None


@given(STEPS, STEPS)
def test_a_convex_front_has_a_knee_where_its_exchange_turns_bad(
    good: list[tuple[int, int]], bad: list[tuple[int, int]]
) -> None:
    """From one end heap buys more cost than it is worth, towards the other less."""
    steep = [(heap, 10 * heap + cost) for heap, cost in good]  # 1/16 % of heap for over 1 % of cost
    flat = [(1000 * heap, min(heap, cost)) for heap, cost in bad]
    trials = tried_all(bent([*steep, *flat], is_convex=True))

    assert knee_of(trials) == trials[len(steep)]


def test_no_regret_pick_is_worse_nowhere() -> None:
    picks = {pick.name: pick for pick in selection.standard_picks(TRIALS, NAMES, "glibc")}

    assert picks["no-regret"].trial.number in {1, 3}
    assert picks["best-mean_heap"].trial.number == 2
    assert picks["best-cost"].trial.number == 3


def test_no_regret_pick_is_absent_when_the_default_is_not_beaten() -> None:
    picks = selection.standard_picks((BASELINE, TRIALS[2]), NAMES, "glibc")

    assert [pick.name for pick in picks] == ["balanced", "best-mean_heap", "best-cost"]


def test_no_pick_without_a_feasible_trial() -> None:
    assert selection.standard_picks(TRIALS[6:], NAMES, "glibc") == []


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (
            ("mean_heap <= 40 MiB", "cost <= default * 2"),
            (
                "nearest is trial 2 (glibc mxfast=2): its mean_heap is 50.0 MiB, 25.00% more than "
                "'mean_heap <= 40 MiB' allows (40.0 MiB);"
            ),
        ),
        (
            ("cost <= own_default - 60 %",),
            (
                "nearest is trial 3 (glibc mxfast=3): its cost is 700, 75.00% more than "
                "'cost <= own_default - 60 %' allows (400);"
            ),
        ),
    ],
)
def test_a_campaign_without_a_feasible_trial_names_the_nearest(
    texts: tuple[str, ...], words: str
) -> None:
    constraints = [parse_constraint(text) for text in texts]
    base = selection.measured(BASELINE)
    broken = [
        replace(one, violation=violation(constraints, one.measurement, base, base))
        if one.measurement
        else one
        for one in TRIALS
    ]

    with pytest.raises(SelectionError) as caught:
        selection.check_feasible(broken, constraints, Path("runs/app"))

    assert words in str(caught.value)
    assert "malloc-tuner front runs/app --all" in str(caught.value)
    selection.check_feasible(TRIALS, constraints, Path("runs/app"))


def test_failures_are_counted_by_kind() -> None:
    run = synthetic_run(n_trials=300)
    counts = selection.count_failures(run.trials)

    assert set(counts) == {"refused", "failed", "timed_out"}
    assert sum(counts.values()) == sum(not one.is_feasible for one in run.trials)
