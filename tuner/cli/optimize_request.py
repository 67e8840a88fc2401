"""From the words and options of `optimize` to a run folder and what is asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tuner.cli.options import ALLOCATORS, split_names
from tuner.errors import SpecError

if TYPE_CHECKING:
    from tuner.config.program_file import ProgramFile
    from tuner.optimize.judgement import Rules
    from tuner.optimize.request import Request

DEFAULT_TIME = "10min"
DEFAULT_LEAST = "1%"
HELD_OUT = "--held-out"


@dataclass(frozen=True)
class Options:
    """Options as typed; None where they are not."""

    output: Path | None = None
    time: str | None = None
    allocators: str | None = None
    least: str | None = None
    evaluations: int | None = None
    timeout: str | None = None
    cpu: int | None = None
    seed: int | None = None
    direct: bool | None = None
    constraints: tuple[str, ...] | None = None


def read_request(words: list[str], options: Options) -> tuple[Path, Request]:
    """Return the run folder and what is asked for.

    Args:
        words: a run folder, a file with ``[program]``, or a command.
        options: they override a file; of a run folder only the time and constraints may change.

    Raises:
        BadParameter: nothing is asked for, or more than one thing.
        SpecError: what is asked for contradicts itself.
    """
    from tuner.optimize.request import REQUEST_FILE

    run = Path(words[0]) if words else options.output or Path()
    if len(words) <= 1 and (run / REQUEST_FILE).is_file():
        return run, _continued(run, options)
    if not words:
        message = (
            "give a command after --, a file with [program], or the run folder of an "
            "optimisation to continue"
        )
        raise typer.BadParameter(message)
    if Path(words[0]).suffix == ".toml":
        if len(words) > 1:
            message = f"{words[0]} holds the command; {words[1]!r} is one word too many"
            raise typer.BadParameter(message)
        return _of_file(Path(words[0]), options)
    command, held_out = split_held_out(words)
    return options.output or _usual_folder(command), _new((command,), held_out, options)


def _continued(run: Path, options: Options) -> Request:
    from tuner.optimize.request import Request

    names = ("allocators", "least", "evaluations", "timeout", "cpu", "seed", "direct")
    given = [name for name in names if getattr(options, name) is not None]
    if given:
        message = (
            f"--{given[0]}: {run} goes on as it was begun; only --time and --constraint may change"
        )
        raise SpecError(message)
    kept = Request.load(run)
    if options.constraints and kept.service is not None:
        message = f"--constraint: {run} holds a service, whose constraints stay as they were begun"
        raise SpecError(message)
    if options.constraints:
        kept = replace(kept, rules=_limited(kept.rules, options))
    return replace(kept, seconds=_seconds(options.time)) if options.time else kept


def _of_file(path: Path, options: Options) -> tuple[Path, Request]:
    from tuner.cli.services import service_of_file, service_request
    from tuner.config.program_file import load_program_file

    file = load_program_file(path)
    commands = file.program.all_commands
    run = options.output or Path("runs") / (file.name or path.stem)
    both = _with_file(options, file)
    if file.service is None:
        return run, _new(commands, file.program.held_out, both)
    request = _new(commands, file.program.held_out, replace(both, constraints=None))
    plan = service_of_file(file, path, options.timeout)
    return run, service_request(request, plan, both.constraints, file.service.held_out_load)


def _with_file(options: Options, file: ProgramFile) -> Options:
    """Return the options, those of the file where there are none."""
    table = file.program
    of_file = Options(
        output=options.output,
        time=table.time,
        allocators=",".join(file.allocators) if file.allocators else None,
        least=table.least,
        evaluations=file.evaluations,
        timeout=table.timeout,
        cpu=table.cpu,
        seed=file.seed,
        direct=table.direct or None,
        constraints=(file.service.constraints if file.service else table.constraints) or None,
    )
    typed = {name: value for name, value in vars(options).items() if value is not None}
    return Options(**{**vars(of_file), **typed})


def _new(
    commands: tuple[tuple[str, ...], ...], held_out: tuple[str, ...] | None, options: Options
) -> Request:
    from tuner.optimize.judgement import Rules
    from tuner.optimize.request import Request
    from tuner.units import parse_duration, parse_percent

    if options.direct and options.evaluations is not None:
        message = "--evaluations: there are none with --direct, which emulates nothing"
        raise SpecError(message)
    return Request(
        command=commands[0],
        further=commands[1:],
        seconds=_seconds(options.time),
        allocators=_allocators(ALLOCATORS if options.allocators is None else options.allocators),
        rules=_limited(Rules(parse_percent(options.least or DEFAULT_LEAST)), options),
        held_out=held_out,
        evaluations=options.evaluations,
        timeout_s=parse_duration(options.timeout) / 1e9 if options.timeout else None,
        cpu=options.cpu,
        seed=1 if options.seed is None else options.seed,
        is_direct=bool(options.direct),
    )


def _allocators(text: str) -> tuple[str, ...]:
    """Return the allocators of a list.

    Raises:
        SpecError: one is unknown, and says which there are; or there is none in it.
    """
    from tuner.config.campaign import AllocatorChoice

    names = split_names(text)
    if not names:
        message = f"--allocators {text!r}: name one, such as glibc"
        raise SpecError(message)
    for name in names:
        try:
            AllocatorChoice.parse(name)
        except ValueError as error:
            message = f"--allocators: {name!r}: {error}"
            raise SpecError(message) from error
    return names


def _limited(rules: Rules, options: Options) -> Rules:
    from tuner.optimize.turned_down import parse_program_constraint

    limits = dict(map(parse_program_constraint, options.constraints or ()))
    return replace(rules, limits=tuple(limits.items()), strict=tuple(limits))


def _seconds(time: str | None) -> float:
    from tuner.units import parse_duration

    return parse_duration(time or DEFAULT_TIME) / 1e9


def _usual_folder(command: tuple[str, ...]) -> Path:
    return Path("runs") / Path(command[0]).name


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
