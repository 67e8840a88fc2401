"""`malloc-tuner pick`: choose one point of a run by a rule, and keep it under a name."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.epilog import subcommand
from tuner.cli.options import AsJson, RunFolder, TrialNumber, allocator_names
from tuner.errors import MissingToolError, OutputError, SelectionError, SpecError, StoreError

if TYPE_CHECKING:  # reading them imports what does the work; --help must not
    from tuner.front.picks import Pick
    from tuner.records import Trial
    from tuner.runs import Run

SCHEMA = "malloc-tuner.picked"
VERSION = 1
"""Schema and version of the JSON output."""


@subcommand(
    "Choose one point of a run, and keep it under a name.",
    "malloc-tuner pick runs/app --balanced",
    "malloc-tuner pick runs/app --best mean_heap --max cost=+1%",
    "malloc-tuner pick runs/app --best cost --max peak_heap=2GiB --name service",
    errors=(SpecError, MissingToolError, StoreError, OutputError, SelectionError),
)
def pick(
    run: RunFolder,
    *,
    balanced: Annotated[
        bool,
        typer.Option(
            "--balanced",
            help="Least sum of the objectives' changes against the baseline: -8% and +2% are -6%.",
        ),
    ] = False,
    knee: Annotated[
        bool,
        typer.Option(
            "--knee",
            help="The balanced point, if its sum is over 0.5% below those of the front's ends.",
        ),
    ] = False,
    best: Annotated[
        str | None,
        typer.Option(
            metavar="METRIC",
            help="Within 0.5% of this metric's least value, the least of the other objectives.",
        ),
    ] = None,
    trial: TrialNumber = None,
    maximum: Annotated[
        list[str] | None,
        typer.Option(
            "--max",
            metavar="METRIC=LIMIT",
            help="Upper bound: 2GiB, 5ms, 100000, or +1% against the baseline, of the whole "
            "program where that is known, as `front` shows it; repeatable.",
        ),
    ] = None,
    allocators: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Only trials of these allocators.")
    ] = None,
    relative_to: Annotated[
        str | None,
        typer.Option(
            metavar="ALLOCATOR",
            help="Baseline of relative bounds: this allocator's default, or each one's 'own'.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the pick (default: from the rule).")
    ] = None,
    as_json_object: AsJson = False,
) -> None:
    """Print the point that a rule chooses, and keep it."""
    from dataclasses import replace

    from tuner.front.kept import check_new_name, pick_of_trial, save_pick
    from tuner.front.picks import BALANCED, KNEE
    from tuner.runs import load_run

    if sum((balanced, knee, best is not None, trial is not None)) != 1:
        raise typer.BadParameter("give one of --balanced, --knee, --best METRIC and --trial N")
    if trial is not None and (maximum or allocators):
        raise typer.BadParameter(
            "--trial names the point itself; --max and --allocators only narrow a choice"
        )
    found = load_run(run)
    relative_to = relative_to or found.campaign.baseline
    if trial is not None:
        chosen = pick_of_trial(found, trial)
    else:
        wanted = best or (KNEE if knee else BALANCED)
        names = () if allocators is None else allocator_names(allocators)
        chosen = _choose(found, wanted, maximum or [], names, relative_to)
    if name is not None:
        chosen = replace(chosen, name=check_new_name(name, chosen.trial.number))
    else:
        _check_made_name(chosen)
    print(
        _as_json(found, chosen, relative_to)
        if as_json_object
        else _as_text(found, chosen, relative_to)
    )
    path = save_pick(found, chosen)
    if not as_json_object:
        print(f"kept as {chosen.name!r} in {path}")
        words = f"{shlex.quote(str(run))} --points {chosen.name}"
        print(f"next: malloc-tuner validate {words} -- PROGRAM ARGUMENTS")


def _check_made_name(chosen: Pick) -> None:
    """Refuse a name made of so many bounds and allocators that it cannot be one.

    Raises:
        SpecError: says that the user can give one.
    """
    from tuner.front.kept import check_new_name

    try:
        check_new_name(chosen.name, chosen.trial.number)
    except SpecError as error:
        raise SpecError(f"{error}; give it another with --name") from error


def _choose(
    run: Run, wanted: str, bounds: list[str], only: tuple[str, ...], relative_to: str
) -> Pick:
    """Apply a rule (balanced, knee, or a metric) to the trials that hold the bounds."""
    from tuner.front.bounds import baselines, bound_words, default_trials, parse_bound, within
    from tuner.front.picks import Pick
    from tuner.validate.trust import shown_whole

    limits = [parse_bound(text) for text in bounds]
    for allocator in only:
        if allocator not in run.campaign.allocators:
            known = ", ".join(run.campaign.allocators)
            raise SelectionError(f"{allocator} is not in this campaign; its allocators: {known}")
    candidates = [t for t in run.trials if not only or t.configuration.allocator in only]
    if only and not any(t.is_feasible for t in candidates):
        raise SelectionError(
            f"no trial of {' or '.join(only)} succeeded and holds every constraint of the campaign"
        )
    defaults = default_trials(run.trials)
    wholes = {name: shown_whole(run, one) for name, one in defaults.items()}
    compared = baselines(run.trials, relative_to, wholes)
    fitting = within(candidates, limits, compared)
    chosen = _by_rule(run, fitting, wanted)
    rule, name = chosen.rule, chosen.name
    if limits:
        rule += f"; with {' and '.join(bound_words(limit, relative_to) for limit in limits)}"
    for limit in limits:
        name = f"{name}-max-{limit.objective}"
    if only:
        rule, name = f"{rule}; only of {' and '.join(only)}", "-".join([name, *only])
    return Pick(name, chosen.trial, rule)


def _by_rule(run: Run, fitting: list[Trial], wanted: str) -> Pick:
    from dataclasses import replace

    from tuner.front.bounds import baseline_trial
    from tuner.front.picks import (
        BALANCED,
        KNEE,
        KNEE_RULE,
        NO_KNEE,
        Pick,
        balanced_rule,
        best_pick,
        find_knee,
        select_balanced,
    )
    from tuner.front.whole import campaign_whole
    from tuner.metrics import find_objective
    from tuner.records import Status

    names, baseline = run.campaign.objectives, run.campaign.baseline
    default = baseline_trial(run.trials, baseline)
    whole = campaign_whole(run.campaign, run.trials)
    if wanted == BALANCED:
        chosen = select_balanced(fitting, names, default, whole)
        return Pick(wanted, chosen, balanced_rule(names, baseline))
    if wanted == KNEE:
        knee = find_knee(fitting, names, default, whole)
        if knee is None:
            raise SelectionError(f"{NO_KNEE}; use --balanced or --best METRIC")
        return Pick(wanted, knee, KNEE_RULE)
    best = best_pick(fitting, find_objective(wanted).name, names, default, whole)
    is_partial = any(trial.status is Status.UNCOUNTED for trial in run.trials)
    rule = f"{best.rule}, of the trials whose instructions were counted"
    return replace(best, rule=rule) if is_partial and wanted not in names else best


def _as_text(run: Run, chosen: Pick, relative_to: str) -> str:
    from tuner.metrics import find_metrics
    from tuner.report.table import row_of
    from tuner.report.terminal import row_text

    row = row_of(run, chosen, relative_to)
    names = dict.fromkeys((*run.campaign.objectives, "mean_heap", "peak_heap", "cost", "faults"))
    text = row_text(row, find_metrics(names), relative_to)
    return "\n".join([f"{chosen.name}: {chosen.rule}", text, *run.campaign.workload.notes])


def _as_json(run: Run, chosen: Pick, relative_to: str) -> str:
    from tuner.report.table import row_document, row_of

    row = row_document(row_of(run, chosen, relative_to))
    notes = list(run.campaign.workload.notes)
    head = {"schema": SCHEMA, "version": VERSION, "name": chosen.name, "rule": chosen.rule}
    return json.dumps({**head, "workload_notes": notes, **row}, indent=2)
