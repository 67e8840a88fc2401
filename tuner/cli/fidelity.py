"""`malloc-tuner fidelity`: how well a profile stands for its trace."""

from __future__ import annotations

import contextlib
import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.bounds import duration, number
from tuner.cli.console import print_note
from tuner.cli.emulate import InstrumentName
from tuner.cli.epilog import subcommand
from tuner.cli.options import (
    ALLOCATORS,
    KINDS,
    AsJson,
    HugePages,
    Thp,
    allocator_names,
    given_options,
    refuse_options,
)
from tuner.errors import MissingToolError, OutputError, ProgramError, SpecError, TraceError
from tuner.limits import MOST_ROUNDS, MOST_RUNS, RUN_TIME

if TYPE_CHECKING:  # what does the work is imported by the command; --help must not
    from collections.abc import Callable, Iterator, Sequence

    from tuner.fidelity.session import Begin


@subcommand(
    "Measure how well a profile stands for its trace.",
    "malloc-tuner fidelity app.profile.json --trace app.trace",
    "malloc-tuner fidelity app.profile.json --trace app.trace --seeds 5 --json",
    "malloc-tuner fidelity app.profile.json --trace app.trace -- ./app data",
    errors=(SpecError, MissingToolError, TraceError, ProgramError, OutputError),
)
def fidelity(
    context: typer.Context,
    *,
    profile: Annotated[
        Path,
        typer.Argument(
            metavar="PROFILE",
            help="The verdict goes into it, unless it is a trace of classic records.",
        ),
    ],
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The trace it was fitted to; without it only --shrunk is measured."
        ),
    ] = None,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="The program itself, to run under the panel too."),
    ] = None,
    allocators: Annotated[
        str, typer.Option(metavar="NAME[:PATH],...", help=f"Allocators of the panel. {KINDS}")
    ] = ALLOCATORS,
    configurations: Annotated[
        int, number(2, MOST_RUNS, "Least number of configurations, equal per allocator.")
    ] = 30,
    seeds: Annotated[int, number(1, MOST_RUNS, "Workloads generated from the profile.")] = 3,
    instrument: Annotated[
        InstrumentName, typer.Option(help="What counts instructions; none: memory and faults only.")
    ] = InstrumentName.AUTO,
    shrunk: Annotated[
        str,
        typer.Option(
            metavar="SHARE,...",
            help="Shrunk profiles to compare with the whole one, for screening, or none.",
        ),
    ] = "0.25",
    rounds: Annotated[
        int, number(1, MOST_ROUNDS, "With COMMAND: runs of the program per configuration.")
    ] = 3,
    timeout: Annotated[str, duration(RUN_TIME, "With COMMAND: limit of one run.")] = "10 min",
    thp: Thp = HugePages.KEEP,
    as_json: AsJson = False,
) -> None:
    """Measure the panel on both, judge, store the verdict in the profile."""
    from tuner.cli.fidelity_tables import print_fidelity, shrunk_lines
    from tuner.emulation import EmulationOptions
    from tuner.fidelity.session import RealProgram, members_of
    from tuner.library import judge_profile
    from tuner.units import parse_duration

    is_classic = not members_of(profile)
    shares = [] if is_classic else _shares(shrunk)
    names = allocator_names(allocators)
    _check_given(context, trace, shares, shrunk, command, is_classic=is_classic)
    with _stages(len(shares) + (seeds + 1 if trace else 1)) as (begin, on_note):
        verdict = judge_profile(
            profile,
            trace,
            allocators=names,
            configurations=configurations,
            seeds=seeds,
            options=EmulationOptions(instrument=instrument.value, thp=thp.value),
            shares=shares,
            program=RealProgram(command, rounds, parse_duration(timeout) / 1e9)
            if command
            else None,
            begin=begin,
            on_note=on_note,
        )
    if as_json:
        print(json.dumps(verdict.as_json(), indent=2))
    elif trace:
        print_fidelity(verdict)
    else:
        print("\n".join(shrunk_lines(verdict)))
    if trace is None:
        print_note("how well the profile stands for its trace: add --trace FILE")


def _check_given(
    context: typer.Context,
    trace: Path | None,
    shares: Sequence[float],
    shrunk: str,
    command: list[str] | None,
    *,
    is_classic: bool,
) -> None:
    """Refuse what does not go together, and a program that is not there."""
    from tuner.cli.programs import check_program
    from tuner.profile.file import is_profile

    if trace is None:
        refuse_options(context, {"--seeds"}, "without --trace")
    if trace is None and (command or not shares or "--shrunk" not in given_options(context)):
        raise SpecError(
            "give --trace FILE, the trace that the profile was fitted to, to judge the profile; "
            "without it only shrunk profiles can be judged beside the whole one, with --shrunk 0.25"
        )
    if trace is not None and is_profile(trace):
        raise SpecError(
            f"--trace {trace}: a profile; its fidelity is judged against the trace itself"
        )
    if is_classic and _shares(shrunk):
        refuse_options(context, {"--shrunk"}, "to classic records")
    if not command:
        refuse_options(context, {"--rounds", "--timeout"}, "without COMMAND")
    else:
        check_program(command[0])


def _shares(text: str) -> list[float]:
    from tuner.profile.variation import LEAST_FACTOR

    if text.strip() == "none":
        return []
    try:
        shares = [float(word) for word in text.split(",") if word.strip()]
    except ValueError:
        shares = [0.0]
    if not all(LEAST_FACTOR <= share < 1.0 for share in shares):
        raise SpecError(
            f"--shrunk {text!r}: shares of at least {LEAST_FACTOR:g} and below 1, such as "
            "0.25,0.1, or none"
        )
    return shares


@contextlib.contextmanager
def _stages(n_stages: int) -> Iterator[tuple[Begin, Callable[[str], None]]]:
    """Show a panel that is measured several times; yields what begins a stage, and what notes."""
    from tuner.cli.console import folded_note, stderr_progress

    with stderr_progress() as progress:
        bar = progress.add_task("", total=None)

        def begin(what: str, n_configurations: int) -> Callable[[], None]:
            progress.say(f"{n_configurations} configurations on {what}")
            progress.update(bar, description=what, total=n_configurations * n_stages)
            return functools.partial(progress.advance, bar)

        def on_note(text: str) -> None:
            progress.say(folded_note(f"note: {text}"))

        yield begin, on_note
