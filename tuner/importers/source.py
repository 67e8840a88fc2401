"""Read another tool's file: unpack it, know the place, and point at what is wrong.

Everything streams, unless a reader says otherwise; a text file of any size takes the memory of a
line.
"""

import contextlib
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, BinaryIO, Final, TypeVar

from pydantic import BaseModel, Field, ValidationError

from tuner import zstd
from tuner.config.reading import first_problem
from tuner.errors import TraceError

_GZIP: Final = b"\x1f\x8b"
_LINE_BYTES: Final = 1 << 20
"""Longer lines are no text."""
_MOST_BYTES: Final = 512 << 20
_MOST_VALUES: Final = 20_000_000
"""Of a JSON file: values take up to 250 bytes each, however short they are in the file."""
_SHOWN: Final = 80
"""Characters of what is wrong that a message shows."""


Count = Annotated[int, Field(strict=True, ge=0, lt=2**53)]
"""What a tool counted; no run reaches more, and all are exact as floats."""

DocumentT = TypeVar("DocumentT", bound=BaseModel)


class BadCallError(Exception):
    """A call that no program can have made, or a line that no tool can have written."""


class Source:
    """One file, from its start as often as one likes."""

    def __init__(self, path: Path) -> None:
        """Take the file at `path`; it is opened when it is read."""
        self.path = path
        self.place = ""
        """What is being read, for messages: ``7`` for a line, `` record 7``."""

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Add the place to what a reader raises.

        Raises:
            TraceError: for a `BadCallError`, or where memory runs out.
        """
        try:
            yield
        except BadCallError as error:
            place = f"{self.path}:{self.place}" if self.place else self.path
            raise TraceError(f"{place}: {error}") from error
        except MemoryError as error:
            raise TraceError(f"{self.path}: there is not enough memory to read it") from error

    @contextlib.contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the file, unpacked.

        Raises:
            TraceError: it cannot be read or unpacked, or is a pipe, which can be read only once.
        """
        try:
            if not S_ISREG(self.path.stat().st_mode):
                raise TraceError(
                    f"{self.path}: not a regular file; write its content into one first"
                )
            with self.path.open("rb") as file:
                start = file.peek(4)
                if start.startswith(_GZIP):
                    with gzip.open(file) as unpacked:
                        yield io.BufferedReader(unpacked)
                elif start.startswith(zstd.MAGIC):
                    with zstd.ZstdFile(file) as unpacked:
                        yield io.BufferedReader(unpacked)
                else:
                    yield file
        except (OSError, EOFError, zlib.error, zstd.ZstdError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise TraceError(f"{self.path}: cannot be read ({reason})") from error

    def start(self, n_bytes: int) -> bytes:
        """Return the first bytes, at most `n_bytes`, unpacked."""
        with self.open() as file:
            return file.read(n_bytes)

    def lines(self) -> Iterator[str]:
        """Yield the lines without their ends; the place is the line, from 1.

        Raises:
            TraceError: the file cannot be read.
            BadCallError: a line is longer than 1 MiB.
        """
        with self.open() as file:
            number = 0
            while line := file.readline(_LINE_BYTES):
                number += 1
                self.place = str(number)
                if len(line) == _LINE_BYTES and not line.endswith(b"\n"):
                    raise BadCallError("a line of more than 1 MiB; not a text file")
                yield line.decode("utf-8", "replace").rstrip("\r\n")

    def stripped_lines(self) -> Iterator[str]:
        """Yield the lines that are not blank, without spaces around them."""
        return filter(None, map(str.strip, self.lines()))

    def document(self, form: type[DocumentT]) -> DocumentT:
        """Return what a JSON file holds; members that its form does not name are passed over.

        Raises:
            TraceError: the file cannot be read.
            BadCallError: it is too much, no JSON, or its first wrong member.
        """
        with self.open() as file:
            content = file.read(_MOST_BYTES + 1)
        n_values = sum(map(content.count, (b",", b"[", b"{")))
        if len(content) > _MOST_BYTES or n_values > _MOST_VALUES:
            raise BadCallError("more JSON than fits into memory")
        try:
            return form.model_validate_json(content)
        except ValidationError as error:
            raise BadCallError(first_problem(error)) from error


def matched(pattern: re.Pattern[str], text: str, wanted: str) -> re.Match[str]:
    """Return the match of a whole text.

    Args:
        pattern: what it has to be.
        text: a line or a part of one.
        wanted: what the pattern is, in words.

    Raises:
        BadCallError: it is something else.
    """
    match = pattern.fullmatch(text)
    if match is None:
        raise BadCallError(f"{wanted} was expected, not {text[:_SHOWN]!r}")
    return match
