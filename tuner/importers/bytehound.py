"""Read the allocations of bytehound as its server gives them out: JSON.

``/data/ID/allocations`` is an object with ``allocations``, a list; of each
allocation ``timestamp``, ``thread``, ``size`` and ``deallocation`` (null, or
``timestamp`` and ``thread``) are used.  The list may be in any order.

The objects are decoded one at a time; all that is kept of one are five numbers.

Source: bytehound's ``server-core/src/protocol.rs``.
"""

from __future__ import annotations

import codecs
import json
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

import numpy as np

from tuner.errors import TraceError
from tuner.importers.heap import BadCallError, ImportedHeap
from tuner.importers.source import Source

LOST: Final = (
    "realloc: each is a free and an allocation",
    "calloc and aligned allocations: all are malloc",
    "the ends of threads: each lives to the end",
)

_CHUNK: Final = 1 << 20
_MAX_OBJECT: Final = 1 << 26
"""Characters of one allocation with its call stack; more is no such object."""
_LIST = re.compile(r'"allocations"\s*:\s*\[')
_START = re.compile(rb'\s*\{.*?"allocations"\s*:\s*\[', re.DOTALL)
_TOTAL = re.compile(r'"total_count"\s*:\s*(\d+)')
_NEVER: Final = (1 << 64) - 1


def recognise(start: bytes) -> bool:
    """Recognise it by the name of the list."""
    return _START.match(start) is not None


@dataclass
class _Columns:
    """Allocations, a column per number."""

    begin_ns: array[int] = field(default_factory=lambda: array("Q"))
    end_ns: array[int] = field(default_factory=lambda: array("Q"))
    """`_NEVER` if it was not freed."""
    size: array[int] = field(default_factory=lambda: array("Q"))
    thread: array[int] = field(default_factory=lambda: array("Q"))
    freed_by: array[int] = field(default_factory=lambda: array("Q"))

    def add(self, item: dict[str, Any]) -> None:
        """Take one allocation; KeyError, TypeError or OverflowError if it is malformed."""
        freed = item["deallocation"]
        values = (
            _ns(item["timestamp"]),
            _NEVER if freed is None else _ns(freed["timestamp"]),
            item["size"],
            item["thread"],
            item["thread"] if freed is None else freed.get("thread", item["thread"]),
        )
        columns = (self.begin_ns, self.end_ns, self.size, self.thread, self.freed_by)
        for column, value in zip(columns, values, strict=True):
            column.append(value)


def _ns(timestamp: dict[str, int]) -> int:
    value = timestamp["secs"] * 10**9 + timestamp["fract_nsecs"]
    if not 0 <= value < _NEVER:
        message = f"a time of {value} ns"
        raise OverflowError(message)
    return value


def read(source: Source, heap: ImportedHeap) -> None:
    """Put the allocations into a heap, in the order of their times.

    Raises:
        TraceError: the file is no such JSON, or an allocation lacks a field.
    """
    columns, total = _columns(source)
    if total is not None and total > len(columns.size):
        n_absent = total - len(columns.size)
        heap.lose("allocations that the file counts but does not list", n_absent)
    begin, end = np.asarray(columns.begin_ns, "u8"), np.asarray(columns.end_ns, "u8")
    order, is_free = _order(begin, end)
    start_ns = int(begin.min()) if len(begin) else 0
    times = (np.concatenate([begin, end])[order] - np.uint64(start_ns)).tolist()
    indexes = (order % max(1, len(begin))).tolist()
    try:
        for time_ns, index, frees in zip(times, indexes, is_free.tolist(), strict=True):
            heap.at(time_ns)
            if frees:
                heap.free(index, thread=columns.freed_by[index])
            else:
                heap.allocate(index, columns.size[index], thread=columns.thread[index])
    except BadCallError as error:
        message = f"{source.path}: {error}"
        raise TraceError(message) from error


def _order(begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return allocations (0 to n - 1) and frees (n to 2n - 1) in order, and which are frees.

    At one moment blocks are freed first, then allocated, then those that lived no time freed.
    """
    n = len(begin)
    if not n:
        return np.empty(0, "i8"), np.empty(0, bool)
    times = np.concatenate([begin, np.maximum(begin, end)])
    rank = np.concatenate([np.ones(n, "u1"), np.where(end > begin, 0, 2).astype("u1")])
    keep = np.concatenate([np.ones(n, bool), end != _NEVER])
    order = np.lexsort((rank, times))
    order = order[keep[order]]
    return order, order >= n


def _columns(source: Source) -> tuple[_Columns, int | None]:
    """Return all allocations, and how many the server says there are."""
    columns = _Columns()
    with source.open() as file:
        text = _Text(source, file)
        text.skip_to_list()
        for item in text.items():
            try:
                columns.add(item)
            except (KeyError, TypeError, AttributeError, OverflowError) as error:
                reason = f"{type(error).__name__} {error}"
                message = f"allocation {len(columns.size)} is malformed: {reason}"
                raise text.error(message) from error
        return columns, text.total()


@dataclass
class _Text:
    """The file as text, of which only a window is in memory."""

    source: Source
    file: BinaryIO
    window: str = ""
    position: int = 0
    """Of the next character in the window."""
    n_before: int = 0
    """Characters before the window."""
    decoder: Any = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))
    json: json.JSONDecoder = field(default_factory=json.JSONDecoder)

    def error(self, what: str) -> TraceError:
        return TraceError(f"{self.source.path}: character {self.n_before + self.position}: {what}")

    def more(self) -> bool:
        """Make the window longer; False at the end of the file."""
        chunk = self.file.read(_CHUNK)
        self.n_before += self.position
        self.window = self.window[self.position :] + self.decoder.decode(chunk, final=not chunk)
        self.position = 0
        return bool(chunk)

    def skip_to_list(self) -> None:
        while (match := _LIST.search(self.window)) is None:
            if len(self.window) > _MAX_OBJECT or not self.more():
                message = 'no list "allocations"'
                raise self.error(message)
        self.position = match.end()

    def peek(self) -> str:
        """Return the next character that is no blank; empty at the end."""
        while True:
            while self.position < len(self.window):
                if not self.window[self.position].isspace():
                    return self.window[self.position]
                self.position += 1
            if not self.more():
                return ""

    def items(self) -> Iterator[dict[str, Any]]:
        if self.peek() == "]":
            return
        while True:
            yield self._item()
            mark = self.peek()
            if mark not in (",", "]"):
                message = f"',' or ']' was expected, not {mark!r}; was the file cut off?"
                raise self.error(message)
            self.position += 1
            if mark == "]":
                return

    def _item(self) -> dict[str, Any]:
        if self.peek() != "{":
            message = "an allocation was expected"
            raise self.error(message)
        while True:
            try:
                item, self.position = self.json.raw_decode(self.window, self.position)
            except (ValueError, RecursionError) as error:
                if len(self.window) - self.position > _MAX_OBJECT or not self.more():
                    message = f"not JSON: {error}"
                    raise self.error(message) from error
            else:
                return dict(item)

    def total(self) -> int | None:
        """Return what the rest of the file says about the number of allocations."""
        while self.more() and len(self.window) < _MAX_OBJECT:
            pass
        match = _TOTAL.search(self.window)
        return int(match[1]) if match else None
