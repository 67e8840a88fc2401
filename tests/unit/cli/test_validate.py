"""Exit codes of a validation, which a build can rely on, and what it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.doubles.runs import synthetic_run
from tuner.cli import main
from tuner.cli.validate import check_outcome
from tuner.errors import ComparisonError, UnconfirmedVerdict, WorseVerdict
from tuner.records import Configuration
from tuner.store.subject import Subject
from tuner.validate.summary import ValidationSummary, summarize
from tuner.validate.verdicts import Claim, MetricSummary, SubjectSummary, Verdict

_RUN = synthetic_run(n_trials=20, validation=True)
_SUMMARY = summarize(_RUN, _RUN.validations[-1])


def claim(verdict: Verdict, metric: str = "mean_heap") -> Claim:
    return Claim(metric, metric, 0.9, 0.9, None, verdict)


def subject(label: str, verdict: Verdict | None, role: str = "knee") -> SubjectSummary:
    chosen = Subject(label, Configuration("glibc"), None, (role,))
    is_rejected = verdict is Verdict.REJECTED
    reason = "crashed" if is_rejected else None
    metrics: tuple[MetricSummary, ...] = () if is_rejected else _SUMMARY.subjects[0].metrics
    claims = (claim(verdict),) if verdict else ()
    return SubjectSummary(chosen, verdict is None, 8, reason, metrics, claims, verdict, ())


def outcome(*subjects: SubjectSummary) -> ValidationSummary:
    return replace(_SUMMARY, subjects=(subject("glibc-default", None, "default"), *subjects))


@pytest.mark.parametrize(
    "subjects",
    [
        [subject("knee", Verdict.WORSE)],
        [subject("knee", Verdict.NOT_CONFIRMED), subject("lean", Verdict.REJECTED)],
        [subject("knee", Verdict.UNDECIDED)],
    ],
)
def test_comparison_that_was_made_ends_with_0(subjects: Sequence[SubjectSummary]) -> None:
    check_outcome(outcome(*subjects), worse=False, unconfirmed=False)


@pytest.mark.parametrize(
    "subjects", [[], [subject("knee", Verdict.REJECTED), subject("lean", Verdict.REJECTED)]]
)
def test_nothing_to_compare_is_an_error_of_its_own(subjects: Sequence[SubjectSummary]) -> None:
    with pytest.raises(ComparisonError, match="every subject but the baseline is out"):
        check_outcome(outcome(*subjects), worse=False, unconfirmed=False)


@pytest.mark.parametrize("verdict", [Verdict.WORSE, Verdict.REJECTED])
def test_worse_picks_fail_when_asked(verdict: Verdict) -> None:
    found = outcome(subject("lean", Verdict.CONFIRMED), subject("knee", verdict))
    with pytest.raises(WorseVerdict, match=rf"real program: knee \({verdict}\)$"):
        check_outcome(found, worse=True, unconfirmed=True)


def test_other_verdicts_are_not_worse() -> None:
    found = outcome(
        subject("a", Verdict.COSTS),
        subject("b", Verdict.NOT_CONFIRMED),
        subject("jemalloc-default", Verdict.WORSE, "default"),
    )
    check_outcome(found, worse=True, unconfirmed=False)


def test_one_confirmed_pick_is_enough_when_asked() -> None:
    found = outcome(subject("a", Verdict.NOT_CONFIRMED), subject("b", Verdict.CONFIRMED))
    check_outcome(found, worse=False, unconfirmed=True)


def test_one_of_two_gains_confirmed_is_enough_and_named() -> None:
    """The sentence says to deploy what gains one thing and loses nothing."""
    half = subject("knee", Verdict.NOT_CONFIRMED)
    half = replace(half, claims=(claim(Verdict.CONFIRMED), claim(Verdict.NOT_CONFIRMED, "cpu")))

    check_outcome(outcome(half), worse=False, unconfirmed=True)

    assert half.verdict_words == "mean heap confirmed"
    worse = outcome(replace(half, verdict=Verdict.WORSE))
    with pytest.raises(UnconfirmedVerdict):
        check_outcome(worse, worse=False, unconfirmed=True)


@pytest.mark.parametrize("verdict", [Verdict.UNDECIDED, Verdict.COSTS, Verdict.BETTER])
def test_unconfirmed_picks_fail_when_asked(verdict: Verdict) -> None:
    found = outcome(
        subject("knee", verdict), subject("jemalloc-default", Verdict.CONFIRMED, "default")
    )
    with pytest.raises(UnconfirmedVerdict, match=rf"picks: knee \({verdict}\)$"):
        check_outcome(found, worse=False, unconfirmed=True)


def test_a_program_in_place_of_the_run_folder_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["validate", "--", "true"]) == 2

    assert "true is a program: give a run folder before it" in capsys.readouterr().err
