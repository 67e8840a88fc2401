"""What the runs inside simulated machines show: a table per program and machine, and over all.

Every count is that of the run less that of the start under the same subject on the same
machine.  A subject whose program printed something else than under the baseline has none.
A simulation repeats itself, so there is one round, and no interval over rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tuner.compare.journal import Record
from tuner.errors import ProgramError
from tuner.front.dominance import non_dominated
from tuner.metrics import INSIDE, MetricValues
from tuner.records import Configuration, Outcome, Status
from tuner.runs import Run
from tuner.store.subject import DEFAULT, Subject
from tuner.validate.gem5_summary import (
    Gem5Subject,
    Gem5Summary,
    SimulationSummary,
    rank_rows,
    subject_rows,
)
from tuner.validate.inside import InsideJournal
from tuner.validate.inside_counts import beyond, check_objectives, metric_values
from tuner.validate.ranking import Ranking

_JOURNAL = "gem5/inside.jsonl"
"""File of the journal in a run folder."""


def journal_path(run: Run) -> Path:
    """Return the journal of a run, which need not exist."""
    return run.folder / _JOURNAL


def summarize_inside(journal: InsideJournal, run: Run | None = None) -> list[Gem5Summary]:
    """Compute the summaries of the last session: each program and machine, then all together.

    Args:
        journal: with its runs, complete or not.
        run: campaign whose emulated values are ranked; None for no ranking.

    Returns:
        The last one is over all; nothing without a session.

    Raises:
        SpecError: an objective is unknown.
    """
    if journal.session is None:
        return []
    objectives = journal.session["facts"]["objectives"]
    check_objectives(objectives)
    subjects = tuple(map(_subject, journal.session["subjects"]))
    simulations = list(_simulations(journal, journal.session))
    groups = [(one.name, [one]) for one in simulations]
    if len(simulations) > 1:
        groups.append(
            (f"over all {len(simulations)}: means, geometric means of changes", simulations)
        )
    *alone, last = (
        Gem5Summary(title, tuple(of), 1, subject_rows(subjects, of, INSIDE.values()), ())
        for title, of in groups
    )
    rankings = tuple(_rankings(run, last.subjects, objectives)) if run else ()
    notice = _best_sentence(last.subjects, objectives)
    return [*alone, replace(last, rankings=rankings, notices=(notice,))]


def _rankings(
    run: Run, rows: Sequence[Gem5Subject], objectives: Sequence[str]
) -> Iterator[Ranking]:
    for emulated in run.campaign.objectives:
        for inside in dict.fromkeys((*objectives, "instructions", "cycles")):
            yield from rank_rows(run, emulated, inside, rows)


def _subject(record: Record) -> Subject:
    """Return a subject; one that is of no campaign is an allocator as shipped."""
    if record.get("configuration") is None:
        return Subject(record["label"], Configuration(record["label"]), None, (DEFAULT,))
    return Subject.from_record(record)


def _simulations(journal: InsideJournal, session: Record) -> Iterator[SimulationSummary]:
    tables: dict[str, list[tuple[str, str, str]]] = {}
    for program, machine, label, whole, start in session["shown"]:
        tables.setdefault(f"{program} on {machine}", []).append((label, whole, start))
    for name, runs in tables.items():
        _, first, _ = runs[0]
        base = journal.runs.get(first)
        output = base.good.output if base and base.good else None
        samples = tuple(
            (0, label, _sample(journal, whole, start, output)) for label, whole, start in runs
        )
        yield SimulationSummary(name, samples, samples[0][2].reason)


def _sample(
    journal: InsideJournal, whole: str, start: str, output: str | None
) -> Outcome[MetricValues]:
    """Return what a run gave beyond its start, if it printed what it should."""
    found, below = journal.runs.get(whole), journal.runs.get(start)
    if found is None or below is None:
        return Outcome.did_not_succeed(Status.FAILED, "not run yet")
    if found.good is None:
        return Outcome.did_not_succeed(found.status, found.reason or "")
    if below.good is None:
        return Outcome.did_not_succeed(below.status, f"its start: {below.reason}")
    if output is not None and found.good.output != output:
        reason = "printed something else than under the baseline"
        return Outcome.did_not_succeed(Status.FAILED, reason)
    try:
        counts = beyond(found.good.counts, below.good.counts)
    except ProgramError as error:
        return Outcome.did_not_succeed(Status.FAILED, str(error))
    return Outcome.succeeded(metric_values(counts, below.good.counts))


def _best_sentence(rows: Sequence[Gem5Subject], objectives: Sequence[str]) -> str:
    """Name the subjects that no other equals in all objectives while it beats them in one."""
    known = {row.subject.label: [row.ratio(name) for name in objectives] for row in rows}
    labels = [label for label, ratios in known.items() if None not in ratios]
    points = np.array([known[label] for label in labels], dtype=np.float64)
    best = [labels[index] for index in non_dominated(points)] if labels else ["none"]
    chosen = ", ".join(INSIDE[name].label for name in objectives)
    return f"Best in {chosen}, none better in all: {', '.join(best)}."
