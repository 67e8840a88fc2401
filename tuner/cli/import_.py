"""`malloc-tuner import`: make a trace or profile of what another tool recorded."""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.bounds import duration, number
from tuner.cli.console import print_note
from tuner.cli.epilog import subcommand
from tuner.cli.options import AsJson
from tuner.errors import MissingToolError, OutputError, SpecError, TraceError
from tuner.limits import EVENT_STEP
from tuner.output import file_to_write

if TYPE_CHECKING:  # reading the class imports numpy; --help must not
    from tuner.importers import Imported

SCHEMA = "malloc-tuner.import"
VERSION = 1
"""Schema and version of the JSON output."""


def as_json(imported: Imported) -> str:
    """Write what was made as one JSON object."""
    value = {
        "schema": SCHEMA,
        "version": VERSION,
        "trace": str(imported.path),
        "format": imported.format,
        "totals": dataclasses.asdict(imported.totals),
        "file_bytes": imported.path.stat().st_size,
        "lost": imported.lost,
        "level": imported.level,
        "low_fidelity": imported.caveat is not None,
        "assumed": imported.assumed,
        "figures": imported.figures,
    }
    return json.dumps(value, indent=2)


def _report(imported: Imported) -> None:
    from tuner.units import show_size

    totals = imported.totals
    print(
        f"{imported.path}: {totals.n_events:,} events, {totals.n_threads} "
        f"thread{'s'[: totals.n_threads > 1]}, peak live {show_size(totals.peak_live_bytes)}, "
        f"from {imported.format}",
        file=sys.stderr,
    )
    for what in imported.lost:
        print(f"  lost: {what}", file=sys.stderr)
    for name, figure in imported.figures.items():
        print(f"  {name}: {figure}", file=sys.stderr)
    for what in imported.assumed:
        print(f"  assumed: {what}", file=sys.stderr)
    if imported.caveat:
        print_note(f"{imported.path}: {imported.caveat}")
    print(f"next: malloc-tuner tune {shlex.quote(str(imported.path))}", file=sys.stderr)


def _known(name: str | None) -> str | None:
    """Return the name of a format.

    Raises:
        BadParameter: there is none of that name.
    """
    if name is None:
        return None
    from tuner.importers import FORMATS

    if name not in FORMATS:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(FORMATS)}")
    return name


@subcommand(
    "Make a trace, or a profile, of what another tool recorded.",
    "malloc-tuner import heaptrack.app.123.zst -o app.trace",
    "malloc-tuner import dhat.out.123 -o app.profile.json",
    "malloc-tuner import --format classic dhat.out.123 -o app.trace",
    "malloc-tuner import --format valgrind log.txt -o app.trace",
    errors=(SpecError, MissingToolError, TraceError, OutputError),
)
def import_(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File of the other tool.")],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            parser=file_to_write,
            help="The trace, or profile, to write.",
        ),
    ],
    format_name: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            callback=_known,
            help=(
                "valgrind, mtrace, glibc-trace, glibc-workload, malloc-lab, heaptrack, "
                "bytehound, classic; of heap profiles dhat, jemalloc-heap, gperftools-heap; "
                "recognised if not given."
            ),
        ),
    ] = None,
    step: Annotated[
        str | None,
        duration(EVENT_STEP, "Time between events where the file has none (default: 1 us)."),
    ] = None,
    seed: Annotated[int | None, number(0, 2**31 - 1, "Random seed of classic records.")] = None,
    as_json_object: AsJson = False,
) -> None:
    """Write what another tool recorded as a trace."""
    from tuner.importers import import_file
    from tuner.units import parse_duration

    step_ns = parse_duration(step) if step is not None else None
    imported = import_file(file, output, format_name, step_ns, seed)
    if as_json_object:
        print(as_json(imported))
    else:
        _report(imported)
