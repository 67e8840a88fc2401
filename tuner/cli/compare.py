"""`malloc-tuner compare`: several runs on one front."""

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.epilog import subcommand
from tuner.cli.options import AsJson
from tuner.errors import OutputError, SelectionError, StoreError


@subcommand(
    "Put several runs on one front: what each found, and missed.",
    "malloc-tuner compare runs/app runs/app-random",
    "malloc-tuner compare runs/seed-1 runs/seed-2 runs/seed-3 --json",
    errors=(StoreError, OutputError, SelectionError),
)
def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN RUN...", help="Run folders of the same workload."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="DIR", help="Also draw runs.png, svg and pdf there."
        ),
    ] = None,
    as_json_object: AsJson = False,
) -> None:
    """Print the front of all runs."""
    from tuner import library
    from tuner.cli.console import folded, print_note
    from tuner.drawing.figure import files_text, save_figure
    from tuner.report.several_runs import several_figure, several_json, several_text

    if len(runs) == 1:
        raise typer.BadParameter("give two run folders or more")
    found = library.compare_runs([library.load(run) for run in runs])
    if as_json_object:
        print(several_json(found), end="")
    else:
        for line in several_text(found):
            print(folded(line, len(line) - len(line.lstrip()) + 4))
    if output is not None:
        figure = several_figure(found)
        save_figure(figure, output)
        print_note(f"drawn: {files_text(figure, output)}")
