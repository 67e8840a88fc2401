"""What an exported configuration gains: in emulation, when validated, and in `optimize`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.export.deployment import ObjectiveGain
from tuner.front.bounds import default_trials
from tuner.front.picks import Pick
from tuner.front.whole import Whole, expected_ratio
from tuner.metrics import REAL, find_objective
from tuner.optimize.answering.recommendation import Recommendation, recommended
from tuner.optimize.answering.table import AnswerRow
from tuner.optimize.proof.judgement import least_gain
from tuner.optimize.quantities import QUANTITIES, TABLE, key_of
from tuner.optimize.tuned import label_of
from tuner.records import Configuration
from tuner.runs import Run
from tuner.stats import Estimate, Interval
from tuner.validate.metrics import counterpart
from tuner.validate.summary import ValidationSummary, summarize
from tuner.validate.trust import (
    believed_validation,
    is_recorded_program,
    nearness,
    recorded_program,
    shown_whole,
)
from tuner.validate.verdicts import MetricSummary, SubjectSummary


def proven_gains(found: Recommendation) -> tuple[ObjectiveGain, ...]:
    """Return what the runs of an answer proved."""
    return tuple(_proven(name, *change, found.least) for name, change in found.changes.items())


def _proven(
    name: str, change: float, bounds: tuple[float, float] | None, least: float
) -> ObjectiveGain:
    label = name.replace("_", " ").replace("cpu", "CPU")
    interval = Interval(1.0 + bounds[0], 1.0 + bounds[1]) if bounds else None
    quantity = next(one for one in TABLE if key_of(one) == name)
    return ObjectiveGain(
        name,
        label,
        None,
        label,
        None,
        Estimate(1.0 + change, interval, 1),
        _verdict(bounds, quantity, least),
        is_of_optimize=True,
    )


def _verdict(bounds: tuple[float, float] | None, quantity: str, least: float) -> str:
    """Return what the bounds of a change prove: a guard may hold within more than `least`.

    A gain that may be below what counts is for nothing, however sure it is.
    """
    if bounds is None:
        return "of few runs"
    worst = -bounds[0] if TABLE[quantity].is_more_better else bounds[1]
    if worst <= 0.0:
        return "proven" if worst <= -least_gain(quantity, least) else "no worse"
    return f"at most {max(round(100.0 * worst, 1), 0.1):g} % worse"


_Validated = tuple[ValidationSummary, SubjectSummary]


def _validated(run: Run, wanted: Sequence[Configuration], number: int | None) -> _Validated | None:
    """Return the most believed validation of the program that ran one of the settings."""
    recorded = recorded_program(run.campaign)
    trusted = [record for record in run.validations if is_recorded_program(record, recorded)]
    if number is not None and (named := believed_validation(run, number)) is not None:
        trusted = [named]
    for record in sorted(trusted, key=lambda one: nearness(one, recorded), reverse=True):
        summary = summarize(run, record)
        others = (one for one in summary.subjects if not one.is_baseline)
        ran = {one.subject.configuration: one for one in others}
        for configuration in wanted:
            if configuration in ran:
                return summary, ran[configuration]
    return None


def _ran(run: Run, wanted: Sequence[Configuration]) -> AnswerRow | None:
    """Return what `optimize` measured on the program of one of the settings."""
    answer = recommended(run.folder)
    labels = {label_of(one) for one in wanted}
    found = [row for row in answer.rows if row.label in labels and row.changes] if answer else []
    return max(found, key=lambda row: row.is_candidate, default=None)


def on_program(run: Run, wanted: Sequence[Configuration], number: int | None) -> OnProgram:
    """Return what is known of a setting.

    Args:
        run: the campaign.
        wanted: the setting as picked, and as reduced.
        number: of the validation that is shown; None for the last one that ran either.
    """
    validated = _validated(run, wanted, number)
    ran = None if validated else _ran(run, wanted)
    return OnProgram(validated, ran, shown_whole(run, number=number))


@dataclass(frozen=True)
class OnProgram:
    """What is known of a pick on the program."""

    validated: _Validated | None
    """The last validation that ran it, and what that says of it."""
    ran: AnswerRow | None
    """What `optimize` measured of it."""
    whole: Whole

    @property
    def notices(self) -> tuple[str, ...]:
        """What a reader of the validation must know, but for what is of other subjects alone."""
        if self.validated is None:
            return ()
        summary, own = self.validated
        others = [one.subject.label for one in summary.subjects if one is not own]
        return tuple(
            notice
            for notice in summary.notices
            if not any(f" of {label} (--rounds" in notice for label in others)
        )

    def has_run(self, configuration: Configuration) -> bool:
        """Return whether what the program ran is this, to the last setting."""
        if self.validated is not None:
            return self.validated[1].subject.configuration == configuration
        return self.ran is not None and self.ran.label == label_of(configuration)


def _unclaimed(summary: ValidationSummary, of: SubjectSummary, name: str) -> MetricSummary | None:
    """Return what checks an objective of what ran without a claim."""
    metric = counterpart(name, summary.record.good())
    return of.metric(metric.name) if metric else None


def pick_gain(run: Run, pick: Pick | None, name: str, known: OnProgram) -> ObjectiveGain:
    """Return what a pick, or a setting without a trial, gains in one objective."""
    ran, validated = known.ran, known.validated
    default = default_trials(run.trials).get(run.campaign.baseline)
    emulated = expected = None
    if default and default.measurement and pick and pick.trial.measurement:
        reference = default.measurement.value(name)
        mine = pick.trial.measurement.value(name)
        if reference > 0.0:
            emulated = mine / reference
        expected = expected_ratio(known.whole, name, mine, reference)
    quantity = next((q for q in QUANTITIES if TABLE[q].emulated == name), None)
    if ran is not None and quantity is not None and quantity in ran.changes:
        gain = ran.changes[quantity]
        bounds = gain.bounds
        interval = Interval(1.0 + bounds[0], 1.0 + bounds[1]) if bounds else None
        label = find_objective(name).label
        verdict = f"compared in {ran.ran}" if ran.is_candidate else "of few runs"
        real = Estimate(1.0 + gain.change, interval, 1)
        return ObjectiveGain(
            name, label, emulated, quantity, expected, real, verdict, is_of_optimize=True
        )
    claims = validated[1].claims if validated else ()
    claim = next((claim for claim in claims if claim.objective == name), None)
    seen = claim or (_unclaimed(*validated, name) if validated else None)
    ratio = claim.real_ratio if claim else seen.ratio if isinstance(seen, MetricSummary) else None
    return ObjectiveGain(
        name,
        find_objective(name).label,
        emulated,
        REAL[seen.metric].label if seen else None,
        claim.expected_ratio if claim and claim.is_emulated else expected,
        ratio,
        claim.verdict.value if claim else "measured, no claim" if seen else None,
    )
