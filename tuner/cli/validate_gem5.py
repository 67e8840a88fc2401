"""`malloc-tuner validate --gem5`: the claims of a campaign, measured on gem5's simulations."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.errors import NOTHING_COMPARED, ComparisonError

if TYPE_CHECKING:  # what does the work is imported by the command; --help must not
    from tuner.config.gem5_suite import Simulation, Suite
    from tuner.runs import Run
    from tuner.store import ValidationSample
    from tuner.validate.gem5_rounds import Gem5Options
    from tuner.validate.rounds import CountsInstructions
    from tuner.validate.subjects import Subject

WORK_FOLDER = "gem5"
"""Folder of a run with guests, outputs and references."""


def validate_with_gem5(
    run: Path,
    program: Path,
    suite: Path | None,
    simulations: Sequence[str],
    *,
    points: tuple[Sequence[str], int, int],
    options: Gem5Options,
    counter: CountsInstructions | None,
) -> None:
    """Run the rounds that are missing, then print what they show.

    Args:
        run: the run folder.
        program: gem5, as the user named it.
        suite: file of the suite; None for the shipped one.
        simulations: names and roles, see `Suite.choose`.
        points: words, and how many points of the front and dominated ones, see
            `choose_subjects`.
        options: how to run.
        counter: counts instructions; None for no count.

    Raises:
        ComparisonError: no subject but the baseline ran on the simulations of any group.
    """
    from tuner.cli.gem5_tables import print_gem5
    from tuner.config.gem5_suite import load_suite
    from tuner.measure.gem5 import find_gem5
    from tuner.resources import gem5_dir
    from tuner.runs import load_run
    from tuner.validate.gem5_summary import gem5_records, summarize_gem5
    from tuner.validate.subjects import choose_subjects

    found = load_run(run)
    path = find_gem5(program)
    shown = load_suite(suite or gem5_dir() / "suite.toml")
    chosen = shown.choose(simulations)
    subjects = choose_subjects(found, *points)
    _measure(found, path, shown, chosen, subjects=subjects, options=options, counter=counter)
    found = load_run(run)
    summaries = summarize_gem5(found, gem5_records(found))
    print_gem5(found, summaries)
    if not any(s.changes for group in summaries for s in group.subjects if not s.is_baseline):
        raise ComparisonError(NOTHING_COMPARED)


def _measure(
    run: Run,
    program: Path,
    suite: Suite,
    simulations: Sequence[Simulation],
    *,
    subjects: Sequence[Subject],
    options: Gem5Options,
    counter: CountsInstructions | None,
) -> None:
    """Run the simulations under a progress bar."""
    from tuner.cli.console import stderr_progress
    from tuner.machine import read_machine
    from tuner.measure.gem5 import Gem5, build_guests
    from tuner.measure.program import ProgramRunner
    from tuner.measure.warm import warm_memory
    from tuner.records import Status
    from tuner.store import Store, store_path
    from tuner.validate.gem5_rounds import Gem5Observer, validate_on_gem5
    from tuner.validate.setup import prepare, search_spaces

    progress = stderr_progress()

    def on_sample(simulation: Simulation, sample: ValidationSample) -> None:
        where = f"round {sample.round + 1}  {simulation.name}"
        progress.update(task, description=f"{where:<32.32} {sample.label:<20.20}")
        progress.advance(task)
        if sample.status is not Status.OK:
            text = f"{simulation.name}: {sample.label} is out: {sample.reason}"
            progress.print(text, markup=False)

    def on_notice(text: str) -> None:
        progress.print(f"note: {text}", markup=False)

    folder = run.folder / WORK_FOLDER
    guests = (folder / "guests").resolve()
    with Store.open(store_path(run.folder), writable=True) as store, progress:
        n_runs = options.rounds * len(subjects) * len(simulations)
        task = progress.add_task("building guests", total=n_runs)
        build_guests(suite, guests)
        progress.update(task, description="reading back")
        prepared = prepare(subjects, run.campaign, _environment(), search_spaces(run.folder))
        progress.update(task, description="first run")
        warm_memory()
        validate_on_gem5(
            store,
            simulations,
            prepared,
            gem5=Gem5(program, suite, guests, (folder / "outputs").resolve(), ProgramRunner()),
            folder=folder,
            options=options,
            machine=asdict(read_machine()),
            counter=counter,
            observer=Gem5Observer(on_sample, on_notice),
        )


def _environment() -> Mapping[str, str]:
    """Return the environment without what changes gem5's Python from user to user."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
