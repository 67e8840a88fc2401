"""Runs inside simulated machines: one JSON object a line, written as each run ends.

A simulation repeats itself, so it is run once.  Its record carries the digest of all that
decides its result, and serves every later session that asks for the same; a session is a
line too, and says which runs it shows.  A last line that was cut off by a kill is dropped.
Format: docs/formats.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tuner.errors import OutputError, StoreError
from tuner.records import Status
from tuner.validate.inside_counts import Counts

SCHEMA: Final = "malloc-tuner.gem5-inside"
VERSION: Final = 1


@dataclass(frozen=True)
class InsideRecord:
    """One run of one program on one machine under one subject."""

    identity: str
    """Digest of all that decides the result."""
    task: str
    """Name of program and machine, for people."""
    label: str
    """Of the subject."""
    status: Status
    reason: str | None
    """Why there are no counts; None when there are."""
    output: str | None
    """SHA-256 of what the program printed."""
    counts: Counts | None

    def as_record(self) -> dict[str, Any]:
        """Return the JSON."""
        return {
            "kind": "run",
            "identity": self.identity,
            "task": self.task,
            "label": self.label,
            "status": self.status.value,
            "reason": self.reason,
            "output": self.output,
            "counts": self.counts.as_record() if self.counts else None,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> InsideRecord:
        """Rebuild a record from `as_record`.

        Raises:
            KeyError, TypeError, ValueError: it is none.
        """
        counts = record["counts"]
        return cls(
            record["identity"],
            record["task"],
            record["label"],
            Status(record["status"]),
            record["reason"],
            record["output"],
            Counts.from_record(counts) if counts is not None else None,
        )


@dataclass(frozen=True)
class ShownRun:
    """One cell of a session's tables."""

    program: str
    machine: str
    label: str
    """Of the subject."""
    run: str
    """Identity of the run."""
    start: str
    """Identity of the start that is subtracted."""


@dataclass(frozen=True)
class InsideSession:
    """Who was compared on what."""

    subjects: tuple[Mapping[str, Any], ...]
    """The baseline first: ``label``, ``configuration`` (a key, or None), ``roles``, and what
    else tells who it is."""
    shown: tuple[ShownRun, ...]
    facts: Mapping[str, Any]
    """``objectives``, the names of those that decide; versions and commands, for readers."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The subjects, the baseline first."""
        return tuple(subject["label"] for subject in self.subjects)

    def as_record(self) -> dict[str, Any]:
        """Return the JSON."""
        rows = [[s.program, s.machine, s.label, s.run, s.start] for s in self.shown]
        return {
            "kind": "session",
            "subjects": [dict(subject) for subject in self.subjects],
            "shown": rows,
            "facts": dict(self.facts),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> InsideSession:
        """Rebuild a session from `as_record`.

        Raises:
            KeyError, TypeError: it is none.
        """
        shown = tuple(ShownRun(*row) for row in record["shown"])
        return cls(tuple(record["subjects"]), shown, record["facts"])


class InsideJournal:
    """The runs of a file, to which new ones are appended."""

    def __init__(self, path: Path) -> None:
        """Read what is there; nothing is written before the first record.

        Raises:
            StoreError: the file is damaged, or is none of these.
        """
        self.path = path
        self.runs: dict[str, InsideRecord] = {}
        """By identity."""
        self.session: InsideSession | None = None
        """The last one; None when there is none."""
        self._has_header = False
        for record in _read(path):
            self._take(record)

    def begin(self, session: InsideSession) -> None:
        """Write who is compared, unless the last session was the same.

        Raises:
            OutputError: it cannot be written.
        """
        if session != self.session:
            self._append(session.as_record())
            self.session = session

    def add(self, run: InsideRecord) -> None:
        """Append a run; it is on disk when this returns.

        Raises:
            OutputError: it cannot be written.
        """
        self._append(run.as_record())
        self.runs[run.identity] = run

    def _take(self, record: Mapping[str, Any]) -> None:
        try:
            if record["kind"] == "run":
                run = InsideRecord.from_record(record)
                self.runs[run.identity] = run
            elif record["kind"] == "session":
                self.session = InsideSession.from_record(record)
            elif (record["schema"], record["version"]) == (SCHEMA, VERSION):
                self._has_header = True
            else:
                message = f"{self.path}: is not of version {VERSION}; move it away"
                raise StoreError(message)
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(self.path, error) from error

    def _append(self, record: Mapping[str, Any]) -> None:
        header = {"kind": "header", "schema": SCHEMA, "version": VERSION}
        lines = [record] if self._has_header else [header, record]
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _drop_cut_line(self.path)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            message = f"{self.path}: cannot be written ({error.strerror}); make room"
            raise OutputError(message) from error
        self._has_header = True


def _read(path: Path) -> Sequence[Mapping[str, Any]]:
    if not path.exists():
        return ()
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path}: cannot be read ({error})"
        raise StoreError(message) from error
    try:
        return [json.loads(line) for line in lines if line.endswith("\n")]
    except ValueError as error:
        raise _damaged(path, error) from error


def _drop_cut_line(path: Path) -> None:
    content = path.read_bytes() if path.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        path.write_bytes(whole)


def _damaged(path: Path, error: Exception) -> StoreError:
    return StoreError(f"{path}: is damaged ({error!r}); remove it and measure again")
