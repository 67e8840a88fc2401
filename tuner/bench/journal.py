"""The raw samples of a comparison: one JSON object a line, written as each run ends.

The first line says who is compared, what is run and on which machine; a later session
of the same comparison adds what is missing.  A last line that was cut off by a kill is
dropped.  Format: docs/formats.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

from pydantic import ValidationError

import tuner
from tuner.bench.plan import Plan, Task
from tuner.bench.subjects import Subject
from tuner.errors import OutputError, StoreError
from tuner.machine import read_machine
from tuner.measure.driver import DriverResult
from tuner.provenance import native_digests
from tuner.records import Status

SCHEMA: Final = "malloc-tuner.bench"
VERSION: Final = 1
_FILE: Final = "samples.jsonl"


@dataclass(frozen=True)
class Sample:
    """One run of one task on one subject."""

    task: Task
    subject: str
    """Label."""
    round: int
    """From 0."""
    status: Status
    reason: str | None
    """Why there is no result; None when there is one."""
    result: DriverResult | None


@dataclass(frozen=True)
class Comparison:
    """All that was measured so far."""

    header: Mapping[str, Any]
    """The first line: versions, machine, subjects, plan."""
    samples: tuple[Sample, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The subjects, in the order they were named."""
        return tuple(subject["label"] for subject in self.header["subjects"])


def make_header(subjects: Sequence[Subject], plan: Plan) -> dict[str, Any]:
    """Return the first line of a journal."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "malloc_tuner": tuner.__version__,
        "native": native_digests(),
        "machine": asdict(read_machine()),
        "subjects": [subject.identity() for subject in subjects],
        "seconds": plan.seconds,
        "seed": plan.seed,
    }


def sample_from(record: Mapping[str, Any]) -> Sample:
    """Rebuild a sample from its JSON.

    Raises:
        KeyError, TypeError, ValueError: it is not one.
    """
    result = record["result"]
    return Sample(
        Task(record["workload"], record["threads"], record["size"]),
        record["subject"],
        record["round"],
        Status(record["status"]),
        record["reason"],
        None if result is None else DriverResult.model_validate_json(json.dumps(result)),
    )


def sample_record(sample: Sample) -> dict[str, Any]:
    """Return the JSON of a sample."""
    result = sample.result
    return {
        **asdict(sample.task),
        "subject": sample.subject,
        "round": sample.round,
        "status": sample.status.value,
        "reason": sample.reason,
        "result": None if result is None else result.model_dump(mode="json", by_alias=True),
    }


class Journal:
    """Samples in a folder, appended as they come."""

    def __init__(self, folder: Path, header: Mapping[str, Any]) -> None:
        """Begin a journal, or go on with the one that is there.

        Raises:
            StoreError: the folder holds another comparison, or a damaged one.
            OutputError: it cannot be written.
        """
        self._path = folder / _FILE
        self.comparison = Comparison(header, ())
        if self._path.exists():
            self.comparison = load_comparison(folder)
            _check_same(self._path, self.comparison.header, header)
            self._rewrite()
        else:
            self._write("w", header)

    def add(self, sample: Sample) -> None:
        """Append a sample; it is on disk when this returns.

        Raises:
            OutputError: there is no room.
        """
        self._write("a", sample_record(sample))
        samples = (*self.comparison.samples, sample)
        self.comparison = Comparison(self.comparison.header, samples)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open between two samples."""

    def _rewrite(self) -> None:
        """Drop a line that was cut off, so that the next one begins a line."""
        self._write("w", self.comparison.header)
        for sample in self.comparison.samples:
            self._write("a", sample_record(sample))

    def _write(self, mode: str, record: Mapping[str, Any]) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open(mode, encoding="utf-8") as file:
                file.write(json.dumps(record, separators=(",", ":")) + "\n")
        except OSError as error:
            message = f"{self._path}: cannot be written ({error.strerror}); choose another -o"
            raise OutputError(message) from error


def load_comparison(folder: Path) -> Comparison:
    """Read the samples of a folder.

    Raises:
        StoreError: there are none, or they are damaged.
    """
    path = folder / _FILE
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path}: cannot be read ({error}); `malloc-tuner bench -o {folder}` makes it"
        raise StoreError(message) from error
    if lines and not lines[-1].endswith("\n"):
        lines.pop()  # a kill came in between
    try:
        header = json.loads(lines[0])
        if (header["schema"], header["version"]) != (SCHEMA, VERSION):
            message = f"{path}: is not a comparison of version {VERSION}; choose another -o"
            raise StoreError(message)
        samples = tuple(sample_from(json.loads(line)) for line in lines[1:])
    except (IndexError, KeyError, TypeError, ValueError, ValidationError) as error:
        message = f"{path}: is damaged ({error!r}); remove it and measure again"
        raise StoreError(message) from error
    return Comparison(header, samples)


def kept_seconds(folder: Path) -> float | None:
    """Return the length of a run in a comparison that is there; None if there is none.

    Raises:
        StoreError: it is damaged.
    """
    if not (folder / _FILE).exists():
        return None
    return float(load_comparison(folder).header["seconds"])


def _check_same(path: Path, kept: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    for name in ("subjects", "seconds", "seed", "malloc_tuner"):
        if kept.get(name) != asked[name]:
            message = (
                f"{path}: is a comparison with other {name}; "
                "choose another -o, or remove the folder to measure anew"
            )
            raise StoreError(message)
