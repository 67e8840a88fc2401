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
from tuner.importers.heap import ImportedHeap
from tuner.importers.source import BadCallError, Source
from tuner.trace.file import Api

_PREFIX = re.compile(r"--(?:(\d+):(\d\d):(\d\d):(\d\d)\.(\d{3}) )?(\d+)--(?: (.*))?")
_COMMAND = re.compile(r"==(?:\S+ )?(\d+)== Command: (.*)")
_TOKEN = re.compile(r"(?P<name>\w+)\((?P<arguments>[^()]*)\)| = (?P<result>0x[0-9A-Fa-f]+|0)(?!\w)")
_ADDRESS = re.compile(r"0x([0-9A-Fa-f]{1,16})")
_NUMBER = re.compile(r"\d{1,20}", re.ASCII)

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
_FREES: Final = frozenset({Api.FREE, Api.FREE_SIZED, Api.DELETE, Api.DELETE_ARRAY})


def _api(name: str | None) -> Api | None:
    if name is None:
        return None
    return _NAMED.get(name, _NEW.get(name[:4], _DELETE.get(name[:4])))


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
    parts = [part.strip().rpartition(" ") for part in arguments.split(",")]
    texts = [text for _, _, text in parts]
    is_pair = len(parts) == 2  # noqa: PLR2004 - number and size, or address and size
    if api is Api.REALLOC and is_pair:
        return _Call(api, _number(texts[1]), old=_address(texts[0]))
    numbers = [_number(text) for text in texts]
    named = {name.split(" ")[-1]: n for (name, _, _), n in zip(parts, numbers, strict=True)}
    if "al" in named and "size" in named:
        return _Call(api, named["size"], named["al"])
    if api is Api.CALLOC and is_pair:
        return _Call(api, numbers[0] * numbers[1])
    if len(numbers) != 1 or api is Api.CALLOC:
        message = f"not the arguments of a call: {arguments[:80]!r}"
        raise BadCallError(message)
    return _Call(api, numbers[0])


def _address(text: str) -> int:
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        message = f"not an address: {text[:80]!r}"
        raise BadCallError(message)
    return int(match[1], 16)


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        message = f"not a number: {text[:80]!r}"
        raise BadCallError(message)
    return int(text)


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
                self.heap.take_command(command[2])
            return
        body = match[7] or ""
        tokens = list(_TOKEN.finditer(body))
        is_result = bool(tokens and tokens[0]["result"] and tokens[0].start() == 0)
        if not is_result and all(_api(token["name"]) is None for token in tokens):
            name, bracket, _ = body.partition("(")
            if bracket and _api(name) is not None:
                message = f"not a call that valgrind prints: {body[:120]!r}"
                raise BadCallError(message)
            return
        self.pid = self.pid or match[6]
        if match[6] != self.pid:
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
        if api in _FREES:
            address = _address(arguments.partition(",")[0])
            if address:
                self.heap.free(address, api)
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
        if not address:
            if not (call.api is Api.REALLOC and call.size == 0):
                self.heap.lose("allocations that failed")
        elif call.api is Api.REALLOC and call.old:
            self.heap.reallocate(call.old, address, call.size)
        else:
            self.heap.allocate(address, call.size, call.api, alignment=call.alignment)


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
