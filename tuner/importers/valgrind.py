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

import re
from dataclasses import dataclass, field
from typing import Final

from tuner.importers.format import Format
from tuner.importers.heap import FREES, ImportedHeap
from tuner.importers.source import BadCallError, Source
from tuner.trace.file import Api

_LINE = re.compile(
    r"--(?:(\d{1,18}):(\d\d):(\d\d):(\d\d)\.(\d{3}) )?(?P<pid>\d+)--(?: (?P<body>.*))?"
)
_COMMAND = re.compile(r"==(?:\S+ )?\d+== Command: (.*)")

_TOKEN = re.compile(
    r"(?P<name>\w+)\((?:"
    r"0x(?P<old>[0-9A-Fa-f]{1,16})(?:, *(?P<resized>\d{1,20}))?[^()]*"
    r"|(?:al (?P<before>\d{1,20}), *)?(?:size )?(?P<size>\d{1,20})"
    r"(?:, *(?:al (?P<after>\d{1,20})|(?P<each>\d{1,20})))?"
    r")\)| = (?P<result>0x[0-9A-Fa-f]{1,16}|0)(?!\w)",
    re.ASCII,
)
"""A call, which has a block or a size, or a result."""

_APIS: Final = {
    "_Znw": Api.NEW, "_Zna": Api.NEW_ARRAY, "_Zdl": Api.DELETE, "_Zda": Api.DELETE_ARRAY,
    "malloc": Api.MALLOC, "calloc": Api.CALLOC, "realloc": Api.REALLOC, "memalign": Api.MEMALIGN,
    "posix_memalign": Api.POSIX_MEMALIGN, "aligned_alloc": Api.ALIGNED_ALLOC,
    "valloc": Api.VALLOC, "free": Api.FREE, "cfree": Api.FREE, "free_sized": Api.FREE_SIZED,
    "free_aligned_sized": Api.FREE_SIZED,
}  # fmt: skip
"""Functions; of C++'s the beginning of the name."""
_NEEDS: Final = {Api.REALLOC: "resized", Api.CALLOC: "each", **dict.fromkeys(FREES, "old")}
"""Group of a call that must be there; of all others the size."""


def _api(name: str | None) -> Api | None:
    name = name or ""
    return _APIS.get(name[:4] if name.startswith("_Z") else name)


@dataclass(frozen=True)
class _Call:
    """An allocation whose result has not been seen."""

    api: Api
    size: int
    alignment: int = 0
    """0 when none was asked for."""
    old: int = 0
    """Address of a realloc."""


@dataclass
class _Log:
    """What is known while reading."""

    heap: ImportedHeap
    pid: str | None = None
    """The first process; others are left out."""
    waiting: list[_Call] = field(default_factory=list)

    def take_line(self, text: str) -> None:
        """Take one line."""
        line = _LINE.fullmatch(text)
        if line is None:
            command = _COMMAND.fullmatch(text)
            self.heap.command = self.heap.command or (command[1] if command else "")
            return
        tokens = _tokens(line["body"] or "")
        self.pid = self.pid or (line["pid"] if tokens else None)
        if tokens and line["pid"] != self.pid:
            self.heap.missed["calls of other processes"] += 1
            return
        if tokens and line[1]:
            self.heap.at(_time_ns(line))
        for token in tokens:
            api = _api(token["name"])
            if api is None:
                self._take_result(int(token["result"], 16), is_apart=token.start() == 0)
            else:
                self._take_call(api, token)

    def _take_call(self, api: Api, token: re.Match[str]) -> None:
        found = token.groupdict("0")
        old, alignment = int(found["old"], 16), int(found["before"]) or int(found["after"])
        size = int(found["size"]) * int(token["each"] or 1) or int(found["resized"])
        if api in FREES:
            self.heap.call(api, old=old)
        # A realloc of nothing is followed by the malloc that valgrind makes of it.
        elif not (self.waiting and self.waiting[-1] == _Call(Api.REALLOC, size)):
            self.waiting.append(_Call(api, size, alignment, old))

    def _take_result(self, address: int, *, is_apart: bool) -> None:
        """Take a result; one that stands apart from its call may be that of another."""
        if not self.waiting:
            raise BadCallError("a result without a call")
        if is_apart and len(self.waiting) > 1:
            what = "calls of two threads within each other, whose results may be swapped"
            self.heap.missed[what] += 1
        call = self.waiting.pop()
        if address or call.api is not Api.REALLOC or call.size:  # else valgrind prints its free
            self.heap.call(
                call.api, old=call.old, new=address, size=call.size, alignment=call.alignment
            )


def _tokens(body: str) -> list[re.Match[str]]:
    """Return calls and results of a line; none when it is another message."""
    found = [one for one in _TOKEN.finditer(body) if one["result"] or _api(one["name"]) is not None]
    name, bracket, _ = body.partition("(")
    is_cut = bracket and _api(name) is not None and not (found and found[0].start() == 0)
    if is_cut or not all(map(_is_whole, found)):
        raise BadCallError(f"not a call that valgrind prints: {body[:120]!r}")
    return [] if found and found[0]["result"] and found[0].start() else found


def _is_whole(token: re.Match[str]) -> bool:
    api = _api(token["name"])
    return api is None or token[_NEEDS.get(api, "size")] is not None


def _time_ns(line: re.Match[str]) -> int:
    days, hours, minutes, seconds, milliseconds = (int(line[i]) for i in range(1, 6))
    return ((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + milliseconds) * 10**6


def _read(source: Source, heap: ImportedHeap) -> None:
    log = _Log(heap)
    for text in source.lines():
        log.take_line(text)
    heap.missed["calls whose result is missing"] += len(log.waiting)


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
