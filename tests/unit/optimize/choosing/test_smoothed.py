"""What all runs together say of a setting whose own run is far from those of all like it."""

from collections.abc import Collection

import numpy as np
import pytest

from tuner.optimize.choosing.direct_plan import Tried
from tuner.optimize.choosing.smoothed import Smoothed
from tuner.optimize.quantities import MEAN
from tuner.space import Parameter, joint_space

SCALE = (None, 1, 2, 4, 8, 16, 32)
SPACE = joint_space({
    name: [Parameter(f"{name}.{gene}", SCALE, ordered=True) for gene in "abcdef"]
    for name in ("app", "other")
})  # fmt: skip
FAR = "7"


def expected(
    far: float, n_runs: int = 1, exact: Collection[str] = (), *, alone: bool = False
) -> float:
    """Return what is expected of a setting beyond what it does.

    Args:
        far: how far its run is from that, in logarithms.
        n_runs: how often each setting ran.
        exact: quantities that repeat themselves.
        alone: it is the only one of its allocator.
    """
    rng = np.random.default_rng(3)
    tried = {}
    for label in map(str, range(60)):
        genome = (int(alone and label == FAR), *SPACE.random(rng)[1:])
        does = -0.01 * genome[1]
        log = does + rng.normal(0.0, 0.003) + (far if label == FAR else 0.0)
        tried[label] = Tried(genome, SPACE.decode(genome), {MEAN: log}, n_runs)
    model = Smoothed(SPACE, tried, None, exact)
    one = tried[FAR].genome
    return float(model.of([one])[MEAN][0][0]) + 0.01 * one[1]


def test_a_lucky_run_is_not_taken_for_what_its_setting_does():
    assert expected(-0.15) == pytest.approx(0.0, abs=0.02)


@pytest.mark.parametrize("known", [{"n_runs": 3}, {"exact": {MEAN}}])
def test_what_ran_again_or_repeats_itself_is_believed(known: dict[str, object]):
    assert expected(-0.15, **known) < -0.05  # type: ignore[arg-type]


def test_a_loss_is_believed_at_once():
    assert expected(0.15) > 0.05


@pytest.mark.parametrize("far", [-0.5, 0.5])
def test_the_only_run_of_an_allocator_is_believed(far: float):
    assert expected(far, alone=True) / far > 0.5
