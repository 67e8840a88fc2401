"""What the runs inside simulated machines show: a table per program and machine, and over all.

Every count is that of the run less that of the start under the same subject on the same
machine.  A subject whose program printed something else than under the baseline has none.
Over several programs and machines a subject's change is the geometric mean of its ratios to the
baseline; there are no intervals, since a simulation repeats itself.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tuner.errors import ProgramError
from tuner.front.dominance import non_dominated
from tuner.records import Configuration
from tuner.runs import Run
from tuner.validate.inside import InsideJournal, InsideSession, ShownRun
from tuner.validate.inside_counts import INSIDE_OBJECTIVES, Counts, find_inside_objective
from tuner.validate.ranking import Ranking, rank

_JOURNAL = "gem5/inside.jsonl"
"""File of the journal in a run folder."""


@dataclass(frozen=True)
class InsideCell:
    """One subject on one program and machine."""

    label: str
    counts: Counts | None
    """Of the program alone."""
    reason: str | None
    """Why there are no counts; None when there are."""
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

    def ratio(self, label: str, objective: str) -> float | None:
        """Return a subject's value over the baseline's; None when either is missing or 0."""
        extract = find_inside_objective(objective).extract
        mine = next((c.counts for c in self.cells if c.label == label), None)
        base = self.cells[0].counts
        value, reference = (extract(c) if c else None for c in (mine, base))
        return value / reference if value and reference else None


@dataclass(frozen=True)
class InsideMeans:
    """One subject over all programs and machines."""

    label: str
    ratios: Mapping[str, float | None]
    """Objective -> geometric mean of the ratios to the baseline; None when one is missing."""
    is_on_front: bool
    """True when no other subject is at least as good in all chosen objectives and better in
    one."""


@dataclass(frozen=True)
class InsideSummary:
    """Everything a report says about the runs inside."""

    session: InsideSession
    chosen: tuple[str, ...]
    """Objectives that decide, as the session names them."""
    tables: tuple[InsideTable, ...]
    means: tuple[InsideMeans, ...]
    """The baseline first."""
    rankings: tuple[Ranking, ...] = ()

    @property
    def is_comparison(self) -> bool:
        """True when a program has counts under the baseline and under another subject."""
        return any(
            table.cells[0].counts and any(cell.counts for cell in table.cells[1:])
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
    chosen = session.objectives
    for name in chosen:
        find_inside_objective(name)
    tables = tuple(_tables(journal, session))
    ratios = {label: _mean_ratios(tables, label) for label in session.labels}
    front = _front(ratios, chosen)
    means = tuple(InsideMeans(label, ratios[label], label in front) for label in session.labels)
    rankings = tuple(_rankings(run, session, ratios, chosen)) if run else ()
    return InsideSummary(session, chosen, tables, means, rankings)


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
        counts = mine.counts.minus(below.counts)
    except ProgramError as error:
        return InsideCell(shown.label, None, str(error))
    return InsideCell(shown.label, counts, None, below.counts)


def _mean_ratios(tables: Sequence[InsideTable], label: str) -> dict[str, float | None]:
    """Return the geometric mean over the tables in which the baseline has a value."""
    found: dict[str, float | None] = {}
    for name in INSIDE_OBJECTIVES:
        usual = [t for t in tables if t.ratio(t.cells[0].label, name) is not None]
        ratios = [table.ratio(label, name) for table in usual]
        known = [ratio for ratio in ratios if ratio is not None]
        is_complete = len(known) == len(ratios) > 0
        found[name] = statistics.geometric_mean(known) if is_complete else None
    return found


def _front(ratios: Mapping[str, Mapping[str, float | None]], chosen: Iterable[str]) -> set[str]:
    rows: dict[str, list[float]] = {}
    names = list(chosen)
    for label, found in ratios.items():
        values = [_minimised(name, found[name]) for name in names]
        known = [value for value in values if value is not None]
        if len(known) == len(names):
            rows[label] = known
    if not rows:
        return set()
    labels = list(rows)
    points = np.array([rows[label] for label in labels], dtype=np.float64)
    return {labels[index] for index in non_dominated(points)}


def _minimised(name: str, ratio: float | None) -> float | None:
    """Return a ratio of which less is better."""
    if ratio is None or not INSIDE_OBJECTIVES[name].more_is_better:
        return ratio
    return 1.0 / ratio


def _rankings(
    run: Run,
    session: InsideSession,
    ratios: Mapping[str, Mapping[str, float | None]],
    chosen: Sequence[str],
) -> Iterator[Ranking]:
    trials = {trial.configuration: trial.measurement for trial in run.trials}
    for emulated in run.campaign.objectives:
        for inside in dict.fromkeys((*chosen, "instructions", "cycles")):
            pairs = []
            for subject in session.subjects:
                if subject.configuration is None:
                    continue
                configuration = Configuration.from_key(subject.configuration)
                found = trials.get(configuration)
                real = _minimised(inside, ratios[subject.label][inside])
                if found and real is not None:
                    pairs.append((configuration.allocator, found.value(emulated), real))
            yield from rank(emulated, inside, pairs)
