"""`malloc-tuner vary`: a longer, busier or otherwise changed profile."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.bounds import within
from tuner.cli.epilog import subcommand
from tuner.cli.options import refuse_options
from tuner.errors import OutputError, SpecError, TraceError
from tuner.limits import AGED
from tuner.output import check_apart, file_to_write


@subcommand(
    "Make a longer, busier or otherwise changed copy of a profile.",
    "malloc-tuner vary app.profile.json -o long.profile.json --length 3",
    "malloc-tuner vary app.profile.json -o busy.profile.json --intensity 2",
    "malloc-tuner vary app.profile.json -o aged.profile.json --aged 64MiB",
    errors=(SpecError, TraceError, OutputError),
)
def vary(
    context: typer.Context,
    *,
    profile: Annotated[Path, typer.Argument(metavar="PROFILE", help="Made by `fit`.")],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", parser=file_to_write, help="The profile to write."
        ),
    ],
    length: Annotated[
        float,
        typer.Option(
            metavar="FACTOR", help="Times as many allocations, while the live heap is level."
        ),
    ] = 1.0,
    intensity: Annotated[
        float, typer.Option(metavar="FACTOR", help="Times as many blocks in the same time.")
    ] = 1.0,
    threads: Annotated[
        int | None, typer.Option(metavar="N", help="Number of threads; added ones repeat others.")
    ] = None,
    size: Annotated[
        float, typer.Option(metavar="FACTOR", help="Times the size of every block.")
    ] = 1.0,
    aged: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            callback=within(AGED),
            help="First allocate this much, and leave holes in it.",
        ),
    ] = "0",
    aged_share: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of it that is never freed.")
    ] = 0.5,
) -> None:
    """Vary, write, and print what became of the workload."""
    from tuner.profile.generated import write_generated
    from tuner.profile.variation import Variation
    from tuner.profile.variation import vary as vary_profile
    from tuner.trace.file import Trace
    from tuner.units import parse_size, show_size

    aged_bytes = parse_size(aged)
    if aged_bytes == 0:
        refuse_options(context, {"--aged-share"}, "without --aged")
    variation = Variation(length, intensity, threads, size, aged_bytes, aged_share)
    if not variation.changes:
        raise SpecError(
            "nothing to change: give --length, --intensity, --threads, --size or --aged"
        )
    check_apart(profile, output)
    new = write_generated(output, vary_profile(profile, variation))
    with Trace(profile) as before:
        old = before.totals
    print(
        f"{output}: {new.n_events:,} events instead of {old.n_events:,}, peak live "
        f"{show_size(new.peak_live_bytes)} instead of {show_size(old.peak_live_bytes)}, "
        f"{new.n_threads} thread{'s'[: new.n_threads > 1]} instead of {old.n_threads}",
        file=sys.stderr,
    )
