"""`malloc-tuner report`: write the HTML report of a run, and its figures for papers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.console import print_note
from tuner.cli.epilog import subcommand
from tuner.cli.options import MeasuredFolder, ValidationNumber
from tuner.errors import OutputError, SelectionError, StoreError
from tuner.page import series

if TYPE_CHECKING:
    from tuner.runs import Run
    from tuner.validate.summary import ValidationSummary


def note_validation(run: Run, shown: ValidationSummary | None) -> None:
    """Print which validation is shown where a run has several."""
    from tuner.validate.session import simulation_of

    numbers = [v.identifier for v in run.validations if simulation_of(v) is None]
    if shown is not None and len(numbers) > 1:
        others = [n for n in numbers if n != shown.record.identifier]
        which = "the other" if len(others) == 1 else "another"
        options = series((f"--validation {n}" for n in others), "or")
        print_note(f"shows validation {shown.record.identifier}; for {which}: {options}")


@subcommand(
    "Write one HTML report, and figures as PNG, SVG and PDF.",
    "malloc-tuner report runs/app",
    "malloc-tuner report runs/app -o site --no-figures",
    errors=(StoreError, OutputError, SelectionError),
)
def report(
    run: MeasuredFolder,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Folder (default: the run's own)."),
    ] = None,
    figures: Annotated[
        bool, typer.Option("--figures/--no-figures", help="Also draw figures/*.png, svg, pdf.")
    ] = True,
    validation: ValidationNumber = None,
) -> None:
    """Write the page and its figures."""
    from tuner.drawing.figure import files_text, save_figure
    from tuner.export.sources import can_export
    from tuner.output import write_text
    from tuner.report.measured import measured_front
    from tuner.report.page import (
        compute_report,
        figures_of,
        measured_figures,
        render_measured,
        render_page,
    )
    from tuner.runs import REQUEST_FILE, load_run
    from tuner.store import store_path

    if not store_path(run).exists() and (run / REQUEST_FILE).is_file():
        if validation is not None:
            raise typer.BadParameter("--validation applies to emulation, and there is none here")
        folder = output or run
        ran = measured_front(run)
        text, drawn = render_measured(run, ran), measured_figures(ran)
    else:
        found = load_run(run)
        folder = output or found.folder
        computed = compute_report(found, validation)
        note_validation(found, computed.claims)
        text = render_page(computed, can_export=can_export(found))
        drawn = figures_of(computed)
    page = folder / "report.html"
    write_text(page, text)
    print(page)
    for figure in drawn if figures else ():
        save_figure(figure, folder / "figures")
        print(files_text(figure, folder / "figures"))
