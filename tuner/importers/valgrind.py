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

from tuner.importers.format import Format
from tuner.importers.heap import FREES, ImportedHeap
from tuner.importers.source import BadCallError, Source, matched
from tuner.trace.file import Api

_PREFIX = re.compile(r"--(?:(\d+):(\d\d):(\d\d):(\d\d)\.(\d{3}) )?(?P<pid>\d+)--(?: (?P<body>.*))?")
_COMMAND = re.compile(r"==(?:\S+ )?\d+== Command: (.*)")
_TOKEN = re.compile(r"(?P<name>\w+)\((?P<arguments>[^()]*)\)| = (?P<result>0x[0-9A-Fa-f]+|0)(?!\w)")

_API = re.compile(
    r"(?P<NEW>_Znw.*)|(?P<NEW_ARRAY>_Zna.*)|(?P<DELETE>_Zdl.*)|(?P<DELETE_ARRAY>_Zda.*)"
    r"|(?P<MALLOC>malloc)|(?P<CALLOC>calloc)|(?P<REALLOC>realloc)|(?P<MEMALIGN>memalign)"
    r"|(?P<POSIX_MEMALIGN>posix_memalign)|(?P<ALIGNED_ALLOC>aligned_alloc)|(?P<VALLOC>valloc)"
    r"|(?P<FREE>c?free)|(?P<FREE_SIZED>free_(?:aligned_)?sized)"
)
"""A function; the group that matches is its name in `Api`."""

_POINTER: Final = "0x([0-9A-Fa-f]{1,16})"
_FREED = re.compile(rf"{_POINTER}(?:,.*)?")
_RESIZED = re.compile(rf"{_POINTER}, *(\d{{1,20}})", re.ASCII)
_COUNTED = re.compile(r"(\d{1,20}), *(\d{1,20})", re.ASCII)
_SIZED = re.compile(r"(?:al (\d{1,20}), *)?(?:size )?(\d{1,20})(?:, *al (\d{1,20}))?", re.ASCII)


def _api(name: str | None) -> Api | None:
    match = _API.fullmatch(name or "")
    return Api[match.lastgroup] if match and match.lastgroup else None


@dataclass(frozen=True)
class _Call:
    """An allocation whose result has not been seen."""

    api: Api
    size: int
    alignment: int = 0
    """0 when none was asked for."""
    old: int = 0
    """Address of a realloc."""


def _allocation(api: Api, arguments: str) -> _Call:
    """Read ``100``, ``8, 12`` of calloc, ``0x4A4,200`` of realloc, or ``al 8, size 9``."""
    wanted = f"what {api.name.lower()} takes"
    if api is Api.REALLOC:
        resized = matched(_RESIZED, arguments, wanted)
        return _Call(api, int(resized[2]), old=int(resized[1], 16))
    if api is Api.CALLOC:
        counted = matched(_COUNTED, arguments, wanted)
        return _Call(api, int(counted[1]) * int(counted[2]))
    before, size, after = matched(_SIZED, arguments, wanted).groups("0")
    return _Call(api, int(size), int(before) or int(after))


@dataclass
class _Log:
    """What is known while reading."""

    heap: ImportedHeap
    pid: str | None = None
    """The first process; others are left out."""
    waiting: list[_Call] = field(default_factory=list)

    def line(self, text: str) -> None:
        """Take one line."""
        match = _PREFIX.fullmatch(text)
        if match is None:
            command = _COMMAND.fullmatch(text)
            if command and not self.heap.argv:
                self.heap.take_command(command[1])
            return
        body = match["body"] or ""
        tokens = list(_TOKEN.finditer(body))
        is_result = bool(tokens and tokens[0]["result"] and tokens[0].start() == 0)
        if not is_result and all(_api(token["name"]) is None for token in tokens):
            name, bracket, _ = body.partition("(")
            if bracket and _api(name) is not None:
                message = f"not a call that valgrind prints: {body[:120]!r}"
                raise BadCallError(message)
            return
        self.pid = self.pid or match["pid"]
        if match["pid"] != self.pid:
            self.heap.lose("calls of other processes")
            return
        if match[1]:
            self.heap.at(_time_ns(match))
        for token in tokens:
            if token["result"]:
                self._result(int(token["result"], 16), is_apart=token.start() == 0)
            else:
                self._call(token["name"], token["arguments"])

    def _call(self, name: str, arguments: str) -> None:
        api = _api(name)
        if api is None:  # malloc_usable_size, mallopt: no event
            return
        if api in FREES:
            address = matched(_FREED, arguments, "an address")[1]
            self.heap.call(api, old=int(address, 16))
            return
        call = _allocation(api, arguments)
        # A realloc of nothing is followed by the malloc that valgrind makes of it.
        if not (self.waiting and self.waiting[-1] == _Call(Api.REALLOC, call.size)):
            self.waiting.append(call)

    def _result(self, address: int, *, is_apart: bool) -> None:
        """Take a result; one that stands apart from its call may be that of another."""
        if not self.waiting:
            message = "a result without a call"
            raise BadCallError(message)
        if is_apart and len(self.waiting) > 1:
            self.heap.lose("calls of two threads within each other, whose results may be swapped")
        call = self.waiting.pop()
        if address or call.api is not Api.REALLOC or call.size:  # else valgrind prints its free
            self.heap.call(
                call.api, old=call.old, new=address, size=call.size, alignment=call.alignment
            )


def _time_ns(match: re.Match[str]) -> int:
    days, hours, minutes, seconds, milliseconds = (int(match[i]) for i in range(1, 6))
    return ((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + milliseconds) * 10**6


def _read(source: Source, heap: ImportedHeap) -> None:
    log = _Log(heap)
    for text in source.lines():
        log.line(text)
    for _ in log.waiting:
        heap.lose("calls whose result is missing")


FORMAT: Final = Format(
    name="valgrind",
    title="valgrind --trace-malloc=yes",
    lost=(
        "threads: valgrind runs one at a time and does not say which",
        "frees that valgrind itself makes at the end are counted as the program's",
    ),
    recognise=re.compile(
        rb"^--(?:\S+ )?\d+-- (?:malloc|calloc|realloc|memalign|free|_Zn|_Zd)\w*\(", re.MULTILINE
    ).search,
    read_events=_read,
)
