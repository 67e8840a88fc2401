"""Claimed against validated: what the emulation promised and what the real program did.

Both are ratios to the baseline's default.  The claim comes from the campaign's
trials; the validated ratio is the median over rounds, paired with the baseline
of the same round, with its bootstrap interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.records import Configuration, Status
from tuner.report.columns import Column, column, ratio
from tuner.runs import Run
from tuner.selection import default_trials
from tuner.stats import Estimate, ratio_estimate
from tuner.store import ValidationRecord, ValidationSample


@dataclass(frozen=True)
class Claim:
    """One metric of one subject."""

    column: Column
    """Of the claim: a metric of the emulation."""
    counterpart: str
    """What was measured on the program: ``CPU time`` stands against ``cost``."""
    claimed: float | None
    """Ratio in emulation; None when the trial or its baseline has no such number."""
    validated: Estimate | None
    """Ratio on the program; None when it was not measured or every sample failed."""


@dataclass(frozen=True)
class Subject:
    """One configuration on the real program."""

    label: str
    configuration: Configuration
    trial: int | None
    n_ok: int
    """Samples whose exit status and output equalled the baseline's."""
    n_samples: int
    reason: str | None
    """Why the first failed sample failed; None when all succeeded."""
    claims: tuple[Claim, ...]


@dataclass(frozen=True)
class ClaimsPlot:
    """One validation."""

    record: ValidationRecord
    subjects: tuple[Subject, ...]
    """In the order in which they ran; the baseline first when it ran first."""
    baseline: str
    """Label of the baseline."""


_COUNTERPARTS = (
    ("mean_heap", "mean_heap_bytes", "mean heap"),
    ("peak_heap", "peak_heap_bytes", "peak heap"),
    ("cost", "cpu_ns", "CPU time"),
    ("instructions", "instructions", "instructions"),
    ("faults", "faults", "page faults"),
)
"""Metric of the emulation, field of a sample, words for the sample."""


def claims_plot(run: Run, record: ValidationRecord) -> ClaimsPlot:
    """Compute what a validation says about the campaign's claims."""
    subjects: dict[str, list[ValidationSample]] = {}
    for sample in record.samples:
        subjects.setdefault(sample.label, []).append(sample)
    baseline = subjects.get(record.baseline, [])
    return ClaimsPlot(
        record,
        tuple(_subject(run, label, samples, baseline) for label, samples in subjects.items()),
        record.baseline,
    )


def _subject(
    run: Run,
    label: str,
    samples: Sequence[ValidationSample],
    baseline: Sequence[ValidationSample],
) -> Subject:
    ok = [sample for sample in samples if sample.status is Status.OK]
    first = samples[0]
    return Subject(
        label,
        first.configuration,
        first.trial,
        len(ok),
        len(samples),
        next((sample.reason for sample in samples if sample.reason), None),
        tuple(
            Claim(column(name), words, _claimed(run, first, name), _validated(field, ok, baseline))
            for name, field, words in _COUNTERPARTS
        ),
    )


def _claimed(run: Run, sample: ValidationSample, name: str) -> float | None:
    default = default_trials(run.trials).get(run.campaign.baseline)
    trial = next((t for t in run.trials if t.number == sample.trial), None)
    if default is None or trial is None:
        return None
    what = column(name)
    return ratio(what.value(trial.measurement), what.value(default.measurement))


def _validated(
    field: str, samples: Sequence[ValidationSample], baseline: Sequence[ValidationSample]
) -> Estimate | None:
    reference = {s.round: getattr(s, field) for s in baseline if s.status is Status.OK}
    pairs = [
        (float(value), float(base))
        for sample in samples
        if (value := getattr(sample, field)) is not None
        and (base := reference.get(sample.round)) is not None
    ]
    return ratio_estimate([value for value, _ in pairs], [base for _, base in pairs])
