"""`malloc-tuner front`: print the Pareto front of a run, the defaults marked."""

import enum
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from tuner.cli.console import PAGE_WIDTH, folded, page_width, print_or_write
from tuner.cli.epilog import subcommand
from tuner.cli.options import AsJson, MeasuredFolder, OutputFile, chosen_form, given_names
from tuner.errors import MissingToolError, OutputError, SelectionError, SpecError, StoreError


class TableFormat(enum.StrEnum):
    """Forms of the front."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


_BY_ENDING: Final = {".csv": TableFormat.CSV, ".json": TableFormat.JSON}
"""Ending of a file -> its form where none is given."""


@subcommand(
    "Print the Pareto front of a run, and what each point gains.",
    "malloc-tuner front runs/app",
    "malloc-tuner front runs/app --objectives peak_heap,faults",
    "malloc-tuner front runs/app --all -o trials.csv",
    "malloc-tuner front runs/app --measured",
    errors=(SpecError, MissingToolError, StoreError, OutputError, SelectionError),
)
def front(
    run: MeasuredFolder,
    *,
    form: Annotated[
        TableFormat | None,
        typer.Option(
            "--format",
            help="JSON and CSV carry every column, with units. Default: by the file's ending "
            "(.csv, .json), else a table.",
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also show dominated, infeasible and failed trials.")
    ] = False,
    objectives: Annotated[
        str | None, typer.Option(metavar="A,B", help="Front of these metrics, not the campaign's.")
    ] = None,
    relative_to: Annotated[
        str | None,
        typer.Option(
            metavar="ALLOCATOR",
            help="Compare with this allocator's default, or with each one's 'own'.",
        ),
    ] = None,
    measured: Annotated[
        bool,
        typer.Option(
            "--measured",
            help="Show what the program itself measured in `optimize` (default where nothing "
            "was emulated).",
        ),
    ] = False,
    as_json_object: AsJson = False,
    output: OutputFile = None,
) -> None:
    """Print the table, or write it."""
    from tuner import library
    from tuner.runs import REQUEST_FILE
    from tuner.store import store_path

    words = chosen_form(form, _BY_ENDING, output, "table", is_json=as_json_object)
    form = TableFormat(words)
    if measured or (not store_path(run).exists() and (run / REQUEST_FILE).is_file()):
        if objectives is not None or relative_to is not None:
            raise typer.BadParameter(
                "--objectives and --relative-to apply to emulation, not to what ran"
            )
        columns = page_width() if output is None else PAGE_WIDTH
        print_or_write(_measured(run, form, everything=everything, columns=columns), output)
        return
    from tuner.report.table import table_csv, table_json
    from tuner.report.terminal import table_text

    table = library.front(
        library.load(run),
        None if objectives is None else given_names("--objectives", objectives, "cost"),
        relative_to=relative_to,
        everything=everything,
    )
    if form is TableFormat.JSON:
        text = table_json(table)
    elif form is TableFormat.CSV:
        text = table_csv(table)
    else:
        color = output is None and sys.stdout.isatty()
        text = table_text(table, color=color, everything=everything) + _on_the_program(run)
    print_or_write(text, output)


def _on_the_program(run: Path) -> str:
    """Return what runs of the program showed, where `optimize` made them; the table is emulated."""
    from tuner.optimize.answering.recommendation import on_the_program
    from tuner.store import store_path

    line = on_the_program(store_path(run).parent)
    return folded(line, 2) + "\n" if line else ""


def _measured(run: Path, form: TableFormat, *, everything: bool, columns: int) -> str:
    from tuner.optimize.answering.table import TABLE_WIDTH
    from tuner.report.measured import measured_csv, measured_front, measured_json, measured_text

    found = measured_front(run)
    if form is TableFormat.JSON:
        return measured_json(found)
    if form is TableFormat.CSV:
        return measured_csv(found)
    return measured_text(found, everything=everything, columns=min(TABLE_WIDTH, columns))
