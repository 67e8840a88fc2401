"""Read the log of glibc's mtrace: one line per call, with addresses.

``@ CALLER + ADDRESS SIZE``  malloc, calloc or an aligned allocation
``@ CALLER - ADDRESS``       free
``@ CALLER < ADDRESS`` and ``@ CALLER > ADDRESS SIZE``  realloc, old and new
``! ADDRESS SIZE``           realloc that failed

Source: "Tracing malloc" in the manual of the GNU C Library.
"""

import re

from tuner.importers.format import ALL_MALLOC, ONE_THREAD, Format
from tuner.importers.heap import ImportedHeap
from tuner.importers.source import BadCallError, Source, matched
from tuner.trace.file import Api

_ADDRESS = r"(?:0x([0-9a-f]{1,16})|\(nil\)|0)"
_LINE = re.compile(rf"(?:@ .* )?(?:([-<])|([+>!])) {_ADDRESS}(?(2) {_ADDRESS})")


def _read(source: Source, heap: ImportedHeap) -> None:
    moving: int | None = None
    for line in source.lines():
        if not line or line.startswith("= "):
            continue
        shrinks, grows, *numbers = matched(_LINE, line, "a line of mtrace").groups("0")
        address, size = (int(number, 16) for number in numbers)
        if (grows == ">") != (moving is not None):
            raise BadCallError("'<' and '>' of a realloc do not stand together")
        if shrinks == "-":
            heap.call(Api.FREE, old=address)
        elif grows == "+":
            heap.call(Api.MALLOC, new=address, size=size)
        elif grows == ">":
            heap.call(Api.REALLOC, old=moving, new=address, size=size)
        elif grows == "!":
            heap.missed["reallocs that failed"] += 1
        moving = address if shrinks == "<" else None
    if moving is not None:
        raise BadCallError("ends in the middle of a realloc; was it cut off?")


FORMAT = Format(
    name="mtrace",
    title="mtrace of glibc",
    lost=(ONE_THREAD, ALL_MALLOC, "what was allocated before mtrace() was called"),
    recognise=re.compile(rb"= Start\s|@ .* [-+<>!] (?:0x|\(nil\))").match,
    read_events=_read,
)
