"""Read and write allocation traces through the native trace library.

The format has one implementation, ``rand_malloc/trace`` in C; this module maps
its structs and turns its statuses into exceptions.  Events come as numpy arrays
of `EVENT`, so that twenty million of them are read in seconds.
"""

import ctypes
import enum
import errno
import functools
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from tuner.errors import OutputError, TraceError
from tuner.resources import native_file
from tuner.trace import SPOOL_SUFFIX, place_while_written, put_in_place, recovery
from tuner.units import show_size

EVENT: Final = np.dtype(
    [
        ("time_ns", "<u8"),
        ("size", "<u8"),
        ("slot", "<u4"),
        ("thread", "<u4"),
        ("owner", "<u4"),
        ("op", "u1"),
        ("api", "u1"),
        ("align_log2", "u1"),
        ("reserved", "u1"),
        ("touch", "<u4"),
        ("reserved2", "<u4"),
    ]
)
"""One event; the layout of ``struct trace_event``.  See docs/formats.md for the fields."""

Events = npt.NDArray[np.void]
"""A batch of events: shape (n_events,), dtype `EVENT`, in the order of the trace."""


MAX_LIFE_NS: Final = 1 << 62
MAX_SIZE: Final = 1 << 47
"""Longest life of a process, and largest block; TRACE_MAX_LIFE_NS and TRACE_MAX_SIZE of
``rand_malloc/trace/trace.h``."""

DEFAULT_BATCH: Final = 1 << 18
"""Events per batch: 10 MiB, large enough that Python's share of the time vanishes."""

DEFAULT_SEED: Final = 1
"""Seed of what is generated from a profile; rand_malloc's default too."""

_MESSAGE_BYTES = 1024


class Op(enum.IntEnum):
    """What an event does to the heap; ``enum trace_op``."""

    MALLOC = 0
    CALLOC = 1
    ALIGNED = 2
    REALLOC = 3
    FREE = 4
    THREAD_START = 5
    THREAD_EXIT = 6


class Api(enum.IntEnum):
    """Which function the program called; ``enum trace_api``."""

    MALLOC = 0
    CALLOC = 1
    REALLOC = 2
    REALLOCARRAY = 3
    MEMALIGN = 4
    ALIGNED_ALLOC = 5
    POSIX_MEMALIGN = 6
    VALLOC = 7
    PVALLOC = 8
    FREE = 9
    FREE_SIZED = 10
    NEW = 11
    NEW_ARRAY = 12
    DELETE = 13
    DELETE_ARRAY = 14
    DELETE_SIZED = 15
    THREAD = 16


class _Status(enum.IntEnum):
    OK = 0
    END = 1
    OPEN = 2
    FORMAT = 3
    VERSION = 4
    MEMORY = 5
    WRITE = 6


class _Life(ctypes.Structure):
    _fields_ = (
        ("start_ns", ctypes.c_uint64),
        ("end_ns", ctypes.c_uint64),
        ("has_start", ctypes.c_uint8),
        ("has_end", ctypes.c_uint8),
        ("reserved", ctypes.c_uint8 * 6),
    )


class _Info(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint32),
        ("n_threads", ctypes.c_uint32),
        ("n_slots", ctypes.c_uint32),
        ("page_bytes", ctypes.c_uint32),
        ("n_events", ctypes.c_uint64),
        ("duration_ns", ctypes.c_uint64),
        ("peak_live_bytes", ctypes.c_uint64),
        ("peak_live_blocks", ctypes.c_uint64),
        ("is_complete", ctypes.c_uint8),
        ("reserved", ctypes.c_uint8 * 7),
        ("life", _Life),
    )


@dataclass(frozen=True)
class TraceTotals:
    """Figures from the header of a trace; exact, also for a trace that was cut off."""

    version: int
    """Version of the format."""
    n_threads: int
    """Greatest number of threads alive at once."""
    n_slots: int
    """Greatest number of slots in use; the size a table of slots must have."""
    page_bytes: int
    """Page size of the recorded machine."""
    n_events: int
    duration_ns: int
    """Time of the last event; see `life_ns`."""
    peak_live_bytes: int
    """Greatest sum of requested bytes alive at once."""
    peak_live_blocks: int
    is_complete: bool
    """False when the file was cut off: the totals cover its readable part."""
    start_ns: int | None = None
    """When the process began to run its program; None: not known."""
    end_ns: int | None = None
    """When it ended, at `duration_ns` or later; None: not known."""

    @property
    def life_ns(self) -> int:
        """How long the process lived, as far as that is known: at most from time 0."""
        end_ns = self.duration_ns if self.end_ns is None else self.end_ns
        return max(0, end_ns - (self.start_ns or 0))

    @property
    def lacks(self) -> str | None:
        """What is not known of the life of the process, as a sentence; None when all is."""
        if self.start_ns is None and self.end_ns is None:
            what, over = "start and end", "from its first event to its last"
        elif self.start_ns is None:
            what, over = "start", "from its first event on"
        elif self.end_ns is None:
            what, over = "end", "to its last event"
        else:
            return None
        is_cut = not self.is_complete and self.start_ns is not None
        why = "lost with what was cut off" if is_cut else "not recorded"
        return f"{what} of the process {why}: means over time are {over}"


@functools.cache
def _library() -> ctypes.CDLL:
    """Load the native library and declare what it takes and returns."""
    library = ctypes.CDLL(str(native_file("libmalloctrace.so")), use_errno=True)
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    opening = (ctypes.c_int, [text, ctypes.c_uint64, pointer, text, size])
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "source_open": opening,
        "source_stream": opening,
        "source_get_info": (None, [pointer, pointer]),
        "source_metadata": (text, [pointer]),
        "source_level": (text, [pointer]),
        "source_is_low_fidelity": (ctypes.c_int, [pointer]),
        "source_read": (ctypes.c_int, [pointer, pointer, size, pointer]),
        "source_message": (text, [pointer]),
        "source_close": (None, [pointer]),
        "trace_create": (ctypes.c_int, [text, text, ctypes.c_uint32, pointer, text, size]),
        "trace_write": (ctypes.c_int, [pointer, pointer, size]),
        "trace_writer_message": (text, [pointer]),
        "trace_set_life": (None, [pointer, pointer]),
        "trace_replace_metadata": (ctypes.c_int, [pointer, text]),
        "trace_finish": (ctypes.c_int, [pointer]),
        "trace_abandon": (None, [pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "replace")


def _advised(text: str) -> str:
    return f"{text}; record it again" if text.endswith("the file is damaged") else text


def _unfinished(path: Path) -> str | None:
    """Say that a trace is not there but its recording is; None if that is not so."""
    spool = path.with_name(path.name + SPOOL_SUFFIX) if path.name else path
    try:
        if path.exists() or not spool.is_dir():
            return None
    except OSError:  # a name that is too long, a folder that may not be searched
        return None
    return (
        f"{path}: not there yet, but its recording is, unfinished: build the trace with "
        + recovery(spool, path)
    )


class Trace:
    """An open trace: totals, metadata and, once, its events in order.

    A workload profile opens like a trace: its events are generated.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "tiny.trace"
        >>> write_trace(path, np.zeros(1, EVENT), {"command": ["true"]})
        >>> with Trace(path) as trace:
        ...     trace.totals.n_events, trace.metadata["command"]
        (1, ['true'])
    """

    def __init__(
        self, path: str | os.PathLike[str], seed: int = DEFAULT_SEED, *, is_streamed: bool = False
    ) -> None:
        """Open the trace at `path`, or generate one from the profile there.

        Args:
            path: a trace or a profile.
            seed: of what is generated, 0..2**64-1; a trace has no use for it.
            is_streamed: generate a profile's events only as they are read.  Opening it costs
                little then, but its `totals` know neither slots nor peaks, and of the duration
                a bound, if the profile does not say when the process ended.

        Raises:
            TraceError: the file cannot be read, is no trace, is damaged, or was
                written by a newer version.
        """
        self.path = Path(path)
        self._reader = ctypes.c_void_p()
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        open_it = _library().source_stream if is_streamed else _library().source_open
        status = open_it(
            os.fsencode(path), seed, ctypes.byref(self._reader), message, _MESSAGE_BYTES
        )
        if status != _Status.OK:
            raise TraceError(_unfinished(self.path) or _advised(_text(message.value)))
        self.totals = self.read_totals()
        try:
            self.metadata = self._read_metadata()
        except TraceError:
            self.close()
            raise
        modelled = self._modelled_level()
        self.level = modelled or _text(_library().source_level(self._reader))
        """What the events are: ``trace``, ``classic``, or the level of a profile."""
        is_low = _library().source_is_low_fidelity(self._reader)
        self.is_low_fidelity = bool(modelled or is_low)
        """True for models that guess when the program did what; see `tuner.profile.trust`."""

    def _modelled_level(self) -> str | None:
        """Return the level of a trace that was imported of a model; None for any other file."""
        imported = self.metadata.get("imported")
        return imported.get("level") if isinstance(imported, dict) else None

    @property
    def argv(self) -> list[str]:
        """The program's command line; empty where it is not known, or was taken out."""
        words = self.metadata.get("argv") or []
        return [str(word) for word in (words if isinstance(words, list) else [words])]

    @property
    def why_empty(self) -> str:
        """Why it has no events, and what to do; of a trace that has none."""
        if self.totals.is_complete:
            return "holds no events; record it again"
        program = " ".join(self.argv) or "an unknown program"
        return (
            f"the file was cut off after {show_size(self.path.stat().st_size)}, before the end of "
            f"its first block of events, so that none can be read; it is of {program}: copy or "
            "record it again"
        )

    def read_totals(self) -> TraceTotals:
        """Return the totals of what is known by now: all, once a stream's events were read."""
        info = _Info()
        _library().source_get_info(self._reader, ctypes.byref(info))
        others = ("is_complete", "reserved", "life")
        names = [name for name, *_ in _Info._fields_ if name not in others]
        values = {name: getattr(info, name) for name in names}
        return TraceTotals(
            **values,
            is_complete=bool(info.is_complete),
            start_ns=info.life.start_ns if info.life.has_start else None,
            end_ns=info.life.end_ns if info.life.has_end else None,
        )

    def _read_metadata(self) -> Mapping[str, Any]:
        text = _library().source_metadata(self._reader)
        try:
            metadata = json.loads(text.decode("utf-8"))
            # Halves of characters cannot be printed, nor infinite numbers written again.
            again = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
            again.encode(errors="surrogateescape")  # words of a command that are no text
        except (ValueError, RecursionError) as error:
            raise TraceError(
                f"{self.path}: the metadata is not JSON: {error}; the file is damaged"
            ) from error
        if not isinstance(metadata, dict):
            raise TraceError(f"{self.path}: the metadata is no JSON object; the file is damaged")
        return metadata

    def batches(self, batch_events: int = DEFAULT_BATCH) -> Iterator[Events]:
        """Yield the events in order, in arrays of at most `batch_events`.

        The events can be read once; every array is a new one.

        Raises:
            TraceError: the file is damaged; what was yielded before is good.
        """
        n_read = ctypes.c_size_t()
        while True:
            events = np.empty(batch_events, EVENT)
            status = _library().source_read(
                self._reader, events.ctypes.data, batch_events, ctypes.byref(n_read)
            )
            if status == _Status.END:
                return
            if status != _Status.OK:
                raise TraceError(_advised(_text(_library().source_message(self._reader))))
            yield events[: n_read.value]

    def read_all(self) -> Events:
        """Return all events as one array; 40 bytes each.

        Raises:
            TraceError: the file is damaged.
        """
        return np.concatenate([np.empty(0, EVENT), *self.batches()])

    def close(self) -> None:
        """Give the reader's memory back; the trace cannot be read any more."""
        if self._reader.value is not None:
            _library().source_close(self._reader)
            self._reader = ctypes.c_void_p()

    def __enter__(self) -> Self:
        """Return the trace itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the trace."""
        self.close()


class TraceWriter:
    """Write a trace bit by bit; a context manager.

    The trace is at its place when it is whole: until then, and when it fails, what stood there
    stays.  A kill leaves ``.NAME.PID`` beside it.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "tiny.trace"
        >>> with TraceWriter(path, {"argv": ["true"]}) as writer:
        ...     writer.write(np.zeros(1, EVENT))
        >>> with Trace(path) as trace:
        ...     trace.totals.n_events
        1
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        metadata: Mapping[str, Any],
        page_bytes: int = 4096,
        spare_bytes: int = 0,
    ) -> None:
        """Begin a trace, which replaces a file that is there in the end.

        Args:
            path: the file.
            metadata: anything JSON can hold.
            page_bytes: page size of the machine the events are from.
            spare_bytes: by how much `replace_metadata` may make the metadata longer.

        Raises:
            OutputError: the file cannot be written.
        """
        self.path = Path(path)
        self._place = Path(os.path.realpath(path))  # a link stays one
        self._written = place_while_written(self._place)
        self._writer = ctypes.c_void_p()
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        text = json.dumps(metadata).encode() + b" " * spare_bytes
        status = _library().trace_create(
            os.fsencode(self._written),
            text,
            page_bytes,
            ctypes.byref(self._writer),
            message,
            _MESSAGE_BYTES,
        )
        self._check(status, message.value)

    def write(self, events: Events) -> None:
        """Append events, in order, dtype `EVENT`; the field ``owner`` is not looked at.

        Raises:
            TraceError: the events break a rule of the format; the message names the event
                and the rule.
            OutputError: the file cannot be written.
        """
        batch = np.ascontiguousarray(events, EVENT)
        status = _library().trace_write(self._writer, batch.ctypes.data, len(batch))
        self._check(status, _library().trace_writer_message(self._writer))

    def replace_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Replace the metadata, for what is known only at the end.

        Raises:
            TraceError: it is longer than was made room for.
            OutputError: it cannot be written.
        """
        status = _library().trace_replace_metadata(self._writer, json.dumps(metadata).encode())
        self._check(status, _library().trace_writer_message(self._writer))

    def set_life(self, start_ns: int | None, end_ns: int | None) -> None:
        """Say when the process lived, as in `TraceTotals`; until then that is not known."""
        life = _Life(start_ns or 0, end_ns or 0, start_ns is not None, end_ns is not None)
        _library().trace_set_life(self._writer, ctypes.byref(life))

    def finish(self) -> None:
        """Write the totals, close the file and give it its name.

        Raises:
            TraceError: the process would end before its start or its last event.
            OutputError: the file cannot be written.
        """
        writer, self._writer = self._writer, ctypes.c_void_p()
        ctypes.set_errno(0)
        status = _library().trace_finish(writer)
        reason = f"cannot write the trace: {os.strerror(ctypes.get_errno() or errno.EIO)}"
        if status == _Status.FORMAT:
            reason = "ends before its start or last event"
        try:
            self._check(status, os.fsencode(f"{self.path}: {reason}"))
            if self._written != self._place:
                put_in_place(self._written, self._place)
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be written ({error.strerror})") from error
        finally:
            if self._written != self._place:
                self._written.unlink(missing_ok=True)

    def _check(self, status: int, message: bytes | None) -> None:
        if status == _Status.OK:
            return
        text = _text(message).replace(_text(os.fsencode(self._written)), str(self.path))
        raise TraceError(text) if status == _Status.FORMAT else OutputError(text)

    def __enter__(self) -> Self:
        """Return the writer itself."""
        return self

    def __exit__(self, kind: object, *exception: object) -> None:
        """Finish the trace, or drop it after an exception."""
        if kind is None:
            self.finish()
        elif self._writer.value is not None:
            _library().trace_abandon(self._writer)
            self._writer = ctypes.c_void_p()


def write_trace(
    path: str | os.PathLike[str],
    events: Events,
    metadata: Mapping[str, Any],
    page_bytes: int = 4096,
    life: tuple[int | None, int | None] = (None, None),
) -> None:
    """Write a whole trace.

    Args:
        path: the file; replaced if it exists.
        events: in order, dtype `EVENT`; the field ``owner`` is not looked at.
        metadata: anything JSON can hold.
        page_bytes: page size of the machine the events are from.
        life: start and end of the process, as in `TraceTotals`.

    Raises:
        TraceError: the events break a rule of the format; the message names the
            event and the rule.
        OutputError: the file cannot be written.
    """
    with TraceWriter(path, metadata, page_bytes) as writer:
        writer.write(events)
        writer.set_life(*life)
