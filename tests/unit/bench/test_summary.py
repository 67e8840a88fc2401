"""Medians, means and failures of a comparison."""

from tests.doubles.bench import LARSON, RING, comparison, sample, stopped
from tuner.bench.plan import Task
from tuner.bench.summary import (
    CALLS,
    PEAK_RSS,
    THROUGHPUT,
    USABLE_RATIO,
    estimates,
    geometric_means,
    tasks_of,
)


def test_medians_are_over_the_rounds_of_a_subject():
    found = comparison(
        sample("alice", 0, operations=1000),
        sample("alice", 1, operations=3000),
        sample("alice", 2, operations=2000),
        sample("bob", 0, operations=4000),
    )

    rows = estimates(found, THROUGHPUT, tasks_of(found))

    assert rows[RING]["alice"].median == 2e6
    assert rows[RING]["alice"].interval is not None
    assert rows[RING]["bob"].interval is None
    means = geometric_means(rows, ["alice", "bob", "carol"], "alice")
    assert means.ratios == {"alice": 1.0, "bob": 2.0}


def test_means_are_over_the_rows_that_every_subject_has():
    """A subject that lacks a poor row of its own would look better than the others."""
    found = comparison(
        sample("alice", 0),
        sample("bob", 0, operations=2000),
        sample("alice", 0, LARSON),
        stopped("bob", 0, LARSON),
    )

    means = geometric_means(
        estimates(found, THROUGHPUT, tasks_of(found)), ["alice", "bob"], "alice"
    )

    assert (means.ratios, means.n_left_out) == ({"alice": 1.0, "bob": 2.0}, 1)


def test_what_was_not_measured_is_absent():
    found = comparison(sample("alice", 0), stopped("bob", 0))

    assert set(estimates(found, PEAK_RSS, [RING])[RING]) == {"alice"}
    assert estimates(found, CALLS["free", "P99"], [RING]) == {}
    assert estimates(found, USABLE_RATIO, [RING]) == {}


def test_overhead_is_relative_to_the_request():
    task = Task("overhead", 1, 100)
    found = comparison(sample("alice", 0, task, usable_bytes=112, resident_bytes=120))

    assert estimates(found, USABLE_RATIO, [task])[task]["alice"].median == 1.12
