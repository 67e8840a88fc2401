"""Read another tool's file: unpack it, count its lines, and point at what is wrong.

Everything streams; a file of any size takes the memory of a line.  Only the
formats that are binary or JSON read in larger pieces.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from tuner.errors import MissingToolError, TraceError

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_LINE_BYTES: Final = 1 << 20
"""Longer lines are no text."""


class Source:
    """One file, from its start as often as one likes."""

    def __init__(self, path: Path) -> None:
        """Take the file at `path`; it is opened when it is read."""
        self.path = path

    def error(self, line: int, what: str) -> TraceError:
        """Return the error for a line that cannot be read."""
        return TraceError(f"{self.path}:{line}: {what}")

    @contextlib.contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the file, unpacked.

        Raises:
            TraceError: it cannot be read or unpacked.
            MissingToolError: it is packed with zstd, and there is no such program.
        """
        try:
            with self.path.open("rb") as file:
                start = file.peek(4)
                if start.startswith(_GZIP):
                    with gzip.open(file) as unpacked:
                        yield io.BufferedReader(unpacked)
                elif start.startswith(_ZSTD):
                    with self._zstd(file) as through:
                        yield through
                else:
                    yield file
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or str(error)
            message = f"{self.path}: cannot be read ({reason})"
            raise TraceError(message) from error

    @contextlib.contextmanager
    def _zstd(self, file: BinaryIO) -> Iterator[BinaryIO]:
        program = shutil.which("zstd")
        if program is None:
            message = f"{self.path}: packed with zstd; install the package zstd, or unpack it first"
            raise MissingToolError(message)
        os.lseek(file.fileno(), 0, os.SEEK_SET)  # where `peek` left it
        with subprocess.Popen(
            [program, "-dcq"], stdin=file, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            if process.stdout is None or process.stderr is None:  # never, with PIPE
                return
            yield io.BufferedReader(process.stdout)  # type: ignore[type-var]
            if process.stdout.read(1):  # the reader has seen enough
                process.kill()
                return
            complaint = process.stderr.read().decode("utf-8", "replace").strip()
            if process.wait():
                message = f"{self.path}: cannot be unpacked: {complaint}"
                raise TraceError(message)

    def start(self, n_bytes: int) -> bytes:
        """Return the first bytes, at most `n_bytes`, unpacked."""
        with self.open() as file:
            return file.read(n_bytes)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the lines with their numbers, from 1, without the line end.

        Raises:
            TraceError: the file cannot be read, or a line is longer than 1 MiB.
        """
        with self.open() as file:
            number = 0
            while line := file.readline(_LINE_BYTES):
                number += 1
                if len(line) == _LINE_BYTES and not line.endswith(b"\n"):
                    raise self.error(number, "a line of more than 1 MiB; not a text file")
                yield number, line.decode("utf-8", "replace").rstrip("\r\n")
