"""Fronts of any objectives, bounds, baselines and the standard picks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.doubles.runs import MIB, failed_trial, synthetic_run, trial
from tuner import selection
from tuner.errors import MissingToolError, SelectionError, SpecError
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


@settings(deadline=None)
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


def test_best_takes_the_least_and_breaks_ties_by_the_other_objectives() -> None:
    trials = (*TRIALS, tried(8, 50.0, 1400.0))

    assert selection.select_best(trials, "mean_heap", NAMES).number == 8
    assert selection.select_best(trials, "cost").number == 3


def test_no_regret_pick_is_worse_nowhere() -> None:
    picks = {pick.name: pick for pick in selection.standard_picks(TRIALS, NAMES, "glibc")}

    assert picks["no-regret"].trial.number in {1, 3}
    assert picks["best-mean_heap"].trial.number == 2
    assert picks["best-cost"].trial.number == 3


def test_no_regret_pick_is_absent_when_the_default_is_not_beaten() -> None:
    picks = selection.standard_picks((BASELINE, TRIALS[2]), NAMES, "glibc")

    assert [pick.name for pick in picks] == ["knee", "best-mean_heap", "best-cost"]


def test_no_pick_without_a_feasible_trial() -> None:
    assert selection.standard_picks(TRIALS[6:], NAMES, "glibc") == []


def test_failures_are_counted_by_kind() -> None:
    run = synthetic_run(n_trials=300)
    counts = selection.count_failures(run.trials)

    assert set(counts) == {"refused", "failed", "timed_out"}
    assert sum(counts.values()) == sum(not one.is_feasible for one in run.trials)
