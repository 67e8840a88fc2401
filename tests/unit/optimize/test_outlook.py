"""What the time can show is said by the same rule as the confirmation decides."""

from tuner.optimize.evidence import showable_gain
from tuner.optimize.judgement import Rules
from tuner.optimize.noise import USUAL_NOISE
from tuner.optimize.outlook import outlook_words
from tuner.optimize.selection import Budget


def test_two_candidates_and_their_goals_share_the_error():
    rules, n_rounds = Rules(), (200 - Budget.of(200).n_runs) // 3
    gain = showable_gain(USUAL_NOISE, n_rounds, rules.error / 4)

    assert f" show from {100 * gain:.1f} % on" in outlook_words(600.0, 3.0, rules, 0.0)


def test_a_short_run_is_told_in_milliseconds():
    assert outlook_words(60.0, 50.0, Rules(), 0.0).startswith("about 1 run of 50.0 s: too few")
    assert outlook_words(60.0, 0.25, Rules(), 0.0).startswith("about 240 runs of 250 ms: ")
