"""`malloc-tuner gem5`: a campaign's claims, measured on gem5 as the program."""

from typing import Annotated

import typer

from tuner.cli.bounds import number
from tuner.cli.epilog import subcommand
from tuner.cli.options import RunFolder, split_names
from tuner.cli.validating import (
    GEM5,
    POINTS,
    CountedBy,
    Cpu,
    Dominated,
    Front,
    Gem5,
    Instrument,
    Points,
    SampleMs,
    Seed,
    Suite,
    Thp,
    Timeout,
    check_points,
    comparison_progress,
    made_surroundings,
)
from tuner.errors import (
    NOTHING_COMPARED,
    ComparisonError,
    InterruptedCampaign,
    MissingToolError,
    OutputError,
    ProgramError,
    SelectionError,
    SpecError,
    StoreError,
)
from tuner.limits import MOST_ROUNDS

ERRORS = (
    SpecError,
    MissingToolError,
    ProgramError,
    StoreError,
    OutputError,
    SelectionError,
    ComparisonError,
    InterruptedCampaign,
)


@subcommand(
    "Measure picks and defaults on gem5 itself, in rounds.",
    "malloc-tuner gem5 runs/gem5 --gem5 build/X86/gem5.opt",
    "malloc-tuner gem5 runs/gem5 --simulations held-out --rounds 8",
    errors=ERRORS,
)
def gem5(
    *,
    run: RunFolder,
    context: typer.Context,
    gem5: Gem5 = GEM5,
    suite: Suite = None,
    simulations: Annotated[
        str,
        typer.Option(
            metavar="NAME,...", help="Names of simulations, or the words tune, held-out and all."
        ),
    ] = "all",
    rounds: Annotated[
        int, number(1, MOST_ROUNDS, "Runs of every subject on every simulation.")
    ] = 6,
    points: Points = POINTS,
    front: Front = 4,
    dominated: Dominated = 3,
    instrument: Instrument = CountedBy.AUTO,
    timeout: Timeout = None,
    cpu: Cpu = None,
    thp: Thp = None,
    sample_ms: SampleMs = 2,
    seed: Seed = 1,
) -> None:
    """Run the rounds that are missing, then print what they show."""
    from tuner.cli.gem5_tables import print_gem5
    from tuner.library import compare_on_gem5
    from tuner.runs import load_run
    from tuner.validate.session import ValidationOptions

    words = check_points(context, points)
    found = load_run(run)
    with comparison_progress("building guests") as (observer, on_note):
        summaries = compare_on_gem5(
            found,
            gem5,
            ValidationOptions(
                rounds,
                surroundings=made_surroundings(found, timeout, cpu, thp, sample_ms),
                instrument=instrument.value,
                seed=seed,
            ),
            suite=suite,
            simulations=split_names(simulations),
            points=words,
            most_front=front,
            most_dominated=dominated,
            observer=observer,
            on_note=on_note,
        )
    print_gem5(found, summaries)
    if not any(summary.is_comparison for summary in summaries):
        raise ComparisonError(NOTHING_COMPARED)
