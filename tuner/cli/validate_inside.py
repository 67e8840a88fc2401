"""`malloc-tuner validate --gem5 --inside`: a campaign's claims, inside simulated machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.cli.validate_gem5 import WORK_FOLDER
from tuner.errors import NOTHING_COMPARED, ComparisonError

if TYPE_CHECKING:  # what does the work is imported by the command; --help must not
    from tuner.config.gem5_inside import Inside
    from tuner.runs import Run
    from tuner.validate.inside_journal import InsideJournal, InsideRecord
    from tuner.validate.subjects import Subject

_FIRST_TIMEOUT_S = 3600.0
"""Limit of one run without one of the user's."""


@dataclass(frozen=True)
class InsideOptions:
    """How programs are run inside."""

    objectives: Sequence[str]
    """Names of those that decide."""
    timeout_s: float | None
    """Limit of one run; None for an hour."""
    n_workers: int
    """Simulations at once."""


def validate_inside(
    run: Path,
    program: Path,
    suite: Path | None,
    words: Sequence[str],
    *,
    points: tuple[Sequence[str], int, int],
    options: InsideOptions,
) -> None:
    """Run what is missing, then print what it shows.

    Args:
        run: the run folder.
        program: gem5, as the user named it.
        suite: file of programs and machines; None for the shipped one.
        words: names of programs and machines, see `Inside.choose`.
        points: words, and how many points of the front and dominated ones, see
            `choose_subjects`.
        options: how to run.

    Raises:
        SpecError: suite, words or objectives are wrong.
        MissingToolError: gem5, a library or a program is not there.
        ComparisonError: no subject but the baseline gave counts.
        InterruptedCampaign: Ctrl-C; what was measured is kept.
    """
    from tuner.cli.inside_tables import print_inside
    from tuner.config.gem5_inside import load_inside
    from tuner.measure.gem5 import find_gem5
    from tuner.resources import gem5_dir
    from tuner.runs import load_run
    from tuner.validate.inside_counts import find_inside_objective
    from tuner.validate.inside_journal import InsideJournal
    from tuner.validate.inside_summary import journal_path, summarize_inside
    from tuner.validate.subjects import choose_subjects

    for name in options.objectives:
        find_inside_objective(name)
    found = load_run(run)
    path = find_gem5(program)
    inside = load_inside(suite or gem5_dir() / "inside.toml")
    journal = InsideJournal(journal_path(found))
    subjects = choose_subjects(found, *points)
    _measure(found, path, inside, words, subjects=subjects, options=options, journal=journal)
    summary = summarize_inside(journal, found)
    if summary is not None:
        print_inside(summary)
    if summary is None or not summary.is_comparison:
        raise ComparisonError(NOTHING_COMPARED)


def _measure(
    run: Run,
    program: Path,
    inside: Inside,
    words: Sequence[str],
    *,
    subjects: Sequence[Subject],
    options: InsideOptions,
    journal: InsideJournal,
) -> None:
    """Run programs under a progress bar."""
    import tuner
    from tuner.cli.console import stderr_progress
    from tuner.machine import read_machine
    from tuner.measure.gem5_inside import Gem5Inside, guest_environments, prepare_tasks
    from tuner.measure.program import ProgramRunner
    from tuner.resources import gem5_dir
    from tuner.validate.inside_rounds import Guest, InsideObserver, run_inside
    from tuner.validate.setup import prepare, search_spaces

    progress = stderr_progress()

    def on_run(record: InsideRecord) -> None:
        progress.update(bar, description=f"{record.task:<28.28} {record.label:<20.20}")
        progress.advance(bar)
        if record.reason is not None:
            progress.print(f"{record.task}: {record.label}: {record.reason}", markup=False)

    chosen = inside.choose(words)
    folder = run.folder / WORK_FOLDER / "inside"
    runner = ProgramRunner()
    with progress:
        bar = progress.add_task("building guests", total=None)
        tasks = prepare_tasks(inside, chosen, folder)
        progress.update(bar, description="reading back")
        prepared = prepare(subjects, run.campaign, {}, search_spaces(run.folder))
        environments = guest_environments([entry.environment for entry in prepared])
        guests = [
            Guest(entry.subject.label, environment, entry.refusal, entry.subject.as_record())
            for entry, environment in zip(prepared, environments, strict=True)
        ]
        run_inside(
            journal,
            tasks,
            guests,
            gem5=Gem5Inside(program, gem5_dir(), folder.resolve() / "outputs", runner),
            facts={
                "objectives": list(options.objectives),
                "malloc_tuner": tuner.__version__,
                "machine": asdict(read_machine()),
            },
            timeout_s=options.timeout_s or _FIRST_TIMEOUT_S,
            n_workers=options.n_workers,
            stop=runner.stop,
            observer=InsideObserver(lambda n: progress.update(bar, total=n), on_run),
        )
