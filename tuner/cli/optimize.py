"""`malloc-tuner optimize`: the setting that the program itself proved better, or none."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.epilog import epilog
from tuner.cli.optimize_request import (
    DEFAULT_ALLOCATORS,
    DEFAULT_LEAST,
    DEFAULT_TIME,
    Options,
    read_request,
)
from tuner.cli.options import refuse_input
from tuner.cli.services import (
    AUTO,
    IDLE,
    STOP,
    WARM_UPS,
    Constraints,
    HeldOutLoad,
    Idle,
    Load,
    Read,
    Ready,
    Setup,
    Stop,
    Teardown,
    User,
    WarmUps,
    refuse_without_service,
    service_plan,
    service_request,
)
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
            "malloc-tuner optimize app.toml --fail-if undecided --json",
            "malloc-tuner optimize --time 1h --ready tcp:8080 --load ./load.sh -- ./server",
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
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN | FILE.toml | -- COMMAND [ARGUMENTS]... [--held-out -- COMMAND ...]",
            help=(
                "The program, and perhaps one with other input to judge on; a file with "
                "[program]; or a run folder to continue."
            ),
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
        str | None,
        typer.Option(
            metavar="NAME[:PATH],...", help=f"Allocators to try; {DEFAULT_ALLOCATORS} by default."
        ),
    ] = None,
    least: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE", help=f"Least effect that counts; {DEFAULT_LEAST} by default."
        ),
    ] = None,
    evaluations: Annotated[
        int | None,
        typer.Option(min=5, metavar="N", help="In emulation; by default what the time allows."),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="Limit of one run of the program.")
    ] = None,
    cpu: Annotated[int | None, typer.Option(min=0, metavar="N", help="Core to run on.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Random seed; 1 by default.")
    ] = None,
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
    ready: Ready = None,
    load: Load = None,
    held_out_load: HeldOutLoad = None,
    warm_ups: WarmUps = WARM_UPS,
    idle: Idle = IDLE,
    stop: Stop = STOP,
    setup: Setup = None,
    teardown: Teardown = None,
    user: User = None,
    read: Read = AUTO,
    constraint: Constraints = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Read what is asked for, do it, print the answer."""
    from tuner.optimize.conditions import parse_condition
    from tuner.optimize.session import Session

    check_core(cpu)
    conditions = {text: parse_condition(text) for text in fail_if or []}
    refuse_input()
    options = Options(output, time, allocators, least, evaluations, timeout, cpu, seed)
    run, request = read_request(words or [], options)
    if ready or load:
        plan = service_plan(
            request.command,
            ready,
            load,
            warm_ups=warm_ups,
            idle=idle,
            stop=stop,
            setup=setup,
            teardown=teardown,
            user=user,
            read=read,
            timeout=timeout,
        )
        request = service_request(request, plan, constraint, held_out_load)
    else:
        refuse_without_service(context, ("--allocators", "--output"))
    for command in (request.command, *request.further):
        _check_program(command[0])
    with shown_progress(run, request.seconds, quiet=quiet) as view:
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


def _check_program(program: str) -> None:
    if shutil.which(program) is None:
        message = f"{program}: no such program, nor a run folder of `optimize`"
        if Path(program).is_file():
            message = (
                f"{program}: not a program that can be started; "
                f"if it is a trace, `malloc-tuner tune {shlex.quote(program)}` searches with it"
            )
        raise MissingToolError(message)


@contextlib.contextmanager
def shown_progress(run: Path, seconds: float, *, quiet: bool = False) -> Iterator[View]:
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


def _print_next(run: Path, answer: Answer) -> None:
    print()
    if answer.decision == "deploy":
        print(f"malloc-tuner export {run}     for a shell, systemd, Docker, Kubernetes")
    elif answer.decision == "undecided":
        minutes = max(1, math.ceil(answer.more_seconds / 60.0))
        print(f"malloc-tuner optimize {run} --time {minutes}min     goes on from here")
    print(f"malloc-tuner report {run}     what emulation tried")
