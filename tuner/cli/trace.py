"""`malloc-tuner trace`: describe a trace, shorten it, or save a recording."""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from tuner.cli.bounds import duration, factor_within, number
from tuner.cli.console import print_note, stdout_console
from tuner.cli.epilog import add_command, subcommand
from tuner.cli.options import AsJson, Force, NewTrace
from tuner.errors import OutputError, ProgramError, SpecError, TraceError
from tuner.limits import MOST_EVENTS, REST
from tuner.units import show_percent

if TYPE_CHECKING:  # reading the classes imports numpy; --help must not
    from rich.console import RenderableType
    from rich.table import Table

    from tuner.trace.file import Trace, TraceTotals
    from tuner.trace.info import Histogram, TraceInfo

SCHEMA = "malloc-tuner.trace-info"
VERSION = 1
"""Schema and version of the JSON output."""


def _histogram_json(histogram: Histogram) -> list[dict[str, float]]:
    from tuner.trace.info import filled_bins

    return [
        {"from": low, "to": high, "blocks": blocks, "bytes": size}
        for low, high, blocks, size in filled_bins(histogram)
    ]


def as_json(info: TraceInfo, trace: Trace) -> str:
    """Write the statistics of a trace as one JSON object."""
    plain = {
        field.name: getattr(info, field.name)
        for field in dataclasses.fields(info)
        if field.name not in ("totals", "size", "lifetime", "curve", "touching")
    }
    value: dict[str, Any] = {
        "schema": SCHEMA,
        "version": VERSION,
        "path": str(trace.path),
        "metadata": trace.metadata,
        "totals": dataclasses.asdict(info.totals),
        **plain,
        "realloc_share": info.realloc_share,
        "cross_thread_share": info.cross_thread_share,
        "bytes_per_event": info.bytes_per_event,
        "touching": dataclasses.asdict(info.touching),
        "size": _histogram_json(info.size),
        "lifetime_events": _histogram_json(info.lifetime),
        "curve": {
            field.name: getattr(info.curve, field.name).tolist()
            for field in dataclasses.fields(info.curve)
        },
    }
    return json.dumps(value, indent=2)


def _share(part: float, whole: float) -> str:
    return show_percent(part / whole) if whole else "-"


def _blocks(n: int) -> str:
    return f"{n:,} block{'s'[: n != 1]}"


def _life(totals: TraceTotals) -> Iterable[tuple[str, str]]:
    if totals.start_ns is not None and totals.end_ns is not None:
        yield "life", f"{(totals.end_ns - totals.start_ns) / 1e9:.3f} s"
    yield "last event", f"at {totals.duration_ns / 1e9:.3f} s"
    if totals.lacks:
        yield "lacks", totals.lacks


def _facts(info: TraceInfo, trace: Trace) -> Iterable[tuple[str, str]]:
    """Yield what stands in the first table, name and value."""
    from tuner.units import show_size

    totals, metadata = info.totals, trace.metadata
    n_frees = info.events_per_op["free"]
    if not totals.is_complete:
        yield "INCOMPLETE", f"the file was cut off; {totals.n_events:,} events can be read"
    if metadata.get("stopped"):
        yield "INCOMPLETE", f"recording stopped early: {metadata['stopped']}"
    yield "program", " ".join(trace.argv) or "unknown"
    if metadata.get("exit_status") is not None or metadata.get("signal"):
        yield "it ended with", str(metadata.get("signal") or f"status {metadata['exit_status']}")
    yield "recorded with", str(metadata.get("allocator", "unknown"))
    yield "events", f"{totals.n_events:,}"
    yield from _life(totals)
    yield "threads at once", f"{totals.n_threads} ({info.n_thread_starts + 1:,} in all)"
    yield "peak live", f"{show_size(totals.peak_live_bytes)} in {_blocks(totals.peak_live_blocks)}"
    yield "mean live", show_size(info.mean_live_bytes)
    yield "allocated in all", show_size(info.allocated_bytes)
    yield "never freed", f"{_blocks(info.n_never_freed)}, {show_size(info.never_freed_bytes)}"
    yield "realloc share", f"{show_percent(info.realloc_share)} of allocations"
    yield (
        "cross-thread frees",
        f"{info.cross_thread_frees:,} ({_share(info.cross_thread_frees, n_frees)} of frees)",
    )
    touching = info.touching
    if touching.known_blocks:
        share = _share(touching.touched_bytes, touching.known_bytes)
        known = f"{touching.known_blocks:,} of {touching.blocks:,} large blocks"
        yield "touched", f"{share} of {show_size(touching.known_bytes)} in {known}"
    elif touching.blocks:
        yield "touched", f"not known of {touching.blocks:,} large blocks"
    yield "foreign frees", f"{metadata.get('foreign_frees', 'unknown')}"
    each = f", {info.bytes_per_event:.2f} bytes an event" if totals.n_events else ""
    yield "on disk", f"{show_size(info.file_bytes)}{each}"
    if isinstance(thinned_from := metadata.get("thinned_from"), int):
        yield "thinned from", f"{thinned_from:,} events"
    if isinstance(imported := metadata.get("imported"), dict):
        yield "imported from", f"{imported.get('from')} ({imported.get('format')})"
        lost = imported.get("lost")
        yield from (("lost", str(text)) for text in (lost if isinstance(lost, list) else ()))


def _histogram_table(title: str, unit: str, histogram: Histogram) -> Table:
    from rich.table import Table

    from tuner.trace.info import filled_bins
    from tuner.units import show_size

    rows = list(filled_bins(histogram))
    n_blocks = sum(blocks for _, _, blocks, _ in rows)
    n_bytes = sum(size for *_, size in rows)
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in (unit, "blocks", "share", "bytes", "share"):
        table.add_column(name, justify="right")
    table.add_column("")
    for low, high, blocks, size in rows:
        table.add_row(
            str(low) if low == high else f"{low}..{high}",
            f"{blocks:,}",
            _share(blocks, n_blocks),
            show_size(size),
            _share(size, n_bytes),
            "#" * round(30 * blocks / max(1, n_blocks)),
        )
    return table


def as_tables(info: TraceInfo, trace: Trace) -> list[RenderableType]:
    """Return the tables that describe a trace."""
    from rich.table import Table
    from rich.text import Text

    facts = Table(title=str(trace.path), title_justify="left", box=None, show_header=False)
    for name, value in _facts(info, trace):
        facts.add_row(Text(name), Text(value))
    calls = Table(title="calls", title_justify="left", box=None, pad_edge=False)
    for name in ("function", "calls", "share"):
        calls.add_column(name, justify="left" if name == "function" else "right")
    for api, count in sorted(info.events_per_api.items(), key=lambda item: -item[1]):
        calls.add_row(api, f"{count:,}", _share(count, info.totals.n_events))
    tables = [
        calls,
        _histogram_table("sizes", "requested bytes", info.size),
        _histogram_table("lifetimes", "events", info.lifetime),
    ]
    return [facts, *(table for table in tables if table.row_count)]


@subcommand(
    "Describe a trace: events, threads, live bytes, sizes, lifetimes.",
    "malloc-tuner trace info app.trace",
    "malloc-tuner trace info app.trace --json --plot app.svg",
    errors=(SpecError, TraceError, OutputError),
)
def _info_command(
    path: Annotated[Path, typer.Argument(metavar="TRACE")],
    as_json_object: AsJson = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also draw it into a .png, .svg or .pdf file."),
    ] = None,
) -> None:
    from tuner.trace.file import Trace
    from tuner.trace.info import describe

    if plot is not None:
        from tuner.trace.plot import format_of, save

        format_of(plot)
    with Trace(path) as trace:
        if not (trace.totals.is_complete or trace.totals.n_events):
            raise TraceError(f"{path}: {trace.why_empty}")
        info = describe(trace)
    if as_json_object:
        print(as_json(info, trace))
    else:
        console = stdout_console()
        for table in as_tables(info, trace):
            console.print(table, "")
    if plot is not None:
        save(info, Path((trace.argv or [path.stem])[0]).name, plot)


@subcommand(
    "Save a recording whose `record` was killed.",
    "malloc-tuner trace recover app.trace.spool -o app.trace",
    errors=(ProgramError, OutputError),
)
def _recover_command(
    spool: Annotated[Path, typer.Argument(metavar="SPOOL", help="The folder OUTPUT.spool.")],
    output: NewTrace,
    force: Force = False,
) -> None:
    from tuner.recording import recover
    from tuner.recording.explain import killed_at_start, stopped_early

    processes = recover(spool, output, force=force)
    for process in processes:
        print(f"{process.path}: {process.totals.n_events:,} events", file=sys.stderr)
    if killed := killed_at_start(processes):
        print(f"malloc-tuner: {killed}", file=sys.stderr)
    if stopped := stopped_early(processes):
        raise OutputError(stopped)


@subcommand(
    "Make a long trace short, with samples of its short lives. Not for "
    "settings of large thread caches: most of the short lives that fill them are gone.",
    "malloc-tuner trace thin app.trace -o thin.trace",
    "malloc-tuner trace thin app.trace -o thin.trace --middle 2000000 --last 0",
    "malloc-tuner trace thin app.trace -o thin.trace --set-up 1.9s --pace 4",
    errors=(SpecError, TraceError, OutputError),
)
def _thin_command(
    path: Annotated[Path, typer.Argument(metavar="TRACE")],
    *,
    output: NewTrace,
    middle: Annotated[
        int, number(1, MOST_EVENTS, "Events to keep whole between begin and end.")
    ] = 500_000,
    first: Annotated[
        int, number(0, MOST_EVENTS, "Events to keep whole at the beginning.")
    ] = 500_000,
    last: Annotated[int, number(0, MOST_EVENTS, "Events to keep whole at the end.")] = 500_000,
    set_up: Annotated[
        str, duration(REST, "Time of the set-up, which the new trace leaves out.")
    ] = "0 s",
    pace: Annotated[
        float,
        typer.Option(
            metavar="FACTOR",
            callback=factor_within(0.01, 1000.0),
            help="Recorded over real time of the rest.",
        ),
    ] = 1.0,
) -> None:
    from tuner.profile.trust import gap_in
    from tuner.trace.thin import Thinning, thin
    from tuner.units import parse_duration

    if gap := gap_in(path):
        print_note(gap)
    how = Thinning(middle, first, last, parse_duration(set_up), pace)
    found = thin(path, output, how)
    print(f"{output}: {found.n_kept:,} of {found.n_events:,} events", file=sys.stderr)


class _Group(TyperGroup):
    """Names the command that is meant where a file stands in its place."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - the base class's
        """Find the command of these words."""
        first = args[0] if args else ""
        if first not in self.commands and Path(first).is_file():
            raise typer.BadParameter(
                f"give a command too, such as: malloc-tuner trace info {shlex.quote(first)}"
            )
        return super().resolve_command(ctx, args)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    group = typer.Typer(
        name="trace",
        cls=_Group,
        help="Describe a trace, shorten it, or save a recording.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    add_command(group, "info", _info_command)
    add_command(group, "recover", _recover_command)
    add_command(group, "thin", _thin_command)
    app.add_typer(group)
