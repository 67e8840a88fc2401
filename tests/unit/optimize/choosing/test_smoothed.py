"""What all runs together say of a setting whose own run was lucky."""

from collections.abc import Collection

import numpy as np
import pytest

from tuner.optimize.choosing.direct_plan import Tried
from tuner.optimize.choosing.smoothed import Smoothed
from tuner.optimize.quantities import MEAN
from tuner.space import Parameter, joint_space

SCALE = (None, 1, 2, 4, 8, 16, 32)
SPACE = joint_space({"app": [Parameter(f"app.{name}", SCALE, ordered=True) for name in "abcdef"]})
LUCKY, LUCK = "7", -0.15


def expected(n_runs: int, exact: Collection[str] = ()) -> float:
    """Return what is expected of a setting whose runs are far from those of all like it."""
    rng = np.random.default_rng(5)
    tried = {}
    for label in map(str, range(60)):
        genome = SPACE.random(rng)
        log = -0.01 * genome[1] + rng.normal(0.0, 0.003) + (LUCK if label == LUCKY else 0.0)
        tried[label] = Tried(genome, SPACE.decode(genome), {MEAN: log}, n_runs)
    model = Smoothed(SPACE, tried, None, exact)
    lucky = tried[LUCKY].genome
    return float(model.of([lucky])[MEAN][0][0]) + 0.01 * lucky[1]


def test_a_lucky_run_is_not_taken_for_what_its_setting_does():
    assert expected(1) == pytest.approx(0.0, abs=0.015)


def test_what_ran_again_is_believed():
    assert expected(3) < 2.0 * expected(1) - 0.01


def test_of_what_repeats_itself_no_run_is_lucky():
    assert expected(1, {MEAN}) < 2.0 * expected(1) - 0.01
