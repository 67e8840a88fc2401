"""What the time can show is said by the same rule as the confirmation decides."""

import pytest

from tuner.optimize.choosing.outlook import outlook_words
from tuner.optimize.choosing.selection import Budget
from tuner.optimize.proof.evidence import showable_gain
from tuner.optimize.proof.judgement import Rules
from tuner.optimize.proof.noise import USUAL_NOISE
from tuner.optimize.quantities import CPU, MEAN


def test_a_short_run_is_told_in_milliseconds():
    assert outlook_words(60.0, 50.0, Rules(), 0.0).startswith("up to 1 run of 50.0 s: too few")
    assert outlook_words(60.0, 0.25, Rules(), 0.0).startswith("up to 240 runs of 250 ms: ")


@pytest.mark.parametrize(("goals", "n_claims"), [((CPU,), 2), ((MEAN, CPU), 4)])
def test_the_error_is_shared_by_two_candidates_and_their_goals(
    goals: tuple[str, ...], n_claims: int
):
    rules = Rules(goals=goals)
    n_rounds = (200 - Budget.of(200).n_runs) // 3
    gain = showable_gain(USUAL_NOISE, n_rounds, rules.error / n_claims)

    words = outlook_words(600.0, 3.0, rules, 0.0)

    assert words.startswith(
        f"up to 200 runs of 3.0 s: gains in CPU time show from {gain:.1%} on".replace("%", " %")
    )
