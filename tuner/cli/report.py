"""`malloc-tuner report`: write the HTML report of a run, and its figures for papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.epilog import epilog
from tuner.cli.options import RunFolder
from tuner.errors import OutputError, StoreError


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command(
        "report",
        help="Write one HTML report, and figures as PNG, SVG and PDF.",
        epilog=epilog(
            "malloc-tuner report runs/app",
            "malloc-tuner report runs/app -o site --no-figures",
            errors=(StoreError, OutputError),
        ),
    )
    def report(
        run: RunFolder,
        output: Annotated[
            Path | None,
            typer.Option(
                "-o", "--output", metavar="DIR", help="Folder; the run's own if not given."
            ),
        ] = None,
        figures: Annotated[
            bool, typer.Option("--figures/--no-figures", help="Also draw figures/*.png, svg, pdf.")
        ] = True,
    ) -> None:
        from tuner.drawing.figure import save_figure
        from tuner.output import write_text
        from tuner.report.page import compute_report, figures_of, render_page
        from tuner.runs import load_run

        found = load_run(run)
        folder = output or found.folder
        computed = compute_report(found)
        page = folder / "report.html"
        write_text(page, render_page(computed))
        print(page)
        for figure in figures_of(computed) if figures else ():
            for path in save_figure(figure, folder / "figures"):
                print(path)
