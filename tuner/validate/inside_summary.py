"""What the runs inside simulated machines show: a table per program and machine, and over all.

Every count is that of the run less that of the start under the same subject on the same
machine.  A subject whose program printed something else than under the baseline has none.
Over several programs and machines a subject's change is the geometric mean of its ratios to the
baseline; there are no intervals, since a simulation repeats itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

import numpy as np

from tuner.errors import ProgramError
from tuner.front.dominance import non_dominated
from tuner.metrics import INSIDE
from tuner.records import Configuration
from tuner.runs import Run
from tuner.validate.inside import InsideJournal, InsideSession, ShownRun
from tuner.validate.inside_counts import Counts, beyond, check_objectives, metric_values
from tuner.validate.ranking import Ranking, rank_trials

_JOURNAL = "gem5/inside.jsonl"
"""File of the journal in a run folder."""


@dataclass(frozen=True)
class InsideCell:
    """One subject on one program and machine."""

    label: str
    values: Mapping[str, float | None] | None
    """Of the program alone, by name of `INSIDE`."""
    reason: str | None
    """Why there are none; None when there are."""
    start: Counts | None = None
    """What was subtracted."""


@dataclass(frozen=True)
class InsideTable:
    """All subjects on one program and machine."""

    program: str
    machine: str
    cells: tuple[InsideCell, ...]
    """The baseline first."""

    @property
    def title(self) -> str:
        """Name of program and machine."""
        return f"{self.program} on {self.machine}"

    def ratio(self, label: str, metric: str) -> float | None:
        """Return a subject's value over the baseline's; None when either is missing or 0."""
        found = {cell.label: (cell.values or {}).get(metric) for cell in self.cells}
        mine, base = found[label], found[self.cells[0].label]
        return mine / base if mine and base else None


@dataclass(frozen=True)
class InsideSummary:
    """Everything a report says about the runs inside."""

    session: InsideSession
    tables: tuple[InsideTable, ...]
    ratios: Mapping[str, Mapping[str, float | None]]
    """Subject, the baseline first -> metric -> geometric mean over the tables in which the baseline
    has a value; None when one is missing."""
    rankings: tuple[Ranking, ...] = ()

    @property
    def chosen(self) -> tuple[str, ...]:
        """Metrics that decide."""
        return self.session.objectives

    @property
    def best(self) -> tuple[str, ...]:
        """Subjects that no other equals in all chosen metrics while it beats them in one."""
        rows = {
            label: [_minimised(name, found[name]) for name in self.chosen]
            for label, found in self.ratios.items()
        }
        labels = [label for label, row in rows.items() if None not in row]
        points = np.array([rows[label] for label in labels], dtype=np.float64)
        return tuple(labels[index] for index in non_dominated(points)) if labels else ()

    @property
    def is_comparison(self) -> bool:
        """True when a program has counts under the baseline and under another subject."""
        return any(
            table.cells[0].values and any(cell.values for cell in table.cells[1:])
            for table in self.tables
        )


def journal_path(run: Run) -> Path:
    """Return the journal of a run, which need not exist."""
    return run.folder / _JOURNAL


def summarize_inside(journal: InsideJournal, run: Run | None = None) -> InsideSummary | None:
    """Compute the summary of the last session; None when there is none.

    Args:
        journal: with its runs, complete or not.
        run: campaign whose emulated values are ranked; None for no ranking.

    Raises:
        SpecError: an objective is unknown.
    """
    session = journal.session
    if session is None:
        return None
    check_objectives(session.objectives)
    tables = tuple(_tables(journal, session))
    ratios = {
        label: {metric: _change(tables, label, metric) for metric in INSIDE}
        for label in session.labels
    }
    rankings = tuple(_rankings(run, session, ratios)) if run else ()
    return InsideSummary(session, tables, ratios, rankings)


def failures(summary: InsideSummary) -> Iterator[str]:
    """Yield a line for every cell without counts."""
    for table in summary.tables:
        for cell in table.cells:
            if cell.reason is not None:
                yield f"{table.title}: {cell.label}: {cell.reason}"


def _tables(journal: InsideJournal, session: InsideSession) -> Iterator[InsideTable]:
    for program, machine in dict.fromkeys((s.program, s.machine) for s in session.shown):
        shown = [s for s in session.shown if (s.program, s.machine) == (program, machine)]
        base = journal.runs.get(shown[0].run)
        output = base.outcome.good.output if base and base.outcome.good else None
        cells = (_cell(journal, entry, output) for entry in shown)
        yield InsideTable(program, machine, tuple(cells))


def _cell(journal: InsideJournal, shown: ShownRun, output: str | None) -> InsideCell:
    whole, start = journal.runs.get(shown.run), journal.runs.get(shown.start)
    if whole is None or start is None:
        return InsideCell(shown.label, None, "not run yet")
    mine, below = whole.outcome.good, start.outcome.good
    if mine is None:
        return InsideCell(shown.label, None, whole.outcome.reason)
    if below is None:
        return InsideCell(shown.label, None, f"{start.task}: {start.outcome.reason}")
    if output is not None and mine.output != output:
        return InsideCell(shown.label, None, "printed something else than under the baseline")
    try:
        values = metric_values(beyond(mine.counts, below.counts))
    except ProgramError as error:
        return InsideCell(shown.label, None, str(error))
    return InsideCell(shown.label, values, None, below.counts)


def _change(tables: Sequence[InsideTable], label: str, metric: str) -> float | None:
    """Return the change of a metric over the tables in which the baseline has it."""
    usual = [table for table in tables if table.ratio(table.cells[0].label, metric)]
    ratios = [ratio for table in usual if (ratio := table.ratio(label, metric))]
    return geometric_mean(ratios) if usual and len(ratios) == len(usual) else None


def _minimised(name: str, ratio: float | None) -> float | None:
    """Return a ratio of which less is better."""
    return 1.0 / ratio if ratio and INSIDE[name].is_more_better else ratio


def _rankings(
    run: Run, session: InsideSession, ratios: Mapping[str, Mapping[str, float | None]]
) -> Iterator[Ranking]:
    configurations = {
        subject.label: Configuration.from_key(subject.configuration)
        for subject in session.subjects
        if subject.configuration is not None
    }
    for emulated in run.campaign.objectives:
        for inside in dict.fromkeys((*session.objectives, "instructions", "cycles")):
            changes = [
                (configuration, change)
                for label, configuration in configurations.items()
                if (change := _minimised(inside, ratios[label][inside])) is not None
            ]
            yield from rank_trials(emulated, inside, run.trials, changes)
