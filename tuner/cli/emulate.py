"""`malloc-tuner emulate`: settings on one trace, with the defaults beside them."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuner.cli.bounds import core, duration
from tuner.cli.epilog import subcommand
from tuner.cli.options import (
    KINDS,
    AsJson,
    HugePages,
    Settings,
    Thp,
    Threads,
    allocator_names,
    refuse_options,
)
from tuner.errors import (
    MissingToolError,
    ProgramError,
    ProgramTimeoutError,
    SettingError,
    SpecError,
    TraceError,
)
from tuner.limits import RUN_TIME

if TYPE_CHECKING:  # what does the work is imported by the command; --help must not
    from collections.abc import Iterator, Sequence

    from rich.table import Table

    from tuner.library import Emulated
    from tuner.records import Configuration, Measurement

SCHEMA = "malloc-tuner.emulation"
VERSION = 1
"""Schema and version of the JSON output."""

_BASELINE = "glibc"
_ERRORS = {"refused": SettingError, "failed": ProgramError, "timed_out": ProgramTimeoutError}
"""Status of an evaluation that did not succeed -> the error it is for a single one."""


class InstrumentName(StrEnum):
    """How instructions are counted."""

    AUTO = "auto"
    PERF = "perf"
    QEMU = "qemu"
    CACHEGRIND = "cachegrind"
    NONE = "none"


@subcommand(
    "Measure allocator settings on a trace, and the defaults.",
    "malloc-tuner emulate app.trace --setting 'jemalloc dirty_decay_ms=0'",
    "malloc-tuner emulate app.trace --allocators glibc,exgen --json",
    errors=(
        SpecError,
        MissingToolError,
        TraceError,
        SettingError,
        ProgramError,
        ProgramTimeoutError,
    ),
)
def emulate(
    context: typer.Context,
    *,
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="Trace or profile.")],
    allocators: Annotated[
        str,
        typer.Option(
            "--allocators",
            "-a",
            metavar="NAME[:PATH],...",
            help=f"Defaults to show. {KINDS}",
        ),
    ] = _BASELINE,
    setting: Settings = None,
    threads: Annotated[
        Threads, typer.Option(help="baton: repeatable; free: contention and latency.")
    ] = Threads.BATON,
    instrument: Annotated[
        InstrumentName, typer.Option(help="What counts instructions; auto takes the best.")
    ] = InstrumentName.AUTO,
    thp: Thp = HugePages.KEEP,
    timeout: Annotated[str, duration(RUN_TIME, "CPU time of one replay.")] = "60 s",
    cpu: Annotated[
        int | None,
        core("Core to run on (default: the first allowed)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate settings, the defaults of their allocators and of others, and glibc's."""
    from tuner.cli.console import print_note
    from tuner.emulation import EmulationOptions
    from tuner.library import emulate as emulate_all
    from tuner.records import Status
    from tuner.units import parse_duration

    if threads is Threads.FREE:
        if instrument is not InstrumentName.NONE:
            refuse_options(context, {"--instrument"}, "with --threads free, which counts nothing")
        refuse_options(context, {"--cpu"}, "with --threads free, which runs on all cores")
    found = emulate_all(
        trace,
        allocator_names(allocators),
        setting or (),
        options=EmulationOptions(
            instrument=instrument.value,
            threads=threads.value,
            thp=thp.value,
            timeout_s=parse_duration(timeout) / 1e9,
        ),
        cpu=cpu,
        each=_with_progress,
        on_note=print_note,
    )
    for n, (asked, evaluation) in enumerate(found.evaluations):
        if evaluation.status is not Status.OK and (n == 0 or not asked.is_default):
            reason = (evaluation.reason or "").removeprefix(f"{asked}: ")
            raise _ERRORS[evaluation.status.value](f"{asked}: {reason}")
    _print(found, as_json=as_json)


def _with_progress(wanted: Sequence[Configuration]) -> Iterator[Configuration]:
    """Yield configurations under a bar on standard error that estimates what is left."""
    from tuner.cli.console import stderr_progress

    with stderr_progress() as progress:
        bar = progress.add_task("", total=len(wanted))
        for configuration in wanted:
            progress.update(bar, description=f"{configuration!s:<40.40}")
            yield configuration
            progress.advance(bar)


def _print(found: Emulated, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(_document(found), indent=2))
        return
    from tuner.cli.console import folded, stdout_console

    emulation = found.emulation
    table = _table(found)
    console = stdout_console(table)
    console.print(table)
    names = ", ".join(
        f"{installation.allocator} {installation.version}"
        for _, installation in emulation.allocators.values()
    )
    prices = emulation.calibration
    cost = (
        f"; cost = instructions + {prices.c_fault:.0f} x page faults + {prices.c_page:.0f} x "
        f"pages of huge ones + {prices.c_syscall:.0f} x system calls"
    )
    measured = (evaluation.good for _, evaluation in found.evaluations)
    has_cost = any(one and one["cost"] is not None for one in measured)
    against = "; change: of the first column against the one beside it"
    has_change = len(found.evaluations) > 1
    words = f"{emulation.trace}, threads {emulation.options.threads}; {names}{cost * has_cost}"
    console.print(folded(f"{words}{against * has_change}", 2), style="dim", soft_wrap=True)


def _document(found: Emulated) -> dict[str, Any]:
    from tuner.trace.file import Trace

    emulation = found.emulation
    with Trace(emulation.trace) as trace:
        workload = {"level": trace.level, "low_fidelity": trace.is_low_fidelity}
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "trace": str(emulation.trace),
        "workload": workload,
        "options": asdict(emulation.options),
        "calibration": emulation.calibration.as_record(),
        "allocators": {
            name: {
                "library": str(installation.library) if installation.library else None,
                "version": installation.version,
            }
            for name, (_, installation) in emulation.allocators.items()
        },
        "evaluations": [
            {
                "allocator": configuration.allocator,
                "settings": configuration.as_dict,
                "status": evaluation.status.value,
                "reason": evaluation.reason,
                "incidents": evaluation.incidents,
                "measurement": _measurement(evaluation.good),
            }
            for configuration, evaluation in found.evaluations
        ],
    }


def _measurement(measurement: Measurement | None) -> dict[str, Any] | None:
    if measurement is None:
        return None
    names = ("event", "time_ns", "heap_bytes", "live_bytes")
    curve = {name: [getattr(point, name) for point in measurement.curve] for name in names}
    return {**measurement.fields, "curve": curve}


def _table(found: Emulated) -> Table:
    """Return one row per metric; defaults carry the change from them to the asked one."""
    from rich.table import Table

    from tuner.metrics import METRICS
    from tuner.report.columns import ratio, scale_of, show_change

    table = Table(box=None, header_style="bold")
    table.add_column("", no_wrap=True)
    for n, (configuration, _) in enumerate(found.evaluations):
        allocator, *settings = str(configuration).split(" ")
        table.add_column("\n".join([allocator, *settings]), justify="right", no_wrap=True)
        if n:
            table.add_column("\nchange", justify="right", style="cyan", no_wrap=True)
    measurements = [evaluation.good for _, evaluation in found.evaluations]
    for metric in METRICS.values():
        if not metric.is_objective:
            continue
        values = [metric.value(measurement) for measurement in measurements]
        if all(value is None for value in values):
            continue
        scale = scale_of(metric, measurements)
        cells = [scale.show(values[0])]
        for value in values[1:]:
            cells += [scale.show(value), show_change(ratio(values[0], value))]
        table.add_row(f"{metric.label} ({scale.unit})" if scale.unit else metric.label, *cells)
    for configuration, evaluation in found.evaluations:
        if evaluation.reason:
            table.add_row(f"{configuration}: {evaluation.reason}")
    return table
