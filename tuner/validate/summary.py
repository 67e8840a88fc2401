"""Claimed against measured: medians, intervals, verdicts and rank correlation.

Everything is computed from the raw samples of one validation by pure functions;
tables and reports only show it.

A claim is a difference: so many bytes or instructions less than the baseline.
Added to what the real baseline uses it becomes the ratio that is expected of
the real program, whose own code and data do not change with the allocator.

Verdicts are those of all claims together, see `tuner.validate.verdicts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tuner import stats
from tuner.compare.values import Values
from tuner.front.whole import ALL_OF_IT, Whole, expected_ratio
from tuner.limits import MOST_ROUNDS
from tuner.metrics import REAL, Metric
from tuner.records import Configuration, Trial
from tuner.runs import Run
from tuner.stats import Estimate
from tuner.store import ValidationRecord
from tuner.store.subject import Subject
from tuner.validate.decision import ValidationDecision, recommend
from tuner.validate.huge_pages import huge_page_notices
from tuner.validate.metrics import counterpart, is_checked
from tuner.validate.ranking import Ranking, rank_trials
from tuner.validate.session import n_complete
from tuner.validate.trust import measured_whole
from tuner.validate.verdicts import (
    Claim,
    MetricSummary,
    SubjectSummary,
    Verdict,
    decide,
    overall_verdict,
    too_few,
)

_STEADY = ("peak_heap", "mean_heap", "peak_rss", "cpu", "wall")
"""Metrics of which a reader must know when the baseline's vary."""


_SEEN_AS = {"peak_heap": REAL["peak_rss"]}
"""Objective -> metric of the real program that checks what runs of `optimize` showed of it: they
measure the peak of the whole process. Where there is none, the one that checks emulation."""


@dataclass(frozen=True)
class ValidationSummary:
    """Everything a report says about one validation."""

    record: ValidationRecord
    baseline: Subject
    n_rounds: int
    """Rounds that are complete."""
    subjects: tuple[SubjectSummary, ...]
    """In the order of choice, the baseline first."""
    rankings: tuple[Ranking, ...]
    """Per objective: overall first, then each allocator with three or more subjects."""
    n_claims: int
    """Number of claims that are decided together."""
    notices: tuple[str, ...]
    """What a reader must know to judge the numbers."""
    decision: ValidationDecision
    """What to deploy."""

    @property
    def rounds_needed(self) -> int:
        """The fewest rounds that can decide so many claims."""
        return stats.fewest_pairs(max(1, self.n_claims))

    @property
    def is_comparison(self) -> bool:
        """True when anything was measured beside the baseline, and was not rejected."""
        return any(s.metrics and not s.reason for s in self.subjects if not s.is_baseline)

    def subject(self, label: str) -> SubjectSummary | None:
        """Return the summary of a label; None when there is none."""
        return next((found for found in self.subjects if found.subject.label == label), None)


def summarize(run: Run, record: ValidationRecord) -> ValidationSummary:
    """Compute the summary of one validation.

    Args:
        run: the campaign with its trials, for the claims.
        record: the validation with its raw samples, complete or not.
    """
    subjects = record.subjects
    baseline = next(s for s in subjects if s.label == record.baseline)
    checked = _checked_objectives(run, record)
    trials = _claiming(run, subjects)
    n_claims = count_claims(run, subjects)
    samples = _Samples(
        record, stats.fewest_pairs(max(1, n_claims)), measured_whole(run.campaign, record)
    )
    summaries = _decided(
        [
            replace(
                _summarize_subject(subject, baseline, samples, checked, trials),
                trial=_own_trial(run, subject),
            )
            for subject in subjects
        ],
        n_claims,
    )
    return ValidationSummary(
        record,
        baseline,
        n_complete(record),
        summaries,
        tuple(_rankings(run, summaries, checked)),
        n_claims,
        (*huge_page_notices(run.campaign, record), *_notices(record, summaries, samples, n_claims)),
        recommend(summaries),
    )


def count_claims(run: Run, subjects: Sequence[Subject]) -> int:
    """Return how many claims a validation of these subjects decides, before it is run.

    Args:
        run: the campaign with its trials.
        subjects: the baseline first.
    """
    measured = _claiming(run, subjects)
    if subjects[0].configuration not in measured:
        return 0
    checked = [name for name in run.campaign.objectives if is_checked(name)]
    return sum(
        s.configuration in measured or name in dict(s.expected)
        for s in subjects[1:]
        if s.claims
        for name in checked
    )


def _own_trial(run: Run, subject: Subject) -> int | None:
    """Return the trial of a subject; None where that has other settings, and more."""
    made_of = next((one for one in run.trials if one.number == subject.trial), None)
    is_own = made_of is None or made_of.configuration == subject.configuration
    return subject.trial if is_own else None


def _claiming(run: Run, subjects: Sequence[Subject]) -> dict[Configuration, Trial]:
    """Return the trials with numbers; what is deployed with less than its trial claims as that."""
    trials = {trial.configuration: trial for trial in run.trials if trial.measurement}
    numbers = {trial.number: trial for trial in trials.values()}
    return {s.configuration: numbers[s.trial] for s in subjects if s.trial in numbers} | trials


def _decided(summaries: Sequence[SubjectSummary], n_claims: int) -> tuple[SubjectSummary, ...]:
    """Return the summaries with the verdicts of all their claims together."""
    claims = iter(decide([c for found in summaries for c in found.claims], n_claims))
    decided = []
    for found in summaries:
        own = tuple(next(claims) for _ in found.claims)
        verdict = Verdict.REJECTED if found.reason is not None else overall_verdict(own)
        decided.append(replace(found, claims=own, verdict=verdict))
    return tuple(decided)


@dataclass(frozen=True)
class _Samples:
    """The samples of a validation with the ratios between them."""

    record: ValidationRecord
    rounds_needed: int
    """The fewest that can decide the claims."""
    whole: Whole
    """What the program used under the baseline."""

    @property
    def first_round(self) -> int:
        """Number of the first round whose order was random, as the test demands.

        Validations of earlier versions ran the baseline first in round 0.
        """
        return 0 if self.record.is_shuffled else 1

    @property
    def n_random(self) -> int:
        """Number of planned rounds that are evidence."""
        return max(0, self.record.rounds - self.first_round)

    def values(self, metric: Metric) -> Values[None]:
        """Return a metric of all good runs."""
        samples = (((s.round, None, s.label), s.outcome) for s in self.record.samples)
        return Values.collect(samples, metric.value)

    def ratio(self, label: str, metric: Metric) -> Estimate | None:
        """Return the ratio of a subject to the baseline, over the rounds that have both."""
        return self.values(metric).ratio(None, label, self.record.baseline)

    def p_value(self, label: str, metric: Metric) -> float | None:
        """Return that of the difference to the baseline alone.

        Returns:
            None when rounds are missing, for readers who look before the end and stop when the
            numbers please is fooled more often, or when there are too few to decide.
        """
        values, baselines = self.values(metric).pairs(
            None, label, self.record.baseline, self.first_round
        )
        n_runs = min(len(self.record.good(one)) for one in (label, self.record.baseline))
        if n_runs < self.record.rounds or len(values) < self.rounds_needed:
            return None
        return stats.paired_p_value(values, baselines)


def _checked_objectives(run: Run, record: ValidationRecord) -> list[tuple[str, Metric]]:
    """Return the campaign's objectives that a metric of this validation can check."""
    found = ((name, counterpart(name, record.good())) for name in run.campaign.objectives)
    return [(name, metric) for name, metric in found if metric is not None]


def _summarize_subject(
    subject: Subject,
    baseline: Subject,
    samples: _Samples,
    checked: Sequence[tuple[str, Metric]],
    trials: dict[Configuration, Trial],
) -> SubjectSummary:
    good = samples.record.good(subject.label)
    failure = samples.record.failure(subject.label)
    is_baseline = subject == baseline
    claims: tuple[Claim, ...] = ()
    if subject.claims and not is_baseline and good and not failure:
        claims = tuple(_claims(subject, baseline, samples, checked, trials))
    return SubjectSummary(
        subject,
        is_baseline,
        len(good),
        failure,
        tuple(_metrics(subject, samples, is_baseline=is_baseline)),
        claims,
        None,
        good[0].curve if good else (),
    )


def _metrics(subject: Subject, samples: _Samples, *, is_baseline: bool) -> list[MetricSummary]:
    summaries = []
    for metric in REAL.values():
        estimate = samples.values(metric).median(None, subject.label)
        if estimate is not None:
            ratio = None if is_baseline else samples.ratio(subject.label, metric)
            summaries.append(MetricSummary(metric.name, estimate, ratio))
    return summaries


def _claims(
    subject: Subject,
    baseline: Subject,
    samples: _Samples,
    checked: Sequence[tuple[str, Metric]],
    trials: dict[Configuration, Trial],
) -> list[Claim]:
    theirs = trials.get(subject.configuration)
    base = trials.get(baseline.configuration)
    if not (base and base.measurement):
        return []
    seen = dict(subject.expected)
    claims = []
    for objective, metric in checked:
        expected = ratio = seen.get(objective)
        reference = base.measurement.value(objective)
        emulated = theirs.measurement if theirs and reference > 0.0 else None
        if emulated:
            value = emulated.value(objective)
            ratio = value / reference
            expected = expected_ratio(samples.whole, objective, value, reference)
        else:
            metric = _SEEN_AS.get(objective, metric)  # noqa: PLW2901
        if ratio is not None:
            claims.append(
                Claim(
                    objective,
                    metric.name,
                    ratio,
                    expected,
                    samples.ratio(subject.label, metric),
                    Verdict.UNDECIDED,
                    samples.p_value(subject.label, metric),
                    is_emulated=emulated is not None,
                )
            )
    return claims


def _rankings(
    run: Run, summaries: Sequence[SubjectSummary], checked: Sequence[tuple[str, Metric]]
) -> Iterator[Ranking]:
    good = [summary for summary in summaries if summary.reason is None]
    for objective, metric in checked:
        measured = [
            (summary.subject.configuration, found.estimate.median)
            for summary in good
            if (found := summary.metric(metric.name))
        ]
        yield from rank_trials(objective, metric.name, run.trials, measured)


def _notices(
    record: ValidationRecord, summaries: Sequence[SubjectSummary], samples: _Samples, n_claims: int
) -> tuple[str, ...]:
    notices = list(record.notices)
    n_rounds = n_complete(record)
    few = too_few(samples.n_random, n_claims)
    if record.failure(record.baseline):
        notices.append("undecided: the baseline failed; the same command begins anew")
    elif few is not None:
        notices.append(few)
    elif n_rounds < record.rounds:
        notices.append(
            f"undecided: {n_rounds} of {record.rounds} rounds are complete; "
            "the same command continues them"
        )
    else:
        notices += _more_rounds(summaries, samples, n_claims)
    if samples.first_round and n_claims:
        notices.append("round 1 decides nothing: an earlier version ran the baseline first in it")
    ratios = [claim.expected_ratio for summary in summaries for claim in summary.claims]
    if any(ratio == 0.0 for ratio in ratios):
        notices.append(
            f"where {ALL_OF_IT} is expected, emulation claims to save as much as the "
            "program uses here, or more: either it overstates that gain, or prices are too high, "
            "or the trace is of a larger input or another program; what was measured counts"
        )
    unsteady = [
        REAL[found.metric].label
        for summary in summaries
        for found in summary.metrics
        if summary.is_baseline and found.metric in _STEADY and _is_unsteady(found.estimate)
    ]
    if unsteady:
        notices.append(
            f"{', '.join(unsteady)} of the baseline: between rounds more than 10 % apart; the "
            "machine is busy, or the program depends on something outside"
        )
    return tuple(notices)


def _more_rounds(
    summaries: Sequence[SubjectSummary], samples: _Samples, n_claims: int
) -> list[str]:
    """Say how many rounds would show the claimed gain that is nearest to be shown."""
    needed = []
    for summary in summaries:
        for claim in summary.claims:
            real = claim.real_ratio
            is_near = real is not None and not (
                real.interval and real.interval.excludes(claim.expected)
            )
            if not (claim.is_gain and claim.verdict.is_open and is_near):
                continue
            pairs = samples.values(REAL[claim.metric]).pairs(
                None, summary.subject.label, samples.record.baseline, samples.first_round
            )
            ratios = [value / base for value, base in zip(*pairs, strict=True) if base > 0.0]
            n_pairs = stats.pairs_to_show(ratios, claim.expected, n_claims)
            if n_pairs is not None and samples.n_random < n_pairs <= MOST_ROUNDS:
                needed.append((n_pairs, summary.subject.label, REAL[claim.metric].label))
    if not needed:
        return []
    n_pairs, label, metric = min(needed)
    n_more = len(needed) - 1
    claims = "1 more claim needs more" if n_more == 1 else f"{n_more} more claims need more"
    more = f"; {claims}" if n_more else ""
    notice = (
        f"not confirmed does not mean disproved: about {n_pairs} rounds would show the {metric} "
        f"of {label} (--rounds {n_pairs}){more}"
    )
    return [notice]


def _is_unsteady(estimate: Estimate) -> bool:
    interval = estimate.interval
    return interval is not None and interval.high - interval.low > 0.1 * estimate.median
