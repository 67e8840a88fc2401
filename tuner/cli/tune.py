"""`malloc-tuner tune`: search the settings of allocators on a trace."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuner.cli.epilog import epilog
from tuner.cli.options import HugePages, Threads, refuse_options
from tuner.errors import (
    InterruptedCampaign,
    MissingToolError,
    OutputError,
    ProgramError,
    RepeatabilityError,
    SelectionError,
    SpecError,
    StoreError,
    TraceError,
)

if TYPE_CHECKING:  # what does the work is imported by the command; --help must not
    from tuner.campaign.progress import Listener


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(
        "tune",
        help=(
            "Search the allocators' settings on a trace. Interrupted or killed, the same command "
            "continues; with more evaluations it extends a finished campaign."
        ),
        epilog=epilog(
            "malloc-tuner tune configs/campaigns/demo.toml",
            "malloc-tuner tune app.trace --allocators glibc,jemalloc --evaluations 300",
            'malloc-tuner tune app.trace --constraint "peak_heap <= 2 GiB" -o runs/app',
            "malloc-tuner tune app.trace --threads free --objectives peak_heap,p99_latency",
            errors=(
                SpecError,
                MissingToolError,
                TraceError,
                ProgramError,
                StoreError,
                OutputError,
                RepeatabilityError,
                SelectionError,
                InterruptedCampaign,
            ),
        ),
    )(tune)


def tune(
    context: typer.Context,
    *,
    what: Annotated[
        Path | None,
        typer.Argument(
            metavar="TRACE|CAMPAIGN|RUN",
            help="Trace or profile to tune for, campaign file, or run folder to continue.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="RUN", help="Run folder; runs/<name> if not given."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The same as TRACE; before, its only form.", hidden=True),
    ] = None,
    further_trace: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="One more to suit: figures are geometric means over all; repeatable.",
        ),
    ] = None,
    allocators: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:PATH],...", help="Default: glibc,tcmalloc,jemalloc,mimalloc,exgen."
        ),
    ] = None,
    evaluations: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Distinct configurations to measure.")
    ] = None,
    objectives: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="What to minimise, of peak_heap, mean_heap, instructions, faults, syscalls, cost, "
            "p99_latency; default: mean_heap,cost.",
        ),
    ] = None,
    constraint: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help='Such as "cost <= default * 1.02"; repeatable.'),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="auto, nsga2, deap-nsga2 or random.", autocompletion=_strategies
        ),
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="joint, or separate: one study per allocator.",
            autocompletion=_searches,
        ),
    ] = None,
    threads: Annotated[
        Threads | None,
        typer.Option(
            help="baton (the default): repeatable; free: running at once, without instructions."
        ),
    ] = None,
    thp: Annotated[
        HugePages | None,
        typer.Option(help="Transparent huge pages: as the machine is set (the default), or off."),
    ] = None,
    space: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Search-space file instead of the shipped; repeatable."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, metavar="N", help="Random seed.")] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Evaluations at a time; default: one per core."),
    ] = None,
    exact_trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Trace to use instead of a profile whose verdict is bad."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Tune on a profile however bad its verdict is.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Read what is wanted, run it, print what was found."""
    campaign, trace = campaign_or_trace(what, trace)
    options: dict[str, Any] = {
        "allocators": _words(allocators),
        "evaluations": evaluations,
        "objectives": _words(objectives),
        "constraints": constraint,
        "strategy": strategy,
        "search": search,
        "emulation": _emulation(threads, thp),
        "seed": seed,
        "space_files": [str(file) for file in space] if space else None,
        "trace": str(trace) if trace else None,
        "further_traces": [str(file) for file in further_trace] if further_trace else None,
        "exact_trace": str(exact_trace) if exact_trace else None,
    }
    from tuner.campaign.summary import summarise
    from tuner.cli.console import print_note
    from tuner.cli.outcome import outcome_lines
    from tuner.front.bounds import check_feasible
    from tuner.library import read_campaign, run_campaign
    from tuner.objectives import parse_constraint
    from tuner.profile.file import is_profile

    given = {key: value for key, value in options.items() if value is not None}
    spec, folder = read_campaign(campaign, output, given)
    if not any(map(is_profile, spec.traces)):
        refuse_options(context, {"--force", "--exact-trace"}, "to a trace: they are for profiles")
    with _listener(quiet=quiet) as listener:
        run = run_campaign(
            spec, folder, workers=workers, force=force, listener=listener, on_note=print_note
        )
    summary = summarise(run.campaign, run.trials, run.rechecks)
    for line in outcome_lines(run.campaign, summary, folder):
        print(line)
    check_feasible(run.trials, [parse_constraint(t) for t in run.campaign.constraints], folder)


def campaign_or_trace(what: Path | None, trace: Path | None) -> tuple[Path | None, Path | None]:
    """Return the campaign, by its file or run folder, and the trace, of which one may be None.

    A file whose name ends in .toml is a campaign unless it begins as a profile does; every
    other file is a workload.
    """
    from tuner.profile.file import is_profile

    if what is None or what.is_dir() or (what.suffix == ".toml" and not is_profile(what)):
        return what, trace
    if trace is not None:
        message = f"{what} and --trace {trace}: give one, and the other with --further-trace"
        raise SpecError(message)
    return None, what


def _emulation(threads: Threads | None, thp: HugePages | None) -> dict[str, str] | None:
    """Return the options as keys of table emulation; None when none is given."""
    given = {"threads": threads, "thp": thp}
    return {key: option.value for key, option in given.items() if option} or None


def _strategies() -> list[str]:
    from tuner.registry import STRATEGIES

    return list(STRATEGIES)


def _searches() -> list[str]:
    return ["joint", "separate"]


@contextlib.contextmanager
def _listener(*, quiet: bool) -> Iterator[Listener]:
    from tuner.campaign.progress import LineProgress, Listener

    if quiet:
        yield Listener()
    elif sys.stderr.isatty():
        from rich.console import Console

        from tuner.campaign.live import LiveProgress

        with LiveProgress(Console(stderr=True)) as live:
            yield live
    else:
        yield LineProgress(sys.stderr)


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",")]
