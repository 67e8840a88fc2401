"""A validation on gem5 as text: default against tuned per allocator, ranking, simulations."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from tuner.cli.console import stdout_console
from tuner.cli.validate_tables import rankings_table
from tuner.metrics import REAL
from tuner.report.columns import Scale, scale_for, show_estimate
from tuner.report.gem5 import by_allocator
from tuner.runs import Run
from tuner.validate.gem5_summary import METRIC_NAMES, Gem5Subject, Gem5Summary


def print_gem5(run: Run, summaries: Sequence[Gem5Summary]) -> None:
    """Print the summaries of a validation on gem5 to standard output."""
    console = stdout_console()
    for summary in summaries:
        console.print(_subjects(summary))
        console.print()
        if summary.rankings:
            console.print(rankings_table(summary.rankings))
            console.print()
    console.print(_simulations(summaries))
    for summary in summaries:
        for simulation in summary.simulations:
            if simulation.reason is not None:
                text = f"{simulation.name} is out: {simulation.reason}"
                console.print(text, markup=False)
        for row in summary.subjects:
            for name, reason in row.failures:
                text = f"{row.subject.label} is out of {name}: {reason}"
                console.print(text, markup=False)
    for notice in dict.fromkeys(text for summary in summaries for text in summary.notices):
        console.print(f"note: {notice}", markup=False)
    console.print(
        "Heap: resident anonymous memory of gem5 without simulated memory and without the data "
        "of its binary. Changes: geometric means over the simulations of the ratios to "
        f"{run.campaign.baseline}'s default in the same round, their median over the rounds; in "
        "brackets the 95 % interval over simulations like these, which are resampled for it (of "
        f"fewer than six, their range). {_over_rounds(summaries)}All simulated statistics were "
        "equal to the baseline's.",
        style="dim",
    )


def _over_rounds(summaries: Sequence[Gem5Summary]) -> str:
    """Say how much less the rounds differ than the simulations."""
    widths = [
        change.ratio.interval.high - change.ratio.interval.low
        for summary in summaries
        for subject in summary.subjects
        for change in subject.changes
        if change.ratio and change.ratio.interval
    ]
    return f"Over the rounds alone they are at most {max(widths):.1%} wide. " if widths else ""


def _subjects(summary: Gem5Summary) -> Table:
    shown = [REAL[name] for name in METRIC_NAMES if any(s.change(name) for s in summary.subjects)]
    scales = {
        m.name: scale_for(m.kind, [c.value for s in summary.subjects if (c := s.change(m.name))])
        for m in shown
    }
    n_good = sum(simulation.reason is None for simulation in summary.simulations)
    table = Table(
        title=f"gem5, {summary.title}: {n_good}; rounds: {summary.n_rounds}",
        box=None,
        header_style="bold",
        title_justify="left",
    )
    table.add_column("allocator", no_wrap=True)
    table.add_column("setting")
    for metric in shown:
        unit = scales[metric.name].unit
        table.add_column(f"{metric.label}\n({unit})" if unit else metric.label, justify="right")
    for row in by_allocator(summary):
        allocator = row.subject.configuration.allocator
        setting = "default" if row.is_default else row.subject.label
        if row.failures:
            table.add_row(allocator, setting, "out", style="red")
            continue
        table.add_row(allocator, setting, *(_value(row, m.name, scales[m.name]) for m in shown))
        if not row.is_baseline:
            table.add_row("", "", *(_ratio(row, m.name) for m in shown), style="cyan")
    return table


def _value(row: Gem5Subject, name: str, scale: Scale) -> str:
    found = row.change(name)
    return scale.show(found.value if found else None)


def _ratio(row: Gem5Subject, name: str) -> str:
    found = row.change(name)
    return show_estimate(found.shown if found else None).replace(" [", "\n[")


def _simulations(summaries: Sequence[Gem5Summary]) -> Table:
    table = Table(title="Simulations", box=None, header_style="bold", title_justify="left")
    table.add_column("simulation", no_wrap=True)
    table.add_column("role")
    table.add_column("runs", justify="right")
    table.add_column("failed", justify="right")
    for summary in summaries:
        for simulation in summary.simulations:
            samples = simulation.record.samples
            n_failed = sum(sample.reason is not None for sample in samples)
            table.add_row(simulation.name, simulation.role.value, str(len(samples)), str(n_failed))
    return table
