"""What all runs together say of a setting whose own run is far from those of all like it."""

from collections.abc import Collection

import numpy as np
import pytest

from tuner.optimize.choosing.direct_plan import Tried
from tuner.optimize.choosing.priors import priors_of
from tuner.optimize.choosing.proposals import Proposal
from tuner.optimize.choosing.smoothed import Smoothed
from tuner.optimize.quantities import MEAN
from tuner.space import Genome, Parameter, joint_space

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


def test_of_few_runs_emulation_says_what_the_others_do():
    def proposal(number: int, genome: Genome) -> Proposal:
        return Proposal(SPACE.decode(genome), number, {MEAN: -0.01 * genome[1]})

    rng = np.random.default_rng(5)
    emulated = [proposal(number, SPACE.random(rng)) for number in range(80)]
    runs = [(0, *SPACE.random(rng)[1:]) for _ in range(6)]
    tried = {
        str(at): Tried(one, SPACE.decode(one), {MEAN: -0.01 * one[1] + 0.005}, 1)
        for at, one in enumerate(runs)
    }
    asked = [(0, level, *runs[0][2:]) for level in range(1, 7)]

    model = Smoothed(SPACE, tried, None, priors=priors_of(SPACE, emulated, None))

    does = [0.005 - 0.01 * level for level in range(1, 7)]
    assert model.of(asked)[MEAN][0] == pytest.approx(does, abs=0.006)
