"""`malloc-tuner optimize`: the setting that the program itself proved better, or none."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.bounds import core, duration, number, within
from tuner.cli.console import print_answer
from tuner.cli.epilog import subcommand
from tuner.cli.numerics import import_numpy
from tuner.cli.options import (
    ALLOCATORS,
    KINDS,
    AsJson,
    Executor,
    Quiet,
    Scheduler,
    refuse_input,
    split_names,
)
from tuner.cli.programs import check_program
from tuner.cli.run_folder import check_run_folder
from tuner.cli.services import (
    AUTO,
    IDLE,
    STOP,
    WARM_UPS,
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
    refuse_where_described,
    refuse_without_service,
    service_plan,
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
from tuner.limits import (
    BUDGET,
    EFFECT,
    MOST_EVALUATIONS,
    MOST_SEED,
    MOST_WORKERS,
    RUN_TIME,
    USUAL_EFFECT,
    USUAL_TIME,
    usable_core,
)

if TYPE_CHECKING:
    from tuner.optimize.answering.answer import Answer
    from tuner.optimize.answering.recommendation import Recommendation
    from tuner.optimize.request import Request
    from tuner.optimize.view import View


def _misplaced(context: typer.Context, is_given: bool) -> bool:
    """Refuse --held-out among the options: it stands behind the program's arguments."""
    if is_given:
        raise typer.BadParameter(
            "stands behind the command, with -o RUN too: -- COMMAND --held-out -- COMMAND",
            ctx=context,
        )
    return is_given


@subcommand(
    "Find the setting that the program itself proves best. Records, searches in "
    "emulation, runs what looks promising, confirms it on new runs, and answers in one "
    "sentence: deploy this, or keep what you have. Interrupted, the same command "
    "continues. An open answer goes on with more --time; a decided one stays, and is searched "
    "on with a longer --time than before.",
    "malloc-tuner optimize -- ./app --input data",
    "malloc-tuner optimize --time 5min -- ./app data --held-out -- ./app other",
    "malloc-tuner optimize runs/app --time 20min",
    "malloc-tuner optimize runs/app --constraint 'peak_memory <= default * 1.1'",
    "malloc-tuner optimize --direct --time 20min -- ./static-app data",
    "malloc-tuner optimize app.toml --fail-if undecided --json",
    "malloc-tuner optimize --executor dask --scheduler tcp://host:8786 -- ./app",
    "malloc-tuner optimize --ready tcp:8080 --load ./load.sh -- ./server",
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
)
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
        typer.Option(
            "--output",
            "-o",
            metavar="RUN",
            help=(
                "Run folder; runs/PROGRAM by default, of a file runs/NAME; runs/PROGRAM-optimize "
                "where that is one of tune."
            ),
        ),
    ] = None,
    time: Annotated[
        str | None, duration(BUDGET, f"For this call; {USUAL_TIME} by default.")
    ] = None,
    allocators: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:PATH],...",
            help=f"Allocators to try; {ALLOCATORS} by default. {KINDS}",
        ),
    ] = None,
    goals: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help=(
                "What is to gain, one of them at least: mean_memory, peak_memory, cpu_time; "
                "mean_memory,cpu_time by default. None of the three may become worse in any case."
            ),
        ),
    ] = None,
    least: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            callback=within(EFFECT),
            help=f"Least effect that counts; {USUAL_EFFECT} by default.",
        ),
    ] = None,
    evaluations: Annotated[
        int | None,
        number(
            5, MOST_EVALUATIONS, "Settings to emulate, past --time too; default: as time allows."
        ),
    ] = None,
    timeout: Annotated[
        str | None,
        duration(
            RUN_TIME,
            "Limit of one run of the program. Of a service: until it is ready (1 min by default) "
            "and of the load (10 min).",
        ),
    ] = None,
    expect_status: Annotated[
        int | None, number(0, 255, "Exit status of the program; 0 by default.")
    ] = None,
    cpu: Annotated[
        int | None,
        core("Core to run on; without it a search runs a setting on each.", "N"),
    ] = None,
    seed: Annotated[int | None, number(0, MOST_SEED, "Random seed; 1 by default.")] = None,
    direct: Annotated[
        bool,
        typer.Option(
            "--direct",
            help=(
                "Record and emulate nothing; search with the program alone. For programs that "
                "cannot be recorded."
            ),
        ),
    ] = False,
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
    held_out: Annotated[
        bool,
        typer.Option(
            "--held-out",
            callback=_misplaced,
            help="Judge on another command, which follows the first: -- APP A --held-out -- APP B.",
        ),
    ] = False,
    held_out_load: HeldOutLoad = None,
    warm_ups: WarmUps = WARM_UPS,
    idle: Idle = IDLE,
    stop: Stop = STOP,
    setup: Setup = None,
    teardown: Teardown = None,
    user: User = None,
    read: Read = AUTO,
    constraint: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help=(
                "What may become worse, and by how much, such as 'peak_memory <= default * 1.1' "
                "(mean_memory, peak_memory, cpu_time), of a service 'p99 <= default * 1.05'. "
                "Repeatable."
            ),
        ),
    ] = None,
    executor: Executor = "local",
    scheduler: Scheduler = None,
    workers: Annotated[
        int | None, number(1, MOST_WORKERS, "Jobs of Slurm, with --executor slurm.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Read what is asked for, do it, print the answer."""
    del held_out
    import_numpy()
    from tuner.campaign.executors import Where
    from tuner.cli.optimize_request import read_request
    from tuner.optimize.answering.conditions import parse_condition, refuse
    from tuner.optimize.options import Options, judged_on, service_request
    from tuner.optimize.request import Request
    from tuner.optimize.session import Session
    from tuner.runs import REQUEST_FILE

    refuse_input()
    if workers is not None and executor == "local":
        raise SpecError("--workers does not apply with --executor local: runs are made one by one")
    is_service = bool(ready or load)
    limits = None if is_service else tuple(constraint or ()) or None
    names = None if allocators is None else split_names(allocators)
    options = Options(
        time=time,
        allocators=names,
        goals=None if goals is None else split_names(goals),
        least=least,
        evaluations=evaluations,
        timeout=timeout,
        expect_status=expect_status,
        cpu=cpu,
        seed=seed,
        direct=direct or None,
        constraints=limits,
    )
    run, request = read_request(words or [], output, options)
    usable_core(request.cpu)
    if is_service:
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
    elif request.service is not None:
        refuse_where_described(context)
        request = judged_on(request, held_out_load)
    else:
        refuse_without_service(context, ("--allocators", "--output", "--constraint"))
    measured = {*request.rules.goals, *request.rules.guards}
    conditions = {text: parse_condition(text, measured) for text in fail_if or []}
    begun = Request.load(run) if (run / REQUEST_FILE).is_file() else None
    is_same = begun is not None and replace(begun, seconds=request.seconds) == request
    kept = _kept_for_good(run) if is_same else None
    if kept is not None:
        print(f"note       {run} cannot be written: its answer is shown as it is", file=sys.stderr)
        _show(run, kept, as_json=as_json)
        refuse(conditions, kept)
        return
    for command in _commands(request):
        _check_program(command[0], is_begun=begun is not None)
    check_run_folder(run, Path(request.command[0]).stem)
    with _shown_progress(run, request.seconds, quiet=quiet) as view:
        session = Session(run, request, view, where=Where(executor, workers, scheduler))
        answer = session.standing() or session.answer()
    if not (quiet or as_json):  # between the progress and the answer
        print()
    _show(run, answer, as_json=as_json)
    if not as_json:
        _print_next(run, answer)
    refuse(conditions, answer)


def _kept_for_good(run: Path) -> Recommendation | None:
    """Return the answer that a run folder holds, where it cannot be written, so nothing goes on."""
    from tuner.optimize.answering.recommendation import recommended

    return None if os.access(run, os.W_OK) else recommended(run)


def _show(run: Path, answer: Answer | Recommendation, *, as_json: bool) -> None:
    """Print an answer, or the one that a folder holds."""
    from tuner.optimize.answering.answer import Answer
    from tuner.runs import ANSWER_FILE

    if as_json:
        print((run / ANSWER_FILE).read_text().rstrip())
    elif isinstance(answer, Answer):
        print_answer(answer)
    else:
        print("\n".join(answer.text))


def _commands(request: Request) -> Iterator[tuple[str, ...]]:
    """Yield every command that is to be run; the held-out load of a service is one of a shell."""
    yield from (request.command, *request.further)
    if request.held_out and request.service is None:
        yield request.held_out


def _check_program(program: str, *, is_begun: bool) -> None:
    from tuner.optimize.aside import run_of
    from tuner.store import Store

    nor = ", nor a run folder of `optimize`"
    if is_begun and "/" in program:
        nor = " in this folder; go on where the run folder was begun"
    if (run := run_of(Path(program))) != Path(program):
        nor = f", but what an earlier answer of {run} stands on; go on with {run}"
    if Store.exists(Path(program)):
        nor = "; a run folder of `tune`, but `optimize` wants the program: -- COMMAND"
    check_program(program, nor)


@contextlib.contextmanager
def _shown_progress(run: Path, seconds: float, *, quiet: bool = False) -> Iterator[View]:
    """Show progress on standard error, unless quiet."""
    from tuner.optimize.view import View

    if quiet:
        yield View()
        return
    from tuner.cli.optimize_view import ProgressView

    with ProgressView(str(run), seconds) as view:
        yield view


def _print_next(run: Path, answer: Answer | Recommendation) -> None:
    from tuner.optimize.answering.answer import Answer, minutes_words
    from tuner.store import store_path

    print()
    word = shlex.quote(str(run))
    if answer.decision == "deploy":
        print(f"malloc-tuner export {word}     for a shell, systemd, Docker, Kubernetes")
    elif isinstance(answer, Answer) and answer.decision == "undecided" and answer.may_be_settled:
        more = minutes_words(max(60.0, answer.more_seconds)).replace(" ", "")
        print(f"malloc-tuner optimize {word} --time {more}     goes on from here")
    tried = "what was tried" if store_path(run).exists() else "what ran"
    if answer.decision == "deploy":
        tried += ", and why this one"
    print(f"malloc-tuner report {word}     {tried}")
    if answer.n_more if isinstance(answer, Answer) else answer.has_more:
        print(f"malloc-tuner front {word} --measured --all     a row for each of them")
