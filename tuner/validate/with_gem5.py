"""Points of a run with gem5: gem5 under each, and programs with each inside its machines."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import tuner
from tuner.allocators import libc_malloc
from tuner.compare.loop import Observer
from tuner.config.gem5_inside import load_inside
from tuner.config.gem5_suite import load_suite
from tuner.machine import read_machine
from tuner.measure.counting import InstructionCounter
from tuner.measure.gem5 import Gem5, find_gem5, gem5_environment, make_guests
from tuner.measure.gem5_inside import Counted, Gem5Inside, InsideTask, prepare_tasks
from tuner.measure.program import ProgramRunner
from tuner.measure.warm import warm_memory
from tuner.metrics import INSIDE, find_metrics
from tuner.resources import gem5_dir
from tuner.runs import Run, load_run, search_spaces
from tuner.store import RealMeasurement, Store, store_path
from tuner.store.subject import Subject
from tuner.validate.gem5 import validate_on_gem5
from tuner.validate.gem5_summary import Gem5Summary, gem5_records, summarize_gem5
from tuner.validate.inside import run_inside
from tuner.validate.inside_summary import JOURNAL, summarize_inside
from tuner.validate.session import CACHEGRIND, ValidationOptions
from tuner.validate.setup import prepare
from tuner.validate.subjects import check_subjects, choose_subjects

WORK_FOLDER = "gem5"
"""Folder of a run with guests, outputs and references."""

_FIRST_TIMEOUT_S = 3600.0
"""Limit of one run inside gem5 without one of the user's."""


def _chosen(
    run: Run, points: Sequence[str], most_front: int, most_dominated: int
) -> Sequence[Subject]:
    subjects = choose_subjects(run, points, most_front, most_dominated)
    check_subjects(run, subjects)
    return subjects


def compare_on_gem5(
    run: Run,
    gem5: Path,
    options: ValidationOptions,
    *,
    suite: Path | None = None,
    simulations: Sequence[str] = ("all",),
    points: Sequence[str] = ("picks", "front"),
    most_front: int = 4,
    most_dominated: int = 3,
    observer: Observer[str, RealMeasurement] | None = None,
    on_note: Callable[[str], None] = lambda _: None,
) -> list[Gem5Summary]:
    """Run gem5 under points of a run and every default, in interleaved rounds.

    Args:
        run: the samples are kept in its folder; the same call makes those that are missing.
        gem5: the program, looked for in PATH.
        options: rounds, core, limits, what counts instructions.
        suite: file of the simulations; None: the shipped one.
        simulations: their names, or the words tune, held-out and all.
        points: names of picks, numbers of trials, or the words picks, best and front.
        most_front: greatest number of points for the word front.
        most_dominated: greatest number of dominated points, which check the ranking.
        observer: is called after every run.
        on_note: called with what a reader must know.

    Raises:
        SelectionError: a name is no pick, or a trial has no numbers.
        SpecError: the suite is wrong, or has no such simulation.
        ComparisonError: nothing could be compared with the baseline.
        MissingToolError: gem5 or a library is not here, or of another version.
        ProgramError: gem5 itself does not run.
        InterruptedCampaign: Ctrl-C; what was measured is kept.
    """
    subjects = _chosen(run, points, most_front, most_dominated)
    program = find_gem5(gem5)
    loaded = load_suite(suite or gem5_dir() / "suite.toml")
    chosen = loaded.choose(simulations)
    folder = run.folder / WORK_FOLDER
    guests = (folder / "guests").resolve()
    environment = gem5_environment(os.environ)
    with Store.open(store_path(run.folder), writable=True) as store:
        if names := {simulation.guest for simulation in chosen if simulation.guest}:
            make_guests(loaded.folder / "guests", guests, names=names)
        prepared = prepare(subjects, run.campaign, environment, search_spaces(run.folder))
        warm_memory()
        validate_on_gem5(
            store,
            chosen,
            prepared,
            gem5=Gem5(program, loaded, guests, (folder / "outputs").resolve(), ProgramRunner()),
            folder=folder,
            options=options,
            machine=read_machine(),
            counter=InstructionCounter() if options.instrument == CACHEGRIND else None,
            observer=observer,
            on_notice=on_note,
        )
    found = load_run(run.folder)
    return summarize_gem5(found, gem5_records(found))


def compare_inside_gem5(
    run: Run,
    gem5: Path,
    objectives: Sequence[str],
    *,
    suite: Path | None = None,
    programs: Sequence[str] = ("all",),
    points: Sequence[str] = ("picks", "front"),
    most_front: int = 4,
    most_dominated: int = 3,
    timeout_s: float | None = None,
    workers: int = 1,
    observer: Observer[InsideTask, Counted] | None = None,
) -> list[Gem5Summary]:
    """Run programs inside gem5's machines under points of a run and every default.

    Args:
        run: the counts are kept in its folder; the same call makes those that are missing.
        gem5: the program, looked for in PATH.
        objectives: names of counts, such as l1d_mpki and cycles.
        suite: file of the programs and machines; None: the shipped one.
        programs: names of programs and machines, or the word all.
        points: names of picks, numbers of trials, or the words picks, best and front.
        most_front: greatest number of points for the word front.
        most_dominated: greatest number of dominated points, which check the ranking.
        timeout_s: limit of one run; None: an hour.
        workers: simulations at once.
        observer: is called after every run.

    Raises:
        SpecError: an objective, a program or the suite is wrong.
        SelectionError: a name is no pick, or a trial has no numbers.
        ComparisonError: nothing could be compared with the baseline.
        MissingToolError: gem5 or a library is not here, or of another version.
        ProgramError: gem5 itself does not run.
        InterruptedCampaign: Ctrl-C; what was measured is kept.
    """
    find_metrics(objectives, INSIDE, "objective inside a simulated machine")
    subjects = _chosen(run, points, most_front, most_dominated)
    program = find_gem5(gem5)
    inside = load_inside(suite or gem5_dir() / "inside.toml")
    chosen = inside.choose(programs)
    folder = run.folder / WORK_FOLDER / "inside"
    tasks = prepare_tasks(inside, chosen, folder)
    limit_s = timeout_s or _FIRST_TIMEOUT_S
    outputs = folder.resolve() / "outputs"
    run_inside(
        run.folder / JOURNAL,
        tasks,
        prepare(subjects, run.campaign, {}, search_spaces(run.folder)),
        gem5=Gem5Inside(
            program, gem5_dir(), outputs, ProgramRunner(), limit_s, (Path(libc_malloc()),)
        ),
        facts={
            "malloc_tuner": tuner.__version__,
            "machine": asdict(read_machine()),
            "objectives": list(objectives),
        },
        n_workers=workers,
        observer=observer,
    )
    return summarize_inside(run.folder / JOURNAL, run)
