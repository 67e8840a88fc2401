"""The front as a table: rows as plain values, then JSON or CSV with every column and unit.

Rows are the points of the front, picks and defaults; `everything` adds all other
trials with their state.  Ratios are value / value of the baseline.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tuner.front.bounds import Baselines, baselines, constraint_words
from tuner.front.dominance import as_measured, front_points
from tuner.front.picks import Pick
from tuner.front.whole import OF_A_PROGRAM, Whole, expected_ratio
from tuner.metrics import METRICS, Metric
from tuner.records import Status, Trial
from tuner.report.columns import ratio
from tuner.runs import Run
from tuner.stats import TIE
from tuner.validate.trust import shown_whole, validated_whole

SCHEMA = "malloc-tuner.front"
VERSION = 1
"""Schema and version of the JSON form; docs/formats.md describes it."""

FRONT = "front"
DOMINATED = "dominated"
INFEASIBLE = "infeasible"
"""States of a successful trial; one that did not succeed has its `Status` as state."""


@dataclass(frozen=True)
class TrialRow:
    """One trial with its place against the others."""

    trial: Trial
    state: str
    """``front``, ``dominated`` or ``infeasible``; else why it is none of them: ``uncounted``,
    ``refused``, ``failed`` or ``timed_out``."""
    picks: tuple[str, ...]
    """Names under which the trial was picked."""
    equals: tuple[int, ...]
    """Numbers of other feasible trials with exactly the same objectives."""
    ratios: Mapping[str, float | None]
    """Value / baseline's value for every metric by name; None when either is missing."""
    expected: Mapping[str, float | None] = field(default_factory=dict)
    """The same of the whole program, for the metrics of which it is known what that has."""

    hidden_by: int | None = None
    """Trial that dominates it, where no row that is shown does."""
    is_near_front: bool = False
    """A pick that is off the front by a tie alone: the simpler setting was taken."""

    def change(self, name: str) -> float | None:
        """Return the ratio that people see: of the whole program where it is known."""
        expected = self.expected.get(name)
        return self.ratios[name] if expected is None else expected

    @property
    def is_default(self) -> bool:
        """True for an allocator as shipped."""
        return self.trial.configuration.is_default


@dataclass(frozen=True)
class FrontTable:
    """The rows with what they are compared with."""

    campaign: str
    objectives: tuple[str, ...]
    compared: Baselines
    rows: tuple[TrialRow, ...]
    """The front by its objectives, what is near it, then the rest by number: defaults first."""
    notes: tuple[str, ...] = ()
    """What is to be known of the workload; none for a trace."""
    whole: Whole = field(default_factory=dict)
    """What the whole program has under the default of the campaign's baseline."""
    validated: Mapping[str, int] = field(default_factory=dict)
    """Number of the validation that measured it, for those of `whole` that one did."""
    rules: Mapping[str, str] = field(default_factory=dict)
    """Pick -> what chose it."""
    price_note: str | None = None
    """What `repricing.price_note` says; None: nothing changes, or it was not computed."""
    constraints: tuple[str, ...] = ()
    """Of the search, in words."""


def front_table(
    run: Run,
    names: Sequence[str],
    picks: Sequence[Pick] = (),
    *,
    relative_to: str | None = None,
    everything: bool = False,
    validation: int | None = None,
) -> FrontTable:
    """Compute the table.

    Args:
        run: the campaign.
        names: objectives of the front.
        picks: whose names stand in the rows.
        relative_to: allocator whose default is the baseline, or ``own``; None
            takes the campaign's baseline.
        everything: True adds dominated, infeasible and failed trials.
        validation: number of the one that changes are shown by; None: the one that proves.

    Raises:
        SelectionError: the baseline was not measured, or there is no such validation.
        SpecError: an objective is unknown.
        MissingToolError: an objective was not measured.
    """
    trials = as_measured(run.trials, names, run.campaign.constraints)
    compared = baselines(run.trials, relative_to or run.campaign.baseline)
    wholes = {name: shown_whole(run, one, validation) for name, one in compared.defaults.items()}
    equals, order = _front(trials, names)
    picked = {pick.trial.number for pick in picks}
    shown = {trial.number for trial in trials if trial.configuration.is_default}
    shown |= order.keys() | picked
    rows = [
        TrialRow(
            trial,
            _state(trial, equals),
            tuple(pick.name for pick in picks if pick.trial.number == trial.number),
            equals.get(trial.number, ()),
            _ratios(trial, compared),
            _expected(trial, compared, wholes),
        )
        for trial in trials
        if everything or trial.number in shown
    ]
    # A pick that equals a point of the front stands beside it.
    order |= {n: order[first] for first in list(order) for n in equals[first] if n in picked}
    front = [row for row in rows if row.state == FRONT]
    rows = [replace(row, is_near_front=_is_near(row, front, names)) for row in rows]
    rows.sort(key=lambda row: _place(row, order))
    whole = wholes.get(run.campaign.baseline, {})
    by = validated_whole(run, validation) if whole else None
    return FrontTable(
        run.campaign.name,
        tuple(names),
        compared,
        tuple(rows),
        run.campaign.workload.notes,
        whole,
        {name: by[0].identifier for name in whole if name in by[2]} if by else {},
        {pick.name: pick.rule for pick in picks},
        constraints=constraint_words(run),
    )


def _front(
    trials: Sequence[Trial], names: Sequence[str]
) -> tuple[dict[int, tuple[int, ...]], dict[int, int]]:
    """Return what each trial of the front equals, and the place of each of its points."""
    equals: dict[int, tuple[int, ...]] = {}
    order: dict[int, int] = {}
    for point in front_points(trials, names):
        members = (point.trial.number, *point.equals)
        for number in members:
            equals[number] = tuple(other for other in members if other != number)
        order[point.trial.number] = len(order)
    return equals, order


def row_of(run: Run, pick: Pick, relative_to: str) -> TrialRow:
    """Return the row of one pick, with its place against all trials of the campaign.

    Raises:
        SelectionError: the baseline was not measured.
    """
    table = front_table(
        run, run.campaign.objectives, (pick,), relative_to=relative_to, everything=True
    )
    return next(row for row in table.rows if row.trial.number == pick.trial.number)


def _state(trial: Trial, on_front: Mapping[int, object]) -> str:
    if trial.status is not Status.OK:
        return trial.status.value
    if not trial.is_feasible:
        return INFEASIBLE
    return FRONT if trial.number in on_front else DOMINATED


def _is_near(row: TrialRow, front: Sequence[TrialRow], names: Sequence[str]) -> bool:
    """Return whether a dominated pick is in nothing above some point of the front but by a tie."""
    if row.state != DOMINATED or not row.picks:
        return False
    points = [[(row.change(name), one.change(name)) for name in names] for one in front]
    return any(
        all(a is not None and b is not None and a <= b + TIE for a, b in pairs) for pairs in points
    )


def _place(row: TrialRow, order: Mapping[int, int]) -> tuple[bool, bool, int]:
    number = row.trial.number
    is_off = number not in order
    return is_off, not row.is_near_front, number if is_off else order[number]


def _ratios(trial: Trial, compared: Baselines) -> dict[str, float | None]:
    baseline = compared.measurement(trial)
    return {
        column.name: ratio(column.value(trial.known), column.value(baseline))
        for column in METRICS.values()
    }


def _expected(
    trial: Trial, compared: Baselines, wholes: Mapping[str, Whole]
) -> dict[str, float | None]:
    default = compared.of(trial)
    whole = wholes[default.configuration.allocator] if default else {}
    baseline = compared.measurement(trial)
    return {
        name: expected_ratio(
            whole, name, METRICS[name].value(trial.known), METRICS[name].value(baseline)
        )
        for name in whole
    }


# Files


def header_of(column: Metric) -> str:
    """Return the name of a column with its unit: ``mean_heap_bytes``, ``cost_instructions``."""
    unit = column.unit
    return column.field if column.field.endswith(unit) else f"{column.field}_{unit}"


def table_json(table: FrontTable) -> str:
    """Write the table as one JSON object with schema, version and units."""
    document = {
        "schema": SCHEMA,
        "version": VERSION,
        "campaign": table.campaign,
        "objectives": list(table.objectives),
        "workload_notes": list(table.notes),
        "price_note": table.price_note,
        "baseline": {
            "relative_to": table.compared.relative_to,
            "defaults": {name: trial.number for name, trial in table.compared.defaults.items()},
        },
        "units": {column.field: column.unit for column in METRICS.values()},
        "rows": [row_document(row) for row in table.rows],
    }
    return json.dumps(document, indent=2) + "\n"


def row_document(row: TrialRow) -> dict[str, Any]:
    """Return one row as a JSON object; numbers that were not measured are null."""
    return {
        "trial": row.trial.number,
        "state": row.state,
        "is_default": row.is_default,
        "picks": list(row.picks),
        "equal_trials": list(row.equals),
        "allocator": row.trial.configuration.allocator,
        "settings": row.trial.configuration.as_dict,
        "reason": row.trial.reason,
        "violation": row.trial.violation,
        "measured": {c.field: _raw(c, row.trial) for c in METRICS.values()},
        "ratio_to_baseline": dict(row.ratios),
        "expected_of_program": dict(row.expected),
    }


def _raw(column: Metric, trial: Trial) -> int | float | None:
    """Return the number as it was measured: integers stay integers."""
    return column.value(trial.known)


def table_csv(table: FrontTable) -> str:
    """Write the table as CSV (RFC 4180); units are in the column names, missing is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(
        [
            *("trial", "state", "is_default", "picks", "equal_trials", "allocator", "settings"),
            *(header_of(column) for column in METRICS.values()),
            *(f"{column.name}_ratio_to_baseline" for column in METRICS.values()),
            *(f"{name}_expected_of_program" for name in OF_A_PROGRAM),
            *("violation", "reason", "price_note"),
        ]
    )
    for row in table.rows:
        trial = row.trial
        writer.writerow(
            [
                *(trial.number, row.state, str(row.is_default).lower(), " ".join(row.picks)),
                " ".join(map(str, row.equals)),
                trial.configuration.allocator,
                json.dumps(trial.configuration.as_dict, sort_keys=True),
                *(_raw(column, trial) for column in METRICS.values()),
                *(row.ratios[column.name] for column in METRICS.values()),
                *(row.expected.get(name) for name in OF_A_PROGRAM),
                trial.violation,
                trial.reason,
                table.price_note,
            ]
        )
    return text.getvalue()
