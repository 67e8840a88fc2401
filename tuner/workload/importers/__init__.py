"""Make traces of what other tools recorded: one module per format, one table of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import tuner
from tuner.errors import OutputError, SpecError, TraceError
from tuner.workload.importers import bytehound, heaptrack, malloc_lab, mtrace, trace_utils, valgrind
from tuner.workload.importers.heap import ImportedHeap
from tuner.workload.importers.source import Source
from tuner.workload.trace import Trace, TraceTotals, TraceWriter

DEFAULT_STEP_NS: Final = 1000
"""Time between two events where the file has no times: about that of a busy program."""

_SPARE_BYTES: Final = 16 * 1024
_START_BYTES: Final = 64 * 1024
"""How much of a file is looked at to recognise its format."""


@dataclass(frozen=True)
class Format:
    """One kind of file that can be imported."""

    title: str
    """What wrote it."""
    recognise: Callable[[bytes], bool]
    """Tells by the start of a file, unpacked, whether it is of this kind."""
    read: Callable[[Source, ImportedHeap], None]
    """Puts the events of a file into a heap; raises TraceError with the line."""
    lost: tuple[str, ...]
    """What the format does not tell, or this reader cannot use."""


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
class Imported:
    """A trace that was made of another tool's file."""

    path: Path
    """The trace."""
    format: str
    """Key of `FORMATS`."""
    totals: TraceTotals
    file_bytes: int
    """Size of the trace."""
    lost: tuple[str, ...]
    """What the trace does not hold though the program did it; sentences."""


def import_file(
    path: Path, output: Path, format_name: str | None = None, step_ns: int = DEFAULT_STEP_NS
) -> Imported:
    """Make a trace of a file another tool wrote.

    Args:
        path: the file; gzip and zstd are unpacked on the way.
        output: the trace; replaced if it exists, not there if the import fails.
        format_name: key of `FORMATS`; None recognises it.
        step_ns: time between two events where the file tells no times, 0 or more.

    Raises:
        TraceError: the file cannot be read, is not of this format, or is malformed; the
            message names line or byte.
        SpecError: there is no such format, or `output` is the file itself.
        MissingToolError: the file is packed with zstd and there is no such program.
        OutputError: the trace cannot be written.
    """
    source = Source(path)
    name = format_name or _recognise(source)
    if name not in FORMATS:
        message = f"{name}: no such format; use one of {', '.join(FORMATS)}"
        raise SpecError(message)
    if output.exists() and path.exists() and output.samefile(path):
        message = f"{output}: would overwrite what is imported; choose another name with -o"
        raise SpecError(message)
    form = FORMATS[name]
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"{output.parent}: cannot be made ({error.strerror}); choose another place"
        raise OutputError(message) from error
    metadata = _metadata(path, name)
    with TraceWriter(output, metadata, spare_bytes=_SPARE_BYTES) as writer:
        heap = ImportedHeap(writer.write, step_ns)
        form.read(source, heap)
        heap.flush()
        if not heap.n_events:
            message = f"{path}: no allocation in it that {form.title} would have written"
            raise TraceError(message)
        lost = (*form.lost, *_times(heap, step_ns), *heap.losses())
        metadata |= {"argv": list(heap.argv), "foreign_frees": heap.n_foreign}
        metadata["repaired_events"] = heap.n_inverted
        metadata["imported"]["lost"] = list(lost)
        writer.replace_metadata(metadata)
    with Trace(output) as trace:
        totals = trace.totals
    return Imported(output, name, totals, output.stat().st_size, lost)


def _recognise(source: Source) -> str:
    start = source.start(_START_BYTES)
    found = next((name for name, form in FORMATS.items() if form.recognise(start)), None)
    if found is None:
        message = (
            f"{source.path}: not a file this can import; if it is, name its --format: "
            f"{', '.join(FORMATS)}"
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
