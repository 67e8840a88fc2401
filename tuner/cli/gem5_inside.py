"""`malloc-tuner gem5-inside`: programs inside gem5's machines, caches and cycles counted."""

from typing import Annotated

import typer

from tuner.cli.bounds import duration, number
from tuner.cli.epilog import subcommand
from tuner.cli.gem5 import ERRORS
from tuner.cli.options import RunFolder, split_names
from tuner.cli.validating import (
    GEM5,
    POINTS,
    Dominated,
    Front,
    Gem5,
    Points,
    Suite,
    check_points,
    comparison_progress,
    seconds,
)
from tuner.errors import NOTHING_COMPARED, ComparisonError
from tuner.limits import MOST_WORKERS, RUN_TIME


@subcommand(
    "Count cache misses and cycles of picks inside gem5.",
    "malloc-tuner gem5-inside runs/app --gem5 build/X86/gem5.opt --programs perl",
    "malloc-tuner gem5-inside runs/app --objectives l1d_mpki,cycles --workers 4",
    errors=ERRORS,
)
def gem5_inside(
    *,
    run: RunFolder,
    context: typer.Context,
    gem5: Gem5 = GEM5,
    suite: Suite = None,
    programs: Annotated[
        str, typer.Option(metavar="NAME,...", help="Names of programs and machines, or all.")
    ] = "all",
    objectives: Annotated[
        str, typer.Option(metavar="NAME,...", help="Objectives, such as l1d_mpki, cycles.")
    ] = "l1d_mpki,l2_mpki,ipc",
    workers: Annotated[int, number(1, MOST_WORKERS, "Simulations at once.")] = 1,
    points: Points = POINTS,
    front: Front = 4,
    dominated: Dominated = 3,
    timeout: Annotated[str | None, duration(RUN_TIME, "Limit of one run; default 1 hour.")] = None,
) -> None:
    """Run what is missing, then print what it shows."""
    from tuner.cli.console import print_grid, stdout_console
    from tuner.cli.gem5_tables import print_remarks
    from tuner.library import compare_inside_gem5
    from tuner.report.gem5 import INSIDE_NOTE, inside_grids
    from tuner.runs import load_run

    words = check_points(context, points)
    with comparison_progress("preparing") as (observer, _):
        summaries = compare_inside_gem5(
            load_run(run),
            gem5,
            split_names(objectives),
            suite=suite,
            programs=split_names(programs),
            points=words,
            most_front=front,
            most_dominated=dominated,
            timeout_s=seconds(timeout),
            workers=workers,
            observer=observer,
        )
    for grid in inside_grids(summaries):
        print_grid(grid)
    print_remarks(summaries[-1:])
    stdout_console().print(INSIDE_NOTE, style="dim")
    if not any(summary.is_comparison for summary in summaries):
        raise ComparisonError(NOTHING_COMPARED)
