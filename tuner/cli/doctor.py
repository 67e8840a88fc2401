"""`malloc-tuner doctor`: print what this machine offers and what would provide the rest."""

from __future__ import annotations

import dataclasses
import itertools
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuner.cli.console import folded
from tuner.cli.epilog import subcommand
from tuner.cli.options import AsJson
from tuner.errors import MissingToolError

if TYPE_CHECKING:  # reading the class imports what does the work; --help must not
    from tuner.doctor import Examination
    from tuner.machine import Machine

SCHEMA = "malloc-tuner.doctor"
VERSION = 1
"""Schema and version of the JSON output."""

_MACHINE_HANG, _FINDING_HANG = 19, 30
"""Columns before the last part of a line."""


def as_json(examination: Examination) -> str:
    """Write an examination as one JSON object."""
    value: dict[str, Any] = {
        "schema": SCHEMA,
        "version": VERSION,
        "is_ready": not examination.problems,
        "problems": examination.problems,
        "packages": examination.packages,
        "machine": dataclasses.asdict(examination.machine),
        "prices": examination.prices and examination.prices.as_record(),
        "findings": [dataclasses.asdict(finding) for finding in examination.findings],
    }
    return json.dumps(value, indent=2)


_NO_PRICES = "not measured yet; --calibrate and the first campaign measure them"


def _machine_lines(machine: Machine) -> list[tuple[str, object]]:
    cores = ",".join(str(cpu) for cpu in machine.cpus_allowed)
    paranoid = machine.perf_event_paranoid
    return [
        ("system", f"{machine.system}, {machine.libc}"),
        ("kernel", f"{machine.kernel}, {machine.architecture}"),
        ("processor", machine.cpu_model),
        ("cores", f"{machine.n_cpus}, of which this process may use {cores}"),
        ("page size", f"{machine.page_bytes} bytes"),
        ("huge pages", machine.thp and f"{machine.thp}; defragmentation {machine.thp_defrag}"),
        ("ASLR", machine.aslr if machine.aslr is None else f"{machine.aslr} (0 is off)"),
        ("max_map_count", machine.max_map_count),
        ("perf events", "none" if paranoid is None else f"perf_event_paranoid {paranoid}"),
        ("ptrace scope", "no limit" if machine.ptrace_scope is None else machine.ptrace_scope),
        ("seccomp", {0: "no filter", 1: "strict", 2: "filtered"}.get(machine.seccomp or 0)),
    ]


def as_text(examination: Examination) -> str:
    """Write an examination for people."""
    lines = ["machine"]
    for name, value in _machine_lines(examination.machine):
        lines.append(f"  {name:<16} {'unknown' if value is None else value}")
    prices = examination.prices
    words = prices.describe() if prices else _NO_PRICES
    lines.append(folded(f"  {'prices':<16} {words}", _MACHINE_HANG))
    for group, findings in itertools.groupby(examination.findings, key=lambda f: f.group):
        lines += ["", group]
        for finding in findings:
            mark = "ok" if finding.works else "MISSING" if finding.needed else "no"
            line = f"  {finding.name:<18} {mark:<8} {finding.detail}"
            lines.append(folded(line, _FINDING_HANG))
    lines.append("")
    if examination.packages:
        lines.append(f"To get what is missing: apt install {' '.join(examination.packages)}")
    lines.append("Not ready:" if examination.problems else "Ready to record, tune and validate.")
    lines += [f"  {problem}" for problem in examination.problems]
    return "\n".join(lines)


@subcommand(
    "Check this machine for allocators, instruments, packages.",
    "malloc-tuner doctor",
    "malloc-tuner doctor --gem5 build/X86/gem5.opt --json",
    "malloc-tuner doctor --calibrate",
    errors=(MissingToolError,),
)
def doctor(
    gem5: Annotated[
        str | None,
        typer.Option(envvar="GEM5", metavar="PROGRAM", help="Also try out this gem5."),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Measure what page faults and memory system calls cost, if that is not known "
            "or a day old.",
        ),
    ] = False,
    as_json_object: AsJson = False,
) -> None:
    """Print what was found; missing is an error."""
    from tuner.doctor import examine

    examination = examine(gem5, calibrate=calibrate)
    print(as_json(examination) if as_json_object else as_text(examination))
    if examination.problems:
        n_problems = len(examination.problems)
        raise MissingToolError(
            f"not ready: {n_problems} problem{'s'[: n_problems > 1]}, listed above"
        )
