"""What to deploy: the one with the fewest settings of those that gain as much; or keep it."""

from dataclasses import replace
from typing import Any

import pytest

from tuner.records import Configuration
from tuner.stats import Estimate, Interval
from tuner.store.subject import AS_IT_IS, Subject
from tuner.validate.decision import recommend
from tuner.validate.verdicts import Claim, MetricSummary, SubjectSummary, Verdict

SEVEN = {f"setting_{number}": number for number in range(7)}


def ratio(median: float, spread: float = 0.01) -> Estimate:
    return Estimate(median, Interval(median - spread, median + spread), 12)


def subject(
    label: str,
    allocator: str,
    settings: dict[str, Any],
    verdict: Verdict,
    heap: float,
    *,
    peak: float = 1.0,
    cpu: float = 1.0,
    reason: str | None = None,
    spread: float = 0.01,
) -> SubjectSummary:
    metrics = tuple(
        MetricSummary(name, Estimate(1.0, None, 12), ratio(value))
        for name, value in (("mean_heap", heap), ("peak_rss", peak), ("cpu", cpu))
    )
    claim = Claim("mean_heap", "mean_heap", 0.9, 0.9, ratio(heap, spread), verdict)
    chosen = Subject(label, Configuration.of(allocator, settings), 1, ("balanced",))
    return SubjectSummary(chosen, False, 12, reason, metrics, (claim,), verdict, ())


BASELINE = SubjectSummary(
    Subject("glibc-default", Configuration("glibc"), 0, ("default",)),
    True,
    12,
    None,
    (),
    (),
    None,
    (),
)
CONFIRMED, OPEN = Verdict.CONFIRMED, Verdict.NOT_CONFIRMED


def test_a_confirmed_pick_is_deployed_with_what_is_sure():
    found = recommend(
        [BASELINE, subject("balanced", "mimalloc", {"decommit_delay": 0}, CONFIRMED, 0.88)]
    )
    assert found.label == "balanced"
    assert found.sentence == (
        "Deploy balanced (mimalloc decommit_delay=0): mean heap -12 % (at least -11 %)."
    )


def test_what_looks_worse_and_is_not_settled_is_not_deployed():
    one = subject("exgen-default", "exgen", {}, CONFIRMED, 0.88)
    metrics = (*one.metrics[:2], MetricSummary("cpu", Estimate(1.0, None, 12), ratio(1.3, 0.5)))

    found = recommend([BASELINE, replace(one, metrics=metrics)])

    assert (found.label, found.sentence) == (
        None,
        (
            "Keep glibc's default for now: exgen as shipped has mean heap -12 % (at least -11 %), "
            "but CPU time +30 % is not settled: more --rounds may settle it."
        ),
    )


def test_seven_settings_that_gain_no_more_than_none_are_not_deployed():
    found = recommend(
        [
            BASELINE,
            subject("balanced", "exgen", SEVEN, CONFIRMED, 0.88),
            subject("exgen-default", "exgen", {}, CONFIRMED, 0.885),
        ]
    )
    assert found.label == "exgen-default"
    assert found.sentence.startswith("Deploy exgen as shipped: mean heap -12 %")
    assert "(exgen, 7 settings) has more settings and is not shown to gain more." in found.sentence


def test_settings_that_gain_clearly_more_are_deployed():
    found = recommend(
        [
            BASELINE,
            subject("balanced", "exgen", SEVEN, CONFIRMED, 0.80),
            subject("exgen-default", "exgen", {}, CONFIRMED, 0.90),
        ]
    )
    assert found.label == "balanced"
    assert "more settings" not in found.sentence


@pytest.mark.parametrize(
    ("verdict", "heap"),
    [(OPEN, 1.005), (Verdict.WORSE, 1.1), (Verdict.AS_CLAIMED, 1.0), (Verdict.BETTER, 0.9)],
)
def test_without_a_confirmed_gain_the_baseline_is_kept(verdict: Verdict, heap: float):
    found = recommend([BASELINE, subject("balanced", "exgen", SEVEN, verdict, heap)])
    assert (found.label, found.sentence) == (
        None,
        "Keep glibc's default: nothing gains on the program.",
    )


@pytest.mark.parametrize(("heap", "spread"), [(0.934, 0.08), (1.005, 0.2)])
def test_a_gain_that_the_rounds_neither_show_nor_exclude_is_open(heap: float, spread: float):
    found = recommend([BASELINE, subject("lean", "exgen", {}, OPEN, heap, spread=spread)])

    assert (found.label, found.sentence) == (
        None,
        (
            "Keep glibc's default for now: no gain is confirmed, but whether exgen as shipped "
            "gains in mean heap is not settled: more --rounds may settle it."
        ),
    )


@pytest.mark.parametrize("expected", [0.9, 1.0])
def test_too_few_rounds_are_no_reason_to_say_that_nothing_gains(expected: float):
    one = subject("balanced", "exgen", SEVEN, Verdict.UNDECIDED, 0.9)
    (claim,) = one.claims
    one = replace(one, claims=(replace(claim, expected_ratio=expected),))
    found = recommend([BASELINE, one])
    assert found.sentence == "Keep glibc's default for now: too few rounds to decide anything."


@pytest.mark.parametrize(
    ("peak", "cpu", "words"), [(1.2, 1.0, "peak RSS +20 %"), (1.0, 1.05, "CPU time +5.0 %")]
)
def test_a_gain_that_costs_elsewhere_is_no_recommendation(peak: float, cpu: float, words: str):
    costly = subject("lean", "jemalloc", {}, CONFIRMED, 0.7, peak=peak, cpu=cpu)
    found = recommend([BASELINE, costly])
    assert found.label is None
    assert found.sentence.startswith("Keep glibc's default: nothing gains without a cost")
    assert words in found.sentence
    dearer = subject("cheap", "mimalloc", {}, CONFIRMED, 0.95)
    assert recommend([BASELINE, costly, dearer]).label == "cheap"


def test_who_is_out_is_not_deployed():
    found = recommend([BASELINE, subject("a", "exgen", {}, CONFIRMED, 0.9, reason="crashed")])
    assert found.label is None


def test_the_program_as_it_is_may_be_what_is_kept():
    own = Subject("as-it-is", Configuration("jemalloc"), None, (AS_IT_IS,))
    baseline = SubjectSummary(own, True, 12, None, (), (), None, ())
    assert recommend([baseline, subject("lean", "exgen", {}, OPEN, 1.005)]).sentence == (
        "Keep the program as it is (jemalloc): nothing gains on the program."
    )


def test_what_was_not_measured_is_not_said_to_gain_nothing():
    begun = replace(subject("lean", "exgen", {}, OPEN, 0.9), n_samples=0, metrics=(), claims=())

    assert recommend([BASELINE, begun]).sentence == (
        "Keep glibc's default for now: nothing beside it was measured yet."
    )
    assert "yet" not in recommend([BASELINE, replace(begun, reason="crashed")]).sentence


def test_a_great_gain_that_varies_is_not_given_up_for_a_small_one():
    great = subject("balanced", "exgen", SEVEN, CONFIRMED, 0.90, spread=0.08)
    small = subject("exgen-default", "exgen", {}, CONFIRMED, 0.97)

    assert recommend([BASELINE, great, small]).label == "balanced"


def test_no_gain_is_sure_where_the_interval_holds_none():
    found = recommend([BASELINE, subject("lean", "exgen", {}, CONFIRMED, 0.98, spread=0.03)])

    assert found.sentence == "Deploy exgen as shipped: mean heap -2.0 %."


def test_what_is_better_in_all_is_not_passed_over_for_more_confirmed_cpu_time():
    shipped = subject("mimalloc-default", "mimalloc", {}, OPEN, 0.968, cpu=0.902)
    cpu = Claim("cost", "cpu", 0.87, 0.87, ratio(0.902, 0.08), CONFIRMED)
    shipped = replace(shipped, claims=(*shipped.claims, cpu))
    better = subject("balanced", "mimalloc", SEVEN, CONFIRMED, 0.906, cpu=0.896)

    assert recommend([BASELINE, shipped, better]).label == "balanced"
    traded = subject("balanced", "mimalloc", SEVEN, CONFIRMED, 0.906, cpu=0.91)
    assert recommend([BASELINE, shipped, traded]).label == "mimalloc-default"
