"""Make traces of what other tools recorded, and profiles of heap profiles.

One module per format, two tables of them: `FORMATS` of those that hold every call, and
`SITE_FORMATS` of those that only sum over call sites.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import tuner
from tuner.errors import OutputError, SpecError, TraceError
from tuner.importers import (
    bytehound,
    classic,
    dhat,
    heap_profiles,
    heaptrack,
    malloc_lab,
    mtrace,
    trace_utils,
    valgrind,
)
from tuner.importers.heap import ImportedHeap, split_command
from tuner.importers.source import Source
from tuner.profile import sites
from tuner.profile.file import write_profile
from tuner.profile.trust import caveat
from tuner.trace.file import Trace, TraceTotals, TraceWriter

DEFAULT_STEP_NS: Final = 1000
"""Time between two events where the file has no times: about that of a busy program."""

_TOUCHING = "touching: how much of large blocks was used"
"""What no tool's recording holds."""

_LIFE = "start and end of the process: means over time are from the first event to the last"
"""What none holds either."""

_SPARE_BYTES: Final = 16 * 1024
_START_BYTES: Final = 64 * 1024
"""How much of a file is looked at to recognise its format."""


@dataclass(frozen=True)
class Format:
    """One kind of file that can be imported."""

    title: str
    """What wrote it."""
    recognise: Callable[[bytes], bool]
    """Returns whether a file is of this kind, by its unpacked start."""
    read: Callable[[Source, ImportedHeap], None]
    """Puts the events of a file into a heap; raises TraceError with the line."""
    lost: tuple[str, ...]
    """What the format lacks, or this reader cannot use."""


FORMATS: Final = {
    "valgrind": Format(
        "valgrind --trace-malloc=yes", valgrind.recognise, valgrind.read, valgrind.LOST
    ),
    "mtrace": Format("mtrace of glibc", mtrace.recognise, mtrace.read, mtrace.LOST),
    "glibc-trace": Format(
        "glibc's malloc trace utilities, .mtrace",
        trace_utils.recognise_trace,
        trace_utils.read_trace,
        trace_utils.LOST_TRACE,
    ),
    "glibc-workload": Format(
        "glibc's malloc trace utilities, .wl",
        trace_utils.recognise_workload,
        trace_utils.read_workload,
        trace_utils.LOST_WORKLOAD,
    ),
    "malloc-lab": Format(
        "malloc lab, .rep", malloc_lab.recognise, malloc_lab.read, malloc_lab.LOST
    ),
    "heaptrack": Format("heaptrack", heaptrack.recognise, heaptrack.read, heaptrack.LOST),
    "bytehound": Format(
        "bytehound, allocations as JSON", bytehound.recognise, bytehound.read, bytehound.LOST
    ),
}
"""Name of a format -> how it is read.  The first that recognises a file is taken."""


@dataclass(frozen=True)
class SiteFormat:
    """One kind of heap profile, of which a workload profile can be made."""

    title: str
    """What wrote it."""
    recognise: Callable[[bytes], bool]
    """As in `Format`."""
    read: Callable[[Source], tuple[sites.Sites, str]]
    """Returns the call sites and, if it is there, the command; raises TraceError with the place."""
    lost: tuple[str, ...]
    """As in `Format`."""


SITE_FORMATS: Final = {
    "dhat": SiteFormat("valgrind --tool=dhat", dhat.recognise, dhat.read, dhat.LOST),
    "jemalloc-heap": SiteFormat(
        "heap profile of jemalloc",
        heap_profiles.recognise_jemalloc,
        heap_profiles.read_jemalloc,
        heap_profiles.LOST_JEMALLOC,
    ),
    "gperftools-heap": SiteFormat(
        "heap profile of gperftools",
        heap_profiles.recognise_gperftools,
        heap_profiles.read_gperftools,
        heap_profiles.LOST_GPERFTOOLS,
    ),
}
"""Name of a format -> how it is read, as `FORMATS`."""


@dataclass(frozen=True)
class Imported:
    """A trace or profile that was made of another tool's file."""

    path: Path
    """The trace or profile."""
    format: str
    """Key of `FORMATS` or `SITE_FORMATS`."""
    totals: TraceTotals
    file_bytes: int
    """Size of the file at `path`."""
    lost: tuple[str, ...]
    """What it does not hold though the program did it; sentences."""
    level: str
    """``trace``, or the level of the profile."""
    assumed: tuple[str, ...] = ()
    """What was assumed in place of what is lost; sentences."""
    caveat: str | None = None
    """What every output about it has to say; None for a trace."""


def import_file(
    path: Path, output: Path, format_name: str | None = None, step_ns: int = DEFAULT_STEP_NS
) -> Imported:
    """Make a trace, or of a heap profile a workload profile, of a file another tool wrote.

    Args:
        path: the file; gzip and zstd are unpacked on the way.
        output: the trace or profile; replaced if it exists, not there if the import fails.
        format_name: key of `FORMATS` or `SITE_FORMATS`; None recognises it.
        step_ns: time between two events where the file has no times, 0 or more.

    Raises:
        TraceError: the file cannot be read, is not of this format, or is malformed; the
            message names line or byte.
        SpecError: there is no such format, or `output` is the file itself.
        OutputError: the output cannot be written.
    """
    source = Source(path)
    name = format_name or _recognise(source)
    if name not in FORMATS and name not in SITE_FORMATS:
        message = f"{name}: no such format; use one of {_names()}"
        raise SpecError(message)
    if output.exists() and path.exists() and output.samefile(path):
        message = f"{output}: would overwrite what is imported; choose another name with -o"
        raise SpecError(message)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"{output.parent}: cannot be made ({error.strerror}); choose another place"
        raise OutputError(message) from error
    if name in SITE_FORMATS:
        return _import_sites(source, output, name)
    return _import_events(source, output, name, step_ns)


def import_classic(path: Path, output: Path) -> Imported:
    """Make records for ``rand_malloc --classic`` of a DHAT profile, as GreenMalloc did.

    Args:
        path: the profile.
        output: the records; replaced if it exists.

    Raises:
        TraceError: the file cannot be read or is no DHAT profile.
        SpecError: `output` is the file itself.
        OutputError: the output cannot be written.
    """
    source = Source(path)
    if output.exists() and path.exists() and output.samefile(path):
        message = f"{output}: would overwrite what is imported; choose another name with -o"
        raise SpecError(message)
    classic.write_records(source, output)
    with Trace(output) as made:
        return Imported(
            path=output,
            format="dhat",
            totals=made.totals,
            file_bytes=output.stat().st_size,
            lost=classic.LOST,
            level=made.level,
            caveat=caveat(made),
        )


def _names() -> str:
    return ", ".join([*FORMATS, *SITE_FORMATS])


def _import_sites(source: Source, output: Path, name: str) -> Imported:
    form = SITE_FORMATS[name]
    found, command = form.read(source)
    flaw = found.flaw()
    if flaw:
        message = f"{source.path}: {flaw}"
        raise TraceError(message)
    metadata = _metadata(source.path, name)
    metadata |= {"argv": split_command(command)}
    lost = (*form.lost, _LIFE)
    metadata["imported"]["lost"] = list(lost)
    write_profile(output, sites.make_profile(found, metadata))
    assumed = (*sites.ASSUMED, *found.assumed)
    with Trace(output) as made:
        return Imported(
            output,
            name,
            made.totals,
            output.stat().st_size,
            lost,
            made.level,
            assumed,
            caveat(made),
        )


def _import_events(source: Source, output: Path, name: str, step_ns: int) -> Imported:
    form = FORMATS[name]
    path = source.path
    metadata = _metadata(path, name)
    with TraceWriter(output, metadata, spare_bytes=_SPARE_BYTES) as writer:
        heap = ImportedHeap(writer.write, step_ns)
        form.read(source, heap)
        heap.flush()
        if not heap.n_events:
            message = f"{path}: no allocation in it that {form.title} would have written"
            raise TraceError(message)
        lost = (*form.lost, _TOUCHING, _LIFE, *_times(heap, step_ns), *heap.losses())
        metadata |= {"argv": list(heap.argv), "foreign_frees": heap.n_foreign}
        metadata["repaired_events"] = heap.n_inverted
        metadata["imported"]["lost"] = list(lost)
        writer.replace_metadata(metadata)
    with Trace(output) as trace:
        totals = trace.totals
    return Imported(output, name, totals, output.stat().st_size, lost, trace.level)


def _recognise(source: Source) -> str:
    start = source.start(_START_BYTES)
    forms: dict[str, Format | SiteFormat] = {**FORMATS, **SITE_FORMATS}
    found = next((name for name, form in forms.items() if form.recognise(start)), None)
    if found is None:
        message = (
            f"{source.path}: not a file this can import; if it is, name its --format: {_names()}"
        )
        raise TraceError(message)
    return found


def _metadata(path: Path, name: str) -> dict[str, Any]:
    """Return what is known before the file is read."""
    return {
        "tool": f"malloc-tuner {tuner.__version__}",
        "argv": [],
        "exit_status": None,
        "signal": None,
        "wall_s": None,
        "cpu_s": None,
        "imported": {"from": path.name, "format": name, "lost": []},
    }


def _times(heap: ImportedHeap, step_ns: int) -> tuple[str, ...]:
    if heap.has_times:
        return ()
    return (f"times: events are {step_ns} ns apart, so settings that wait for time mean little",)
