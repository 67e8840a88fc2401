"""`malloc-tuner validate`: the claims of a campaign, measured on the real program."""

from __future__ import annotations

import contextlib
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.epilog import epilog
from tuner.cli.options import (
    HugePages,
    RunFolder,
    allow_options,
    given_options,
    refuse_options,
)
from tuner.errors import (
    NOTHING_COMPARED,
    ComparisonError,
    InterruptedCampaign,
    MissingToolError,
    ProgramError,
    ProgramTimeoutError,
    SelectionError,
    SpecError,
    StoreError,
    UnconfirmedVerdict,
    WorseVerdict,
)

if TYPE_CHECKING:  # what does the work is imported by the command; --help must not
    from collections.abc import Iterator

    from tuner.store import ValidationSample
    from tuner.validate.rounds import Observer
    from tuner.validate.summary import ValidationSummary

_POINTS = "picks,front"
_OBJECTIVES = "l1d_mpki,l2_mpki,ipc"

_OF_ALL = {"--points", "--front", "--dominated", "--timeout"}
_OF_ROUNDS = {"--rounds", "--instrument", "--cpu", "--thp", "--sample-ms", "--seed"}
OF_COMMAND = (
    _OF_ALL
    | _OF_ROUNDS
    | {"--ignore-output", "--output-file", "--fail-if-worse", "--fail-if-unconfirmed"}
)
OF_GEM5 = _OF_ALL | _OF_ROUNDS | {"--gem5", "--suite", "--simulations"}
OF_INSIDE = _OF_ALL | {
    "--gem5",
    "--suite",
    "--simulations",
    "--inside",
    "--objectives",
    "--workers",
}
"""Options that apply to each form of the command."""


class CountedBy(StrEnum):
    """How instructions of the real program are counted."""

    AUTO = "auto"
    CACHEGRIND = "cachegrind"
    NONE = "none"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(
        "validate",
        help="Measure picks and defaults on the real program, in rounds.",
        epilog=epilog(
            "malloc-tuner validate runs/app -- ./app --its arguments",
            "malloc-tuner validate runs/app --points balanced,best,17 --rounds 10 -- ./app",
            "malloc-tuner validate runs/app --output-file out.pdf -- ./render in.ps out.pdf",
            "malloc-tuner validate runs/gem5 --gem5 build/X86/gem5.opt --simulations held-out",
            "malloc-tuner validate runs/app --gem5 build/X86/gem5.opt --inside --simulations perl",
            errors=(
                SpecError,
                MissingToolError,
                ProgramError,
                ProgramTimeoutError,
                StoreError,
                SelectionError,
                ComparisonError,
                WorseVerdict,
                UnconfirmedVerdict,
                InterruptedCampaign,
            ),
        ),
    )(validate)


def validate(
    *,
    run: RunFolder,
    context: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="The program and its arguments.")
    ] = None,
    gem5: Annotated[
        Path | None,
        typer.Option(
            envvar="GEM5", metavar="PROGRAM", help="Instead of a command: gem5, on simulations."
        ),
    ] = None,
    suite: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Suite of simulations, if not the shipped one."),
    ] = None,
    simulations: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Names of simulations, or the words tune, held-out and all; with --inside names "
            "of programs and machines.",
        ),
    ] = "all",
    inside: Annotated[
        bool,
        typer.Option(
            "--inside",
            help="gem5 as the instrument: programs run inside its machines, and caches are told.",
        ),
    ] = False,
    objectives: Annotated[
        str,
        typer.Option(
            metavar="NAME,...", help="With --inside: what decides, such as l1d_mpki, cycles."
        ),
    ] = _OBJECTIVES,
    workers: Annotated[
        int, typer.Option(min=1, metavar="N", help="With --inside: simulations at once.")
    ] = 1,
    rounds: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Runs of every subject; default: what the number of claims needs, such as 12 "
            "for 22, and 6 on gem5.",
        ),
    ] = None,
    points: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Names of picks, numbers of trials, or the words picks, best and front.",
        ),
    ] = _POINTS,
    front: Annotated[
        int, typer.Option(min=1, metavar="N", help="Most points for the word front.")
    ] = 4,
    dominated: Annotated[
        int, typer.Option(min=0, metavar="N", help="Dominated points, which check the ranking.")
    ] = 3,
    instrument: Annotated[
        CountedBy,
        typer.Option(
            help="auto: hardware counters where there are any; cachegrind: once per subject, slow."
        ),
    ] = CountedBy.AUTO,
    ignore_output: Annotated[
        bool, typer.Option("--ignore-output", help="Do not compare standard output.")
    ] = False,
    output_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Compare this file, which the program writes."),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Limit of one run; default 10 times the baseline's."),
    ] = None,
    cpu: Annotated[
        int | None, typer.Option(min=0, metavar="CORE", help="Core to pin the program to.")
    ] = None,
    thp: Annotated[
        HugePages | None,
        typer.Option(
            help="Transparent huge pages: as the machine is set, or off; default: the campaign's."
        ),
    ] = None,
    sample_ms: Annotated[
        int,
        typer.Option(
            min=1, max=10000, metavar="N", help="Milliseconds between two samples of memory."
        ),
    ] = 2,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Seed of the order within the rounds.")
    ] = 1,
    fail_if_worse: Annotated[
        bool,
        typer.Option(
            "--fail-if-worse", help="Exit with 17 when a pick failed or is worse than claimed."
        ),
    ] = False,
    fail_if_unconfirmed: Annotated[
        bool,
        typer.Option("--fail-if-unconfirmed", help="Exit with 18 when no gain is confirmed."),
    ] = False,
) -> None:
    """Run the rounds that are missing, then print what they show."""
    from tuner.cli.validate_gem5 import validate_with_gem5
    from tuner.cli.validate_inside import InsideOptions, validate_inside
    from tuner.cli.validation_tables import print_summary
    from tuner.library import compare
    from tuner.measure.counting import InstructionCounter
    from tuner.measure.program import Surroundings
    from tuner.runs import load_run
    from tuner.units import parse_duration
    from tuner.validate.gem5_rounds import GEM5_ROUNDS, Gem5Options
    from tuner.validate.rounds import IGNORED, STDOUT

    _refuse(context, command, gem5, inside=inside, points=_words(points))
    if inside and gem5 is not None:
        timeout_s = parse_duration(timeout) / 1e9 if timeout else None
        validate_inside(
            run,
            gem5,
            suite,
            _words(simulations),
            points=(_words(points), front, dominated),
            options=InsideOptions(_words(objectives), timeout_s, workers),
        )
        return
    huge_pages = thp.value if thp else load_run(run).campaign.huge_pages
    counter = InstructionCounter() if instrument is CountedBy.CACHEGRIND else None
    surroundings = Surroundings(
        cpu=cpu,
        timeout_s=parse_duration(timeout) / 1e9 if timeout else None,
        sample_ms=sample_ms,
        thp="keep" if huge_pages == "keep" else "never",
    )
    if not command and gem5 is not None:
        validate_with_gem5(
            run,
            gem5,
            suite,
            _words(simulations),
            points=(_words(points), front, dominated),
            options=Gem5Options(rounds or GEM5_ROUNDS, surroundings, instrument.value, seed),
            counter=counter,
        )
        return
    with _observer() as observer:
        summary = compare(
            load_run(run),
            command or [],
            points=_words(points),
            most_front=front,
            most_dominated=dominated,
            rounds=rounds,
            output=IGNORED if ignore_output else str(output_file or STDOUT),
            surroundings=surroundings,
            instrument=instrument.value,
            seed=seed,
            observer=observer,
        )
    print_summary(summary)
    check_outcome(summary, worse=fail_if_worse, unconfirmed=fail_if_unconfirmed)


def check_outcome(summary: ValidationSummary, *, worse: bool, unconfirmed: bool) -> None:
    """Turn what a validation showed into the exit code that was asked for.

    Args:
        summary: of a validation.
        worse: True refuses picks that failed or are worse than claimed.
        unconfirmed: True demands one pick with a confirmed gain.

    Raises:
        ComparisonError: nothing could be compared with the baseline.
        WorseVerdict: with `worse`.
        UnconfirmedVerdict: with `unconfirmed`.
    """
    from tuner.validate.verdicts import Verdict

    if not summary.is_comparison:
        raise ComparisonError(NOTHING_COMPARED)
    picks = [s for s in summary.subjects if s.subject.is_pick and not s.is_baseline]
    bad = [s for s in picks if s.verdict in (Verdict.WORSE, Verdict.REJECTED)]
    if worse and bad:
        names = ", ".join(f"{found.subject.label} ({found.verdict})" for found in bad)
        message = f"worse than claimed on the real program: {names}"
        raise WorseVerdict(message)
    if unconfirmed and not any(s.verdict is Verdict.CONFIRMED for s in picks):
        names = ", ".join(f"{found.subject.label} ({found.verdict})" for found in picks) or "none"
        message = f"no gain is confirmed on the real program; picks: {names}"
        raise UnconfirmedVerdict(message)


def _refuse(
    context: typer.Context,
    command: list[str] | None,
    gem5: Path | None,
    *,
    inside: bool,
    points: list[str],
) -> None:
    """Refuse a call without anything to run, and options that its form would ignore.

    Raises:
        BadParameter: exit code 2; the message names the options.
    """
    if command:
        allow_options(context, OF_COMMAND, "to a COMMAND: leave them out, or the COMMAND")
    elif gem5 is None and inside:
        message = "--inside needs gem5: name it with --gem5 or GEM5"
        raise typer.BadParameter(message, ctx=context, param_hint="--inside")
    elif gem5 is None:
        message = (
            "no program to measure: give it behind --, or gem5 with --gem5 or GEM5 "
            "(`malloc-tuner doctor` tells how to get it)"
        )
        raise typer.BadParameter(message, ctx=context, param_hint="COMMAND")
    elif inside:
        allow_options(context, OF_INSIDE, "with --inside: simulated machines repeat themselves")
    else:
        allow_options(context, OF_GEM5, "to simulations on gem5")
    if "--output-file" in given_options(context):
        refuse_options(context, ["--ignore-output"], "with --output-file")
    if "front" not in points:
        refuse_options(context, ["--front"], "without the word front in --points")


def _words(text: str) -> list[str]:
    return [word for word in (part.strip() for part in text.split(",")) if word]


@contextlib.contextmanager
def _observer() -> Iterator[Observer]:
    """Show a progress bar."""
    from tuner.cli.console import stderr_progress
    from tuner.records import Status
    from tuner.validate.rounds import Observer

    progress = stderr_progress()

    def on_sample(sample: ValidationSample) -> None:
        progress.update(task, description=f"round {sample.round + 1}  {sample.label:<20.20}")
        progress.advance(task)
        if sample.status is not Status.OK:
            progress.print(f"{sample.label} is out: {sample.reason}", markup=False)

    def on_notice(text: str) -> None:
        progress.print(f"note: {text}", markup=False)

    def on_plan(n_left: int) -> None:
        (bar,) = progress.tasks
        progress.update(task, total=bar.completed + n_left)
        progress.begin_steps()

    with progress:
        task = progress.add_task("first run", total=None)
        yield Observer(on_sample, on_notice, on_plan)
