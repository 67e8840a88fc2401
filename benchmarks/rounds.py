"""Interleaved rounds of a benchmark: each subject once on each task, in random order.

The engine is `tuner.compare`.  Every run is a row of figures in a journal below ``runs/NAME``,
until the results of its part are kept: what was stopped goes on, if its subjects, and what else
its figures hang on, are the same.  The stamp then has the commit and the sources of its begin.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from benchmarks.harness import Call, Target
from tuner.compare.journal import Journal, JournalKeeper
from tuner.compare.loop import Observer, compare
from tuner.compare.plan import Rounds, Step
from tuner.compare.values import Values
from tuner.optimize.tuned import Runs
from tuner.records import Outcome, Status
from tuner.stats import Estimate, Interval

Row = Mapping[str, Any]
"""One run: task, subject, round, status, reason, and its figures."""
Medians = Mapping[str, Mapping[str, Estimate]]
"""Task -> subject -> median with its interval."""

SCHEMA: Final = "malloc-tuner.benchmark.journal"
_PLACE: Final = ("task", "subject", "round")


Figures: TypeAlias = Outcome[Mapping[str, Any]]
"""What one run gave, as JSON knows it."""


def failed(reason: str) -> Figures:
    """Return a run without figures."""
    return Outcome.did_not_succeed(Status.FAILED, reason)


def runner_of(runs: Runs) -> Callable[[str, str], Figures]:
    """Return what runs a subject of `tuner.optimize` once, for `run_rounds`."""

    def run_once(_task: str, subject: str) -> Figures:
        found = runs(Step(0, 0, None, subject))
        return Outcome.succeeded(dict(found.good)) if found.good else failed(str(found.reason))

    return run_once


def run_rounds(
    call: Call,
    part: str,
    tasks: Sequence[str],
    subjects: Sequence[str],
    run: Callable[[str, str], Figures],
    *,
    same: object = None,
    rounds: int | None = None,
    repeats: Callable[[str], int] | None = None,
    baseline: str | None = None,
    shown: str = "",
    workers: int = 1,
) -> list[Row]:
    """Make the runs that a part's journal lacks, and return the rows of what was asked for.

    Args:
        call: of the benchmark.
        part: names the journal.
        tasks: what is run.
        subjects: labels of what runs it.
        run: makes one run, of task and subject; one that failed is not repeated.
        same: what the figures hang on besides; another value begins another journal.
        rounds: None for those of the call.
        repeats: rounds of a task, at most; None: all.
        baseline: where it fails a task, all others are out of it too.
        shown: figure that is printed as runs end.
        workers: runs of a round at once.
    """
    plan = Rounds(tuple(subjects), tuple(tasks), rounds or call.rounds, repeats=repeats)
    header = {"schema": SCHEMA, "version": 1, "part": part, **call.begin}

    def on_sample(step: Step[str], figures: Figures) -> None:
        text = figures.reason or (figures.values or {}).get(shown, "")
        print(f"{part} round {step.round} {step.task} {step.subject}: {text}", file=sys.stderr)

    with Journal(call.journal(part, [list(subjects), same]), header) as journal:
        call.go_on(part, journal.content.header)
        keeper = JournalKeeper(journal, _row, _read)
        compare(
            plan, lambda step: run(step.task, step.subject), keeper, Observer(on_sample),
            baseline=baseline, workers=workers,
        )  # fmt: skip
        rows = (_as_row(*key, figures) for key, figures in keeper.kept() if _is_of(plan, key))
        return sorted(rows, key=lambda row: [row[name] for name in _PLACE])  # packs better


def _is_of(plan: Rounds[str], key: tuple[int, str, str]) -> bool:
    """Return whether a run belongs to a plan: a journal may hold more rounds, or other tasks."""
    number, task, _ = key
    return number < plan.rounds and task in plan.tasks


def _row(step: Step[str], figures: Figures) -> Row:
    return _as_row(step.round, step.task, step.subject, figures)


def _as_row(number: int, task: str, subject: str, figures: Figures) -> Row:
    head = {"task": task, "subject": subject, "round": number, "status": figures.status.value}
    return {**head, "reason": figures.reason, **(figures.values or {})}


def _read(row: Row) -> tuple[tuple[int, str, str], Figures]:
    head = (*_PLACE, "status", "reason")
    values = {name: value for name, value in row.items() if name not in head}
    figures = Outcome(Status(row["status"]), row["reason"], values)
    return (row["round"], row["task"], row["subject"]), figures


# Rows


def column(rows: Iterable[Row], name: str, **where: object) -> list[Any]:
    """Return a figure of all good rows with some values, by round."""
    chosen = [r for r in rows if r["status"] == Status.OK.value and where.items() <= r.items()]
    found = sorted(chosen, key=lambda row: row["round"])
    return [row[name] for row in found if row.get(name) is not None]


def values_of(rows: Iterable[Row], name: str) -> Values[str]:
    """Return a figure of all good rows, by task and subject."""
    table: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        if row["status"] == Status.OK.value and row.get(name) is not None:
            values = table.setdefault((row["task"], row["subject"]), {})
            values[row["round"]] = float(row[name])
    return Values(table)


def medians(rows: Iterable[Row], name: str) -> Medians:
    """Return the medians of a figure of every task and subject, over the rounds."""
    values = values_of(rows, name)
    found: dict[str, dict[str, Estimate]] = {}
    for task, subject in values.table:
        estimate = values.median(task, subject)
        if estimate is not None:
            found.setdefault(task, {})[subject] = estimate
    return found


@dataclass(frozen=True)
class Change:
    """A change of the medians of ratios to a baseline of the same rounds, as shares."""

    median: float
    low: float | None
    """Ends of its 95 % interval, or of fewer than six rounds their range; None of one round."""
    high: float | None
    is_range: bool = False

    def __str__(self) -> str:
        """Write it for a table."""
        if self.low is None or self.high is None:
            return f"{100.0 * self.median:+.1f} % (one round)"
        middle, low, high = (100.0 * share for share in (self.median, self.low, self.high))
        return f"{middle:+.1f} % ({'range ' * self.is_range}{low:+.1f} .. {high:+.1f})"

    @property
    def exact(self) -> Change:
        """The median as if there were no doubt about it."""
        return Change(self.median, self.median, self.median)

    def is_worse(self, limit: float, *, is_more_better: bool = False) -> bool | None:
        """Return whether it is worse by more than a limit; None: its rounds leave that open.

        Fewer than six rounds can all be worse; that it is not, they do not prove.
        """
        if self.low is None or self.high is None:
            return None
        least, most = (-self.high, -self.low) if is_more_better else (self.low, self.high)
        if least > limit:
            return True
        return None if self.is_range or most > limit else False


def is_out(rows: Sequence[Row], subject: str, baseline: str) -> bool:
    """Return whether a subject of one task failed: a run has no figures, or there is none at all.

    Where the baseline failed first, that there is none says nothing of the subject.
    """
    own, base = ([r for r in rows if r["subject"] == name] for name in (subject, baseline))
    return n_failed(own) > 0 if own else n_failed(base) == 0


def changes_of(
    rows: Sequence[Row], subject: str, baseline: str, names: Iterable[str]
) -> dict[str, Change]:
    """Return what a subject changes, by figure, over the rounds that have it of both.

    Args:
        rows: of one task.
        subject: label.
        baseline: label of what it is compared with.
        names: of figures.

    Returns:
        Nothing where the subject is out.
    """
    found: dict[str, Change] = {}
    if is_out(rows, subject, baseline):
        return found
    for name in names:
        ratio = values_of(rows, name).ratio(rows[0]["task"], subject, baseline)
        if ratio is not None:
            ends = ratio.interval
            low, high = (ends.low - 1.0, ends.high - 1.0) if ends else (None, None)
            found[name] = Change(ratio.median - 1.0, low, high, ratio.is_range)
    return found


def failures(rows: Iterable[Row]) -> list[str]:
    """Return a line for every run without figures."""
    return [
        f"no result: {row['task']}, {row['subject']}: {row['reason']}"
        for row in rows
        if row["status"] != Status.OK.value
    ]


def n_failed(rows: Iterable[Row]) -> int:
    """Return how many runs have no figures."""
    return sum(row["status"] != Status.OK.value for row in rows)


def n_rounds(rows: Iterable[Row]) -> int:
    """Return how many rounds rows are from."""
    return len({row["round"] for row in rows})


# Targets


def judged(
    what: str,
    ratio: Estimate | None,
    limit: float,
    *,
    interval: Interval | None = None,
    at_least: bool = False,
    note: str = "",
) -> Iterator[Target]:
    """Yield the target of a ratio that was measured in rounds; none where there is no ratio.

    Fewer than six rounds decide nothing: an interval of 95 % needs six.  The best of seven peers
    that are all equal is ahead in each of three rounds in three cases of ten, in each of six in
    one of twenty.

    Args:
        what: see `Target`, like the others.
        ratio: median over the rounds.
        limit: of the ratio.
        interval: None: that of `ratio`.
        at_least: the ratio must not be below the limit.
        note: what to know besides.
    """
    if ratio is not None:
        yield Target(what, ratio.median, limit, at_least, note, interval=interval or known(ratio))


def is_any_worse(found: Collection[bool | None]) -> bool | None:
    """Return whether one of several quantities is worse, as `Change.is_worse`; none: in doubt."""
    if True in found:
        return True
    return None if not found or None in found else False


def worse_target(are_worse: Collection[bool | None], note: str) -> Target:
    """Return how many answers are worse beyond doubt, and how many are not: noise hides both."""
    n_worse, n_held, n_open = (sum(one is it for one in are_worse) for it in (True, False, None))
    what = f"answers worse beyond doubt ({n_held} proven no worse, {n_open} in doubt)"
    return Target(what, n_worse, 0, note=note, form=".0f")


def failed_target(n: int, whose: str = "") -> Iterator[Target]:
    """Yield a missed target for runs that failed, if any did: they are in no other figure."""
    if n:
        what = "runs without a result"
        yield Target(f"{whose}: {what}" if whose else what, n, 0, form=".0f")


def share_target(what: str, n: int, n_all: int, limit: float, *, at_least: bool = False) -> Target:
    """Return the target of a share of independent trials, with its exact 95 % interval."""
    from scipy.stats import binomtest  # noqa: PLC0415 - slow to import, rarely needed

    ends = binomtest(n, n_all).proportion_ci()
    interval = Interval(float(ends.low), float(ends.high))
    return Target(what, n / n_all, limit, at_least, f"{n:,} of {n_all:,}", ".1%", interval)


def spread(found: Estimate) -> Interval:
    """Return where a figure lies as far as its rounds say: their range where they are few."""
    return found.interval or Interval(-math.inf, math.inf)


def known(ratio: Estimate | None) -> Interval:
    """Return where a ratio lies with a probability of 95 %."""
    if ratio is None or ratio.interval is None or ratio.is_range:
        return Interval(0.0, math.inf)
    return ratio.interval
