"""`malloc-tuner export`: write a pick or a setting in the form in which programs are deployed."""

from pathlib import Path
from typing import Annotated, Final

import typer

from tuner.cli.console import print_note, print_or_write
from tuner.cli.epilog import subcommand
from tuner.cli.options import (
    MEASURED,
    SETTING,
    AsJson,
    OutputFile,
    TrialNumber,
    ValidationNumber,
    chosen_form,
)
from tuner.errors import (
    MissingToolError,
    OutputError,
    SelectionError,
    SettingError,
    SpecError,
    StoreError,
)
from tuner.registry import EXPORTERS

_BY_ENDING: Final = {
    ".sh": "sh",
    ".service": "systemd",
    ".conf": "systemd",
    ".dockerfile": "docker",
    ".yaml": "kubernetes",
    ".yml": "kubernetes",
    ".json": "json",
}
"""Ending of a file -> its format where none is given; any other is an env file."""


def _known(form: str | None) -> str | None:
    """Return the name of a format.

    Raises:
        BadParameter: there is none of that name.
    """
    if form is not None and form not in EXPORTERS:
        raise typer.BadParameter(f"{form!r} is none of {', '.join(EXPORTERS)}")
    return form


@subcommand(
    "Write a pick for a shell, systemd, Docker or Kubernetes.",
    "malloc-tuner export runs/app -o malloc.env",
    "malloc-tuner export runs/app --pick no-regret -o malloc.sh",
    "malloc-tuner export runs/app --trial 17 --format systemd",
    "malloc-tuner export --setting 'jemalloc narenas=2' -o malloc.env",
    errors=(SpecError, MissingToolError, SettingError, StoreError, OutputError, SelectionError),
)
def export(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help=MEASURED)] = None,
    *,
    pick: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Default: what optimize recommends, else validate, else no-regret, else "
            "balanced (with one objective, its best). knee, best-METRIC, or a kept pick.",
        ),
    ] = None,
    trial: TrialNumber = None,
    setting: Annotated[
        str | None, typer.Option(metavar=SETTING, help="One of yours, instead of a run's.")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar=f"<{'|'.join(EXPORTERS)}>",
            callback=_known,
            help="Default: by the file's ending (.sh, .conf, .yaml, .json), else env.",
        ),
    ] = None,
    library: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Path of the allocator where it is deployed."),
    ] = None,
    validation: ValidationNumber = None,
    as_json_object: AsJson = False,
    output: OutputFile = None,
) -> None:
    """Print the text, or write it."""
    from tuner import library as api

    form = chosen_form(form, _BY_ENDING, output, "env", is_json=as_json_object)
    if sum(option is not None for option in (pick, trial, setting)) > 1:
        raise typer.BadParameter("give one of --pick, --trial and --setting")
    if (run is None) is (setting is None):
        raise typer.BadParameter("give either a run folder or --setting")
    if setting is not None and validation is not None:
        raise typer.BadParameter("--validation applies to a run folder, not to --setting")
    text = api.export(
        api.settings_of([setting])[0][0] if setting is not None else run or Path(),
        pick if trial is None else trial,
        form,
        library=library,
        file_name=output.name if output else None,
        validation=validation,
        on_note=print_note,
    )
    print_or_write(text, output, executable=form == "sh")
