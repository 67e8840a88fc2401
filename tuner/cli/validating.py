"""What the commands that validate share: their options, the choice of subjects, the progress."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuner.cli.bounds import core, duration, number
from tuner.cli.options import HugePages, refuse_options, split_names
from tuner.limits import MOST_RUNS, MOST_SEED, RUN_TIME

if TYPE_CHECKING:  # what does the work is imported by the commands; --help must not
    from tuner.cli.progress_bar import ProgressBar
    from tuner.compare.loop import Observer
    from tuner.compare.plan import Step
    from tuner.measure.program import Surroundings
    from tuner.records import Outcome
    from tuner.runs import Run

POINTS = "picks,front"


class CountedBy(StrEnum):
    """How instructions of the real program are counted."""

    AUTO = "auto"
    CACHEGRIND = "cachegrind"
    NONE = "none"


Points = Annotated[
    str,
    typer.Option(
        metavar="NAME,...",
        help="Names of picks, numbers of trials, or the words picks, best and front.",
    ),
]
Front = Annotated[int, number(1, MOST_RUNS, "Most points for the word front.")]
Dominated = Annotated[int, number(0, MOST_RUNS, "Dominated points, to check the ranking.")]
Timeout = Annotated[
    str | None, duration(RUN_TIME, "Limit of one run; default 10 times the baseline's.")
]
Cpu = Annotated[
    int | None,
    core("Core to pin the runs to."),
]
Thp = Annotated[
    HugePages | None,
    typer.Option(
        help="Transparent huge pages: as the machine is set, or off; default: the campaign's."
    ),
]
SampleMs = Annotated[int, number(1, 10000, "Milliseconds between two samples of memory.")]
Seed = Annotated[int, number(0, MOST_SEED, "Seed of the order within the rounds.")]
Instrument = Annotated[
    CountedBy,
    typer.Option(
        help="auto: hardware counters where there are any; cachegrind: once per subject, slow."
    ),
]
Gem5 = Annotated[
    Path, typer.Option("--gem5", envvar="GEM5", metavar="PROGRAM", help="gem5.opt or gem5.fast.")
]
GEM5 = Path("gem5.opt")
"""Looked for in PATH."""
Suite = Annotated[
    Path | None, typer.Option(metavar="FILE", help="File of your own in place of the shipped one.")
]


def check_points(context: typer.Context, points: str) -> tuple[str, ...]:
    """Return the words of --points.

    Raises:
        InapplicableOption: --front without the word front.
    """
    words = split_names(points)
    if "front" not in words:
        refuse_options(context, ["--front"], "without the word front in --points")
    return words


def seconds(timeout: str | None) -> float | None:
    """Return the limit of a run in seconds; None for none."""
    from tuner.units import parse_duration

    return parse_duration(timeout) / 1e9 if timeout else None


def made_surroundings(
    run: Run, timeout: str | None, cpu: int | None, thp: HugePages | None, sample_ms: int
) -> Surroundings:
    """Return how every run of a validation is made."""
    from tuner.library import huge_pages_of
    from tuner.measure.program import Surroundings

    huge_pages = huge_pages_of(run)
    if thp is not None:
        huge_pages = "keep" if thp is HugePages.KEEP else "never"
    return Surroundings(cpu, seconds(timeout), sample_ms, huge_pages)


@contextlib.contextmanager
def comparison_progress(
    description: str = "first run",
) -> Iterator[tuple[Observer[Any, Any], Callable[[str], None]]]:
    """Show a comparison on a progress bar; yields what is called at runs, and at notes."""
    from tuner.cli.console import folded_note, stderr_progress

    progress = stderr_progress()

    def on_note(text: str) -> None:
        progress.say(folded_note(f"note: {text}"))

    with progress:
        progress.add_task(description, total=None)
        yield progress_observer(progress), on_note


def progress_observer(progress: ProgressBar) -> Observer[Any, Any]:
    """Return what shows a comparison on the one task of a progress bar.

    Args:
        progress: with a task.
    """
    from tuner.compare.loop import Observer
    from tuner.records import Status

    (task,) = progress.tasks

    def on_sample(step: Step[Any], sample: Outcome[Any]) -> None:
        what = str(step.task or "")
        where = f"round {step.round + 1}  {what}"
        progress.update(task.id, description=f"{where:<32.32} {step.subject:<20.20}")
        progress.advance(task.id)
        if sample.status is not Status.OK:
            where = f"{what}: " if what else ""
            progress.say(f"{where}{step.subject} is out: {sample.reason}")

    def on_left(n_runs: int) -> None:
        progress.update(task.id, total=task.completed + n_runs)
        if not task.completed:
            progress.begin_steps()

    return Observer(on_sample, on_left)
