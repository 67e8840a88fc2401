"""`malloc-tuner export`: write a pick in the form in which programs are deployed."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.epilog import epilog
from tuner.errors import OutputError, SelectionError, SpecError, StoreError


class ExportFormat(enum.StrEnum):
    """Names of the formats; tests compare them with those of `tuner.export`."""

    ENV = "env"
    SH = "sh"
    SYSTEMD = "systemd"
    DOCKER = "docker"
    KUBERNETES = "kubernetes"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command(
        "export",
        help="Write a pick for a shell, systemd, Docker or Kubernetes.",
        epilog=epilog(
            "malloc-tuner export runs/app --format env -o malloc.env",
            "malloc-tuner export runs/app --pick no-regret --format sh -o malloc.sh",
            "malloc-tuner export runs/app --trial 17 --format systemd",
            errors=(SpecError, StoreError, OutputError, SelectionError),
        ),
    )
    def export(
        run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder of a campaign.")],
        pick: Annotated[
            str | None,
            typer.Option(
                metavar="NAME",
                help="knee (if nothing is named), no-regret, best-METRIC, or a kept pick.",
            ),
        ] = None,
        trial: Annotated[int | None, typer.Option(min=0, help="The trial of this number.")] = None,
        form: Annotated[
            ExportFormat, typer.Option("--format", help="How programs are deployed.")
        ] = ExportFormat.ENV,
        output: Annotated[
            Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write to a file.")
        ] = None,
    ) -> None:
        from tuner import picks
        from tuner.export.deployment import deployment
        from tuner.export.formats import render
        from tuner.output import write_text
        from tuner.runs import load_run

        if pick is not None and trial is not None:
            message = "give either --pick or --trial"
            raise typer.BadParameter(message)
        found = load_run(run)
        if trial is not None:
            chosen = picks.pick_of_trial(found, trial)
        else:
            chosen = picks.find_pick(found, pick or picks.first_name(found))
        text = render(deployment(found, chosen), form.value)
        if output is None:
            sys.stdout.write(text)
        else:
            write_text(output, text, executable=form is ExportFormat.SH)
