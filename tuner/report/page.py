"""The report as one self-contained HTML file: computes everything, then fills the template.

The page needs no network: styles, script, data and Vega are inside, each
once.  The template only places values; every number on the page was computed by
the modules beside this one.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.drawing.figure import Figure, described, embedding_script
from tuner.drawing.style import look
from tuner.front.ablation import Ablation, ablate
from tuner.front.bounds import default_trials
from tuner.front.kept import RECOMMENDED, deployed_pick, picks_of
from tuner.front.picks import Pick
from tuner.metrics import find_metrics
from tuner.optimize.answering.recommendation import recommended
from tuner.report import wording
from tuner.report.beside_answer import beside_answer_in
from tuner.report.claims import claims_context, claims_figures
from tuner.report.columns import ratio, scale_of, show_change, show_expected
from tuner.report.gem5 import (
    INSIDE_NOTE,
    gem5_figure,
    gem5_grid,
    gem5_plot,
    inside_grids,
    out_lines,
)
from tuner.report.heap import HeapPlot, heap_figure, heap_plot
from tuner.report.held_out import held_out_grid
from tuner.report.history import HypervolumeHistory, history_figure, hypervolume_history
from tuner.report.measured import MeasuredFront, cells_of, measured_figure, measured_front
from tuner.report.parallel import ParallelPlot, parallel_figure, parallel_plots, show_value
from tuner.report.pareto import ParetoPlot, pareto_plots
from tuner.report.pareto_figure import pareto_figure
from tuner.report.table import FrontTable, front_table
from tuner.report.terminal import whole_words
from tuner.runs import Run
from tuner.validate.gem5_summary import Gem5Summary, gem5_records, summarize_gem5
from tuner.validate.inside_summary import JOURNAL, summarize_inside
from tuner.validate.summary import ValidationSummary, summarize
from tuner.validate.trust import believed_validation

if TYPE_CHECKING:
    import jinja2

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
    ablations: tuple[Ablation, ...]
    """Of each picked trial of which the trial without one of its settings was measured; what is
    deployed with fewer settings than its trial is shown as the trial with those alone."""
    gem5: tuple[Gem5Summary, ...] = ()
    """The last validation on gem5, per group of simulations; empty when there is none."""
    inside: tuple[Gem5Summary, ...] = ()
    """The last validation inside simulated machines, the last one over all; empty without one."""
    measured: MeasuredFront | None = None
    """What the program itself measured in an optimisation; None when there was none."""


def compute_report(run: Run, validation: int | None = None) -> Report:
    """Compute all parts of a report.

    Args:
        run: the campaign.
        validation: number of the one on a program that is shown; None: the one believed.

    Raises:
        StoreError: a pick file, or the journal of runs inside simulated machines, is damaged,
            or there is no such validation.
    """
    picks = tuple(picks_of(run))
    names = run.campaign.objectives
    has_baseline = run.campaign.baseline in default_trials(run.trials)
    believed = believed_validation(run, validation)
    points = (deployed_pick(run), *(pick for pick in picks if pick.name != RECOMMENDED))
    once = {pick.trial.number: pick for pick in reversed(points) if pick}
    ablations = (ablate(run, pick) for pick in reversed(once.values()))
    return Report(
        run,
        picks,
        tuple(pareto_plots(run, picks)),
        hypervolume_history(run),
        tuple(parallel_plots(run)),
        heap_plot(run, picks),
        front_table(run, names, picks, validation=validation) if has_baseline else None,
        summarize(run, believed) if believed else None,
        tuple(found for found in ablations if any(one.changes for _, _, one in found.settings)),
        tuple(summarize_gem5(run, gem5_records(run))),
        tuple(summarize_inside(run.folder / JOURNAL, run)),
        measured_front(run.folder) if recommended(run.folder) else None,
    )


def _template(name: str) -> jinja2.Template:
    import jinja2  # noqa: PLC0415 - a tenth of a second that other commands need not wait for

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def render_measured(folder: Path, found: MeasuredFront) -> str:
    """Write the page of an optimisation that emulated nothing, as HTML text."""
    figures = {figure.name: figure for figure in measured_figures(found)}
    return _template("measured.html.j2").render(
        name=folder.resolve().name,
        answer=found.answer,
        command=shlex.join(found.answer.command),
        measured=found,
        cells_of=cells_of,
        figures=figures,
        figure_json=_script_json({name: described(f) for name, f in figures.items()}),
        vega_js=embedding_script(),
    )


def measured_figures(found: MeasuredFront) -> Iterator[Figure]:
    """Yield the figure of what the program measured, if there is one."""
    if (figure := measured_figure(found)) is not None:
        yield figure


def render_page(report: Report, *, can_export: bool = True) -> str:
    """Write the page as HTML text; `can_export`: its run is exported without naming a point."""
    figures = {figure.name: figure for figure in figures_of(report)}
    answer = report.measured.answer if report.measured else None
    whole = report.table.whole if report.table else {}
    found = (report.run, report.picks, whole, report.claims)
    return _template("report.html.j2").render(
        report=report,
        run=report.run,
        campaign=report.run.campaign,
        folder=shlex.quote(str(report.run.folder)),
        title=_title(report.run),
        headline=wording.headline(*found),
        validated=wording.validated_sentence(report.run, report.picks, report.claims),
        deploy=None if answer else wording.deploy_sentence(*found),
        answer=answer,
        beside_answer=beside_answer_in(report.run.folder, report.claims) if report.claims else None,
        command=shlex.join(answer.command) if answer else "",
        measured=report.measured,
        cells_of=cells_of,
        cards=wording.pick_cards(*found, answer),
        facts=wording.measured_facts(report.run, is_over=answer is not None),
        reasons=wording.failure_reasons(report.run),
        commands=wording.commands(report.run, is_proven=answer is not None, can_export=can_export),
        table=_table_context(report.table) if report.table else None,
        whole=whole_words(report.table, report.table.whole) if report.table else [],
        figures=figures,
        claims=claims_context(report.claims) if report.claims else None,
        effects=_effects_context(report),
        gem5=[(s, gem5_grid(s), list(out_lines(s))) for s in report.gem5],
        inside=list(inside_grids(report.inside)),
        inside_remarks=[text for s in report.inside[-1:] for text in (*out_lines(s), *s.notices)],
        inside_note=INSIDE_NOTE,
        held_out=held_out_grid(report.run),
        figure_json=_script_json({name: described(f) for name, f in figures.items()}),
        vega_js=embedding_script(),
        look=look,
    )


def _title(run: Run) -> str:
    """Return the name of the campaign, and where it lies if that has another."""
    name, folder = run.campaign.name, run.folder.resolve()
    return name if folder.name == name else f"{name} ({'/'.join(folder.parts[1:][-2:])})"


def _script_json(value: object) -> str:
    """Write JSON that cannot end the script element it stands in."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def figures_of(report: Report) -> Iterator[Figure]:
    """Yield every figure that has something to show, in the order of the page."""
    if report.measured:
        yield from measured_figures(report.measured)
    for plot in report.pareto:
        pair = f"-{plot.x.column.name}-{plot.y.column.name}"
        yield pareto_figure(plot, "front" + (pair if len(report.pareto) > 1 else ""))
    if report.claims:
        yield from claims_figures(report.claims)
    for index, summary in enumerate(report.gem5):
        if gem5 := gem5_plot(summary):
            yield gem5_figure(gem5, f"gem5-{index + 1}")
    if report.heap:
        yield heap_figure(report.heap)
    if report.history:
        yield history_figure(report.history)
    yield from map(parallel_figure, report.parallel)


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
                        "change": show_expected(row.change(column.name)),
                        "direction": wording.direction(row.change(column.name)),
                    }
                    for column, scale in zip(shown, scales, strict=True)
                ],
            }
            for row in table.rows
        ],
    }


def _effects_context(report: Report) -> list[dict[str, Any]]:
    heads = [metric.label for metric in find_metrics(report.run.campaign.objectives)]
    return [
        {
            "pick": found.pick,
            "heads": heads,
            "rows": [
                {
                    "setting": setting,
                    "value": show_value(value),
                    "without": without.trial,
                    "cells": [
                        {"text": show_change(effect), "direction": wording.direction(effect)}
                        for name in report.run.campaign.objectives
                        for effect in [ratio(1.0, without.changes.get(name))]
                    ],
                }
                for setting, value, without in found.settings
                if without.changes
            ],
        }
        for found in report.ablations
    ]
