"""The report as one self-contained HTML file: computes everything, then fills the template.

The page needs no network: styles, script, data and plotly.js are inside, each
once.  The template only places values; every number on the page was computed by
the modules beside this one.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner import picks as named_picks
from tuner import selection
from tuner.metrics import REAL, find_metric, find_metrics
from tuner.report import wording
from tuner.report.chart_base import Chart
from tuner.report.chart_pareto import pareto_chart
from tuner.report.charts import (
    claim_title,
    claims_charts,
    heap_chart,
    history_chart,
    parallel_chart,
)
from tuner.report.columns import MISSING, scale_for, scale_of, show_change
from tuner.report.effects import Effect, effects_of
from tuner.report.gem5 import gem5_context
from tuner.report.heap import HeapPlot, heap_plot
from tuner.report.history import HypervolumeHistory, hypervolume_history
from tuner.report.inside import inside_context
from tuner.report.parallel import ParallelPlot, parallel_plots, show_value
from tuner.report.pareto import ParetoPlot, pareto_plots
from tuner.report.style import look
from tuner.report.table import FrontTable, front_table
from tuner.runs import Run
from tuner.selection import Pick
from tuner.stats import Concordance, Estimate
from tuner.validate.gem5_summary import Gem5Summary, gem5_records, simulation_of, summarize_gem5
from tuner.validate.inside_journal import InsideJournal
from tuner.validate.inside_summary import InsideSummary, journal_path, summarize_inside
from tuner.validate.summary import SubjectSummary, ValidationSummary, summarize
from tuner.validate.verdicts import Verdict

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Report:
    """Everything a report shows, as plain values; page and figures draw from it."""

    run: Run
    picks: tuple[Pick, ...]
    pareto: tuple[ParetoPlot, ...]
    history: HypervolumeHistory | None
    parallel: tuple[ParallelPlot, ...]
    heap: HeapPlot | None
    table: FrontTable | None
    """None when the baseline was not measured."""
    claims: ValidationSummary | None
    """The last validation on a program of the user's; None when there is none."""
    effects: tuple[tuple[Pick, tuple[Effect, ...]], ...]
    """For each picked trial the measured effects of its settings, if any."""
    gem5: tuple[Gem5Summary, ...] = ()
    """The last validation on gem5, per group of simulations; empty when there is none."""
    inside: InsideSummary | None = None
    """The last validation inside simulated machines; None when there is none."""


def compute_report(run: Run) -> Report:
    """Compute all parts of a report.

    Raises:
        StoreError: a pick file, or the journal of runs inside simulated machines, is damaged.
    """
    picks = tuple(named_picks.all_picks(run))
    names = run.campaign.objectives
    has_baseline = run.campaign.baseline in selection.default_trials(run.trials)
    programs = [record for record in run.validations if simulation_of(record) is None]
    once = {pick.trial.number: pick for pick in reversed(picks)}
    effects = tuple(
        (pick, tuple(found))
        for pick in reversed(once.values())
        if (found := effects_of(pick.trial, run.trials, names))
    )
    return Report(
        run,
        picks,
        tuple(pareto_plots(run, picks)),
        hypervolume_history(run),
        tuple(parallel_plots(run)),
        heap_plot(run, picks),
        front_table(run, names, picks) if has_baseline else None,
        summarize(run, programs[-1]) if programs else None,
        effects,
        tuple(summarize_gem5(run, gem5_records(run))),
        summarize_inside(InsideJournal(journal_path(run)), run),
    )


def render_page(report: Report) -> str:
    """Write the page as HTML text."""
    import jinja2  # noqa: PLC0415 - a tenth of a second that other commands need not wait for
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - likewise

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    charts = _charts(report)
    return environment.get_template("report.html.j2").render(
        report=report,
        run=report.run,
        campaign=report.run.campaign,
        headline=wording.headline(report.run, report.picks),
        validated=wording.validated_sentence(report.picks, report.claims),
        cards=wording.pick_cards(report.run, report.picks, report.claims),
        facts=wording.measured_facts(report.run),
        reasons=wording.failure_reasons(report.run),
        commands=wording.commands(report.run),
        table=_table_context(report.table) if report.table else None,
        charts=charts,
        claims=_claims_context(report.claims) if report.claims else None,
        effects=_effects_context(report),
        gem5=[gem5_context(summary) for summary in report.gem5],
        inside=inside_context(report.inside) if report.inside else None,
        chart_json=_script_json({name: chart for name, (_, chart) in charts.items()}),
        plotly_js=get_plotlyjs(),
        look=look,
    )


def _script_json(value: object) -> str:
    """Write JSON that cannot end the script element it stands in."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _charts(report: Report) -> dict[str, tuple[str, Chart]]:
    """Return title and chart by the name of their place in the page."""
    charts: dict[str, tuple[str, Chart]] = {}
    for index, plot in enumerate(report.pareto):
        title = f"{plot.x.column.label} and {plot.y.column.label}"
        charts[f"pareto-{index}"] = (title, pareto_chart(plot))
    if report.history:
        charts["history"] = ("Hypervolume", history_chart(report.history))
    if report.heap:
        charts["heap"] = ("Heap over time", heap_chart(report.heap))
    for plot_ in report.parallel:
        charts[f"parallel-{plot_.allocator}"] = (plot_.allocator, parallel_chart(plot_))
    for index, (title, chart) in enumerate(claims_charts(report.claims) if report.claims else ()):
        charts[f"claims-{index}"] = (title, chart)
    return charts


_BESIDE = ("mean_heap", "peak_heap", "cost", "faults", "syscalls")
"""Metrics shown in the table beside the objectives, when they were measured."""


def _table_context(table: FrontTable) -> dict[str, Any]:
    """Return heads and cells of the front's table, as texts with the number they sort by."""
    measurements = [row.trial.measurement for row in table.rows]
    shown = [
        column
        for column in find_metrics(dict.fromkeys((*table.objectives, *_BESIDE)))
        if any(column.value(measurement) is not None for measurement in measurements)
    ]
    scales = [scale_of(column, measurements) for column in shown]
    return {
        "heads": [
            {
                "label": column.label,
                "unit": scale.unit,
                "is_objective": column.name in table.objectives,
            }
            for column, scale in zip(shown, scales, strict=True)
        ],
        "rows": [
            {
                "row": row,
                "settings": [(n, show_value(v)) for n, v in row.trial.configuration.settings],
                "cells": [
                    {
                        "text": scale.show(column.value(row.trial.measurement)),
                        "sort": column.value(row.trial.measurement),
                        "change": show_change(row.ratios[column.name]),
                        "direction": wording.direction(row.ratios[column.name]),
                    }
                    for column, scale in zip(shown, scales, strict=True)
                ],
            }
            for row in table.rows
        ],
    }


_REAL = ("mean_heap", "peak_heap", "peak_rss", "cpu", "instructions", "faults", "wall")
"""Metrics of the real program in the table, in this order."""


def _claims_context(summary: ValidationSummary) -> dict[str, Any]:
    claims = next((s.claims for s in summary.subjects if s.claims), ())
    claimed = [claim.metric for claim in claims]
    measured = [
        name
        for name in _REAL
        if name not in claimed and any(s.metric(name) for s in summary.subjects)
    ]
    return {
        "summary": summary,
        "command": shlex.join(summary.record.command),
        "date": summary.record.created_at[:16].replace("T", " "),
        "claim_heads": [claim_title(claim) for claim in claims],
        "real_heads": [REAL[name].label for name in measured],
        "rows": [
            {
                "subject": subject,
                "verdict": subject.verdict.value if subject.verdict else "",
                "class": _VERDICT_CLASSES.get(subject.verdict, "") if subject.verdict else "",
                "claims": [_claim_cell(subject, claim.metric) for claim in claims],
                "reals": [_real_cell(subject, name) for name in measured],
            }
            for subject in summary.subjects
        ],
        "rankings": [
            {
                "objective": find_metric(ranking.objective).label,
                "metric": REAL[ranking.metric].label,
                "allocator": ranking.allocator or "all allocators",
                "n": ranking.n,
                "tau": MISSING if ranking.tau is None else f"{ranking.tau:.2f}",
                "concordance": _concordance(ranking.concordance),
            }
            for ranking in summary.rankings
        ],
    }


def _claim_cell(subject: SubjectSummary, metric: str) -> dict[str, str]:
    """Show claim, reality and verdict; for the baseline its own value."""
    claim = next((claim for claim in subject.claims if claim.metric == metric), None)
    if claim is None:
        real = _real_cell(subject, metric) if subject.is_baseline else MISSING
        return {"claimed": "", "expected": "", "real": real, "verdict": "", "class": ""}
    return {
        "claimed": show_change(claim.claimed_ratio),
        "expected": show_change(claim.expected_ratio),
        "real": show_estimate(claim.real_ratio),
        "verdict": claim.verdict.value,
        "class": _VERDICT_CLASSES.get(claim.verdict, ""),
    }


_VERDICT_CLASSES = {
    Verdict.CONFIRMED: "better",
    Verdict.BETTER: "better",
    Verdict.WORSE: "worse",
    Verdict.REJECTED: "worse",
}
"""Style of a verdict in the page; the text itself says the same."""


def _concordance(found: Concordance | None) -> str:
    return f"{found.share:.0%} of {found.n_pairs} pairs" if found else MISSING


def _real_cell(subject: SubjectSummary, name: str) -> str:
    """Show the baseline's own value, and the change of all others."""
    found = subject.metric(name)
    if found is None:
        return MISSING
    if not subject.is_baseline:
        return show_change(found.ratio.median if found.ratio else None)
    return scale_for(REAL[name].kind, [found.estimate.median]).show_with_unit(found.estimate.median)


def show_estimate(estimate: Estimate | None) -> str:
    """Write a ratio with its interval as changes."""
    if estimate is None:
        return MISSING
    text = show_change(estimate.median)
    if estimate.interval is None:
        return text
    low, high = show_change(estimate.interval.low), show_change(estimate.interval.high)
    return f"{text} [{low.removesuffix(' %')}, {high.removesuffix(' %')}]"


def _effects_context(report: Report) -> list[dict[str, Any]]:
    heads = [metric.label for metric in find_metrics(report.run.campaign.objectives)]
    return [
        {
            "pick": pick,
            "heads": heads,
            "rows": [
                {
                    "setting": effect.setting,
                    "value": show_value(effect.value),
                    "without": effect.without.number,
                    "cells": [
                        {"text": show_change(found), "direction": wording.direction(found)}
                        for found in effect.ratios
                    ],
                }
                for effect in effects
            ],
        }
        for pick, effects in report.effects
    ]
