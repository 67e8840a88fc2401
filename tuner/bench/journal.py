"""The raw samples of a comparison: one JSON object a line, written as each run ends.

The first line holds the subjects, the tasks and the machine; a later session
of the same comparison adds what is missing.  Format: docs/formats.md.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from pydantic import TypeAdapter

import tuner
from tuner.bench.plan import WORKLOADS, BenchPlan, Task
from tuner.bench.subjects import BenchSubject
from tuner.compare.journal import Journal, read_journal
from tuner.errors import StoreError
from tuner.machine import read_machine
from tuner.measure.driver import DriverResult
from tuner.provenance import native_digests
from tuner.records import Outcome, Status

SCHEMA: Final = "malloc-tuner.bench"
VERSION: Final = 1
_FILE: Final = "samples.jsonl"


_TASK: Final = TypeAdapter(Task)

Place: TypeAlias = tuple[int, Task, str]
"""Round, task, and label of the subject."""


@dataclass(frozen=True)
class Comparison:
    """All that was measured so far."""

    labels: tuple[str, ...]
    """The subjects, in the order they were named."""
    samples: Mapping[Place, Outcome[DriverResult]]
    seconds: float
    """Length of a counting phase."""


def make_header(subjects: Sequence[BenchSubject], plan: BenchPlan) -> dict[str, Any]:
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


def read_sample(record: Mapping[str, Any]) -> tuple[Place, Outcome[DriverResult]]:
    """Rebuild a sample from its JSON.

    Raises:
        KeyError, TypeError, ValueError: it is not one.
    """
    words = {name: record[name] for name in ("workload", "threads", "size")}
    task = _TASK.validate_python(words)
    if task.workload not in WORKLOADS:
        raise ValueError(f"workload {task.workload!r}: there is none")
    found = record["result"]
    result = None if found is None else DriverResult.model_validate_json(json.dumps(found))
    outcome = Outcome(Status(record["status"]), record["reason"], result)
    return (record["round"], task, record["subject"]), outcome


def sample_record(place: Place, sample: Outcome[DriverResult]) -> dict[str, Any]:
    """Return the JSON of a sample."""
    number, task, label = place
    result = sample.values
    return {
        **asdict(task),
        "subject": label,
        "round": number,
        "status": sample.status.value,
        "reason": sample.reason,
        "result": None if result is None else result.model_dump(mode="json", by_alias=True),
    }


def open_journal(folder: Path, header: Mapping[str, Any]) -> Journal:
    """Begin the journal of a comparison in a folder, or go on with the one that is there.

    Raises:
        StoreError: the folder holds another comparison, or a damaged one.
        OutputError: it cannot be written.
    """
    return Journal(folder / _FILE, header, ("subjects", "seconds", "seed", "malloc_tuner"))


def load_comparison(folder: Path) -> Comparison:
    """Read the samples of a folder.

    Raises:
        StoreError: there are none, or they are damaged.
    """
    path = folder / _FILE
    content = read_journal(path)
    if content is None:
        raise StoreError(
            f"{path}: there are no samples; `malloc-tuner bench -o {folder}` makes them"
        )
    if (content.header.get("schema"), content.header.get("version")) != (SCHEMA, VERSION):
        raise StoreError(f"{path}: is not a comparison of version {VERSION}; choose another -o")
    try:
        labels = tuple(str(subject["label"]) for subject in content.header["subjects"])
        seconds = float(content.header["seconds"])
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{path}: line 1 is damaged ({error!r}); choose another -o") from error
    return Comparison(labels, dict(content.decode(read_sample)), seconds)


def kept_seconds(folder: Path) -> float | None:
    """Return the length of a run in a comparison that is there; None if there is none.

    Raises:
        StoreError: it is damaged.
    """
    if not (folder / _FILE).exists():
        return None
    return load_comparison(folder).seconds
