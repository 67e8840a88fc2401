"""Claimed against measured: medians, intervals, verdicts and rank correlation.

Everything is computed from the raw samples of one validation by pure functions;
tables and reports only show it.

A claim is a difference: so many bytes or instructions less than the baseline.
Added to what the real baseline uses it becomes the ratio that is expected of
the real program, whose own code and data do not change with the allocator.

Each claim "this setting uses less than the baseline" is one test.  The
intervals that decide are corrected for their number by Bonferroni's rule.  A
difference counts only when it is also larger than `MINIMAL_EFFECT`, since
memory repeats so exactly that a meaningless 0.01 % would pass otherwise.  An
interval that holds 1 shows no difference, which is not the same as equality.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from tuner import objectives, stats
from tuner.records import Configuration, CurvePoint, Status, Trial
from tuner.runs import Run
from tuner.stats import Concordance, Estimate
from tuner.store import ValidationRecord, ValidationSample
from tuner.validate.huge_pages import huge_page_notices
from tuner.validate.metrics import METRICS, Metric, counterpart
from tuner.validate.subjects import Subject

MINIMAL_EFFECT = stats.TIE
"""Relative change below which a difference is not worth a verdict."""

MINIMAL_ROUNDS = 5
"""Fewer paired runs decide nothing.

Source: an interval over n values covers the median with probability at most
1 - 2 ** (1 - n), which is 94 % for 5 and only 88 % for 4.
"""


class Verdict(enum.StrEnum):
    """What the real program says about a claim."""

    CONFIRMED = "confirmed"
    """The change is there, in the direction claimed."""
    NOT_CONFIRMED = "not confirmed"
    """No difference shown, though one was claimed."""
    WORSE = "worse"
    """More was used, though less or the same was claimed."""
    BETTER = "better than claimed"
    """Less was used, though more or the same was claimed."""
    AS_CLAIMED = "no difference shown, none claimed"
    UNDECIDED = "undecided"
    """Too few runs to say anything."""
    REJECTED = "rejected"
    """The program crashed, hung or gave another output."""


@dataclass(frozen=True)
class MetricSummary:
    """One metric of one subject."""

    metric: str
    """Name in `METRICS`."""
    estimate: Estimate
    """Median over the rounds, in the unit of the metric."""
    ratio: Estimate | None
    """Median of the ratios to the baseline of the same round; None for the baseline
    itself and where no ratio exists."""


@dataclass(frozen=True)
class Claim:
    """One objective of one subject, emulated and real."""

    objective: str
    metric: str
    """The metric it is checked with."""
    claimed_value: float
    """Emulated, in the unit of the objective."""
    claimed_ratio: float
    """Emulated, relative to the emulated baseline."""
    expected_ratio: float | None
    """What the claim means for the real program: the emulated difference to the baseline,
    added to the real baseline and divided by it; None when its price is not known."""
    real_ratio: Estimate | None
    """Real, relative to the real baseline; the interval is corrected for the number of claims."""
    verdict: Verdict

    @property
    def is_gain(self) -> bool:
        """True when less than the baseline was claimed."""
        ratio = self.claimed_ratio if self.expected_ratio is None else self.expected_ratio
        return _direction(ratio) < 0


@dataclass(frozen=True)
class SubjectSummary:
    """All about one subject."""

    subject: Subject
    is_baseline: bool
    n_samples: int
    """Number of good runs."""
    reason: str | None
    """Why it was rejected; None when it was not."""
    metrics: tuple[MetricSummary, ...]
    """In the order of `METRICS`; empty when there is no good run."""
    claims: tuple[Claim, ...]
    """One per objective of the campaign that can be checked; empty for the baseline."""
    verdict: Verdict | None
    """Over the gains claimed, see `overall_verdict`; None for the baseline and without claims."""
    curve: tuple[CurvePoint, ...]
    """Heap over time in the first good run."""

    def metric(self, name: str) -> MetricSummary | None:
        """Return the summary of a metric; None when it was not measured."""
        return next((found for found in self.metrics if found.metric == name), None)


@dataclass(frozen=True)
class RankingSummary:
    """How well the emulator ranks what the real program does."""

    objective: str
    metric: str
    allocator: str | None
    """None for the ranking over all allocators."""
    n: int
    """Number of configurations ranked."""
    tau: float | None
    """Kendall's tau-b, near values tied; None when one side is all ties."""
    concordance: Concordance | None
    """Over the pairs that differ by more than 1 % in reality; None when none does."""


@dataclass(frozen=True)
class ValidationSummary:
    """Everything a report says about one validation."""

    record: ValidationRecord
    baseline: Subject
    n_rounds: int
    """Rounds that are complete."""
    subjects: tuple[SubjectSummary, ...]
    """In the order of choice, the baseline first."""
    rankings: tuple[RankingSummary, ...]
    """Per objective: overall first, then each allocator with three or more subjects."""
    n_claims: int
    """Number of tests the intervals of claims are corrected for."""
    notices: tuple[str, ...]
    """What a reader must know to judge the numbers."""

    def subject(self, label: str) -> SubjectSummary | None:
        """Return the summary of a label; None when there is none."""
        return next((found for found in self.subjects if found.subject.label == label), None)


def summarize(run: Run, record: ValidationRecord) -> ValidationSummary:
    """Compute the summary of one validation.

    Args:
        run: the campaign with its trials, for the claims.
        record: the validation with its raw samples, complete or not.
    """
    subjects = tuple(Subject.from_record(entry) for entry in record.settings["subjects"])
    baseline = next(s for s in subjects if s.label == record.baseline)
    checked = _checked_objectives(run, record)
    trials = {trial.configuration: trial for trial in run.trials if trial.measurement}
    prices = run.campaign.calibration
    n_claims = max(
        1, len(checked) * sum(s != baseline and s.configuration in trials for s in subjects)
    )
    samples = _Samples(record, 1.0 - 0.05 / n_claims, prices.get("ns_per_instruction"))
    summaries = tuple(
        _summarize_subject(subject, baseline, samples, checked, trials) for subject in subjects
    )
    return ValidationSummary(
        record,
        baseline,
        _n_complete(summaries, record),
        summaries,
        tuple(_rankings(summaries, checked, trials)),
        n_claims,
        (*huge_page_notices(run.campaign, record), *_notices(record, summaries)),
    )


@dataclass(frozen=True)
class _Samples:
    """The samples of a validation with the ratios between them."""

    record: ValidationRecord
    claim_confidence: float
    """Confidence of the intervals that decide claims, corrected."""
    ns_per_instruction: float | None
    """Price on the machine of the campaign."""

    def good(self, label: str) -> list[ValidationSample]:
        """Return the successful runs of a subject, by round."""
        return [s for s in self.record.samples if s.label == label and s.status is Status.OK]

    def failure(self, label: str) -> ValidationSample | None:
        """Return the first failed run of a subject."""
        failed = (s for s in self.record.samples if s.label == label and s.status is not Status.OK)
        return next(failed, None)

    def ratio(self, label: str, metric: Metric, confidence: float) -> Estimate | None:
        """Return the ratio of a subject to the baseline, over the rounds that have both."""
        theirs = self._by_round(label, metric)
        base = self._by_round(self.record.baseline, metric)
        rounds = sorted(theirs.keys() & base.keys())
        return stats.ratio_estimate(
            [theirs[r] for r in rounds], [base[r] for r in rounds], confidence=confidence
        )

    def expected_ratio(self, metric: Metric, unit: str, difference: float) -> float | None:
        """Return what an emulated difference means for the real program.

        Args:
            metric: what is measured on it.
            unit: of the objective.
            difference: emulated value less that of the emulated baseline.
        """
        found = (metric.extract(sample) for sample in self.good(self.record.baseline))
        base = stats.median_estimate([float(value) for value in found if value is not None])
        scale = self.ns_per_instruction if (unit, metric.unit) == ("instructions", "ns") else 1.0
        if scale is None or base is None or base.median <= 0.0:
            return None
        return 1.0 + difference * scale / base.median

    def _by_round(self, label: str, metric: Metric) -> dict[int, float]:
        found = ((sample.round, metric.extract(sample)) for sample in self.good(label))
        return {number: float(value) for number, value in found if value is not None}


def _checked_objectives(run: Run, record: ValidationRecord) -> list[tuple[str, Metric]]:
    """Return the campaign's objectives that a metric of this validation can check."""
    found = ((name, counterpart(name, record.samples)) for name in run.campaign.objectives)
    return [(name, metric) for name, metric in found if metric is not None]


def _summarize_subject(
    subject: Subject,
    baseline: Subject,
    samples: _Samples,
    checked: Sequence[tuple[str, Metric]],
    trials: dict[Configuration, Trial],
) -> SubjectSummary:
    good = samples.good(subject.label)
    failure = samples.failure(subject.label)
    is_baseline = subject == baseline
    claims: tuple[Claim, ...] = ()
    if not is_baseline and good and not failure:
        claims = tuple(_claims(subject, baseline, samples, checked, trials))
    verdict = Verdict.REJECTED if failure else overall_verdict(claims)
    return SubjectSummary(
        subject,
        is_baseline,
        len(good),
        failure.reason if failure else None,
        tuple(_metrics(subject, samples, is_baseline=is_baseline)),
        claims,
        verdict,
        good[0].curve if good else (),
    )


def _metrics(subject: Subject, samples: _Samples, *, is_baseline: bool) -> list[MetricSummary]:
    summaries = []
    for metric in METRICS.values():
        found = (metric.extract(sample) for sample in samples.good(subject.label))
        estimate = stats.median_estimate([float(value) for value in found if value is not None])
        if estimate is not None:
            ratio = None if is_baseline else samples.ratio(subject.label, metric, 0.95)
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
    if not (theirs and theirs.measurement and base and base.measurement):
        return []
    claims = []
    for objective, metric in checked:
        value = objectives.objective_value(theirs.measurement, objective)
        reference = objectives.objective_value(base.measurement, objective)
        if reference > 0.0:
            unit = objectives.find_objective(objective).unit
            ratio = value / reference
            expected = samples.expected_ratio(metric, unit, value - reference)
            real = samples.ratio(subject.label, metric, samples.claim_confidence)
            verdict = judge(ratio if expected is None else expected, real)
            claims.append(Claim(objective, metric.name, value, ratio, expected, real, verdict))
    return claims


def judge(claimed_ratio: float, real: Estimate | None) -> Verdict:
    """Compare a claimed change with the real one.

    Args:
        claimed_ratio: what is expected of the real program, relative to its baseline.
        real: of the real program, with its corrected interval.
    """
    if real is None or real.interval is None or real.n < MINIMAL_ROUNDS:
        return Verdict.UNDECIDED
    claimed = _direction(claimed_ratio)
    shown = _direction(real.median) if real.interval.excludes(1.0) else 0
    if shown == claimed:
        return Verdict.CONFIRMED if shown else Verdict.AS_CLAIMED
    if shown == 0:
        return Verdict.NOT_CONFIRMED
    return Verdict.WORSE if shown > 0 else Verdict.BETTER


def overall_verdict(claims: Sequence[Claim]) -> Verdict | None:
    """Return the verdict over several claims: the most sobering one.

    A subject stands for the gains it promises; a price it was expected to cost but does
    not show is no reason against it.  Anything worse than claimed is.

    Returns:
        None when there is no claim.
    """
    if any(claim.verdict is Verdict.WORSE for claim in claims):
        return Verdict.WORSE
    verdicts = [claim.verdict for claim in claims if claim.is_gain]
    verdicts = verdicts or [claim.verdict for claim in claims]
    for verdict in (Verdict.UNDECIDED, Verdict.NOT_CONFIRMED):
        if verdict in verdicts:
            return verdict
    if Verdict.CONFIRMED in verdicts or Verdict.BETTER in verdicts:
        return Verdict.CONFIRMED
    return Verdict.AS_CLAIMED if verdicts else None


def _direction(ratio: float) -> int:
    """Return -1 for less, +1 for more, 0 for a change below `MINIMAL_EFFECT`."""
    if abs(ratio - 1.0) <= MINIMAL_EFFECT:
        return 0
    return -1 if ratio < 1.0 else 1


def _rankings(
    summaries: Sequence[SubjectSummary],
    checked: Sequence[tuple[str, Metric]],
    trials: dict[Configuration, Trial],
) -> list[RankingSummary]:
    rankings = []
    names = list(dict.fromkeys(s.subject.configuration.allocator for s in summaries))
    for objective, metric in checked:
        for allocator in (None, *names):
            pairs = _paired(summaries, objective, metric, allocator, trials)
            if len(pairs) >= (2 if allocator is None else 3):
                claimed, real = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
                tau = stats.kendall_tau(claimed, real)
                share = stats.concordance(claimed, real)
                rankings.append(
                    RankingSummary(objective, metric.name, allocator, len(pairs), tau, share)
                )
    return rankings


def _paired(
    summaries: Sequence[SubjectSummary],
    objective: str,
    metric: Metric,
    allocator: str | None,
    trials: dict[Configuration, Trial],
) -> list[tuple[float, float]]:
    """Return the claimed value and the real median of every subject that has both."""
    pairs = []
    for summary in summaries:
        configuration = summary.subject.configuration
        trial = trials.get(configuration)
        real = summary.metric(metric.name)
        is_meant = summary.reason is None and allocator in (None, configuration.allocator)
        if is_meant and trial and trial.measurement and real:
            claimed = objectives.objective_value(trial.measurement, objective)
            pairs.append((claimed, real.estimate.median))
    return pairs


def _n_complete(summaries: Sequence[SubjectSummary], record: ValidationRecord) -> int:
    running = {s.subject.label for s in summaries if s.reason is None}
    done = {(sample.round, sample.label) for sample in record.samples}
    return sum(all((number, label) in done for label in running) for number in range(record.rounds))


def _notices(record: ValidationRecord, summaries: Sequence[SubjectSummary]) -> tuple[str, ...]:
    notices = list(record.settings.get("notices", ()))
    if record.rounds < MINIMAL_ROUNDS:
        notices.append(
            f"too few rounds to decide anything: {record.rounds}; "
            f"use --rounds {MINIMAL_ROUNDS} or more"
        )
    ratios = [claim.expected_ratio for summary in summaries for claim in summary.claims]
    if any(ratio is not None and ratio < 0.0 for ratio in ratios):
        notices.append(
            "the trace saves more than this program uses at all: it was recorded from another "
            "program or a larger input, so its claims say little about this one"
        )
    for summary in summaries:
        wall = summary.metric("wall")
        if summary.is_baseline and wall and _is_unsteady(wall.estimate):
            notices.append(
                "the elapsed time of the baseline varies by more than 10 %: "
                "the machine is busy, or the program depends on something outside"
            )
    return tuple(notices)


def _is_unsteady(estimate: Estimate) -> bool:
    interval = estimate.interval
    return interval is not None and interval.high - interval.low > 0.1 * estimate.median
