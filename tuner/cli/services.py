"""What the commands that run services share: their options, the plan, and a comparison."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.bounds import within
from tuner.cli.console import print_answer
from tuner.cli.options import KINDS, SETTING, SETTING_HELP, refuse_options, split_names
from tuner.cli.run_folder import check_run_folder
from tuner.errors import SpecError
from tuner.limits import MOST_RUNS, REST, usable_core

if TYPE_CHECKING:  # what does the work is imported by the commands; --help must not
    from tuner.config.program_file import ProgramFile, ProgramTable, ServiceTable
    from tuner.optimize.comparison import Compared
    from tuner.service.plan import ServicePlan

AUTO = "auto"
STOP = "SIGTERM"
IDLE = "10s"
WARM_UPS = 1

_option = partial(
    typer.Option, rich_help_panel="Options for services, which do not end by themselves"
)
_OWN = (
    "--ready", "--load", "--held-out-load", "--warm-ups", "--idle", "--stop", "--setup",
    "--teardown", "--user", "--read", "--constraint", "--allocators", "--setting", "--output",
)  # fmt: skip
_OF_BOTH = {"--rounds", "--points", "--front", "--timeout", "--cpu", "--seed"}
OF_SERVICES = {*_OWN, *_OF_BOTH, "--json"}
"""Options of `validate` that apply to a service."""
OF_FILES = {
    "--rounds", "--timeout", "--cpu", "--seed", "--setting", "--output", "--allocators", "--json",
}  # fmt: skip
"""Of these, the ones that apply to a service that a file describes."""

Ready = Annotated[
    str | None,
    _option(
        metavar="CONDITION",
        help="When the service is ready: tcp:PORT, http://..., line:TEXT or command:COMMAND.",
    ),
]
Load = Annotated[
    str | None,
    _option(
        metavar="COMMAND",
        help="Shell command that loads the service and ends. In all commands and in the "
        "arguments, {port} is a free port, {state} a fresh folder.",
    ),
]
HeldOutLoad = Annotated[
    str | None, _option(metavar="COMMAND", help="Another load, to judge the winner on.")
]
WarmUps = Annotated[
    int,
    _option(min=0, max=MOST_RUNS, metavar="N", help="Runs of the load before the measured one."),
]
Idle = Annotated[
    str,
    _option(
        metavar="DURATION",
        callback=within(REST),
        help="Time without load at the end; idle memory is that of its last fifth.",
    ),
]
Stop = Annotated[str, _option(metavar="SIGNAL|COMMAND", help="How the service is stopped.")]
Setup = Annotated[str | None, _option(metavar="COMMAND", help="Shell command before each start.")]
Teardown = Annotated[str | None, _option(metavar="COMMAND", help="Shell command after each stop.")]
User = Annotated[
    str | None,
    _option(
        metavar="NAME",
        help="User that runs the service and all commands but the load; only root can name another "
        "than itself.",
    ),
]
Read = Annotated[
    str,
    _option(
        metavar="TOOL|REGEX",
        help="Tool whose output the load prints (wrk, ab, hey, oha, k6, autocannon, "
        "redis-benchmark, pgbench, sysbench), or a regular expression with groups such as "
        "(?P<rate>...), (?P<requests>...), (?P<seconds>...), (?P<failed>...), (?P<p99_ms>...).",
    ),
]
Constraints = Annotated[
    list[str] | None,
    _option(
        metavar="TEXT",
        help="What may become worse, and by how much, such as 'p99 <= default * 1.05' or "
        "'rate >= default - 2 %'; repeatable.",
    ),
]
Allocators = Annotated[
    str,
    _option(
        metavar="NAME[:PATH],...",
        help=f"Allocators whose defaults and well-known settings take part. {KINDS}",
    ),
]
Settings = Annotated[list[str] | None, _option(metavar=SETTING, help=SETTING_HELP)]
Output = Annotated[
    Path | None,
    _option(
        "--output",
        "-o",
        metavar="FOLDER",
        help="Folder of the runs; runs/PROGRAM-service by default, of a file "
        "runs/NAME-service, with a run folder RUN/service.",
    ),
]


def refuse_without_service(context: typer.Context, others: Iterable[str] = ()) -> None:
    """Refuse the options of services where there is none.

    Args:
        context: of the command.
        others: options of services that the command has for other programs too.

    Raises:
        InapplicableOption: one of them is on the command line.
    """
    own = set(_OWN).difference(others)
    refuse_options(context, own, "without --ready and --load, which make it a service")


def refuse_where_described(context: typer.Context) -> None:
    """Refuse the options that a file or a run folder has of its service.

    Raises:
        InapplicableOption: one of them is on the command line.
    """
    others = ("--allocators", "--output", "--constraint", "--held-out-load")
    why = "where a file or a run folder describes the service: change the file and name a new -o"
    refuse_options(context, set(_OWN).difference(others), why)


def service_plan(
    command: Sequence[str],
    ready: str | None,
    load: str | None,
    *,
    warm_ups: int,
    idle: str,
    stop: str,
    setup: str | None,
    teardown: str | None,
    user: str | None,
    read: str,
    timeout: str | None,
) -> ServicePlan:
    """Return the plan of a service from its options.

    Raises:
        SpecError: one is missing or not understood.
    """
    from tuner.service.plan import ServicePlan
    from tuner.units import parse_duration

    if ready is None or load is None:
        raise SpecError(f"a service needs {'--ready' if ready is None else '--load'} too")
    if not command:
        raise SpecError("give the command of the service behind --")
    plan = ServicePlan(
        tuple(command),
        ready,
        load,
        warm_ups=warm_ups,
        idle_s=parse_duration(idle) / 1e9,
        stop=stop,
        setup=setup,
        teardown=teardown,
        user=user,
        read=read,
    )
    if timeout:
        limit_s = parse_duration(timeout) / 1e9
        plan = replace(plan, ready_s=limit_s, load_s=limit_s)
    return plan.checked()


def service_of_file(
    file: ProgramFile, path: Path | None = None, timeout: str | None = None
) -> ServicePlan:
    """Return the plan of a file with ``[service]``.

    Args:
        file: what is in it.
        path: where it is, which errors name; None: they name nothing.
        timeout: that was typed, which counts before that of the file.

    Raises:
        SpecError: it has none, or something in it is not understood.
    """
    from tuner.optimize.options import service_limits

    try:
        service_limits(file.service.constraints if file.service else ())
        return _plan_of_tables(file.service, file.program, timeout)
    except SpecError as error:
        words = re.sub("(^|give )--(?=[a-z])", r"\1service.", str(error))  # the key of the option
        raise SpecError(f"{path}: {words}" if path else words) from error


def _plan_of_tables(
    table: ServiceTable | None, program: ProgramTable, timeout: str | None
) -> ServicePlan:
    if table is None or program.command is None:
        raise SpecError("a service needs a table [service], and one command in [program]")
    return service_plan(
        program.command,
        table.ready,
        table.load,
        warm_ups=table.warm_ups,
        idle=table.idle,
        stop=table.stop,
        setup=table.setup,
        teardown=table.teardown,
        user=table.user,
        read=table.read,
        timeout=timeout or program.timeout,
    )


def is_run_folder(path: Path) -> bool:
    """Return whether a word names the run folder of a campaign, and not a program."""
    from tuner.store import STORE_NAME

    return (path / STORE_NAME).is_file()


@dataclass(frozen=True)
class ServiceOptions:
    """Options of a comparison on a service, beside its plan."""

    allocators: str
    """Names with commas."""
    settings: Sequence[str]
    rounds: int | None
    most_front: int
    output: Path | None
    cpu: int | None
    seed: int
    constraints: tuple[str, ...] = ()
    least: str | None = None
    """Least effect that counts, such as ``1%``; None: the usual one."""


def compare_on_service(
    plan: ServicePlan, run: Path | None, points: Sequence[str], options: ServiceOptions
) -> Compared:
    """Compare settings on a service, and show how far it is.

    Args:
        plan: what is done to the service in a run.
        run: campaign whose points take part; None for none.
        points: words of --points.
        options: beside these.
    """
    from tuner.cli.optimize_view import ProgressView
    from tuner.library import LEAST_EFFECT, compare_service
    from tuner.optimize.options import service_limits
    from tuner.units import parse_percent

    limits = service_limits(options.constraints)
    usable_core(options.cpu)
    usual = run / "service" if run else Path("runs") / f"{Path(plan.command[0]).name}-service"
    folder = options.output or usual
    check_run_folder(folder, usual.name)
    with ProgressView(str(folder), 0.0) as view:
        return compare_service(
            folder,
            plan,
            run,
            points=points,
            most_front=options.most_front,
            limits=limits,
            allocators=split_names(options.allocators),
            settings=options.settings,
            rounds=options.rounds,
            cpu=options.cpu,
            seed=options.seed,
            least=parse_percent(options.least) if options.least else LEAST_EFFECT,
            view=view,
        )


def print_compared(compared: Compared, *, as_json: bool = False) -> None:
    """Print the answer, how many rounds it took, what was left out, and what comes next."""
    if as_json:
        ran = {"rounds_made": compared.n_rounds, "refused": list(compared.refused)}
        print(json.dumps(compared.answer.as_record() | ran, indent=1))
        return
    print()
    print_answer(compared.answer)
    print()
    rounds = f"{compared.n_rounds} round{'s' * (compared.n_rounds != 1)}"
    print(f"{rounds}; changes: medians of the ratios to the service as it is in one round")
    for reason in compared.refused:
        print(f"left out: {reason}")
    print()
    word = shlex.quote(str(compared.run))
    if compared.answer.decision == "deploy":
        print(f"malloc-tuner export {word}     for a shell, systemd, Docker, Kubernetes")
    elif compared.answer.decision == "undecided" and compared.answer.may_be_settled:
        print("The same command with a higher --rounds goes on from here.")
    print(f"malloc-tuner report {word}     what ran")
