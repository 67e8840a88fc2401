"""What the runs inside simulated machines show: a table per program and machine, and over all.

Every count is that of the run less that of the start under the same subject on the same
machine.  A subject whose program printed something else than under the baseline has none.
A simulation repeats itself, so there is one round, and no interval over rounds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np

from tuner.errors import ProgramError
from tuner.front.dominance import non_dominated
from tuner.measure.gem5_inside import Counted, Counts
from tuner.metrics import INSIDE, MetricValues, find_metrics
from tuner.records import Outcome, Status
from tuner.runs import Run
from tuner.store.subject import Subject
from tuner.validate.gem5_summary import (
    Gem5Subject,
    Gem5Summary,
    SimulationSummary,
    rank_rows,
    subject_rows,
)
from tuner.validate.inside import read_inside
from tuner.validate.ranking import Ranking

JOURNAL = "gem5/inside.jsonl"
"""File of the journal in a run folder."""


def summarize_inside(path: Path, run: Run | None = None) -> list[Gem5Summary]:
    """Compute the summaries of the last session: each program and machine, then all together.

    Args:
        path: a journal, complete or not.
        run: campaign whose emulated values are ranked; None for no ranking.

    Returns:
        The last one is over all; nothing without a session.

    Raises:
        StoreError: the journal is damaged, or is none of these.
        SpecError: an objective is unknown.
    """
    runs, session = read_inside(path)
    if session is None:
        return []
    objectives = [one.name for one in find_metrics(session["facts"]["objectives"], INSIDE)]
    subjects = tuple(map(Subject.from_record, session["subjects"]))
    simulations = list(_simulations(runs, session["shown"]))
    groups = [(one.name, [one]) for one in simulations]
    if len(simulations) > 1:
        n_good = sum(one.reason is None for one in simulations)
        which = f"all {n_good}" if n_good == len(simulations) else f"{n_good} of {len(simulations)}"
        groups.append((f"over {which}: means, geometric means of changes", simulations))
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


def _simulations(
    runs: Mapping[str, Outcome[Counted]], shown: Iterable[Sequence[str]]
) -> Iterator[SimulationSummary]:
    known = defaultdict(lambda: Outcome.did_not_succeed(Status.FAILED, "not run yet"), runs)
    for (program, machine), rows in groupby(shown, lambda row: row[:2]):
        of = [(label, known[whole], known[start]) for *_, label, whole, start in rows]
        base = of[0][1].good
        samples = tuple((0, label, _sample(whole, start, base)) for label, whole, start in of)
        name = f"{program} on {machine}"
        reason = samples[0][2].reason
        yield SimulationSummary(name, samples, reason, program=program, machine=machine)


def _sample(
    whole: Outcome[Counted], start: Outcome[Counted], base: Counted | None
) -> Outcome[MetricValues]:
    """Return what a run gave beyond its start, if it printed what it should."""
    if whole.good is None:
        return Outcome(whole.status, whole.reason, None)
    if start.good is None:
        return Outcome(start.status, f"its start: {start.reason}", None)
    if base and base.output != whole.good.output:
        reason = "printed something else than under the baseline"
        return Outcome.did_not_succeed(Status.FAILED, reason)
    try:
        return Outcome.succeeded(beyond(whole.good.counts, start.good.counts))
    except ProgramError as error:
        return Outcome.did_not_succeed(Status.FAILED, str(error))


def beyond(whole: Counts, start: Counts) -> dict[str, float | None]:
    """Return the counts of a run beyond its start, and the values of all metrics of `INSIDE`.

    Raises:
        ProgramError: the start took no fewer instructions or cycles than the whole.
    """
    # A later run may find in a cache what the start alone had to fetch at its end.
    found = {
        name: None if value is None or (below := start.get(name)) is None else max(value - below, 0)
        for name, value in whole.items()
    }
    instructions, cycles = found["instructions"], found["cycles"]
    if not instructions or not cycles:
        raise ProgramError(
            f"the start alone takes {start['instructions']} instructions in {start['cycles']} "
            f"cycles, the whole run {whole['instructions']} in {whole['cycles']}; give the program "
            "more to do"
        )
    per_thousand = {
        name.replace("_misses", "_mpki"): None if n is None else n * 1000.0 / instructions
        for name, n in found.items()
        if name.endswith("_misses")
    }
    rest = {"ipc": instructions / cycles, "start": start["instructions"]}
    return {**dict.fromkeys(INSIDE), **found, **per_thousand, **rest}


def _compared(rows: Sequence[Gem5Subject], name: str) -> list[float | None]:
    """Return what subjects are compared by in an objective, less being better.

    It is the ratio to the baseline, or the count itself where somebody's is 0, which is no worse
    than any ratio and has none.
    """
    changes = [row.change(name) for row in rows]
    ratios = [row.ratio(name) for row in rows]
    if all(c is None or r is not None for c, r in zip(changes, ratios, strict=True)):
        return ratios
    sign = -1.0 if INSIDE[name].is_more_better else 1.0
    return [None if c is None else sign * c.value for c in changes]


def _best_sentence(rows: Sequence[Gem5Subject], objectives: Sequence[str]) -> str:
    """Name the subjects that no other equals in all objectives while it beats them in one."""
    columns = [_compared(rows, name) for name in objectives]
    known = {row.subject.label: place for row, *place in zip(rows, *columns, strict=True)}
    labels = [label for label, place in known.items() if None not in place]
    points = np.array([known[label] for label in labels], dtype=np.float64)
    best = [labels[index] for index in non_dominated(points)] if labels else ["none"]
    chosen = ", ".join(INSIDE[name].label for name in objectives)
    return f"Best in {chosen}, none better in all: {', '.join(best)}."
