"""Whether a validation ran the program that was recorded, and which validation is believed.

A validation of another command says nothing about a campaign: it must not take the place of one
that does.  What a program was when it was recorded stands in the trace.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from statistics import median

from tuner.errors import SelectionError, TunerError
from tuner.front.bounds import default_trials
from tuner.front.whole import Whole, whole_program
from tuner.metrics import METRICS
from tuner.records import Trial
from tuner.runs import Run
from tuner.store import CampaignRecord, ValidationRecord
from tuner.trace.program import Recorded, recorded_in
from tuner.validate.metrics import counterpart
from tuner.validate.session import is_complete, simulation_of


def recorded_program(campaign: CampaignRecord, expected: int | None = None) -> Recorded | None:
    """Return what the trace of a campaign knows of its program; None when it knows nothing.

    Args:
        campaign: whose trace need not be there any more.
        expected: exit status that the user expects instead.
    """
    trace = Path(campaign.trace_path)
    found: Recorded | None = None
    with contextlib.suppress(OSError, TunerError):
        found = recorded_in(trace) if trace.is_file() else None
    if expected is None:
        return found
    return replace(found or Recorded((), None), exit_status=expected)


def believed_validation(run: Run, number: int | None = None) -> ValidationRecord | None:
    """Return the validation on the real program that a report or an export shows.

    It is the last one of the command that was recorded; else of the program; else the last one;
    of each, one that is complete before those that are not.

    Args:
        run: the campaign.
        number: of the one the user chose; None for that rule.

    Raises:
        SelectionError: there is none of that number.
    """
    programs = [record for record in run.validations if simulation_of(record) is None]
    if number is not None:
        for record in programs:
            if record.identifier == number:
                return record
        known = ", ".join(str(record.identifier) for record in programs) or "none"
        raise SelectionError(
            f"{run.folder}: has no validation {number} of a program; there are: {known}"
        )
    recorded = recorded_program(run.campaign)
    return max(programs, key=lambda record: nearness(record, recorded), default=None)


def nearness(record: ValidationRecord, recorded: Recorded | None) -> tuple[bool, bool, bool, int]:
    """Return what sorts validations, the one that is believed last.

    Args:
        record: of any version.
        recorded: what the trace says; None when it is not there.
    """
    is_program = is_recorded_program(record, recorded)
    is_same = is_program and recorded is not None and not recorded.differs_from(record.command)
    return is_same, is_program, is_complete(record), record.identifier


def proving_validation(run: Run, number: int | None = None) -> ValidationRecord | None:
    """Return the validation that an export rests on: the believed one, but of no other program.

    Args and errors: see `believed_validation`; one that the user chose counts in any case.
    """
    found = believed_validation(run, number)
    if found is None or number is not None:
        return found
    return found if is_recorded_program(found, recorded_program(run.campaign)) else None


def shown_whole(run: Run, baseline: Trial | None = None, number: int | None = None) -> Whole:
    """Return what changes are shown as shares of: by a validation, else as recorded.

    Args:
        run: the campaign; its picks stay as recorded.
        baseline: what changes are against; None: the campaign's.
        number: of the validation, see `proving_validation`.
    """
    baseline = baseline or default_trials(run.trials).get(run.campaign.baseline)
    whole = dict(whole_program(run.campaign, run.trials, baseline))
    found = validated_whole(run, number) if whole else None
    if found is None or baseline is None:
        return whole
    _, reference, used = found
    if baseline.number == reference.number:
        return {**whole, **{name: used[name] for name in whole.keys() & used.keys()}}
    for name in whole.keys() & used.keys():
        mine, theirs = baseline.measured.value(name), reference.measured.value(name)
        whole[name] = max(used[name] + mine - theirs, mine)
    return whole


def validated_whole(run: Run, number: int | None) -> tuple[ValidationRecord, Trial, Whole] | None:
    """Return the validation that `shown_whole` is by, its baseline, and what that used.

    Args:
        run: the campaign.
        number: of the validation; None: the believed one, if it ran the command as recorded.
    """
    record = proving_validation(run, number) if run.validations else None
    if record is None or (number is None and other_arguments(run, record)):
        return None
    ran = next(s.configuration for s in record.subjects if s.label == record.baseline)
    reference = next((t for t in run.trials if t.configuration == ran and t.measurement), None)
    return (record, reference, measured_whole(run.campaign, record)) if reference else None


def other_arguments(run: Run, record: ValidationRecord) -> str:
    """Say how the command of a validation differs from the recorded one, as far as that is known.

    What was emulated is no share of what the program uses on another input.
    """
    recorded = recorded_program(run.campaign)
    return recorded.differs_from(record.command) if recorded else ""


def measured_whole(campaign: CampaignRecord, record: ValidationRecord) -> Whole:
    """Return what the program used under the baseline of a validation.

    Nothing where the campaign's figures are means over several workloads: differences of such
    means are of no one program.
    """
    if campaign.workload.further:
        return {}
    whole = {}
    for name, objective in METRICS.items():
        metric = counterpart(name, record.good())
        if metric is None:
            continue
        is_priced = (objective.unit, metric.unit) == ("instructions", "ns")
        price = campaign.prices.ns_per_instruction if is_priced else 1.0
        runs = record.good(record.baseline)
        values = [value for one in runs if (value := metric.value(one)) is not None]
        if values and price:
            whole[name] = median(values) / price
    return whole


def is_recorded_program(record: ValidationRecord, recorded: Recorded | None) -> bool:
    """Return whether a validation ran the program that was recorded, as far as that is known.

    Args:
        record: of any version; what it says itself counts.
        recorded: what the trace says; None when it is not there.
    """
    known = record.is_recorded_program
    if known is None and recorded is not None:
        known = recorded.is_run_by(record.command)
    return known is not False
