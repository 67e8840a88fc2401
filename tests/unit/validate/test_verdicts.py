"""Claims are decided together: words that fit, and few false ones at any number of rounds."""

import random
import statistics
from collections.abc import Callable
from dataclasses import replace

import pytest

from tuner.stats import Estimate, Interval, median_estimate, paired_p_value
from tuner.validate.verdicts import (
    Claim,
    Verdict,
    decide,
    default_rounds,
    judge,
    overall_verdict,
    too_few,
)

LESS, MORE, SAME = 0.8, 1.2, 1.0
CLEAR, UNCLEAR = 0.05, 0.0501


@pytest.mark.parametrize(
    ("claimed", "real", "p_value", "verdict"),
    [
        (LESS, 0.8, CLEAR, Verdict.CONFIRMED),
        (LESS, 0.61, CLEAR, Verdict.CONFIRMED),
        (LESS, 0.59, CLEAR, Verdict.EXCEEDED),  # more than twice the gain
        (LESS, 0.59, UNCLEAR, Verdict.NOT_CONFIRMED),
        (LESS, 0.8, UNCLEAR, Verdict.NOT_CONFIRMED),
        (LESS, 1.1, CLEAR, Verdict.WORSE),
        (MORE, 1.1, CLEAR, Verdict.COSTS),
        (MORE, 1.1, UNCLEAR, Verdict.NOT_CONFIRMED),
        (MORE, 0.8, CLEAR, Verdict.BETTER),
        (SAME, 0.8, CLEAR, Verdict.BETTER),
        (SAME, 1.1, CLEAR, Verdict.WORSE),
        (SAME, 1.1, UNCLEAR, Verdict.AS_CLAIMED),
        (LESS, 0.8, None, Verdict.UNDECIDED),
        (LESS, 0.9951, CLEAR, Verdict.NOT_CONFIRMED),  # shown, but too small to matter
        (0.9951, 0.8, CLEAR, Verdict.BETTER),
    ],
)
def test_verdict_of_a_claim(claimed: float, real: float, p_value: float | None, verdict: Verdict):
    estimate = Estimate(real, Interval(real, real), 9)
    assert judge(claimed, estimate, p_value) is verdict


def test_no_verdict_contradicts_the_interval_beside_it():
    """Signed ranks know more of small differences the other way than two order statistics do."""
    ratios = [0.7] * 9 + [1.001, 1.002, 1.003]
    estimate = median_estimate(ratios)
    assert estimate
    assert paired_p_value(ratios, [1.0] * 12) < CLEAR

    assert judge(LESS, estimate, CLEAR) is Verdict.NOT_CONFIRMED
    assert judge(LESS, replace(estimate, interval=None), CLEAR) is Verdict.CONFIRMED


def test_claim_without_a_ratio_is_undecided():
    assert judge(LESS, None, CLEAR) is Verdict.UNDECIDED


@pytest.mark.parametrize(
    ("claims", "overall"),
    [
        ([], None),
        ([(LESS, Verdict.CONFIRMED), (SAME, Verdict.AS_CLAIMED)], Verdict.CONFIRMED),
        ([(LESS, Verdict.CONFIRMED), (MORE, Verdict.BETTER)], Verdict.CONFIRMED),
        ([(LESS, Verdict.CONFIRMED), (MORE, Verdict.COSTS)], Verdict.CONFIRMED),
        ([(LESS, Verdict.CONFIRMED), (LESS, Verdict.NOT_CONFIRMED)], Verdict.NOT_CONFIRMED),
        ([(LESS, Verdict.CONFIRMED), (MORE, Verdict.NOT_CONFIRMED)], Verdict.CONFIRMED),
        ([(LESS, Verdict.CONFIRMED), (MORE, Verdict.UNDECIDED)], Verdict.CONFIRMED),
        ([(LESS, Verdict.CONFIRMED), (LESS, Verdict.UNDECIDED)], Verdict.UNDECIDED),
        ([(LESS, Verdict.CONFIRMED), (SAME, Verdict.WORSE)], Verdict.WORSE),
        ([(LESS, Verdict.UNDECIDED), (LESS, Verdict.WORSE)], Verdict.WORSE),
        ([(MORE, Verdict.COSTS), (MORE, Verdict.NOT_CONFIRMED)], Verdict.NOT_CONFIRMED),
        ([(MORE, Verdict.COSTS), (SAME, Verdict.AS_CLAIMED)], Verdict.COSTS),
        ([(MORE, Verdict.COSTS), (MORE, Verdict.BETTER)], Verdict.COSTS),
        ([(SAME, Verdict.BETTER)], Verdict.BETTER),
        ([(SAME, Verdict.AS_CLAIMED)], Verdict.AS_CLAIMED),
    ],
)
def test_overall_verdict_is_the_most_sobering_one_of_the_gains(
    claims: list[tuple[float, Verdict]], overall: Verdict | None
):
    made = [Claim("cost", "cpu", ratio, None, None, verdict) for ratio, verdict in claims]
    assert overall_verdict(made) is overall


def test_too_few_rounds_are_named_with_what_is_needed():
    told = too_few(5, 22)
    assert told is not None
    assert told.startswith("undecided: 10 rounds needed for 22 claims, 5 cannot")
    assert too_few(9, 22) is not None
    assert too_few(10, 22) is None
    assert (too_few(5, 1) or "").startswith("undecided: 6 rounds needed for 1 claim,")
    assert too_few(6, 0) is None


def test_default_rounds_leave_room_for_rounds_that_disagree():
    assert [default_rounds(n) for n in (0, 1, 22)] == [8, 8, 12]


def claimed(values: list[float], baselines: list[float]) -> Claim:
    ratios = [value / base for value, base in zip(values, baselines, strict=True)]
    real = Estimate(statistics.median(ratios), None, len(ratios))
    p_value = paired_p_value(values, baselines)
    return Claim("cost", "cpu", LESS, None, real, Verdict.UNDECIDED, p_value)


Draw = Callable[[random.Random], float]


def share_with_a_false_difference(
    n_rounds: int, n_claims: int, draw: Draw, n_validations: int = 200
) -> float:
    """Return how many of validations without any difference show one or more.

    The claims share their baseline, as they do in a validation.
    """
    rng = random.Random(20261122)
    n_false = 0
    for _ in range(n_validations):
        baselines = [draw(rng) for _ in range(n_rounds)]
        claims = [claimed([draw(rng) for _ in baselines], baselines) for _ in range(n_claims)]
        decided = decide(claims, n_claims)
        n_false += any(claim.verdict is not Verdict.NOT_CONFIRMED for claim in decided)
    return n_false / n_validations


def _outliers(rng: random.Random) -> float:
    return rng.gauss(1.0, 0.03) * (1.5 if rng.random() < 0.05 else 1.0)


@pytest.mark.parametrize("n_rounds", [5, 8, 10, 15])
@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.gauss(1.0, 0.03),
        _outliers,
        lambda rng: rng.expovariate(1.0) + 1.0,
        lambda rng: float(rng.randint(90, 93)),
    ],
    ids=["normal", "outliers", "skewed", "ties"],
)
def test_false_differences_are_rare_at_any_number_of_rounds(n_rounds: int, draw: Draw):
    assert share_with_a_false_difference(n_rounds, 22, draw) <= 0.085


def test_a_true_difference_is_found():
    rng = random.Random(1)
    baselines = [rng.gauss(1.0, 0.01) for _ in range(12)]
    claims = [claimed([rng.gauss(0.95, 0.01) for _ in baselines], baselines) for _ in range(22)]
    assert {claim.verdict for claim in decide(claims, 22)} == {Verdict.CONFIRMED}


def test_memory_that_repeats_exactly_is_decided_by_the_same_test():
    (equal,) = decide([claimed([100.0] * 8, [100.0] * 8)], 1)
    assert (equal.verdict, equal.p_value) == (Verdict.NOT_CONFIRMED, 1.0)
    (less,) = decide([claimed([90.0] * 8, [100.0] * 8)], 1)
    assert (less.verdict, less.p_value) == (Verdict.CONFIRMED, 2**-7)
