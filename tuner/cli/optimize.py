"""`malloc-tuner optimize`: the setting that the program itself proved better, or none."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.epilog import epilog
from tuner.errors import (
    ConditionVerdict,
    InterruptedCampaign,
    MissingToolError,
    OutputError,
    ProgramError,
    ProgramTimeoutError,
    SpecError,
    StoreError,
)

if TYPE_CHECKING:
    from tuner.optimize.answer import Answer
    from tuner.optimize.conditions import Condition
    from tuner.optimize.view import View

DEFAULT_TIME = "10min"
HELD_OUT = "--held-out"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(
        "optimize",
        help=(
            "Find the setting that the program itself proves best. Records, searches in "
            "emulation, runs what looks promising, confirms it on new runs, and answers in one "
            "sentence: deploy this, or keep what you have. Interrupted, the same command "
            "continues; with more --time it goes on."
        ),
        epilog=epilog(
            "malloc-tuner optimize -- ./app --input data",
            "malloc-tuner optimize -o runs/app --time 5min -- ./app data --held-out -- ./app other",
            "malloc-tuner optimize runs/app --time 20min",
            errors=(
                SpecError,
                MissingToolError,
                ProgramError,
                ProgramTimeoutError,
                StoreError,
                OutputError,
                ConditionVerdict,
                InterruptedCampaign,
            ),
        ),
    )(optimize)


def optimize(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN | -- COMMAND [ARGUMENTS]... [--held-out -- COMMAND [ARGUMENTS]...]",
            help="The program, and perhaps one with other input to judge on; or a run folder.",
        ),
    ] = None,
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="RUN", help="Run folder; runs/PROGRAM by default."),
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="TIME", help=f"For this call; {DEFAULT_TIME} by default.")
    ] = None,
    allocators: Annotated[
        str, typer.Option(metavar="NAME[:PATH],...", help="Allocators to try.")
    ] = "glibc,tcmalloc,jemalloc,mimalloc,exgen",
    least: Annotated[str, typer.Option(metavar="SHARE", help="Least effect that counts.")] = "1%",
    evaluations: Annotated[
        int | None,
        typer.Option(min=5, metavar="N", help="In emulation; by default what the time allows."),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="Limit of one run of the program.")
    ] = None,
    cpu: Annotated[int | None, typer.Option(min=0, metavar="N", help="Core to run on.")] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Random seed.")] = 1,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-if",
            metavar="CONDITION",
            help=(
                "Exit with 19 when the answer is so: deploy, keep, undecided, or a change such as "
                '"mean_memory > -5%", of mean_memory, peak_memory or cpu_time. Repeatable.'
            ),
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Read what is asked for, do it, print the answer."""
    from tuner.optimize.conditions import parse_condition
    from tuner.optimize.judgement import Rules
    from tuner.optimize.request import REQUEST_FILE, Request
    from tuner.optimize.session import Session
    from tuner.units import parse_duration, parse_percent

    seconds = parse_duration(time or DEFAULT_TIME) / 1e9
    if seconds <= 0.0:
        message = f"--time {time}: give more than no time"
        raise SpecError(message)
    check_core(cpu)
    conditions = {text: parse_condition(text) for text in fail_if or []}
    words = words or []
    refuse_input()
    run = Path(words[0]) if words else output or Path()
    if len(words) <= 1 and (run / REQUEST_FILE).is_file():
        from dataclasses import replace

        request = Request.load(run)
        if time is not None:
            request = replace(request, seconds=seconds)
    else:
        if not words:
            message = "give a command after --, or the run folder of an optimisation to continue"
            raise SpecError(message)
        command, held_out = split_held_out(words)
        _check_program(command[0])
        run = output or Path("runs") / Path(command[0]).name
        request = Request(
            command=command,
            seconds=seconds,
            allocators=tuple(word.strip() for word in allocators.split(",")),
            rules=Rules(least=parse_percent(least)),
            held_out=held_out,
            evaluations=evaluations,
            timeout_s=parse_duration(timeout) / 1e9 if timeout else None,
            cpu=cpu,
            seed=seed,
        )
    with _view(run, request.seconds, quiet=quiet) as view:
        answer = Session(run, request, view).answer()
    if as_json:
        print(json.dumps(answer.as_record(), indent=1))
    else:
        print()
        for line in answer.lines():
            print(line)
        _print_next(run, answer)
    _check(conditions, answer)


def _check(conditions: Mapping[str, Condition], answer: Answer) -> None:
    """Refuse an answer that a condition of --fail-if describes.

    Raises:
        ConditionVerdict: names the first one.
    """
    for text, is_so in conditions.items():
        if is_so(answer):
            message = f"--fail-if {text!r} holds: {answer.sentence}"
            raise ConditionVerdict(message)


def split_held_out(words: list[str]) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return the command and the held-out one.

    Raises:
        SpecError: --held-out has no command.

    Example:
        >>> split_held_out(["app", "a", "--held-out", "--", "app", "b"])
        (('app', 'a'), ('app', 'b'))
    """
    if HELD_OUT not in words:
        return tuple(words), None
    at = words.index(HELD_OUT)
    rest = words[at + 1 :]
    if rest[:1] == ["--"]:
        rest = rest[1:]
    if not rest or not words[:at]:
        message = f"{HELD_OUT}: give a command after it, as in `-- ./app a {HELD_OUT} -- ./app b`"
        raise SpecError(message)
    return tuple(words[:at]), tuple(rest)


def _check_program(program: str) -> None:
    if shutil.which(program) is None:
        message = f"{program}: no such program, nor a run folder of `optimize`"
        raise MissingToolError(message)


@contextlib.contextmanager
def _view(run: Path, seconds: float, *, quiet: bool) -> Iterator[View]:
    """Show progress on standard error, unless quiet."""
    from tuner.optimize.view import View

    if quiet:
        yield View()
        return
    from tuner.cli.optimize_view import ProgressView

    with ProgressView(str(run), seconds) as view:
        yield view


def check_core(cpu: int | None) -> None:
    """Refuse a core that this process may not use.

    Raises:
        SpecError: names those that it may.
    """
    cores = sorted(os.sched_getaffinity(0))
    if cpu is not None and cpu not in cores:
        message = f"--cpu {cpu}: give one of {', '.join(map(str, cores))}"
        raise SpecError(message)


def refuse_input() -> None:
    """Refuse a file on standard input: the program runs many times, and would not see it.

    Raises:
        SpecError: says how to pass it on.
    """
    with contextlib.suppress(OSError, ValueError):
        found = os.fstat(sys.stdin.fileno())
        if stat.S_ISREG(found.st_mode) and found.st_size:
            message = (
                "standard input is not passed on to the program; let a shell open it in every "
                "run: -- sh -c 'exec ./app < FILE'"
            )
            raise SpecError(message)


def _print_next(run: Path, answer: Answer) -> None:
    print()
    if answer.decision == "deploy":
        print(f"malloc-tuner export {run}     for a shell, systemd, Docker, Kubernetes")
    elif answer.decision == "undecided":
        minutes = max(1, math.ceil(answer.more_seconds / 60.0))
        print(f"malloc-tuner optimize {run} --time {minutes}min     goes on from here")
    print(f"malloc-tuner report {run}     what emulation tried")
