"""Which kind of thing a request tunes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tuner.allocators import Allocator, Installation
from tuner.measure.program import ProgramRunner, Surroundings
from tuner.optimize.kinds.program import Program
from tuner.optimize.kinds.service import Service
from tuner.optimize.kinds.suite import ProgramSuite
from tuner.optimize.quantities import SERVICE_NAMES
from tuner.optimize.request import Request
from tuner.optimize.tuned import Tuned
from tuner.service.plan import ServicePlan

Files = Mapping[str, tuple[Allocator, Installation]]
"""Adapter and installation of every allocator."""


def tuned_of(
    request: Request, files: Files, environment: Mapping[str, str], cwd: Path | None = None
) -> Tuned:
    """Return what a request tunes.

    Args:
        request: what is asked for.
        files: of the allocators.
        environment: the program's own.
        cwd: where programs run; None for the current folder.

    Raises:
        MissingToolError: a part of this package is not installed.
    """
    plan = plan_of(request)
    if plan is not None:
        return _service(request, plan, files, environment)
    commands = (request.command, *request.further)
    programs = [_program(request, one, files, environment, cwd=cwd) for one in commands]
    return ProgramSuite(programs) if request.further else programs[0]


def held_out_of(
    request: Request, files: Files, environment: Mapping[str, str], cwd: Path | None = None
) -> Tuned | None:
    """Return what the winner is judged on that was not tuned on; None where there is nothing."""
    if request.held_out is None:
        return None
    plan = plan_of(request)
    if plan is not None:
        other = replace(plan, load=" ".join(request.held_out))
        return _service(request, other, files, environment)
    return _program(request, request.held_out, files, environment, cwd=cwd)


def plan_of(request: Request) -> ServicePlan | None:
    """Return what is done to the service in the time that is given; None: it is none."""
    return request.service and request.service.within(request.patience_s)


def _service(
    request: Request, plan: ServicePlan, files: Files, environment: Mapping[str, str]
) -> Service:
    surroundings = Surroundings(cpu=request.cpu)
    limited = [metric for metric, name in SERVICE_NAMES.items() if name in request.rules.strict]
    return Service(plan, environment, files, surroundings, limited=limited)


def _program(
    request: Request,
    command: tuple[str, ...],
    files: Files,
    environment: Mapping[str, str],
    *,
    cwd: Path | None,
) -> Program:
    # No randomised addresses, huge pages as the machine has them.
    surroundings = Surroundings(cpu=request.cpu, timeout_s=request.timeout_s)
    return Program(
        command,
        ProgramRunner(cwd=cwd),
        environment,
        files,
        surroundings,
        patience_s=request.patience_s,
        expect_status=request.expect_status,
    )
