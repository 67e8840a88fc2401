"""`malloc-tuner export`: write a pick or a preset in the form in which programs are deployed."""

from __future__ import annotations

import enum
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.console import print_or_write
from tuner.cli.epilog import epilog
from tuner.cli.options import OutputFile, TrialNumber
from tuner.errors import (
    MissingToolError,
    OutputError,
    SelectionError,
    SettingError,
    SpecError,
    StoreError,
)

if TYPE_CHECKING:  # reading them imports what does the work; --help must not
    from tuner.runs import Run
    from tuner.selection import Pick


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
            "malloc-tuner export --preset mine.toml -o malloc.env",
            errors=(
                SpecError,
                MissingToolError,
                SettingError,
                StoreError,
                OutputError,
                SelectionError,
            ),
        ),
    )
    def export(
        run: Annotated[
            Path | None, typer.Argument(metavar="RUN", help="Run folder of a campaign.")
        ] = None,
        *,
        pick: Annotated[
            str | None,
            typer.Option(
                metavar="NAME",
                help="balanced (default), knee, no-regret, best-METRIC, or a kept pick.",
            ),
        ] = None,
        trial: TrialNumber = None,
        preset: Annotated[
            Path | None,
            typer.Option(metavar="FILE.toml", help="Settings for any program, instead of a run's."),
        ] = None,
        form: Annotated[
            ExportFormat, typer.Option("--format", help="How programs are deployed.")
        ] = ExportFormat.ENV,
        library: Annotated[
            Path | None,
            typer.Option(metavar="PATH", help="Where the allocator lies on the other machine."),
        ] = None,
        output: OutputFile = None,
    ) -> None:
        from tuner.config.preset import load_preset
        from tuner.export.deployment import deployment, preset_deployment
        from tuner.export.formats import render
        from tuner.runs import load_run

        if sum(option is not None for option in (pick, trial, preset)) > 1:
            message = "give one of --pick, --trial and --preset"
            raise typer.BadParameter(message)
        if run is not None and preset is not None:
            message = "give either a run folder or --preset FILE.toml"
            raise typer.BadParameter(message)
        if preset is not None:
            found = preset_deployment(load_preset(preset), library)
        elif run is not None:
            opened = load_run(run)
            found = deployment(opened, _pick(opened, pick, trial), library)
        else:
            message = "give a run folder, or --preset FILE.toml"
            raise typer.BadParameter(message)
        found = replace(found, file_name=output.name if output else None)
        print_or_write(render(found, form.value), output, executable=form is ExportFormat.SH)


def _pick(run: Run, name: str | None, trial: int | None) -> Pick:
    from tuner import picks

    if trial is not None:
        return picks.pick_of_trial(run, trial)
    return picks.find_pick(run, name or picks.first_name(run))
