"""Read what valgrind prints with ``--trace-malloc=yes``: calls with addresses, in text.

    --PID-- malloc(100) = 0x4A44040
    --PID-- realloc(0x4A44040,200) = 0x4A440F0
    --PID-- realloc(0x0,64)malloc(64) = 0x4A44200
    --PID-- realloc(0x4A440F0,0)free(0x4A440F0)
    --PID--  = 0

A call and its result are printed apart, so another call can stand between them:
results belong to the latest call that waits for one.  Everything else in the
file (banners, other messages, the program's own output) is passed over.

Source: valgrind's manual, "--trace-malloc"; ``vg_replace_malloc.c`` in its source
for the functions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from tuner.importers.heap import BadCallError, ImportedHeap
from tuner.importers.source import Source
from tuner.trace.file import Api

LOST: Final = (
    "threads: valgrind runs one at a time and does not say which",
    "frees that valgrind itself makes at the end are counted as the program's",
)

_PREFIX = re.compile(r"--(?:(\d+):(\d\d):(\d\d):(\d\d)\.(\d{3}) )?(\d+)--(?: (.*))?")
_USUAL = re.compile(
    r"--(\d+)-- (?:(malloc|_Znwm|_Znam)\((\d{1,14})\) = 0x([0-9A-F]{2,16})"
    r"|(free|_ZdlPvm?|_ZdaPvm?)\(0x([0-9A-F]{2,16})\)"
    r"|realloc\(0x([0-9A-F]{2,16}),(\d{1,14})\) = 0x([0-9A-F]{2,16}))",
    re.ASCII,
)
"""Nearly all lines of a log; they are taken on a short way, twice as fast."""
_COMMAND = re.compile(r"==(?:\S+ )?(\d+)== Command: (.*)")
_TOKEN = re.compile(r"(?P<name>\w+)\((?P<arguments>[^()]*)\)| = (?P<result>0x[0-9A-Fa-f]+|0)(?!\w)")
_ADDRESS = re.compile(r"0x([0-9A-Fa-f]{1,16})")
_NUMBER = re.compile(r"\d{1,20}", re.ASCII)
_START = re.compile(
    rb"^--(?:\S+ )?\d+-- (?:malloc|calloc|realloc|memalign|free|_Zn|_Zd)\w*\(", re.MULTILINE
)

_NEW: Final = {"_Znw": Api.NEW, "_Zna": Api.NEW_ARRAY}
_DELETE: Final = {"_Zdl": Api.DELETE, "_Zda": Api.DELETE_ARRAY}
_NAMED: Final = {
    "malloc": Api.MALLOC,
    "calloc": Api.CALLOC,
    "realloc": Api.REALLOC,
    "memalign": Api.MEMALIGN,
    "posix_memalign": Api.POSIX_MEMALIGN,
    "aligned_alloc": Api.ALIGNED_ALLOC,
    "valloc": Api.VALLOC,
    "free": Api.FREE,
    "cfree": Api.FREE,
    "free_sized": Api.FREE_SIZED,
    "free_aligned_sized": Api.FREE_SIZED,
}
_API: Final = {
    "malloc": Api.MALLOC,
    "_Znwm": Api.NEW,
    "_Znam": Api.NEW_ARRAY,
    "free": Api.FREE,
    "_ZdlPv": Api.DELETE,
    "_ZdlPvm": Api.DELETE,
    "_ZdaPv": Api.DELETE_ARRAY,
    "_ZdaPvm": Api.DELETE_ARRAY,
}
_FREES: Final = frozenset({Api.FREE, Api.FREE_SIZED, Api.DELETE, Api.DELETE_ARRAY})


def recognise(start: bytes) -> bool:
    """Recognise it by a call somewhere at the start."""
    return _START.search(start) is not None


@dataclass(frozen=True)
class _Call:
    """An allocation whose result has not been seen."""

    line: int
    api: Api
    size: int
    alignment: int
    """0 when none was asked for."""
    old: int
    """Address of a realloc, else 0."""

    def is_done_by(self, other: _Call) -> bool:
        """Return whether this is a realloc of nothing, and the other what valgrind made of it."""
        is_of_nothing = self.api is Api.REALLOC and not self.old
        return is_of_nothing and other.api is Api.MALLOC and other.size == self.size


@dataclass
class _Log:
    """What is known while reading."""

    source: Source
    heap: ImportedHeap
    pid: str | None = None
    """The first process; others are left out."""
    waiting: list[_Call] = field(default_factory=list)

    def line(self, number: int, text: str) -> None:
        """Take one line."""
        usual = _USUAL.fullmatch(text)
        if usual is not None and usual[1] == self.pid and not self.waiting:
            self._usual(number, usual)
            return
        match = _PREFIX.fullmatch(text)
        if match is None:
            self._command(text)
            return
        body = match[7] or ""
        tokens = list(_TOKEN.finditer(body))
        calls = [token for token in tokens if _api(token["name"]) is not None]
        is_result = bool(tokens and tokens[0]["result"] and tokens[0].start() == 0)
        if not calls and not is_result:
            self._no_call(number, body)
            return
        self.pid = self.pid or match[6]
        if match[6] != self.pid:
            self.heap.lose("calls of other processes")
            return
        if match[1]:
            self.heap.at(_time_ns(match))
        for token in tokens:
            if token["result"]:
                is_apart = token.start() == 0
                self._result(number, int(token["result"], 16), is_apart=is_apart)
            else:
                self._call(number, token["name"], token["arguments"])

    def _usual(self, number: int, match: re.Match[str]) -> None:
        """Take a whole call of the first process."""
        _, name, size, address, freeing, freed, old, new_size, new = match.groups()
        try:
            if name:
                self.heap.allocate(int(address, 16), int(size), _API[name])
            elif freeing:
                self.heap.free(int(freed, 16), _API[freeing])
            else:
                self.heap.reallocate(int(old, 16), int(new, 16), int(new_size))
        except BadCallError as error:
            raise self.source.error(number, str(error)) from error

    def _command(self, text: str) -> None:
        match = _COMMAND.fullmatch(text)
        if match and not self.heap.argv:
            self.heap.take_command(match[2])

    def _no_call(self, number: int, body: str) -> None:
        """Pass over a message of valgrind, unless it looks like a damaged call."""
        name = body.partition("(")[0]
        if "(" in body and _api(name) is not None:
            raise self.source.error(number, f"not a call that valgrind prints: {body[:120]!r}")

    def _call(self, number: int, name: str, arguments: str) -> None:
        api = _api(name)
        if api is None:  # malloc_usable_size, mallopt: no event
            return
        if api in _FREES:
            address = self._address(number, arguments.partition(",")[0])
            if address:
                self.heap.free(address, api)
            return
        call = self._allocation(number, api, arguments)
        if not (self.waiting and self.waiting[-1].is_done_by(call)):
            self.waiting.append(call)

    def _allocation(self, number: int, api: Api, arguments: str) -> _Call:
        parts = [part.strip().rpartition(" ") for part in arguments.split(",")]
        values = [value for _, _, value in parts]
        if api is Api.REALLOC and len(values) == 2:  # noqa: PLR2004 - address and size
            address, size = self._address(number, values[0]), self._number(number, values[1])
            return _Call(number, api, size, 0, address)
        numbers = [self._number(number, value) for value in values]
        named = {
            name.split(" ")[-1]: value for (name, _, _), value in zip(parts, numbers, strict=True)
        }
        if "al" in named and "size" in named:
            return _Call(number, api, named["size"], named["al"], 0)
        if api is Api.CALLOC and len(numbers) == 2:  # noqa: PLR2004 - number and size
            return _Call(number, api, numbers[0] * numbers[1], 0, 0)
        if len(numbers) != 1 or api is Api.CALLOC:
            raise self.source.error(number, f"not the arguments of a call: {arguments[:80]!r}")
        return _Call(number, api, numbers[0], 0, 0)

    def _result(self, number: int, address: int, *, is_apart: bool) -> None:
        """Take a result; one that stands apart from its call may be that of another."""
        if not self.waiting:
            raise self.source.error(number, "a result without a call")
        if is_apart and len(self.waiting) > 1:
            self.heap.lose("calls of two threads within each other, whose results may be swapped")
        call = self.waiting.pop()
        if not address:
            if not (call.api is Api.REALLOC and call.size == 0):
                self.heap.lose("allocations that failed")
            return
        try:
            if call.api is Api.REALLOC and call.old:
                self.heap.reallocate(call.old, address, call.size)
            else:
                self.heap.allocate(address, call.size, call.api, alignment=call.alignment)
        except BadCallError as error:
            raise self.source.error(call.line, str(error)) from error

    def _address(self, number: int, text: str) -> int:
        match = _ADDRESS.fullmatch(text.strip())
        if match is None:
            raise self.source.error(number, f"not an address: {text[:80]!r}")
        return int(match[1], 16)

    def _number(self, number: int, text: str) -> int:
        if not _NUMBER.fullmatch(text):
            raise self.source.error(number, f"not a number: {text[:80]!r}")
        return int(text)


def _api(name: str | None) -> Api | None:
    if name is None:
        return None
    return _NAMED.get(name, _NEW.get(name[:4], _DELETE.get(name[:4])))


def _time_ns(match: re.Match[str]) -> int:
    days, hours, minutes, seconds, milliseconds = (int(match[i]) for i in range(1, 6))
    return ((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + milliseconds) * 10**6


def read(source: Source, heap: ImportedHeap) -> None:
    """Put the calls of the first process in the file into a heap.

    Raises:
        TraceError: a line is malformed.
    """
    log = _Log(source, heap)
    for number, text in source.lines():
        log.line(number, text)
    for _ in log.waiting:
        heap.lose("calls whose result is missing")
