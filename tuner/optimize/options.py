"""From the options of an optimisation, as people write them, to what is asked for.

Messages name an option as the command line does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tuner.config.campaign import AllocatorChoice
from tuner.config.reading import closest
from tuner.errors import SpecError
from tuner.limits import BUDGET, EFFECT, RUN_TIME, USUAL_EFFECT, USUAL_TIME
from tuner.optimize.answering.turned_down import parse_program_constraint
from tuner.optimize.kinds.service import service_rules
from tuner.optimize.proof.judgement import Rules
from tuner.optimize.quantities import QUANTITIES, key_of
from tuner.optimize.request import Request, with_absolute_path
from tuner.page import series
from tuner.registry import DEFAULT_ALLOCATORS
from tuner.runs import REQUEST_FILE
from tuner.service.constraints import parse_service_constraint
from tuner.service.plan import ServicePlan
from tuner.units import parse_duration, parse_percent

_FIXED: Final = (
    "allocators",
    "goals",
    "least",
    "evaluations",
    "timeout",
    "expect_status",
    "cpu",
    "seed",
    "direct",
)
"""Options that stay as a run folder was begun with."""


@dataclass(frozen=True)
class Options:
    """Options as they were given; None where they were not."""

    time: str | None = None
    """For this call, such as ``10min``."""
    allocators: Sequence[str] | None = None
    """Names, or ``name:/path/to/library``."""
    goals: Sequence[str] | None = None
    """What is to gain, such as ``peak_memory``."""
    least: str | None = None
    """Least effect that counts, such as ``1%``."""
    evaluations: int | None = None
    timeout: str | None = None
    """Of one run, such as ``30s``."""
    expect_status: int | None = None
    """Exit status of the program."""
    cpu: int | None = None
    seed: int | None = None
    direct: bool | None = None
    constraints: Sequence[str] | None = None
    """Such as ``peak_memory <= default * 1.1``."""


def request_of(
    commands: Sequence[Sequence[str]], held_out: Sequence[str] | None, options: Options
) -> Request:
    """Return what is asked for of programs that end.

    Args:
        commands: that are tuned on together, the first names the program.
        held_out: command with an input that is not tuned on; None for none.
        options: the others.

    Raises:
        SpecError: an option is not understood, or contradicts another.
    """
    if options.direct and options.evaluations is not None:
        raise SpecError("--evaluations: there are none with --direct, which emulates nothing")
    if held_out and [*held_out] in [[*one] for one in commands]:
        raise SpecError("--held-out: the command itself; give an input that is not tuned on")
    least = EFFECT.check_option("--least", options.least or USUAL_EFFECT)
    timeout = RUN_TIME.check_option("--timeout", options.timeout) if options.timeout else None
    return Request(
        command=tuple(commands[0]),
        further=tuple(map(tuple, commands[1:])),
        seconds=_seconds(options),
        allocators=_known_allocators(options.allocators),
        rules=_limited(Rules(parse_percent(least), _known_goals(options.goals)), options),
        held_out=tuple(held_out) if held_out else None,
        evaluations=options.evaluations,
        timeout_s=parse_duration(timeout) / 1e9 if timeout else None,
        expect_status=options.expect_status or 0,
        cpu=options.cpu,
        seed=1 if options.seed is None else options.seed,
        is_direct=bool(options.direct),
    )


def continued_request(run: Path, options: Options) -> Request:
    """Return what a run folder was begun with, with more time or other constraints.

    Raises:
        SpecError: another option is given.
        StoreError: the folder is no run of an optimisation, or damaged.
    """
    given = [name for name in _FIXED if getattr(options, name) is not None]
    if given:
        name = given[0].replace("_", "-")
        raise SpecError(
            f"--{name}: {run} goes on as it was begun; only --time and --constraint may change; "
            "name another folder with -o"
        )
    kept = Request.load(run)
    if options.constraints and kept.service is not None:
        raise SpecError(
            f"--constraint: {run} holds a service, whose constraints stay as they were begun; give "
            "its whole command with this one and another -o"
        )
    if options.constraints:
        kept = replace(kept, rules=_limited(kept.rules, options))
    return replace(kept, seconds=_seconds(options)) if options.time else kept


def service_request(
    request: Request, plan: ServicePlan, constraints: Sequence[str] | None, held_out: str | None
) -> Request:
    """Return a request for a program as one for a service.

    Args:
        request: what the other options ask for.
        plan: what is done to the service in a run.
        constraints: of the user.
        held_out: load to judge the winner on; None for none.

    Raises:
        SpecError: a constraint is not understood, or something else asked for is of programs that
            end.
    """
    has_others = request.expect_status or request.rules.goals != Rules().goals
    if request.further or request.held_out or request.service or has_others:
        raise SpecError(
            "--ready and --load describe one service that is begun: no file with several commands, "
            "no --held-out (--held-out-load names another load), no --goals or --expect-status, no "
            "run folder, which goes on without them"
        )
    rules = service_rules(request.rules.least, service_limits(constraints))
    return judged_on(replace(request, rules=rules, service=plan), held_out)


def judged_on(request: Request, load: str | None) -> Request:
    """Return a request for a service with another load to judge the winner on; None: as it is.

    Raises:
        SpecError: the load is not understood.
    """
    if load is None or request.service is None:
        return request
    if load == request.service.load:
        raise SpecError("--held-out-load: the load itself; give one that is not tuned on")
    replace(request.service, load=load).checked()
    return replace(request, held_out=(load,))


def with_time_of_before(run: Path, request: Request, options: Options) -> Request:
    """Return a request with the time that its run folder was asked for, unless another is named.

    Args:
        run: the folder; a new one has no time of its own.
        request: what is asked for now.
        options: those of a command and of its file.

    Raises:
        StoreError: what the folder holds is damaged.
    """
    if options.time is not None or not (run / REQUEST_FILE).is_file():
        return request
    return replace(request, seconds=Request.load(run).seconds)


def service_limits(constraints: Sequence[str] | None) -> dict[str, float]:
    """Return metric -> share by which it may become worse.

    Raises:
        SpecError: a constraint is not understood.
    """
    return dict(map(parse_service_constraint, constraints or ()))


def _known_allocators(names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the allocators of a list, libraries with absolute paths; by default all.

    Raises:
        SpecError: one is unknown, and says which there are; or there is none in it.
    """
    if names is None:
        return DEFAULT_ALLOCATORS
    if not names:
        raise SpecError("--allocators: name one, such as glibc")
    for name in names:
        try:
            AllocatorChoice.parse(name)
        except ValueError as error:
            raise SpecError(f"--allocators: {name!r}: {error}") from error
    return tuple(map(with_absolute_path, names))


def _known_goals(names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the quantities of a list, by default mean memory and CPU time.

    Raises:
        SpecError: one is unknown, or there is none in it.
    """
    if names is None:
        return Rules().goals
    known = {key_of(name): name for name in QUANTITIES}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        hint = closest(unknown[0], list(known)) if unknown else ""
        raise SpecError(
            f"--goals: {', '.join(unknown) or 'nothing'}{hint or ';'} there are {series(known)}"
        )
    return tuple(name for key, name in known.items() if key in names)


def _limited(rules: Rules, options: Options) -> Rules:
    limits = dict(map(parse_program_constraint, options.constraints or ()))
    return replace(rules, limits=tuple(limits.items()), strict=tuple(limits))


def _seconds(options: Options) -> float:
    return parse_duration(BUDGET.check_option("--time", options.time or USUAL_TIME)) / 1e9
