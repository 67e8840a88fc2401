"""`malloc-tuner export`: write a pick in the form in which programs are deployed."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from tuner.cli.console import print_or_write
from tuner.cli.epilog import epilog
from tuner.cli.options import OutputFile, RunFolder, TrialNumber
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
        run: RunFolder,
        pick: Annotated[
            str | None,
            typer.Option(
                metavar="NAME",
                help="knee (if nothing is named), no-regret, best-METRIC, or a kept pick.",
            ),
        ] = None,
        trial: TrialNumber = None,
        form: Annotated[
            ExportFormat, typer.Option("--format", help="How programs are deployed.")
        ] = ExportFormat.ENV,
        output: OutputFile = None,
    ) -> None:
        from tuner import picks
        from tuner.export.deployment import deployment
        from tuner.export.formats import render
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
        print_or_write(text, output, executable=form is ExportFormat.SH)
