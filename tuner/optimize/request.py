"""What an optimisation is asked for, and the file that keeps it."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from tuner.errors import SpecError, StoreError, what_is_wrong
from tuner.optimize.proof.judgement import Rules
from tuner.page import series
from tuner.runs import REQUEST_FILE
from tuner.service.plan import ServicePlan

PATIENCE_S: Final = 10.0
"""Least `Request.patience_s`."""

_VERSION: Final = 2
"""Of a run folder."""

_OPTIONS: Final = {
    "command": "command",
    "further": "command",
    "held_out": "held-out input",
    "timeout_s": "--timeout",
    "expect_status": "--expect-status",
    "ready_s": "--timeout",
    "load_s": "--timeout",
    "warm_ups": "--warm-ups",
    "idle_s": "--idle",
    "is_direct": "--direct",
}
"""Field of a request or of the plan of a service -> how messages name it; others are options of
the same name."""


@dataclass(frozen=True)
class Request:
    """What is asked for."""

    command: tuple[str, ...]
    seconds: float
    """Elapsed time for all of it."""
    allocators: tuple[str, ...]
    rules: Rules = field(default_factory=Rules)
    further: tuple[tuple[str, ...], ...] = ()
    """More commands that are tuned on together with the first one."""
    held_out: tuple[str, ...] | None = None
    """Command with an input that is not tuned on; of a service, its other load."""
    evaluations: int | None = None
    """In emulation; None: as many as a quarter of the time allows."""
    timeout_s: float | None = None
    expect_status: int = 0
    """Exit status with which the program ends when it did its work."""
    cpu: int | None = None
    seed: int = 1
    service: ServicePlan | None = None
    """How the command is run as a service; None: it ends by itself."""
    is_direct: bool = False
    """Nothing is recorded or emulated: the program alone is searched with."""
    is_comparison: bool = False
    """Settings are given, to `malloc-tuner validate` of a service: nothing is searched."""

    @property
    def given(self) -> str:
        """What messages call that with which the program runs."""
        return "input" if self.service is None else "load"

    @property
    def patience_s(self) -> float:
        """What the first runs and the recording may take, in s, however short the time is."""
        return max(self.seconds, PATIENCE_S)

    def as_record(self) -> dict[str, Any]:
        """Return it for a file."""
        return {"schema": "malloc-tuner.optimize", "version": _VERSION, **asdict(self)}

    @classmethod
    def load(cls, run: Path) -> Request:
        """Read what a run folder was begun with.

        Raises:
            StoreError: it is no run of `optimize`, or damaged.
        """
        path = run / REQUEST_FILE
        try:
            found = json.loads(path.read_bytes())
            if found["version"] != _VERSION:
                message = f"{path}: another version of malloc-tuner wrote it; choose another -o"
                raise StoreError(message)
            rules = found["rules"]
            service = found["service"]
            return cls(
                command=tuple(found["command"]),
                seconds=found["seconds"],
                allocators=tuple(found["allocators"]),
                rules=Rules(
                    least=rules["least"],
                    goals=tuple(rules["goals"]),
                    guards=tuple(rules["guards"]),
                    error=rules["error"],
                    limits=tuple((name, share) for name, share in rules["limits"]),
                    strict=tuple(rules["strict"]),
                ),
                further=tuple(tuple(one) for one in found["further"]),
                held_out=tuple(found["held_out"]) if found["held_out"] else None,
                evaluations=found["evaluations"],
                timeout_s=found["timeout_s"],
                expect_status=found["expect_status"],
                cpu=found["cpu"],
                seed=found["seed"],
                is_direct=found["is_direct"],
                is_comparison=found["is_comparison"],
                service=ServicePlan.from_record(service) if service else None,
            )
        except OSError as error:
            raise StoreError(
                f"{path}: {error.strerror}; begin with `malloc-tuner optimize -- COMMAND`"
            ) from error
        except (KeyError, TypeError, ValueError) as error:
            message = f"{path}: damaged ({what_is_wrong(error)}); choose another -o"
            raise StoreError(message) from error


def what_goes_on(run: Path, *, is_over: bool = False) -> str:
    """Return the words for the command that goes on in a run folder.

    Args:
        run: the folder.
        is_over: all that was asked for ran.
    """
    if Request.load(run).is_comparison:
        more = " with a higher --rounds" if is_over else ""
        return f"the same `malloc-tuner validate`{more}"
    return f"`malloc-tuner optimize {shlex.quote(str(run))}`"


def no_answer_yet(run: Path) -> str:
    """Return what is said where a run folder was begun, but has no answer yet."""
    return f"{run}: has no answer yet; {what_goes_on(run)} goes on to one"


def check_goes_on(run: Path, begun: Request, asked: Request) -> None:
    """Refuse a request that is another optimisation than the one in a run folder.

    What was measured holds with another time, with other constraints on a program, and where an
    input to judge on is added.  Whatever else differs would mix measurements.

    Args:
        run: the folder.
        begun: what it was begun with.
        asked: what is asked for now.

    Raises:
        SpecError: names the options that differ.
    """
    others = differences(begun, asked)
    if others:
        what = f"different in {series(others)}"
        raise SpecError(f"{run}: holds another optimisation, {what}; choose another -o")


def differences(begun: Request, asked: Request) -> tuple[str, ...]:
    """Return the options that make a request another one than a folder was begun with."""
    if (begun.service is None) is not (asked.service is None):
        return ("--ready", "--load")
    before, now = _fixed(begun), _fixed(asked)
    if begun.held_out is None:
        before["held_out"] = asked.held_out
    found = (name for name in before if before[name] != now[name])
    return tuple(dict.fromkeys(_OPTIONS.get(name, f"--{name}") for name in found))


def _fixed(request: Request) -> dict[str, Any]:
    """Return name -> value of all that stays as it was begun."""
    found = {one.name: getattr(request, one.name) for one in fields(request)}
    rules, plan = found.pop("rules"), found.pop("service")
    del found["seconds"]
    found["allocators"] = tuple(map(with_absolute_path, request.allocators))
    if plan is None:
        rules = replace(rules, limits=(), strict=())
    else:
        found |= {one.name: getattr(plan, one.name) for one in fields(plan)}
    others = replace(rules, least=0.0, goals=())
    return {**found, "least": rules.least, "goals": rules.goals, "constraint": others}


def with_absolute_path(allocator: str) -> str:
    """Return an allocator as it is named, a library of it by its absolute path."""
    name, _, library = allocator.partition(":")
    return f"{name}:{Path(library).absolute()}" if library else name
