"""`malloc-tuner fit`: make a shareable workload profile from a trace."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.bounds import number
from tuner.cli.epilog import subcommand
from tuner.errors import OutputError, SpecError, TraceError
from tuner.limits import MOST_EVENTS
from tuner.output import check_apart, file_to_write


@subcommand(
    "Make a profile of a trace: a text file to edit and share.",
    "malloc-tuner fit app.trace -o app.profile.json",
    "malloc-tuner fit app.trace -o small.profile.json --windows 64 --fixed 500",
    errors=(SpecError, TraceError, OutputError),
)
def fit(
    trace: Annotated[Path, typer.Argument(metavar="TRACE")],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            parser=file_to_write,
            help="The profile to write: TOML if its name ends in .toml, else JSON.",
        ),
    ],
    windows: Annotated[int, number(1, 32768, "About how many windows at most.")] = 256,
    fixed: Annotated[
        int, number(0, MOST_EVENTS, "Large lives that keep their places, at most.")
    ] = 20_000,
) -> None:
    """Fit, write, and print how the generated workload compares."""
    from tuner.cli.console import folded, print_note
    from tuner.profile.file import is_profile
    from tuner.profile.fit import FitOptions
    from tuner.profile.fit import fit as fit_profile
    from tuner.profile.generated import write_generated
    from tuner.profile.trust import gap_in
    from tuner.trace.file import Trace
    from tuner.units import show_size

    check_apart(trace, output)
    if is_profile(trace):
        raise TraceError(f"{trace}: this is a profile already; fit takes a trace made by `record`")
    if gap := gap_in(trace):
        print_note(gap)
    options = FitOptions(even_windows=max(1, windows // 4), most_windows=windows, most_fixed=fixed)
    with Trace(trace) as opened:
        if opened.is_low_fidelity:
            raise TraceError(
                f"{trace}: made of classic records; they are a model already, no trace to fit"
            )
        totals = opened.totals
        profile = fit_profile(opened, options)
    peak = write_generated(output, profile).peak_live_bytes
    generated, recorded = show_size(peak), show_size(totals.peak_live_bytes)
    compared = "as recorded" if generated == recorded else f"instead of {recorded}"
    line = (
        f"{output}: {len(profile['windows'])} windows, {len(profile['kinds']):,} kinds of lives, "
        f"{show_size(output.stat().st_size)} (trace {show_size(trace.stat().st_size)}); "
        f"peak live {generated} {compared} from {totals.n_events:,} events"
    )
    print(folded(line, 2), file=sys.stderr)
