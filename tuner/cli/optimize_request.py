"""From the words and options of `optimize` to a run folder and what is asked for."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import typer

from tuner.cli.services import service_of_file
from tuner.config.program_file import ProgramFile, load_program_file
from tuner.errors import SpecError
from tuner.library import usual_folder
from tuner.optimize.options import (
    Options,
    continued_request,
    request_of,
    service_request,
    with_time_of_before,
)
from tuner.optimize.request import Request
from tuner.runs import REQUEST_FILE

HELD_OUT = "--held-out"


def read_request(words: list[str], output: Path | None, options: Options) -> tuple[Path, Request]:
    """Return the run folder and what is asked for.

    Args:
        words: a run folder, a file with ``[program]``, or a command.
        output: run folder that was named.
        options: they override a file; of a run folder only the time and constraints may change.

    Raises:
        BadParameter: nothing is asked for, or more than one thing.
        SpecError: what is asked for contradicts itself.
    """
    run = Path(words[0]) if words else output or Path()
    if len(words) <= 1 and (run / REQUEST_FILE).is_file():
        if output not in (None, run):
            raise SpecError(f"-o {output}: {run} goes on where it is; leave -o out")
        return run, continued_request(run, options)
    is_program = bool(words) and shutil.which(words[0]) is not None
    if len(words) > 1 and not is_program and (run / REQUEST_FILE).is_file():
        raise SpecError(
            f"{run}: a run folder goes on with its own command, so give none; "
            "another command needs a folder of its own, -o"
        )
    if not words:
        raise typer.BadParameter(
            "give a command after --, a file with [program], or the run folder of an "
            "optimisation to continue"
        )
    if Path(words[0]).suffix == ".toml":
        if len(words) > 1:
            raise typer.BadParameter(
                f"{words[0]} holds the command; {words[1]!r} is one word too many"
            )
        return _of_file(Path(words[0]), output, options)
    command, held_out = split_held_out(words)
    run = output or usual_folder(command)
    request = request_of([command], held_out, options)
    return run, with_time_of_before(run, request, options)


def _of_file(path: Path, output: Path | None, options: Options) -> tuple[Path, Request]:
    file = load_program_file(path)
    commands = file.program.all_commands
    run = output or usual_folder([file.name or path.stem])
    both = _with_file(options, file)
    if file.service is None:
        request = request_of(commands, file.program.held_out, both)
    else:
        plain = request_of(commands, file.program.held_out, replace(both, constraints=None))
        plan = service_of_file(file, path, options.timeout)
        request = service_request(plain, plan, both.constraints, file.service.held_out_load)
    return run, with_time_of_before(run, request, both)


def _with_file(options: Options, file: ProgramFile) -> Options:
    """Return the options, those of the file where there are none."""
    table = file.program
    of_file = Options(
        time=table.time,
        allocators=tuple(file.allocators) if file.allocators else None,
        goals=table.goals,
        least=table.least,
        evaluations=file.evaluations,
        timeout=table.timeout,
        expect_status=table.expect_status,
        cpu=table.cpu,
        seed=file.seed,
        direct=table.direct or None,
        constraints=(file.service.constraints if file.service else table.constraints) or None,
    )
    typed = {name: value for name, value in vars(options).items() if value is not None}
    return Options(**{**vars(of_file), **typed})


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
        raise SpecError(
            f"{HELD_OUT}: give a command after it, as in `-- ./app a {HELD_OUT} -- ./app b`"
        )
    return tuple(words[:at]), tuple(rest)
