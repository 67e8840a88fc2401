"""`malloc-tuner pick`: choose one point of a run by a rule, and keep it under a name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.epilog import epilog
from tuner.cli.options import RunFolder, TrialNumber
from tuner.errors import MissingToolError, OutputError, SelectionError, SpecError, StoreError

if TYPE_CHECKING:  # reading them imports what does the work; --help must not
    from tuner.runs import Run
    from tuner.selection import Pick


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command(
        "pick",
        help="Choose one point of a run, and keep it under a name.",
        epilog=epilog(
            "malloc-tuner pick runs/app --knee",
            "malloc-tuner pick runs/app --best mean_heap --max cost=+1%",
            "malloc-tuner pick runs/app --best cost --max peak_heap=2GiB --name service",
            errors=(SpecError, MissingToolError, StoreError, OutputError, SelectionError),
        ),
    )
    def pick(
        run: RunFolder,
        *,
        knee: Annotated[
            bool, typer.Option("--knee", help="The point that balances the objectives.")
        ] = False,
        best: Annotated[
            str | None, typer.Option(metavar="METRIC", help="The least value of this metric.")
        ] = None,
        trial: TrialNumber = None,
        maximum: Annotated[
            list[str] | None,
            typer.Option(
                "--max",
                metavar="METRIC=LIMIT",
                help="Upper bound: 2GiB, 5ms, 100000, or +1% against the baseline; repeatable.",
            ),
        ] = None,
        allocator: Annotated[
            str | None, typer.Option(metavar="NAME", help="Only among this allocator's trials.")
        ] = None,
        relative_to: Annotated[
            str | None,
            typer.Option(
                metavar="ALLOCATOR",
                help="Baseline of relative bounds: this allocator's default, or each one's 'own'.",
            ),
        ] = None,
        name: Annotated[
            str | None, typer.Option(metavar="NAME", help="Name of the pick; told by the rule.")
        ] = None,
        as_json_object: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    ) -> None:
        from dataclasses import replace

        from tuner import picks
        from tuner.runs import load_run

        if sum((knee, best is not None, trial is not None)) != 1:
            message = "give one of --knee, --best METRIC and --trial N"
            raise typer.BadParameter(message)
        if trial is not None and (maximum or allocator):
            message = "--trial names the point itself; --max and --allocator only narrow a choice"
            raise typer.BadParameter(message)
        found = load_run(run)
        relative_to = relative_to or found.campaign.baseline
        if trial is not None:
            chosen = picks.pick_of_trial(found, trial)
        else:
            chosen = _choose(found, best, maximum or [], allocator, relative_to)
        if name is not None:
            chosen = replace(chosen, name=picks.check_pick_name(name))
        print(
            _as_json(found, chosen, relative_to)
            if as_json_object
            else _as_text(found, chosen, relative_to)
        )
        path = picks.save_pick(found, chosen)
        if not as_json_object:
            print(f"kept as {chosen.name!r} in {path}")


def _choose(
    run: Run, best: str | None, bounds: list[str], allocator: str | None, relative_to: str
) -> Pick:
    """Apply the rule to the trials that hold the bounds."""
    from tuner import selection
    from tuner.objectives import find_objective

    names = run.campaign.objectives
    limits = [selection.parse_bound(text) for text in bounds]
    candidates = [t for t in run.trials if allocator in (None, t.configuration.allocator)]
    if allocator is not None and allocator not in run.campaign.allocators:
        known = ", ".join(run.campaign.allocators)
        message = f"{allocator} is not in this campaign; its allocators: {known}"
        raise SelectionError(message)
    compared = selection.baselines(run.trials, relative_to)
    fitting = selection.within(candidates, limits, compared)
    if best is None:
        rule, name = f"knee of {' and '.join(names)}", selection.KNEE
        chosen = selection.select_knee(fitting, names)
    else:
        rule, name = f"least {find_objective(best).name}", selection.best_name(best)
        chosen = selection.select_best(fitting, best, names)
    for limit in limits:
        rule, name = f"{rule}, {limit.text}", f"{name}-max-{limit.objective}"
    if limits:
        rule += f" relative to {relative_to}"
    if allocator is not None:
        rule, name = f"{rule}, {allocator} only", f"{name}-{allocator}"
    return selection.Pick(name, chosen, rule)


def _as_text(run: Run, chosen: Pick, relative_to: str) -> str:
    from tuner.report.columns import columns
    from tuner.report.table import row_of
    from tuner.report.terminal import row_text

    row = row_of(run, chosen, relative_to)
    names = dict.fromkeys((*run.campaign.objectives, "mean_heap", "peak_heap", "cost", "faults"))
    text = row_text(row, columns(names), relative_to)
    return "\n".join([f"{chosen.name}: {chosen.rule}", text, *run.campaign.workload_notes])


def _as_json(run: Run, chosen: Pick, relative_to: str) -> str:
    from tuner.report.table import row_document, row_of

    row = row_document(row_of(run, chosen, relative_to))
    notes = list(run.campaign.workload_notes)
    head = {"name": chosen.name, "rule": chosen.rule, "workload_notes": notes}
    return json.dumps({**head, **row}, indent=2)
