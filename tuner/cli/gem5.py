"""`malloc-tuner gem5`: a campaign's claims, measured on gem5 as the program."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.bounds import number
from tuner.cli.epilog import epilog
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
    ProgramError,
    SelectionError,
    SpecError,
    StoreError,
)
from tuner.limits import MOST_ROUNDS

WORK_FOLDER = "gem5"
"""Folder of a run with guests, outputs and references."""

ERRORS = (
    SpecError,
    MissingToolError,
    ProgramError,
    StoreError,
    SelectionError,
    ComparisonError,
    InterruptedCampaign,
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(
        "gem5",
        help="Measure picks and defaults on gem5 itself, in rounds.",
        epilog=epilog(
            "malloc-tuner gem5 runs/gem5 --gem5 build/X86/gem5.opt",
            "malloc-tuner gem5 runs/gem5 --simulations held-out --rounds 8",
            errors=ERRORS,
        ),
    )(gem5)


def gem5(
    *,
    run: RunFolder,
    context: typer.Context,
    gem5: Gem5 = GEM5,
    suite: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Suite of simulations, if not the shipped one."),
    ] = None,
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
    from tuner.config.gem5_suite import load_suite
    from tuner.machine import read_machine
    from tuner.measure.counting import InstructionCounter
    from tuner.measure.gem5 import Gem5 as Simulator
    from tuner.measure.gem5 import build_guests, find_gem5
    from tuner.measure.program import ProgramRunner
    from tuner.measure.warm import warm_memory
    from tuner.resources import gem5_dir
    from tuner.runs import load_run
    from tuner.store import Store, store_path
    from tuner.validate.gem5 import validate_on_gem5
    from tuner.validate.gem5_summary import gem5_records, summarize_gem5
    from tuner.validate.session import ValidationOptions
    from tuner.validate.setup import prepare, search_spaces
    from tuner.validate.subjects import check_subjects, choose_subjects

    words = check_points(context, points)
    found = load_run(run)
    subjects = choose_subjects(found, words, front, dominated)
    check_subjects(found, subjects)
    program = find_gem5(gem5)
    loaded = load_suite(suite or gem5_dir() / "suite.toml")
    chosen = loaded.choose(split_names(simulations))
    surroundings = made_surroundings(found, timeout, cpu, thp, sample_ms)
    folder = found.folder / WORK_FOLDER
    guests = (folder / "guests").resolve()
    environment = {name: v for name, v in os.environ.items() if not name.startswith("PYTHON")}
    with (
        Store.open(store_path(found.folder), writable=True) as store,
        comparison_progress("building guests") as (observer, on_note),
    ):
        build_guests(loaded, guests)
        prepared = prepare(subjects, found.campaign, environment, search_spaces(found.folder))
        warm_memory()
        validate_on_gem5(
            store,
            chosen,
            prepared,
            gem5=Simulator(
                program, loaded, guests, (folder / "outputs").resolve(), ProgramRunner()
            ),
            folder=folder,
            options=ValidationOptions(
                rounds, surroundings=surroundings, instrument=instrument.value, seed=seed
            ),
            machine=read_machine(),
            counter=InstructionCounter() if instrument is CountedBy.CACHEGRIND else None,
            observer=observer,
            on_notice=on_note,
        )
    found = load_run(run)
    summaries = summarize_gem5(found, gem5_records(found))
    print_gem5(found, summaries)
    if not any(s.changes for group in summaries for s in group.subjects if not s.is_baseline):
        raise ComparisonError(NOTHING_COMPARED)
