"""`malloc-tuner gem5-inside`: programs inside gem5's machines, caches and cycles counted."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.bounds import duration, number
from tuner.cli.epilog import epilog
from tuner.cli.gem5 import ERRORS, WORK_FOLDER
from tuner.cli.options import RunFolder, split_names
from tuner.cli.validating import (
    GEM5,
    POINTS,
    Dominated,
    Front,
    Gem5,
    Points,
    check_points,
    progress_observer,
    seconds,
)
from tuner.errors import NOTHING_COMPARED, ComparisonError
from tuner.limits import MOST_WORKERS, RUN_TIME

_FIRST_TIMEOUT_S = 3600.0
"""Limit of one run without one of the user's."""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(
        "gem5-inside",
        help="Count cache misses and cycles of picks inside gem5.",
        epilog=epilog(
            "malloc-tuner gem5-inside runs/app --gem5 build/X86/gem5.opt --programs perl",
            "malloc-tuner gem5-inside runs/app --objectives l1d_mpki,cycles --workers 4",
            errors=ERRORS,
        ),
    )(gem5_inside)


def gem5_inside(
    *,
    run: RunFolder,
    context: typer.Context,
    gem5: Gem5 = GEM5,
    suite: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Programs and machines, if not the shipped ones."),
    ] = None,
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
    import tuner
    from tuner.cli.console import stderr_progress
    from tuner.cli.inside_tables import print_inside
    from tuner.config.gem5_inside import load_inside
    from tuner.machine import read_machine
    from tuner.measure.gem5 import find_gem5
    from tuner.measure.gem5_inside import Gem5Inside, guest_environments, prepare_tasks
    from tuner.measure.program import ProgramRunner
    from tuner.resources import gem5_dir
    from tuner.runs import load_run
    from tuner.validate.inside import Guest, InsideJournal, InsideSubject, run_inside
    from tuner.validate.inside_counts import find_inside_objective
    from tuner.validate.inside_summary import journal_path, summarize_inside
    from tuner.validate.setup import prepare, search_spaces
    from tuner.validate.subjects import check_subjects, choose_subjects

    names = split_names(objectives)
    for name in names:
        find_inside_objective(name)
    words = check_points(context, points)
    found = load_run(run)
    subjects = choose_subjects(found, words, front, dominated)
    check_subjects(found, subjects)
    program = find_gem5(gem5)
    inside = load_inside(suite or gem5_dir() / "inside.toml")
    chosen = inside.choose(split_names(programs))
    journal = InsideJournal(journal_path(found))
    folder = found.folder / WORK_FOLDER / "inside"
    runner = ProgramRunner()
    with stderr_progress() as progress:
        bar = progress.add_task("building guests", total=None)
        tasks = prepare_tasks(inside, chosen, folder)
        progress.update(bar, description="reading back")
        prepared = prepare(subjects, found.campaign, {}, search_spaces(found.folder))
        environments = guest_environments([entry.environment for entry in prepared])
        run_inside(
            journal,
            tasks,
            [
                Guest(
                    InsideSubject.from_record(entry.subject.as_record()), environment, entry.refusal
                )
                for entry, environment in zip(prepared, environments, strict=True)
            ],
            gem5=Gem5Inside(program, gem5_dir(), folder.resolve() / "outputs", runner),
            objectives=names,
            facts={
                "malloc_tuner": tuner.__version__,
                "machine": asdict(read_machine()),
            },
            timeout_s=seconds(timeout) or _FIRST_TIMEOUT_S,
            n_workers=workers,
            stop=runner.stop,
            observer=progress_observer(progress),
        )
    summary = summarize_inside(journal, found)
    if summary is not None:
        print_inside(summary)
    if summary is None or not summary.is_comparison:
        raise ComparisonError(NOTHING_COMPARED)
