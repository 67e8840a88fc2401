"""The summary of a validation as text: what was measured, claimed against real, ranking."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from tuner.cli.console import stdout_console
from tuner.metrics import REAL, Metric, find_objective
from tuner.report.columns import MISSING, Scale, scale_for, show_change
from tuner.stats import Estimate
from tuner.validate.summary import (
    MetricSummary,
    RankingSummary,
    SubjectSummary,
    ValidationSummary,
)
from tuner.validate.verdicts import Claim, Verdict

_STYLES = {
    Verdict.CONFIRMED: "green",
    Verdict.BETTER: "green",
    Verdict.WORSE: "red",
    Verdict.REJECTED: "red",
    Verdict.NOT_CONFIRMED: "yellow",
}


def print_summary(summary: ValidationSummary) -> None:
    """Print a summary to standard output."""
    console = stdout_console()
    console.print(
        f"{summary.n_rounds} of {summary.record.rounds} rounds, "
        f"{len(summary.subjects)} subjects, baseline {summary.baseline.label}",
        style="bold",
    )
    console.print(_subjects(summary))
    console.print()
    console.print(_measured(summary))
    if any(found.claims for found in summary.subjects):
        console.print()
        console.print(_claims(summary))
        console.print()
        console.print(rankings_table(summary.rankings))
    for found in summary.subjects:
        if found.reason:
            console.print(f"{found.subject.label} is out: {found.reason}", markup=False)
    for notice in summary.notices:
        console.print(f"note: {notice}", markup=False)
    console.print(_reading(summary), style="dim")


def _reading(summary: ValidationSummary) -> str:
    claims = "1 claim" if summary.n_claims == 1 else f"{summary.n_claims} claims"
    return (
        "Claimed: in emulation. Expected: the difference claimed, in bytes or priced in time, on "
        "top of the real baseline. Real: the median of the ratios to the baseline of the same "
        "round; interval: holds that median with 95 % (fewer than six rounds: their range). "
        f"p: of Wilcoxon's signed-rank test, adjusted for {claims} by Holm's rule; a difference "
        "counts at p up to 0.05, so one or more false ones among all are 5 % likely at most. No "
        "difference shown does not mean that there is none. Overall: the weakest verdict of the "
        "gains claimed, or of all if no gain was claimed; anything worse than claimed counts."
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


def _measured(summary: ValidationSummary) -> Table:
    """Return the medians, with the change against the baseline below each."""
    shown = [
        metric
        for metric in REAL.values()
        if any(found.metric(metric.name) for found in summary.subjects)
    ]
    scales = {metric.name: _scale(metric, summary.subjects) for metric in shown}
    heads = [
        f"{m.label}\n({scales[m.name].unit})" if scales[m.name].unit else m.label for m in shown
    ]
    table = _table("Measured on the real program", "subject", *heads)
    for found in summary.subjects:
        values = [_median(found.metric(metric.name), scales[metric.name]) for metric in shown]
        table.add_row(found.subject.label, *values)
        if not found.is_baseline and found.metrics:
            changes = (found.metric(metric.name) for metric in shown)
            table.add_row("", *(_change(c.ratio if c else None) for c in changes), style="cyan")
    return table


def _scale(metric: Metric, subjects: Iterable[SubjectSummary]) -> Scale:
    found = (subject.metric(metric.name) for subject in subjects)
    return scale_for(metric.kind, [item.estimate.median for item in found if item])


def _median(found: MetricSummary | None, scale: Scale) -> str:
    return scale.show(found.estimate.median if found else None)


def _change(ratio: Estimate | None) -> str:
    return show_change(ratio.median if ratio else None)


def _claims(summary: ValidationSummary) -> Table:
    heads = ("objective", "claimed", "expected", "real", "interval", "p", "verdict")
    table = _table("Claimed and real", "subject", *heads)
    for found in summary.subjects:
        for index, claim in enumerate(found.claims):
            label = found.subject.label if index == 0 else ""
            table.add_row(label, *_claim(claim))
        if found.verdict:
            table.add_row("", "", "", "", "", "", "overall", _styled(found.verdict))
    return table


def _claim(claim: Claim) -> tuple[str, ...]:
    name = find_objective(claim.objective).label
    if claim.metric != claim.objective:
        name = f"{name} / {REAL[claim.metric].label}"
    return (
        name,
        show_change(claim.claimed_ratio),
        show_change(claim.expected_ratio),
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


def _styled(verdict: Verdict) -> str:
    style = _STYLES.get(verdict)
    return f"[{style}]{verdict}[/]" if style else str(verdict)


def rankings_table(rankings: Iterable[RankingSummary]) -> Table:
    """Return the rank correlations of a validation as a table."""
    heads = ("objective", "among", "n", "Kendall tau", "pairs ordered alike")
    table = _table("Does the emulator rank as the real program does?", *heads)
    for ranking in rankings:
        share = ranking.concordance
        table.add_row(
            f"{find_objective(ranking.objective).label} / {REAL[ranking.metric].label}",
            ranking.allocator or "all",
            str(ranking.n),
            "all ties" if ranking.tau is None else f"{ranking.tau:.2f}",
            "none differ" if share is None else f"{share.share:.0%} of {share.n_pairs}",
        )
    return table
