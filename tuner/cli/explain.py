"""`malloc-tuner explain`: which settings of a run carry the gain, do nothing, or are dangerous."""

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.bounds import number
from tuner.cli.epilog import subcommand
from tuner.cli.options import AsJson, RunFolder, refuse_options
from tuner.errors import (
    MissingToolError,
    OutputError,
    SelectionError,
    SpecError,
    StoreError,
    TraceError,
)
from tuner.limits import MOST_SEED, MOST_WORKERS


@subcommand(
    "Show which settings of a run matter, and which harm.",
    "malloc-tuner explain runs/app",
    "malloc-tuner explain runs/app --point balanced --measure",
    "malloc-tuner explain runs/app --point 112 --json",
    errors=(SpecError, MissingToolError, TraceError, StoreError, OutputError, SelectionError),
)
def explain(
    run: RunFolder,
    *,
    context: typer.Context,
    point: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|N",
            help="Pick or trial whose settings are put back one at a time "
            "(default: the trial behind what optimize recommends, else the first pick).",
        ),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Emulate those that the campaign did not try.")
    ] = False,
    workers: Annotated[
        int | None, number(1, MOST_WORKERS, "Evaluations at a time; default: one per core.")
    ] = None,
    seed: Annotated[int, number(0, MOST_SEED, "Random seed.")] = 1,
    figures: Annotated[
        bool, typer.Option("--figures/--no-figures", help="Draw figures/importance.png, svg, pdf.")
    ] = True,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Folder of the figures; default: RUN."),
    ] = None,
    as_json_object: AsJson = False,
) -> None:
    """Print what the settings do."""
    from tuner import library
    from tuner.cli.console import folded, print_note
    from tuner.drawing.figure import files_text, save_figure
    from tuner.explain.figure import importance_figure
    from tuner.explain.wording import explanation_json, sentences
    from tuner.front.kept import answered_pick, deployed_subject
    from tuner.optimize.answering.recommendation import on_the_program

    if not measure:
        refuse_options(context, {"--workers"}, "without --measure")
    if not figures:
        refuse_options(context, {"--output"}, "with --no-figures")
    found = library.load(run)
    explanation = library.explain(found, point, measure=measure, workers=workers, seed=seed)
    if as_json_object:
        print(explanation_json(explanation), end="")
    else:
        for line in sentences(explanation):
            print(folded(line, len(line) - len(line.lstrip()) + 4))
        if proven := on_the_program(found.folder):
            is_another = deployed_subject(found) is not None and answered_pick(found) is None
            another = " No trial has these settings, so the point above is another one."
            print(folded(f"{proven}{another if is_another and point is None else ''}", 2))
    if figures:
        folder = (output or found.folder) / "figures"
        figure = importance_figure(explanation)
        save_figure(figure, folder)
        print_note(f"drawn: {files_text(figure, folder)}")
