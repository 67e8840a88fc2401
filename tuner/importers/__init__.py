"""Make traces of what other tools recorded, and profiles of heap profiles.

A module per tool, or kind of file, holds its `Format`; `FORMATS` is the one table of them.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import tuner
from tuner.errors import SpecError, TraceError
from tuner.importers import (
    bytehound,
    classic,
    heap_profiles,
    heaptrack,
    malloc_lab,
    mtrace,
    trace_utils,
    valgrind,
)
from tuner.importers.format import Format
from tuner.importers.heap import ImportedHeap
from tuner.importers.source import Source
from tuner.output import check_apart, make_folder
from tuner.profile import sites
from tuner.profile.file import write_profile
from tuner.profile.trust import caveat
from tuner.trace import MAGIC
from tuner.trace.file import Trace, TraceTotals, TraceWriter

DEFAULT_STEP_NS: Final = 1000
"""Time between two events where the file has no times: about that of a busy program."""

_TOUCHING = "touching: how much of large blocks was used"
_LIFE = "start and end of the process: means over time are from the first event to the last"
"""What no tool records."""

_START_BYTES: Final = 64 * 1024
"""How much of a file is looked at to recognise its format."""
_MAX_COMMAND: Final = 2000
"""Bytes of a command that are kept."""
_SPARE_BYTES: Final = 4096 + 6 * _MAX_COMMAND
"""Room for what is known at the end; JSON has up to 6 bytes for a byte of text."""

FORMATS: Final = {
    form.name: form
    for form in (
        valgrind.FORMAT,
        mtrace.FORMAT,
        trace_utils.TRACE,
        trace_utils.WORKLOAD,
        malloc_lab.FORMAT,
        heaptrack.FORMAT,
        bytehound.FORMAT,
        heap_profiles.DHAT,
        heap_profiles.JEMALLOC,
        heap_profiles.GPERFTOOLS,
        classic.FORMAT,
    )
}
"""Name -> format.  The first that recognises a file is taken."""


@dataclass(frozen=True)
class Imported:
    """A trace or profile that was made of another tool's file."""

    path: Path
    """The trace or profile."""
    totals: TraceTotals
    level: str
    """``trace``, or the level of the profile."""
    caveat: str | None
    """What every output about it has to say; None for what was recorded."""
    facts: Mapping[str, Any]
    """What its metadata say of the import; see docs/formats.md."""
    assumed: tuple[str, ...]
    """What was assumed in place of what is lost; sentences."""

    @property
    def format(self) -> str:
        """Key of `FORMATS`."""
        return str(self.facts["format"])

    @property
    def lost(self) -> tuple[str, ...]:
        """What it does not hold though the program did it; sentences."""
        return tuple(self.facts["lost"])

    @property
    def figures(self) -> Mapping[str, int]:
        """What the program that the file is for would print, if that is known."""
        return dict(self.facts.get("figures", {}))


def import_file(
    path: Path,
    output: Path,
    format_name: str | None = None,
    step_ns: int | None = None,
    seed: int | None = None,
) -> Imported:
    """Make a trace, or of a heap profile a workload profile, of a file another tool wrote.

    Args:
        path: the file; gzip and zstd are unpacked on the way.
        output: the trace or profile; replaces one that exists when the import succeeds.
        format_name: key of `FORMATS`; None recognises it.
        step_ns: time between two events of a file without times, 0 or more; None:
            `DEFAULT_STEP_NS`.
        seed: of the classic records that leave sizes or lifetimes to chance, 0..2**31-1; None: 1.

    Raises:
        TraceError: the file cannot be read, is not of this format, or is malformed; the
            message names line or byte.
        SpecError: there is no such format, `output` is the file itself, a seed is given for a
            format that leaves nothing to chance, or a step for a file that has times.
        OutputError: the output cannot be written.
    """
    check_apart(path, output)
    source = Source(path)
    start = source.start(_START_BYTES)
    form = _recognise(path, start) if format_name is None else FORMATS.get(format_name)
    if form is None:
        raise SpecError(f"{format_name}: no such format; use one of {', '.join(FORMATS)}")
    if seed is not None and form is not classic.FORMAT:
        raise SpecError(
            f"a seed does not apply to {form.name}: it is of the format {classic.FORMAT.name}"
        )
    if step_ns is not None and form.read_sites:
        raise SpecError(f"a step does not apply to {form.name}: it has sums, no events")
    make_folder(output.parent)
    with source.errors():
        if form.read_sites:
            assumed = _import_sites(source, output, form)
        else:
            assumed = ()
            _import_events(source, output, form, step_ns, 1 if seed is None else seed)
    with Trace(output) as made:
        facts = made.metadata["imported"]
        return Imported(output, made.totals, made.level, caveat(made), facts, assumed)


def _recognise(path: Path, start: bytes) -> Format:
    found = next((form for form in FORMATS.values() if form.recognise(start)), None)
    if found is None and start.startswith(MAGIC):
        raise TraceError(
            f"{path}: is a trace already; `malloc-tuner tune {shlex.quote(str(path))}` takes it as "
            "it is"
        )
    if found is None:
        names = ", ".join(FORMATS)
        raise TraceError(
            f"{path}: not a file this can import; if it is, name its --format: {names}"
        )
    return found


def _import_sites(source: Source, output: Path, form: Format) -> tuple[str, ...]:
    """Write a profile; return what is assumed in it."""
    assert form.read_sites is not None  # noqa: S101 - the caller looked
    found, command = form.read_sites(source)
    if flaw := found.flaw():
        raise TraceError(f"{source.path}: {flaw}")
    metadata = _metadata(source, form, command, {"lost": (*form.lost, _LIFE)})
    try:
        profile = sites.make_profile(found, metadata)
    except TraceError as error:  # names the trace in between
        raise TraceError(f"{source.path}: {str(error).rpartition(': ')[2]}") from error
    write_profile(output, profile)
    return tuple(profile["source"]["assumed"])


def _import_events(
    source: Source, output: Path, form: Format, given_ns: int | None, seed: int
) -> None:
    """Write a trace."""
    assert form.read_events is not None  # noqa: S101 - the other reader
    metadata = _metadata(source, form)
    step_ns = DEFAULT_STEP_NS if given_ns is None else given_ns
    with TraceWriter(output, metadata, spare_bytes=_SPARE_BYTES) as writer:
        heap = ImportedHeap(writer.write, step_ns, seed)
        form.read_events(source, heap)
        heap.flush()
        if heap.has_times and given_ns is not None:
            raise SpecError(
                f"a step does not apply to {source.path}: it has the times of its events"
            )
        if not heap.n_events:
            raise TraceError(
                f"{source.path}: no allocation in it that {form.title} would have written"
            )
        lost = [*form.lost, _TOUCHING, _LIFE, *heap.losses()]
        if not heap.has_times:
            times = f"events are {step_ns} ns apart, so settings that wait for time mean little"
            lost.append(f"times: {times}")
        metadata = _metadata(source, form, heap.command, {"lost": lost, **heap.facts})
        counts = {"foreign_frees": heap.n_foreign, "repaired_events": heap.n_inverted}
        writer.replace_metadata(metadata | counts)


def _metadata(
    source: Source, form: Format, command: str = "", facts: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "tool": f"malloc-tuner {tuner.__version__}",
        "argv": _words(command.encode()[:_MAX_COMMAND].decode(errors="ignore")),
        "exit_status": None,
        "signal": None,
        "wall_s": None,
        "cpu_s": None,
        "imported": {"from": source.path.name, "format": form.name, **(facts or {})},
    }


def _words(command: str) -> list[str]:
    """Return the words of a command as a shell would take them."""
    try:
        return shlex.split(command)
    except ValueError:  # quotes that are not closed
        return command.split()
