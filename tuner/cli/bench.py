"""`malloc-tuner bench`: the comparison that allocator articles draw, for any allocators."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.bench.plan import WORKLOADS
from tuner.cli.bounds import duration, each_within, number
from tuner.cli.console import print_note
from tuner.cli.epilog import subcommand
from tuner.cli.options import KINDS, Settings, allow_options, refuse_options, split_names
from tuner.errors import (
    InterruptedCampaign,
    MissingToolError,
    OutputError,
    ProgramError,
    SelectionError,
    SettingError,
    SpecError,
    StoreError,
)
from tuner.limits import BLOCK, BUDGET, MOST_ROUNDS, MOST_SEED, RUN_TIME

if TYPE_CHECKING:  # what does the work is imported by the command; --help must not
    from tuner.bench.journal import Comparison
    from tuner.bench.plan import BenchPlan, Task
    from tuner.bench.subjects import BenchSubject
    from tuner.compare.plan import Step
    from tuner.measure.driver import DriverResult
    from tuner.records import Outcome

_MOST_DIGITS = 9
_SMOKE_THREADS = (2,)
_SMOKE_SIZES = (64, 65536)
_SMOKE_OVERHEAD = (16, 1000)
_SMOKE_S = 0.02


@subcommand(
    "Compare allocators in throughput, latency and memory.",
    "malloc-tuner bench -o runs/bench",
    "malloc-tuner bench --allocators glibc,exgen --library mine=/opt/libmine.so",
    "malloc-tuner bench --setting 'exgen purge_delay=0' --pick runs/app:balanced",
    "malloc-tuner bench --workloads larson,ring --threads 2,16 --budget '2 min'",
    errors=(
        SpecError,
        MissingToolError,
        SettingError,
        ProgramError,
        StoreError,
        OutputError,
        SelectionError,
        InterruptedCampaign,
    ),
)
def bench(
    context: typer.Context,
    *,
    allocators: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:PATH],...", help=f"Default: all that are on this machine. {KINDS}"
        ),
    ] = None,
    libraries: Annotated[
        list[str] | None,
        typer.Option("--library", metavar="NAME=PATH", help="Any library to compare; repeatable."),
    ] = None,
    setting: Settings = None,
    picks: Annotated[
        list[str] | None,
        typer.Option("--pick", metavar="RUN:PICK", help="The pick of a campaign; repeatable."),
    ] = None,
    variables: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            metavar="LABEL:NAME=VALUE",
            help="Variable for the one that tables call LABEL, not read back; repeatable.",
        ),
    ] = None,
    workloads: Annotated[
        str | None, typer.Option(metavar="NAME,...", help=f"Default: {', '.join(WORKLOADS)}.")
    ] = None,
    threads: Annotated[
        str | None, typer.Option(metavar="N,...", help="Default: 1,2,4,16,64,128.")
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE,...", callback=each_within(BLOCK), help="Default: 2 B to 32 MiB by fours."
        ),
    ] = None,
    rounds: Annotated[int, number(1, MOST_ROUNDS, "Runs of everything.")] = 3,
    budget: Annotated[
        str, duration(BUDGET, "Time for all runs; fewer are made where it does not suffice.")
    ] = "10 min",
    seed: Annotated[int, number(1, MOST_SEED, "Seed of workloads and order.")] = 1,
    timeout: Annotated[str, duration(RUN_TIME, "Limit of one run.")] = "2 min",
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="For samples, figures.")
    ] = Path("runs/bench"),
    figures: Annotated[bool, typer.Option(help="Draw figures.")] = True,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="A few tiny runs, to check that everything works.")
    ] = False,
    print_only: Annotated[
        bool, typer.Option("--print", help="Show what is kept, run nothing.")
    ] = False,
) -> None:
    """Run what is missing, keep every sample, show tables and figures."""
    from tuner.bench.journal import kept_seconds, load_comparison
    from tuner.bench.plan import (
        DEFAULT_SIZES,
        DEFAULT_THREADS,
        OVERHEAD_SIZES,
        RANGES,
        THREADED,
        BenchPlan,
        check_workloads,
        make_tasks,
        seconds_within,
    )
    from tuner.bench.summary import failures
    from tuner.units import parse_duration, parse_size

    if print_only:
        allow_options(context, {"--print", "--output", "--figures"}, "with --print")
        _show(load_comparison(output), output, figures=figures)
        return
    if smoke:
        refuse_options(context, {"--rounds", "--budget"}, "with --smoke")
    names = split_names(workloads or "") or WORKLOADS
    check_workloads(names)
    if "sizes" not in names:
        refuse_options(context, {"--sizes"}, "without the workload sizes")
    if not {*THREADED, *RANGES, "sizes", "churn"} & {*names}:
        refuse_options(context, {"--threads"}, f"to {' and '.join(names)}")
    budget_s = parse_duration(budget) / 1e9
    tasks = make_tasks(
        names,
        _numbers("--threads", threads) or (_SMOKE_THREADS if smoke else DEFAULT_THREADS),
        tuple(parse_size(BLOCK.check(word)) for word in split_names(sizes or ""))
        or (_SMOKE_SIZES if smoke else DEFAULT_SIZES),
        _SMOKE_OVERHEAD if smoke else OVERHEAD_SIZES,
    )
    subjects = _subjects(allocators, libraries or [], setting or [], picks or [], variables or [])
    n_rounds = 1 if smoke else rounds
    planned = seconds_within(budget_s, tasks, len(subjects), n_rounds)
    seconds = _SMOKE_S if smoke else kept_seconds(output) or planned
    plan = BenchPlan(tasks, seconds, n_rounds, seed, parse_duration(timeout) / 1e9)
    comparison = _measure(subjects, plan, output, math.inf if smoke else budget_s)
    _show(comparison, output, figures=figures)
    failed = failures(comparison)
    if failed:
        more = f"; and {len(failed) - 1} more" if len(failed) > 1 else ""
        raise ProgramError(f"{failed[0]}{more}; all other samples are kept in {output}")


def _numbers(option: str, text: str | None) -> tuple[int, ...]:
    words = split_names(text or "")
    most = 1024
    for word in words:
        if not word.isdecimal() or len(word) > _MOST_DIGITS or not 1 <= int(word) <= most:
            raise SpecError(f"{option} {word!r}: not a whole number from 1 to {most}")
    return tuple(dict.fromkeys(map(int, words)))


def _subjects(
    allocators: str | None,
    libraries: list[str],
    settings: list[str],
    picks: list[str],
    variables: list[str],
) -> list[BenchSubject]:
    from tuner.bench.subjects import (
        check_labels,
        installed_subjects,
        library_subject,
        named_subject,
        pick_subject,
        subject_of,
        with_variables,
    )
    from tuner.library import settings_of
    from tuner.optimize.tuned import label_of

    names = split_names(allocators or "")
    if allocators is None:
        subjects, missing = installed_subjects()
        for text in missing:
            print_note(f"left out: {text}")
    else:
        subjects = [named_subject(name) for name in names]
    subjects += [library_subject(text) for text in libraries]
    asked, files = settings_of(settings, names)
    subjects += [subject_of(label_of(one), *files[one.allocator], one) for one in asked]
    subjects += [pick_subject(text) for text in picks]
    check_labels(subjects)
    return with_variables(subjects, variables)


def _measure(
    subjects: list[BenchSubject], plan: BenchPlan, folder: Path, budget_s: float
) -> Comparison:
    """Run under a progress bar, as far as the budget goes; returns all that is kept."""
    from tuner.bench.rounds import budget_of, run_missing
    from tuner.cli.console import stderr_progress
    from tuner.compare.loop import Observer
    from tuner.measure.driver import BenchDriver
    from tuner.measure.warm import warm_memory

    progress = stderr_progress()
    bar = progress.add_task("starting", total=None)
    counts = {"all": 0, "left out": 0}

    def on_left(n_runs: int) -> None:
        counts["all"] = counts["all"] or n_runs
        done = min(counts["all"], counts["all"] - n_runs + counts["left out"])
        progress.update(bar, total=counts["all"], completed=done)

    def on_sample(step: Step[Task], sample: Outcome[DriverResult]) -> None:
        text = f"round {step.round + 1}  {step.task}  {step.subject}"
        progress.update(bar, description=f"{text:<52.52}")
        progress.advance(bar)
        if sample.reason is not None:
            progress.say(f"{step.subject}: {step.task}: {sample.reason}")

    def on_left_out(n_runs: int) -> None:
        counts["left out"] += n_runs
        progress.advance(bar, n_runs)

    observer = Observer(on_sample, on_left, on_left_out)
    warm_memory()
    try:
        with progress:
            progress.end_within(budget_s)
            comparison = run_missing(
                plan, subjects, folder, BenchDriver(), observer, budget_of(budget_s)
            )
    except InterruptedCampaign:
        raise InterruptedCampaign(
            f"stopped; all samples are kept in {folder}, and the same command goes on"
        ) from None
    if counts["left out"]:
        print_note(
            f"{counts['left out']} of {counts['all']} runs left out to keep --budget; the same "
            "command makes more of them"
        )
    return comparison


def _show(comparison: Comparison, folder: Path, *, figures: bool) -> None:
    from tuner.cli.bench_tables import bench_tables
    from tuner.cli.console import stdout_console
    from tuner.report.bench_figures import write_bench_figures

    for table in bench_tables(comparison):
        stdout_console(table).print(table, end="\n\n")
    overhead = _clock_overhead(comparison)
    n_rounds = len({number for number, _, _ in comparison.samples})
    meaning = (
        "Medians of the rounds with half the width of their 95 % interval (of fewer than six "
        "rounds: of their range)"
        if n_rounds > 1
        else "One round: no interval"
    )
    print(
        f"{meaning}; -: no run, or no such call was timed; call times are less the clock's own "
        f"{overhead:.0f} ns. Samples: {folder}/samples.jsonl"
    )
    if figures:
        for path in write_bench_figures(comparison, folder / "figures"):
            if path.suffix == ".png":
                print(path)


def _clock_overhead(comparison: Comparison) -> float:
    from statistics import median

    latencies = [s.values.latency for s in comparison.samples.values() if s.values is not None]
    return median([found.clock_overhead_ns for found in latencies if found] or [0.0])
