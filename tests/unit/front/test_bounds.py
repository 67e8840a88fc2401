"""The baseline, and bounds relative to it."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.fronts import BASELINE, TRIALS, tried
from tests.doubles.runs import MIB, synthetic_run, trial
from tuner.errors import SelectionError, SpecError
from tuner.front.bounds import OWN, baselines, check_feasible, count_failures, parse_bound, within
from tuner.objectives import parse_constraint, violation
from tuner.records import Configuration


@pytest.mark.parametrize(
    ("text", "numbers"), [("cost=-1%", [1, 3, 4]), ("mean_heap <= 80MiB", [1, 2, 4])]
)
def test_a_bound_is_relative_to_the_baseline_or_has_a_unit(text: str, numbers: list[int]):
    fitting = within(TRIALS, (parse_bound(text),), baselines(TRIALS, "glibc"))

    assert [one.number for one in fitting] == numbers


@pytest.mark.parametrize("over", [1e-9, 0.005, 0.01])
def test_a_bound_holds_at_its_limit_and_nowhere_above(over: float):
    trials = (BASELINE, tried(1, 80.0, 1250.0), tried(2, 80.0, 1250.0 * (1.0 + over)))
    compared = baselines(trials, "glibc")

    for text in ("cost=+25%", "cost=1250"):
        fitting = within(trials, (parse_bound(text),), compared)
        assert [one.number for one in fitting] == [0, 1]


def test_a_relative_bound_is_a_share_of_the_whole_program():
    trials = (BASELINE, tried(1, 80.0, 1100.0), tried(2, 80.0, 1100.1))
    compared = baselines(trials, "glibc", {"glibc": {"cost": 10_000.0}})

    assert [one.number for one in within(trials, [parse_bound("cost=+1%")], compared)] == [0, 1]
    words = r"900, -10\.00% against the baseline's 1\.00 k \(-1\.00% of the whole program"
    with pytest.raises(SelectionError, match=words):
        within((*trials, tried(3, 80.0, 900.0)), [parse_bound("cost=-2%")], compared)


def test_own_baseline_compares_each_allocator_with_itself():
    jemalloc = trial(7, Configuration("jemalloc"), 60.0 * MIB, 5000.0)
    tuned = trial(8, Configuration.of("jemalloc", {"tcache": False}), 50.0 * MIB, 5020.0)
    trials = (*TRIALS, jemalloc, tuned)
    bound = parse_bound("cost=+1%")

    fitting = within(trials, (bound,), baselines(trials, OWN))

    assert [one.number for one in fitting] == [0, 1, 3, 4, 7, 8]


def test_nothing_fits_names_the_nearest_and_the_bound_that_excludes_it():
    bounds = [parse_bound(text) for text in ("cost=-31%", "mean_heap=96MiB")]

    with pytest.raises(SelectionError) as caught:
        within(TRIALS, bounds, baselines(TRIALS, "glibc"))

    assert "nearest is trial 3 (glibc mxfast=3)" in str(caught.value)
    assert "--max cost=-31% excludes it" in str(caught.value)
    assert "its cost is 700, -30.00% against the baseline's 1.00 k" in str(caught.value)
    assert "mean_heap=96MiB" not in str(caught.value)


def test_nothing_fits_compares_with_no_baseline_that_is_not_there():
    tuned = trial(7, Configuration.of("jemalloc", {"tcache": False}), 60.0 * MIB, 700.0)

    with pytest.raises(SelectionError) as caught:
        within((tuned,), [parse_bound("cost=600")], baselines(TRIALS, OWN))

    assert "--max cost=600 excludes it: its cost is 700; relax that bound" in str(caught.value)


@pytest.mark.parametrize("text", ["cost", "=5", "cost=", "heap=+1%", "cost=cheap", "cost>=5"])
def test_bad_bound_is_refused(text: str):
    with pytest.raises(SpecError):
        parse_bound(text)


def test_a_share_without_a_sign_is_told_the_sign():
    with pytest.raises(SpecError, match=r"write cost=\+1% for so much above it"):
        parse_bound("cost=1%")


def test_baseline_that_was_not_measured_is_refused():
    with pytest.raises(SelectionError, match=r"default of jemalloc was not measured.*glibc"):
        baselines(TRIALS, "jemalloc")


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
        (
            ("mean_heap <= 1 KiB",),
            (
                "nearest is trial 2 (glibc mxfast=2): its mean_heap is 50.0 MiB, 51,200 times what "
                "'mean_heap <= 1 KiB' allows (1.0 KiB);"
            ),
        ),
        (
            ("mean_heap <= 0 B",),
            "its mean_heap is 50.0 MiB, more than 'mean_heap <= 0 B' allows (0 B);",
        ),
    ],
)
def test_a_campaign_without_a_feasible_trial_names_the_nearest(texts: tuple[str, ...], words: str):
    constraints = [parse_constraint(text) for text in texts]
    base = BASELINE.measured
    broken = [
        replace(one, violation=violation(constraints, one.measurement, base, base))
        if one.measurement
        else one
        for one in TRIALS
    ]

    with pytest.raises(SelectionError) as caught:
        check_feasible(broken, constraints, Path("my runs/app"))

    assert words in str(caught.value)
    assert "malloc-tuner front 'my runs/app' --all" in str(caught.value)
    check_feasible(TRIALS, constraints, Path("runs/app"))


def test_failures_are_counted_by_kind():
    run = synthetic_run(n_trials=300)
    counts = count_failures(run.trials)

    assert set(counts) == {"refused", "failed", "timed_out"}
    assert sum(counts.values()) == sum(not one.is_feasible for one in run.trials)


def test_a_bound_relative_to_a_default_that_was_not_measured_is_not_held():
    tuned = trial(8, Configuration.of("jemalloc", {"tcache": False}), 50.0 * MIB, 5020.0)
    compared = baselines((*TRIALS, tuned), OWN)

    fitting = within((*TRIALS, tuned), (parse_bound("cost=+1%"),), compared)

    assert 8 not in [one.number for one in fitting]
    assert tuned in within((*TRIALS, tuned), (parse_bound("mean_heap=80MiB"),), compared)
