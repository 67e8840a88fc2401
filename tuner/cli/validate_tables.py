"""A validation as text: one screen with what was decided, and on request every detail."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tuner.cli.console import print_grid, stdout_console
from tuner.metrics import REAL, Metric, find_objective
from tuner.page import wrapped
from tuner.report.beside_answer import BesideAnswer
from tuner.report.columns import MISSING, Scale, scale_for, show_change, show_expected
from tuner.report.grid import Grid, Row, ranking_grid
from tuner.report.terminal import width_for
from tuner.stats import Estimate
from tuner.store.subject import DEFAULT, DOMINATED, FRONT
from tuner.validate.summary import ValidationSummary
from tuner.validate.verdicts import Claim, MetricSummary, SubjectSummary, Verdict

_STYLES = {
    Verdict.CONFIRMED: "green",
    Verdict.EXCEEDED: "green",
    Verdict.BETTER: "green",
    Verdict.WORSE: "red",
    Verdict.REJECTED: "red",
    Verdict.NOT_CONFIRMED: "yellow",
}


_MOST_ROWS = 9
_MOST_NOTES = 6
_VERDICT_WIDTH = 20
_NAME_WIDTH = 24
"""Columns that verdicts and names are folded into on a narrow terminal."""
_SHOWN = ("mean_heap", "peak_heap", "peak_rss", "cpu", "faults")
"""Metrics of the table that fits on a screen: claimed ones, and those of the decision."""


def print_summary(
    summary: ValidationSummary,
    run: Path,
    *,
    has_details: bool = False,
    beside: BesideAnswer | None = None,
) -> None:
    """Print what was decided, the subjects it was decided on, and what to do next.

    Args:
        summary: of a validation.
        run: its run folder, as the user named it.
        has_details: what `print_details` prints follows.
        beside: what it makes of the answer of `optimize`; None where there is none to speak of.
    """
    console = stdout_console()
    console.print(_broken(summary.decision.sentence, console), style="bold")
    if beside is not None:
        console.print(_broken(beside.sentence, console))
    console.print()
    table = _fitting_screen(summary)
    stdout_console(table).print(table)
    hidden = len(summary.subjects) - table.row_count
    if hidden > 0:
        where = "below" if has_details else "--details"
        console.print(f"{hidden} more: {where}", style="dim")
    for found in summary.subjects:
        if found.reason:
            console.print(f"{found.subject.label} is out: {found.reason}")
    for notice in summary.notices[:_MOST_NOTES]:
        console.print(_broken(f"note: {notice}", console))
    console.print()
    commands = _next_commands(summary, run)
    for line in commands[: -1 if has_details else None]:
        console.print(line, soft_wrap=True)


def _broken(text: str, console: Console) -> str:
    return "\n".join(wrapped(text, console.width))


class _Layout(IntEnum):
    """How the table of the screen is drawn; the roomiest first."""

    WIDE = 0
    FOLDED = 1
    """Heads and verdicts are broken at blanks."""
    STACKED = 2
    """Names, too, and a verdict stands below its name."""


def _fitting_screen(summary: ValidationSummary) -> Table:
    """Return the table of the screen in the first layout that fits the terminal, else the last.

    Figures are never broken.
    """
    tables = [_screen(summary, layout) for layout in _Layout]
    return next((one for one in tables if width_for(one) <= width_for()), tables[-1])


def _screen(summary: ValidationSummary, layout: _Layout) -> Table:
    """Return the baseline's medians, and the changes of the others."""
    shown = [name for name in _SHOWN if any(s.metric(name) for s in summary.subjects)]
    scales = {name: _scale(REAL[name], summary.subjects) for name in shown}
    n_rounds = f"{summary.n_rounds} of {summary.record.rounds} rounds"
    title = f"{n_rounds}; changes: medians of the ratios to {summary.baseline.label} in one round"
    heads = [REAL[name].label for name in shown]
    if layout is not _Layout.WIDE:
        heads = [head.replace(" ", "\n") for head in heads]
    if layout is not _Layout.STACKED:
        heads.append("verdict")
    table = _table(title, "", *heads)
    table.pad_edge = False
    for found in (next(s for s in summary.subjects if s.is_baseline), *_first_rows(summary)):
        verdict = found.verdict_words or found.subject.roles[0]
        own = [found.metric(name) for name in shown]
        figures = [_change(one.ratio if one else None) for one in own]
        if found.is_baseline:
            verdict = "baseline"
            figures = [f"{_median(found.metric(n), scales[n])} {scales[n].unit}" for n in shown]
        if layout is _Layout.STACKED:
            table.add_row(_stacked(_names(found), verdict), *figures)
        else:
            width = sys.maxsize if layout is _Layout.WIDE else _VERDICT_WIDTH
            table.add_row(_names(found), *figures, _lines(verdict, width))
    return table


def _lines(text: str, width: int, others: str = "") -> str:
    return "\n".join(
        line for one in text.split("\n") for line in wrapped(one, width, others=others)
    )


def _stacked(names: str, verdict: str) -> str:
    below = _lines(f"  {verdict}", _NAME_WIDTH, others="  ")
    return f"{_lines(names, _NAME_WIDTH, others='  ')}\n{below}"


def _names(found: SubjectSummary) -> str:
    """Return all names under which a subject was chosen, its label first, ``= knee`` below."""
    roles = found.subject.roles
    others = [r for r in roles if r not in {DEFAULT, DOMINATED, FRONT, found.subject.label}]
    return "\n".join([found.subject.label, *(f"= {role}" for role in others)])


def _first_rows(summary: ValidationSummary) -> list[SubjectSummary]:
    """Return those that help to decide: the one to deploy, picks and defaults."""
    others = [s for s in summary.subjects if not s.is_baseline and s.metrics]
    chosen = [s for s in others if s.subject.label == summary.decision.label]
    rest = [s for s in others if s not in chosen and s.subject.claims]
    front = [s for s in rest if s.subject.roles[0] == FRONT]
    return [*chosen, *(s for s in rest if s not in front), *front][: _MOST_ROWS - 1]


def _next_commands(summary: ValidationSummary, run: Path) -> list[str]:
    found = summary.subject(summary.decision.label or "")
    lines = [f"malloc-tuner report {shlex.quote(str(run))}"]
    if found is not None:
        subject = found.subject
        named = next((r for r in subject.roles if r not in (DEFAULT, FRONT)), None)
        what = f"--trial {subject.trial}" if subject.trial is not None else ""
        what = f"--pick {named}" if named and not named.startswith("trial-") else what
        lines.append(f"malloc-tuner export {shlex.quote(str(run))} {what}".rstrip())
    lines.append(f"malloc-tuner validate {shlex.quote(str(run))} --details")
    return lines


def print_details(summary: ValidationSummary) -> None:
    """Print every subject, claim and ranking to standard output."""
    console = stdout_console()
    console.print()
    console.print(_subjects(summary))
    console.print()
    print_grid(_measured(summary))
    if any(found.claims for found in summary.subjects):
        table = _claims(summary)
        console.print(table)
        console.print()
        print_grid(ranking_grid(summary.rankings, "the real program does"))
    for notice in summary.notices[_MOST_NOTES:]:
        console.print(f"note: {notice}")
    console.print(_reading(summary), style="dim")


def _reading(summary: ValidationSummary) -> str:
    claims = "1 claim" if summary.n_claims == 1 else f"{summary.n_claims} claims"
    return (
        "Claimed: in emulation; without a trial, by runs of optimize, and the same is expected. "
        "Expected otherwise: the difference claimed, in bytes or priced in time, on top of the "
        "real baseline. Real: the median of the ratios to the baseline of the same round; "
        "interval: holds that median with 95 % (fewer than six rounds: their range). "
        f"p: of Wilcoxon's signed-rank test, adjusted for {claims} by Holm's rule; a difference "
        "counts at p up to 0.05, so one or more false ones among all are 5 % likely at most. No "
        "difference shown does not mean that there is none. Beside a subject: the weakest "
        "verdict of the gains claimed, or of all if no gain was claimed; anything worse counts."
    )


def _table(title: str, *heads: str) -> Table:
    table = Table(title=title, box=None, header_style="bold", title_justify="left")
    for index, head in enumerate(heads):
        table.add_column(head, justify="left" if index == 0 else "right", no_wrap=index == 0)
    return table


def _subjects(summary: ValidationSummary) -> Table:
    table = Table(title="Subjects", box=None, header_style="bold", title_justify="left")
    table.add_column("subject", no_wrap=True)
    table.add_column("chosen as")
    table.add_column("setting", overflow="fold")
    for found in summary.subjects:
        roles = ", ".join(role for role in found.subject.roles if role != found.subject.label)
        table.add_row(found.subject.label, roles, str(found.subject.configuration))
    return table


def _measured(summary: ValidationSummary) -> Grid:
    """Return the medians, with the change against the baseline below each."""
    shown = [m for m in REAL.values() if any(s.metric(m.name) for s in summary.subjects)]
    scales = {metric.name: _scale(metric, summary.subjects) for metric in shown}
    heads = (f"{m.label} ({scales[m.name].unit})".replace(" ()", "") for m in shown)
    title = "Measured on the real program: medians; below, medians of the ratios in one round"
    rows = []
    for found in summary.subjects:
        own = [found.metric(metric.name) for metric in shown]
        values = (_median(one, scales[m.name]) for one, m in zip(own, shown, strict=True))
        is_compared = not found.is_baseline and found.metrics
        changes = (_change(one.ratio if one else None) for one in own) if is_compared else ()
        rows.append(Row((found.subject.label,), tuple(values), tuple(changes)))
    return Grid(title, ("subject",), tuple(heads), tuple(rows))


def _scale(metric: Metric, subjects: Iterable[SubjectSummary]) -> Scale:
    found = (subject.metric(metric.name) for subject in subjects)
    return scale_for(metric.kind, [item.estimate.median for item in found if item])


def _median(found: MetricSummary | None, scale: Scale) -> str:
    return scale.show(found.estimate.median if found else None)


def _change(ratio: Estimate | None) -> str:
    return show_change(ratio.median if ratio else None)


def _claims(summary: ValidationSummary) -> Table:
    heads = ("claimed", "expected", "real", "interval", "p", "verdict")
    table = _table("Claimed and real", "subject, objectives", *heads)
    for found in summary.subjects:
        if found.claims:
            verdict = _styled(found) if found.verdict else ""
            table.add_row(found.subject.label, *[""] * 5, verdict, style="bold")
        for claim in found.claims:
            table.add_row(*_claim(claim))
    return table


def _claim(claim: Claim) -> tuple[str, ...]:
    name = find_objective(claim.objective).label
    if claim.metric != claim.objective:
        name = f"{name} / {REAL[claim.metric].label}"
    return (
        f"  {name}",
        show_change(claim.claimed_ratio),
        show_expected(claim.expected_ratio),
        _change(claim.real_ratio),
        _interval(claim.real_ratio),
        MISSING if claim.p_value is None else f"{claim.p_value:.3f}",
        claim.verdict,
    )


def _interval(ratio: Estimate | None) -> str:
    if ratio is None or ratio.interval is None:
        return show_change(None)
    low, high = show_change(ratio.interval.low), show_change(ratio.interval.high)
    return f"{'range ' if ratio.is_range else ''}{low} .. {high}"


def _styled(found: SubjectSummary) -> Text:
    style = _STYLES.get(found.verdict) if found.verdict else None
    return Text(found.verdict_words, style or "")
