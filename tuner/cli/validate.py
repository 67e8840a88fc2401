"""`malloc-tuner validate`: the claims of a campaign, measured on the real program."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuner.cli.bounds import duration, number
from tuner.cli.epilog import subcommand
from tuner.cli.options import (
    ALLOCATORS,
    AsJson,
    allow_options,
    given_options,
    refuse_input,
    refuse_options,
)
from tuner.cli.services import (
    AUTO,
    IDLE,
    OF_FILES,
    OF_SERVICES,
    STOP,
    WARM_UPS,
    Allocators,
    Constraints,
    Idle,
    Load,
    Output,
    Read,
    Ready,
    ServiceOptions,
    Settings,
    Setup,
    Stop,
    Teardown,
    User,
    WarmUps,
    compare_on_service,
    is_run_folder,
    print_compared,
    refuse_without_service,
    service_of_file,
    service_plan,
)
from tuner.cli.validating import (
    POINTS,
    CountedBy,
    Cpu,
    Dominated,
    Front,
    Instrument,
    Points,
    SampleMs,
    Seed,
    Thp,
    check_points,
    comparison_progress,
    made_surroundings,
)
from tuner.errors import (
    NOTHING_COMPARED,
    ComparisonError,
    InterruptedCampaign,
    MissingToolError,
    OutputError,
    ProgramError,
    ProgramTimeoutError,
    SelectionError,
    SpecError,
    StoreError,
    UnconfirmedVerdict,
    WorseVerdict,
)
from tuner.limits import MOST_NUMBER, MOST_ROUNDS, RUN_TIME, SERVICE_ROUNDS

if TYPE_CHECKING:  # what does the work is imported by the command; --help must not
    from tuner.measure.program import Surroundings
    from tuner.optimize.comparison import Compared
    from tuner.runs import Run
    from tuner.service.plan import ServicePlan
    from tuner.validate.summary import ValidationSummary

_OF_SHOWING = {"--details", "--json", "--validation", "--fail-if-worse", "--fail-if-unconfirmed"}
"""Options that apply where nothing is run."""


@subcommand(
    "Measure picks and defaults on the real program, in rounds.",
    "malloc-tuner validate runs/app -- ./app --its arguments",
    "malloc-tuner validate runs/app --points best,17 --rounds 10 -- ./app",
    "malloc-tuner validate runs/app --output-file a.pdf -- ./render a.ps a.pdf",
    "malloc-tuner validate runs/app --details",
    "malloc-tuner validate configs/services/redis.toml",
    "malloc-tuner validate --ready tcp:8080 --load ./load.sh -- ./server",
    errors=(
        SpecError,
        MissingToolError,
        ProgramError,
        ProgramTimeoutError,
        StoreError,
        OutputError,
        SelectionError,
        ComparisonError,
        WorseVerdict,
        UnconfirmedVerdict,
        InterruptedCampaign,
    ),
)
def validate(
    *,
    run: Annotated[
        str | None,  # a Path drops the ./ of a service's command
        typer.Argument(
            metavar="RUN|FILE.toml",
            help="Run folder of a campaign, or a file with [service]. With --ready and --load, the "
            "command of the service may begin here.",
            show_default=False,
        ),
    ] = None,
    context: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND",
            help="The program and its arguments; without it, what was measured is shown.",
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        number(
            1,
            MOST_ROUNDS,
            "Runs of every subject; default: what the number of claims needs, such as 12 for 22. "
            f"Of a service at most so many; default {SERVICE_ROUNDS}.",
        ),
    ] = None,
    points: Points = POINTS,
    front: Front = 4,
    dominated: Dominated = 3,
    instrument: Instrument = CountedBy.AUTO,
    ignore_output: Annotated[
        bool, typer.Option("--ignore-output", help="Do not compare standard output.")
    ] = False,
    output_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Compare this file, which the program writes."),
    ] = None,
    expect_status: Annotated[
        int | None, number(0, 255, "Exit status of the program, if not as recorded, or 0.")
    ] = None,
    timeout: Annotated[
        str | None,
        duration(
            RUN_TIME,
            "Limit of one run; default 10 times the baseline's. Of a service: until it is ready "
            "(1 min by default) and of the load (10 min).",
        ),
    ] = None,
    cpu: Cpu = None,
    thp: Thp = None,
    sample_ms: SampleMs = 2,
    seed: Seed = 1,
    ready: Ready = None,
    load: Load = None,
    warm_ups: WarmUps = WARM_UPS,
    idle: Idle = IDLE,
    stop: Stop = STOP,
    setup: Setup = None,
    teardown: Teardown = None,
    user: User = None,
    read: Read = AUTO,
    constraint: Constraints = None,
    allocators: Allocators = ALLOCATORS,
    setting: Settings = None,
    output: Output = None,
    details: Annotated[
        bool, typer.Option("--details", help="Show every claim, interval and ranking.")
    ] = False,
    validation: Annotated[
        int | None, number(1, MOST_NUMBER, "Without COMMAND: the validation of this number.")
    ] = None,
    fail_if_worse: Annotated[
        bool,
        typer.Option(
            "--fail-if-worse", help="Exit with 17 when a pick failed or is worse than claimed."
        ),
    ] = False,
    fail_if_unconfirmed: Annotated[
        bool,
        typer.Option(
            "--fail-if-unconfirmed", help="Exit with 18 when no gain of a pick is confirmed."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run the rounds that are missing, then print what they show."""
    from tuner.cli.validate_tables import print_details, print_summary
    from tuner.library import compare
    from tuner.report.beside_answer import beside_answer_in
    from tuner.report.claims import claims_json
    from tuner.runs import ANSWER_FILE
    from tuner.store import store_path
    from tuner.validate.session import IGNORED, STDOUT

    if run is None:
        raise typer.BadParameter(
            f"give {'the command of the service behind --' if ready or load else 'one'}",
            ctx=context,
            param_hint="RUN|FILE.toml",
        )
    path = Path(run)
    words = check_points(context, points)
    options = ServiceOptions(
        allocators, setting or (), rounds, front, output, cpu, seed, tuple(constraint or ())
    )
    if path.suffix == ".toml":
        found = _of_file(context, path, command, options, timeout=timeout)
        print_compared(found, as_json=as_json)
        return
    if ready or load:
        plan = partial(
            service_plan,
            ready=ready,
            load=load,
            warm_ups=warm_ups,
            idle=idle,
            stop=stop,
            setup=setup,
            teardown=teardown,
            user=user,
            read=read,
            timeout=timeout,
        )
        found = _of_service(context, run, command or (), words, plan=plan, options=options)
        print_compared(found, as_json=as_json)
        return
    refuse_without_service(context)
    _refuse_program(context, path)
    if as_json:
        refuse_options(context, ["--details"], "with --json, which has them all")
    if command:
        named = output_file and str(output_file.absolute())  # `IGNORED` is a file's name, too
        measure = partial(
            compare,
            points=words,
            most_front=front,
            most_dominated=dominated,
            rounds=rounds,
            output=IGNORED if ignore_output else named or STDOUT,
            expect_status=expect_status,
            instrument=instrument.value,
            seed=seed,
        )
        surroundings = partial(
            made_surroundings, timeout=timeout, cpu=cpu, thp=thp, sample_ms=sample_ms
        )
        summary = _of_program(context, path, command, measure, surroundings)
    elif lines := _kept_of_service(path):
        allow_options(context, {"--json"}, "without a COMMAND, on what was measured of a service")
        print((path / ANSWER_FILE).read_text().rstrip() if as_json else "\n".join(lines))
        return
    else:
        summary = _kept(context, path, validation)
    beside = beside_answer_in(store_path(path).parent, summary)
    if as_json:
        print(claims_json(summary, beside))
    else:
        print_summary(summary, path, has_details=details, beside=beside)
    if details:
        print_details(summary)
    check_outcome(summary, worse=fail_if_worse, unconfirmed=fail_if_unconfirmed)


def _of_file(
    context: typer.Context,
    path: Path,
    command: Sequence[str] | None,
    options: ServiceOptions,
    *,
    timeout: str | None,
) -> Compared:
    """Compare settings on the service of a file, whose values yield to what is typed."""
    from tuner.config.program_file import load_program_file

    allow_options(context, OF_FILES, "with a file that describes a service")
    if command:
        raise typer.BadParameter(
            f"{path} names the command of the service: leave out -- {shlex.join(command)}",
            ctx=context,
            param_hint="COMMAND",
        )
    file = load_program_file(path)
    plan = service_of_file(file, path, timeout)
    of_file: dict[str, Any] = {
        "allocators": ",".join(file.allocators or ()) or None,
        "cpu": file.program.cpu,
        "seed": file.seed,
    }
    typed = given_options(context)
    changes = {n: v for n, v in of_file.items() if v is not None and f"--{n}" not in typed}
    both = replace(
        options,
        output=options.output or Path("runs") / f"{file.name or path.stem}-service",
        constraints=file.service.constraints if file.service else (),
        least=file.program.least,
        **changes,
    )
    return compare_on_service(plan, None, (), both)


def _of_service(
    context: typer.Context,
    run: str,
    command: Sequence[str],
    points: Sequence[str],
    *,
    plan: Callable[[Sequence[str]], ServicePlan],
    options: ServiceOptions,
) -> Compared:
    """Compare settings on a service that options describe; `run` may be its first word."""
    allow_options(context, OF_SERVICES, "with --ready and --load, which measure a service")
    campaign = path if is_run_folder(path := Path(run)) else None
    if campaign is None:
        refuse_options(context, ["--points", "--front"], "without the run folder of a campaign")
    if not campaign and run.startswith("{"):
        raise typer.BadParameter(
            f"{run} is no program: quote the whole load, as in --load './load.sh {run}'",
            ctx=context,
            param_hint="COMMAND",
        )
    words = (*command,) if campaign else (run, *command)
    return compare_on_service(plan(words), campaign, points, options)


def _of_program(
    context: typer.Context,
    run: Path,
    command: Sequence[str],
    measure: Callable[..., ValidationSummary],
    surroundings: Callable[[Run], Surroundings],
) -> ValidationSummary:
    """Measure points of a campaign on its program, by `tuner.library.compare`."""
    from tuner.runs import load_run

    refuse_options(context, ["--validation"], "to a COMMAND, which makes a new one")
    if "--output-file" in given_options(context):
        refuse_options(context, ["--ignore-output"], "with --output-file")
    refuse_input()
    _refuse_service(run)
    found = load_run(run)
    with comparison_progress() as (observer, on_note):
        return measure(
            found, command, surroundings=surroundings(found), observer=observer, on_note=on_note
        )


def _refuse_service(run: Path) -> None:
    """Refuse to wait for the end of a service that `optimize` tuned."""
    from tuner.optimize.request import Request
    from tuner.runs import REQUEST_FILE

    if (run / REQUEST_FILE).is_file() and Request.load(run).service is not None:
        raise SpecError(
            f"{run}: is of a service, which does not end by itself: give --ready and --load"
        )


def _kept(context: typer.Context, run: Path, number: int | None) -> ValidationSummary:
    """Return what an earlier validation showed."""
    from tuner.runs import load_run
    from tuner.validate.summary import summarize
    from tuner.validate.trust import believed_validation

    allow_options(context, _OF_SHOWING, "without a COMMAND to measure")
    found = load_run(run)
    record = believed_validation(found, number)
    if record is None:
        raise typer.BadParameter(
            "no program to measure: give it behind --; nothing was validated yet",
            ctx=context,
            param_hint="COMMAND",
        )
    return summarize(found, record)


def _kept_of_service(run: Path) -> tuple[str, ...]:
    """Return the answer of a comparison on a service; nothing where a campaign is in the folder.

    Raises:
        SelectionError: a comparison was begun, and has no answer yet.
    """
    from tuner.optimize.answering.recommendation import recommended
    from tuner.optimize.request import no_answer_yet
    from tuner.runs import REQUEST_FILE
    from tuner.store import store_path

    found = None if (is_campaign := store_path(run).exists()) else recommended(run)
    if found is None and not is_campaign and (run / REQUEST_FILE).is_file():
        raise SelectionError(no_answer_yet(run))
    return found.text if found else ()


def _refuse_program(context: typer.Context, run: Path) -> None:
    """Refuse a program in the place of the run folder."""
    if not run.is_dir() and shutil.which(run) is not None:
        raise typer.BadParameter(
            f"{run} is a program: give a run folder before it, as in `validate RUN -- {run}`; "
            "for a service, --ready and --load",
            ctx=context,
            param_hint="RUN",
        )


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
        is_left = any(s.reason is None for s in summary.subjects if not s.is_baseline)
        raise ComparisonError(
            "nothing was compared yet, see above" if is_left else NOTHING_COMPARED
        )
    picks = [s for s in summary.subjects if s.subject.is_pick and not s.is_baseline]
    bad = [s for s in picks if s.verdict in (Verdict.WORSE, Verdict.REJECTED)]
    if worse and bad:
        names = ", ".join(f"{found.subject.label} ({found.verdict})" for found in bad)
        raise WorseVerdict(f"worse than claimed on the real program: {names}")
    if unconfirmed and not any(s.confirmed for s in picks):
        names = ", ".join(f"{found.subject.label} ({found.verdict})" for found in picks) or "none"
        raise UnconfirmedVerdict(
            f"no gain of a pick is confirmed on the real program; picks: {names}"
        )
