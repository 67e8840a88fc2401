"""A file of JSON objects, one a line, that is only appended to.

The first line is the header: what the file is and what was compared.  A line is on the disk, whole
or not at all, when `Journal.append` returns: a full disk leaves the file as it was, and a kill
leaves at most a last line without its end, which is dropped and mentioned.  Damage anywhere else
is an error that names the line.  One process writes; others may read meanwhile.
"""

import errno
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from pydantic import ValidationError

from tuner.compare.plan import Step, TaskT, ValuesT
from tuner.config.reading import first_problem
from tuner.errors import StoreError, what_is_wrong
from tuner.output import hold_alone, writing
from tuner.records import Outcome

Record = Mapping[str, Any]
_T = TypeVar("_T")


@dataclass(frozen=True)
class Content:
    """All whole lines of a journal."""

    path: Path
    header: Record
    records: tuple[Record, ...]
    """Every line but the first."""
    note: str | None
    """What was dropped, for people; None when nothing was."""
    n_bytes: int
    """Length of the whole lines."""

    def decode(self, read: Callable[[Record], _T]) -> list[_T]:
        """Return every record as `read` understands it.

        Raises:
            StoreError: one is not understood; names the line.
        """
        found = []
        for number, record in enumerate(self.records, start=2):
            try:
                found.append(read(record))
            except (KeyError, TypeError, ValueError) as error:
                raise _damaged(self.path, number, error) from error
        return found


def read_journal(path: Path) -> Content | None:
    """Read a journal; None when there is none, or a kill left it without a whole line.

    Raises:
        StoreError: it cannot be read, or is damaged.
    """
    try:
        content = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror})") from error
    whole = content[: content.rfind(b"\n") + 1]
    note = None
    if whole != content:
        note = f"{path}: the last line was cut off and is dropped; its run is made again"
    lines = whole.splitlines()
    if not lines:
        return None
    records = [_parse(path, number, line) for number, line in enumerate(lines, start=1)]
    return Content(path, records[0], tuple(records[1:]), note, len(whole))


class Journal:
    """A journal that is written to, by this process alone until it is closed."""

    def __init__(self, path: Path, header: Record, same: Sequence[str] = ()) -> None:
        """Begin a journal, or go on with the one that is there.

        Args:
            path: the file; its folder is made when missing.
            header: the first line of a new journal: ``schema``, ``version`` and more.
            same: what of the header must be as in the file, beside schema and version,
                unless it is lacking there.

        Raises:
            StoreError: the file is another journal or damaged, or another process writes it.
            OutputError: it cannot be written, or not be locked.
        """
        self.path = path
        self._descriptor = _open(path)
        try:
            found = read_journal(path)
            if found is not None:
                known = [name for name in same if name in found.header]
                _check_same(path, found.header, header, ("schema", "version", *known))
            self.content = found or Content(path, json.loads(_line(header)), (), None, 0)
            self._end = self.content.n_bytes
            with writing(path):
                os.ftruncate(self._descriptor, self._end)
            if found is None:
                self.append(header)
        except BaseException:
            self.close()
            raise

    def append(self, record: Record) -> None:
        """Add a line; it is on the disk when this returns.

        Raises:
            OutputError: there is no room; the file is as it was.
        """
        line = _line(record)
        with writing(self.path):
            try:
                _write_whole(self._descriptor, line, self._end)
            except BaseException:
                os.ftruncate(self._descriptor, self._end)
                raise
        self._end += len(line)

    def close(self) -> None:
        """Let others write; harmless when repeated."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


class JournalKeeper(Generic[TaskT, ValuesT]):
    """Keeps the samples of a comparison in a journal; see `tuner.compare.loop.Keeps`."""

    def __init__(
        self,
        journal: Journal,
        encode: Callable[[Step[TaskT], Outcome[ValuesT]], Record],
        decode: Callable[[Record], tuple[tuple[int, TaskT, str], Outcome[ValuesT]] | None],
    ) -> None:
        """Read what is kept.

        Args:
            journal: open.
            encode: returns the record of a sample.
            decode: returns round, task and subject, and the sample; None for a record that is
                no sample of this comparison; KeyError, TypeError or ValueError for damage.

        Raises:
            StoreError: a line is not understood.
        """
        self._journal = journal
        self._encode = encode
        self._kept = list(filter(None, journal.content.decode(decode)))

    def kept(self) -> Iterable[tuple[tuple[int, TaskT, str], Outcome[ValuesT]]]:
        """Return every sample with its place."""
        return tuple(self._kept)

    def keep(self, step: Step[TaskT], sample: Outcome[ValuesT]) -> None:
        """Append a sample."""
        self._journal.append(self._encode(step, sample))
        self._kept.append((step.key, sample))


def _line(record: Record) -> bytes:
    return (json.dumps(record, separators=(",", ":")) + "\n").encode()


def _write_whole(descriptor: int, line: bytes, offset: int) -> None:
    if os.pwrite(descriptor, line, offset) != len(line):  # what there was room for
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(descriptor)


def _open(path: Path) -> int:
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        hold_alone(descriptor, path, "is writing to it")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _parse(path: Path, number: int, line: bytes) -> Record:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise _damaged(path, number, error) from error
    if not isinstance(record, dict):
        raise _damaged(path, number, TypeError("no JSON object"))
    return record


def _damaged(path: Path, number: int, error: Exception) -> StoreError:
    what = first_problem(error) if isinstance(error, ValidationError) else what_is_wrong(error)
    message = (
        f"{path}: line {number} is damaged ({what}); remove that line to measure its run again, "
        "or the file to measure all again"
    )
    return StoreError(message)


def _check_same(path: Path, kept: Record, asked: Record, names: Sequence[str]) -> None:
    wanted = json.loads(_line(asked))
    for name in names:
        if kept.get(name) != wanted.get(name):
            raise StoreError(
                f"{path}: is a comparison with other {name.replace('_', ' ')}; "
                "choose another -o, or remove the file to measure anew"
            )
