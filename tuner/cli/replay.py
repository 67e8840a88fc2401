"""`malloc-tuner replay`: compare strategies on the recorded trials of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.bounds import number
from tuner.cli.epilog import subcommand
from tuner.cli.options import AsJson, allow_options, split_names
from tuner.errors import MissingToolError, OutputError, SelectionError, SpecError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tuner.campaign.replay import Points, Replayed


@subcommand(
    "Compare search strategies on recorded trials, unmeasured.",
    "malloc-tuner replay runs/app",
    "malloc-tuner replay runs/app --strategy auto,random --evaluations 200",
    "malloc-tuner replay runs/app --save app.points.json.zst",
    errors=(SpecError, MissingToolError, StoreError, OutputError, SelectionError),
)
def replay(
    run: Annotated[
        Path, typer.Argument(metavar="RUN|POINTS", help="Run folder, or a file of --save.")
    ],
    *,
    context: typer.Context,
    strategy: Annotated[
        str,
        typer.Option(
            metavar="NAME,...", help="Strategies to compare (default: all that can search it)."
        ),
    ] = "",
    seeds: Annotated[int, number(1, 1000, "Searches with each strategy.")] = 10,
    evaluations: Annotated[
        int | None,
        number(1, 100_000, "Proposals of a search (default: a third of the recorded trials)."),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the trials compactly, and compare nothing."),
    ] = None,
    as_json_object: AsJson = False,
) -> None:
    """Print what strategies find on recorded points."""
    from tuner.campaign.replay import read_points, save_points
    from tuner.campaign.replay import replay as search

    if save is not None:
        allow_options(context, {"--save"}, "with --save, which compares nothing")
    points = read_points(run)
    if save is not None:
        save_points(points, save)
        print(f"{save}: {len(points.genomes)} trials, {save.stat().st_size} bytes")
        for line in _left_out(points):
            print(line)
        return
    names = split_names(strategy) or _all_strategies(points)
    budget = evaluations or max(1, len(points.genomes) // 3)
    courses = [search(points, name, seed, budget) for name in names for seed in range(seeds)]
    if as_json_object:
        print(_as_json(points, courses))
    else:
        print(*_as_text(points, courses), sep="\n")


def _all_strategies(points: Points) -> tuple[str, ...]:
    """Return the strategies that can search a space here; a note says why others are left out."""
    from tuner.campaign.replay import replay as search
    from tuner.cli.console import print_note
    from tuner.registry import STRATEGIES

    found = []
    for name in STRATEGIES:
        try:
            search(points, name, 0, 1)
        except (SpecError, MissingToolError) as error:
            print_note(f"left out: {error}")
        else:
            found.append(name)
    return tuple(found)


def _left_out(points: Points) -> Iterator[str]:
    """Yield what is to be said of trials that are not among the points."""
    from tuner.cli.console import folded

    if points.n_uncounted:
        n_trials = len(points.genomes) + points.n_uncounted + points.n_outside
        yield folded(
            f"left out: {points.n_uncounted} of {n_trials} trials, which were dominated before "
            "their instructions were counted, so strategies meet fewer bad settings than in a "
            'campaign; with count = "all" under [emulation] every trial is counted',
            2,
        )
    if points.n_outside:
        yield f"left out: {points.n_outside} seeds that lie off the levels of the space"


def _as_text(points: Points, courses: Sequence[Replayed]) -> Iterator[str]:
    from statistics import median

    marks = list(courses[0].scores)
    width = max(len(course.strategy) for course in courses)
    yield (
        f"{points.name}: hypervolume in percent of that of all {len(points.genomes)} trials, "
        "median (worst) over the seeds"
    )
    yield " ".join([" " * width, *(f"{f'after {mark}':>14}" for mark in marks), "   recorded"])
    for name in dict.fromkeys(course.strategy for course in courses):
        own = [course for course in courses if course.strategy == name]
        cells = []
        for mark in marks:
            scores = [100.0 * course.scores[mark] for course in own]
            cells.append(f"{median(scores):5.1f} ({min(scores):5.1f})")
        exact = sum(course.exact for course in own) / len(own)
        yield " ".join([f"{name:<{width}}", *(f"{cell:>14}" for cell in cells), f"{exact:10.0%}"])
    yield (
        "after: proposals; recorded: those that had a trial of their own; the others were "
        "answered by the nearest one"
    )
    yield from _left_out(points)


def _as_json(points: Points, courses: Sequence[Replayed]) -> str:
    document = {
        "schema": "malloc-tuner.replay",
        "version": 1,
        "name": points.name,
        "n_trials": len(points.genomes),
        "n_uncounted": points.n_uncounted,
        "n_outside": points.n_outside,
        "courses": [
            {
                "strategy": course.strategy,
                "seed": course.seed,
                "exact": course.exact,
                "scores": {str(mark): score for mark, score in course.scores.items()},
            }
            for course in courses
        ],
    }
    return json.dumps(document, indent=2)
