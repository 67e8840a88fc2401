"""`malloc-tuner tune`: search the settings of allocators on a trace."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuner.cli.bounds import duration, number
from tuner.cli.epilog import subcommand
from tuner.cli.numerics import import_numpy
from tuner.cli.options import (
    ALLOCATORS,
    KINDS,
    Executor,
    HugePages,
    Quiet,
    Scheduler,
    Threads,
    refuse_options,
)
from tuner.cli.run_folder import check_run_folder
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
from tuner.limits import BUDGET, MOST_EVALUATIONS, MOST_SEED, MOST_WORKERS, USUAL_EVALUATIONS
from tuner.registry import STRATEGIES

if TYPE_CHECKING:  # what does the work is imported by the command; --help must not
    from tuner.campaign.progress import Listener


@subcommand(
    "Search the allocators' settings on a trace. Interrupted or killed, the same command "
    "continues; with more evaluations it extends a finished campaign.",
    "malloc-tuner tune configs/campaigns/demo.toml",
    "malloc-tuner tune app.trace --allocators glibc,jemalloc --evaluations 300",
    'malloc-tuner tune app.trace --constraint "peak_heap <= 2 GiB" -o runs/app',
    "malloc-tuner tune app.trace --executor dask --scheduler tcp://host:8786",
    "malloc-tuner tune app.trace --threads free --objectives faults,p99_latency",
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
)
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
        typer.Option("--output", "-o", metavar="RUN", help="Run folder (default: runs/<name>)."),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Trace to tune for, as TRACE.", hidden=True)
    ] = None,
    further_trace: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Further trace; figures are geometric means over all. Repeatable."
        ),
    ] = None,
    held_out: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Held-out trace or profile, measured at the end; repeatable."
        ),
    ] = None,
    allocators: Annotated[
        str | None, typer.Option(metavar="NAME[:PATH],...", help=f"Default: {ALLOCATORS}. {KINDS}")
    ] = None,
    evaluations: Annotated[
        int | None,
        number(
            1,
            MOST_EVALUATIONS,
            f"Distinct configurations to measure; {USUAL_EVALUATIONS} by default.",
        ),
    ] = None,
    time: Annotated[
        str | None, duration(BUDGET, 'Stop after this elapsed time, such as "10 min".')
    ] = None,
    plateau: Annotated[
        int | None,
        number(1, MOST_EVALUATIONS, "Stop after N evaluations that gain under 0.1 % hypervolume."),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help='Stop at a trial within this limit, such as "cost <= default - 20 %"; repeatable, '
            "then within all.",
        ),
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
            metavar="NAME", help=f"One of {', '.join(STRATEGIES)}.", autocompletion=_strategies
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
        typer.Option(
            metavar="FILE", help="Search-space file instead of the shipped one; repeatable."
        ),
    ] = None,
    warm_start: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RUNS",
            help="Start from the front of the earlier run with the most similar workload; a run "
            "folder, or a folder of them; repeatable.",
        ),
    ] = None,
    seed: Annotated[int | None, number(0, MOST_SEED, "Random seed.")] = None,
    workers: Annotated[
        int | None,
        number(1, MOST_WORKERS, "Evaluations at a time (default: one per core); with slurm: jobs."),
    ] = None,
    executor: Executor = "local",
    scheduler: Scheduler = None,
    exact_trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Trace to use instead of a profile whose verdict is bad."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Tune on the profile even if its verdict is bad.")
    ] = False,
    quiet: Quiet = False,
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
        "stop": _stop(time, plateau, target),
        "seed": seed,
        "space_files": [str(file) for file in space] if space else None,
        "warm_start": [str(folder) for folder in warm_start] if warm_start else None,
        "trace": str(trace) if trace else None,
        "further_traces": [str(file) for file in further_trace] if further_trace else None,
        "held_out_traces": [str(file) for file in held_out] if held_out else None,
        "exact_trace": str(exact_trace) if exact_trace else None,
    }
    import_numpy()
    from tuner.campaign.held_out import held_out_lines
    from tuner.campaign.summary import summarise
    from tuner.cli.console import print_note
    from tuner.cli.outcome import outcome_lines
    from tuner.front.bounds import check_feasible
    from tuner.library import read_campaign, run_campaign
    from tuner.objectives import parse_constraint
    from tuner.profile.file import is_profile

    for text in (*(constraint or ()), *(target or ())):
        parse_constraint(text)  # its message knows no key of a file
    given = {key: value for key, value in options.items() if value is not None}
    spec, folder = read_campaign(campaign, output, given)
    if folder != campaign:
        check_run_folder(folder, spec.name, is_campaign=True)
    if not any(map(is_profile, spec.traces)):
        refuse_options(context, {"--force", "--exact-trace"}, "to a trace, only to a profile")
    with _listener(quiet=quiet) as listener:
        run = run_campaign(
            spec, folder, workers=workers, executor=executor, scheduler=scheduler, force=force,
            listener=listener, on_note=print_note,
        )  # fmt: skip
    summary = summarise(run.campaign, run.trials, run.rechecks)
    for line in (*outcome_lines(run.campaign, summary, folder), *held_out_lines(run)):
        print(line)
    check_feasible(run.trials, [parse_constraint(t) for t in run.campaign.constraints], folder)


def campaign_or_trace(what: Path | None, trace: Path | None) -> tuple[Path | None, Path | None]:
    """Return the campaign, by its file or run folder, and the trace, of which one may be None.

    A file whose name ends in .toml is a campaign unless it begins as a profile does; every
    other file is a workload.
    """
    from tuner.profile.file import is_profile

    if what is not None and what.suffix != ".toml" and not what.exists():
        raise TraceError(f"{what}: cannot open the trace: no such file, nor a run folder")
    if what is None or what.is_dir() or (what.suffix == ".toml" and not is_profile(what)):
        return what, trace
    if trace is not None:
        raise SpecError(f"{what} and --trace {trace}: give one, and the other with --further-trace")
    return None, what


def _emulation(threads: Threads | None, thp: HugePages | None) -> dict[str, str] | None:
    """Return the options as keys of table emulation; None when none is given."""
    given = {"threads": threads, "thp": thp}
    return {key: option.value for key, option in given.items() if option} or None


def _stop(time: str | None, plateau: int | None, target: list[str] | None) -> dict[str, Any] | None:
    """Return the options as keys of table stop; None when none is given."""
    given = {"time": time, "plateau": plateau, "target": target}
    return {key: option for key, option in given.items() if option is not None} or None


def _strategies() -> list[str]:
    return list(STRATEGIES)


def _searches() -> list[str]:
    return ["joint", "separate"]


@contextlib.contextmanager
def _listener(*, quiet: bool) -> Iterator[Listener]:
    from tuner.campaign.progress import LineProgress, Listener

    if quiet:
        yield Listener()
    elif sys.stderr.isatty():
        from tuner.campaign.live import LiveProgress
        from tuner.cli.console import stderr_console

        with LiveProgress(stderr_console()) as live:
            yield live
    else:
        yield LineProgress(sys.stderr)


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",")]
