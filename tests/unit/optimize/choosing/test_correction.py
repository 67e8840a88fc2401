"""Runs correct what emulation expects: for their own setting, and for their allocator's others."""

import numpy as np
import pytest

from tuner.optimize.choosing.correction import estimated

GROUPS = ["a", "a", "a", "b", "b"]
EXPECTED = [-0.10, -0.05, 0.0, -0.08, 0.02]


def test_without_runs_emulation_stands():
    values, _ = estimated(GROUPS, EXPECTED, {}, 0.0)

    assert values == pytest.approx(EXPECTED)


def test_an_exact_run_wins_over_emulation():
    found, _ = estimated(GROUPS, EXPECTED, {0: [0.07]}, 0.0)

    assert found[0] == pytest.approx(0.07, abs=1e-3)


def test_an_allocators_bias_is_carried_to_its_other_settings():
    """Emulation is 10 % too good for a, right for b."""
    runs = {0: [0.0], 1: [0.05], 3: [-0.08], 4: [0.02]}

    found, _ = estimated(GROUPS, EXPECTED, runs, 0.001)

    assert found[2] == pytest.approx(0.10, abs=0.03)


def test_a_lucky_noisy_run_is_smoothed():
    """Fourteen settings alike, one run each; the best run is luck."""
    rng = np.random.default_rng(2)
    runs = {index: [float(x)] for index, x in enumerate(rng.normal(0.0, 0.05, 14))}

    found, _ = estimated(["a"] * 14, [0.0] * 14, runs, 0.05)

    luckiest = min(runs.values())[0]
    assert luckiest < -0.04
    assert min(found) > luckiest / 2.0


def test_more_runs_are_believed_more():
    once, _ = estimated(["a", "b"], [0.0, 0.0], {0: [0.10], 1: [0.0]}, 0.05)
    often, _ = estimated(["a", "b"], [0.0, 0.0], {0: [0.10] * 20, 1: [0.0] * 20}, 0.05)

    assert once[0] < often[0] <= 0.10


def test_more_runs_leave_less_doubt_and_what_never_ran_most():
    groups, expected = ["glibc", "glibc", "exgen"], [0.0, -0.1, -0.1]

    _, doubts = estimated(groups, expected, {0: [0.0] * 9, 1: [-0.1]}, 0.05)

    assert 0.0 < doubts[0] < doubts[1] < doubts[2]
    assert estimated(groups, expected, {}, 0.05)[1].tolist() == [0.1] * 3


def test_nothing_is_made_of_settings_that_scatter_as_runs_do():
    """Emulation is 10 % off as a rule; of this program it seems to be right."""
    rng = np.random.default_rng(3)
    groups = [name for name in "abcd" for _ in range(4)]
    runs = {index: [float(x)] for index, x in enumerate(rng.normal(0.0, 0.03, 16))}

    values, doubts = estimated(groups, [0.0] * 16, runs, 0.03)

    luckiest = max(abs(run) for (run,) in runs.values())
    assert luckiest > 0.05
    assert np.abs(values).max() < luckiest / 4.0
    assert doubts.max() < 0.02


def test_an_allocator_that_stands_out_is_believed():
    rng = np.random.default_rng(3)
    groups = [name for name in "abcd" for _ in range(4)]
    runs = {index: [float(x)] for index, x in enumerate(rng.normal(0.0, 0.03, 16))}
    runs |= {index: [runs[index][0] - 0.1] for index in range(4)}

    values, _ = estimated(groups, [0.0] * 16, runs, 0.03)

    assert values[:4].max() < -0.06
    assert values[4:].min() > -0.05


def test_settings_that_differ_far_more_than_emulation_errs_are_believed_one_by_one():
    """Of a service that forks: emulation sees no difference, and one saves half of the memory."""
    runs = {0: [0.0], 1: [-0.4], 2: [-0.5], 3: [-0.7], 4: [0.0]}

    values, doubts = estimated(["a"] * 4 + ["b"], [0.0] * 5, runs, 0.025)

    assert values == pytest.approx([one for (one,) in runs.values()], abs=0.05)
    assert doubts.max() > 0.02


def test_without_repeats_to_compare_with_the_usual_doubt_stays():
    """One run does not show how much emulation gets wrong."""
    _, doubts = estimated(["a", "b"], [0.0, 0.0], {0: [0.0]}, 0.03)

    assert doubts[1] > 0.05
