"""Turn records into typed rows and rows into records.

Every value passes `int`, `float` or `str` on its way in, because numpy scalars
reach this boundary and the sqlite3 module would store a ``numpy.int64`` as
bytes (python/cpython#106878); the STRICT tables are the second fence.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from pydantic import TypeAdapter

from tuner.emulation import Calibration, EmulationOptions
from tuner.machine import Machine
from tuner.metrics import METRICS
from tuner.records import (
    Configuration,
    CurvePoint,
    Measurement,
    Origin,
    Outcome,
    Status,
    Trial,
    curve_points,
)
from tuner.space import Parameter
from tuner.store.subject import Subject
from tuner.store.values import (
    AllocatorRecord,
    CampaignRecord,
    Incident,
    RealMeasurement,
    Recheck,
    SimulationRecord,
    ValidationConditions,
    ValidationRecord,
    ValidationSample,
    WorkloadRecord,
)

if TYPE_CHECKING:
    import sqlite3

_REAL_INTEGERS = (
    "exit_status",
    "signal",
    "peak_rss_bytes",
    "peak_heap_bytes",
    "faults",
    "user_ns",
    "system_ns",
    "cpu_ns",
    "wall_ns",
    "instructions",
)

_OPTIONS = TypeAdapter(EmulationOptions)
_MACHINE = TypeAdapter(Machine)
_CONDITIONS = TypeAdapter(ValidationConditions)
_PRICES = TypeAdapter(Calibration)
"""What a later version adds is passed over; what an earlier one lacked has its default."""

_SIMULATION = "gem5"
"""Key of the simulation among the options of a validation."""

_NOTHING = "{}"
"""JSON of a machine or prices that are not known."""

_COLUMNS: Final = len(CurvePoint._fields)
_CURVE_LEVEL: Final = 1
"""Of compression: zlib's default takes several times as long for a few percent of the bytes."""

_T = TypeVar("_T")

Row = dict[str, Any]
"""Column name to a value of Python's own types."""


def to_json(value: object) -> str:
    """Write a value as compact JSON text with sorted keys; numpy scalars are refused."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def pack_curve(curve: Sequence[CurvePoint]) -> bytes | None:
    """Compress a curve: zlib over (n_points, 4) little-endian int64, row by row.

    Returns:
        None for an empty curve.
    """
    if not curve:
        return None
    numbers = np.fromiter(chain.from_iterable(curve), "<i8", _COLUMNS * len(curve))
    return zlib.compress(numbers.tobytes(), _CURVE_LEVEL)


def unpack_curve(blob: bytes | None) -> tuple[CurvePoint, ...]:
    """Read back what `pack_curve` wrote."""
    if blob is None:
        return ()
    numbers = np.frombuffer(zlib.decompress(blob), dtype="<i8").reshape(-1, _COLUMNS)
    return curve_points(*numbers.T.tolist())


def measurement_row(measurement: Measurement | None) -> Row:
    """Return the measurement's columns; all NULL for None."""
    fields = measurement.fields if measurement else {}
    row: Row = {
        metric.field: (_int if metric.is_whole else _float)(fields.get(metric.field))
        for metric in METRICS.values()
    }
    return row | {"curve": pack_curve(measurement.curve) if measurement else None}


def outcome_row(outcome: Outcome[Measurement]) -> Row:
    """Return the columns of an evaluation's outcome."""
    is_measured = outcome.status in (Status.OK, Status.UNCOUNTED)
    return _ending(outcome) | measurement_row(outcome.values if is_measured else None)


def row_outcome(row: sqlite3.Row) -> Outcome[Measurement]:
    """Return the outcome of the evaluation in a row."""
    if Status(row["status"]) not in (Status.OK, Status.UNCOUNTED):
        return _outcome(row, None)
    return _outcome(row, Measurement.of_fields(dict(row), unpack_curve(row["curve"])))


def trial_row(trial: Trial) -> Row:
    """Return the row of table trial, without ended_at."""
    return {
        "number": int(trial.number),
        "configuration": trial.configuration.key,
        "origin": trial.origin.value,
        "violation": float(trial.violation),
        **outcome_row(trial.outcome),
    }


def row_trial(
    row: sqlite3.Row,
    objectives: Sequence[float] | None,
    resolution: tuple[tuple[str, float], ...] = (),
) -> Trial:
    """Return the trial of a row of table trial."""
    outcome = row_outcome(row)
    values = tuple(objectives) if objectives is not None else None
    is_counted = outcome.status is not Status.UNCOUNTED
    return Trial(
        number=row["number"],
        configuration=Configuration.from_key(row["configuration"]),
        origin=Origin(row["origin"]),
        outcome=outcome,
        objectives=values if is_counted else None,
        violation=row["violation"],
        resolution=resolution,
        bound=None if is_counted else values,
    )


def recheck_row(recheck: Recheck) -> Row:
    """Return the row of table recheck, without ended_at."""
    return {
        "trial": int(recheck.trial),
        "repeat": int(recheck.repeat),
        **outcome_row(recheck.outcome),
    }


def row_recheck(row: sqlite3.Row) -> Recheck:
    """Return the recheck of a row."""
    return Recheck(row["trial"], row["repeat"], row_outcome(row))


def row_incident(row: sqlite3.Row) -> Incident:
    """Return the incident of a row."""
    configuration = Configuration.from_key(row["configuration"])
    return Incident(configuration, row["attempt"], row["reason"], row["happened_at"])


def campaign_row(record: CampaignRecord) -> Row:
    """Return the one row of table campaign."""
    allocators = {name: dataclasses.asdict(a) for name, a in record.allocators.items()}
    return {
        "id": 1,
        "name": record.name,
        "created_at": record.created_at,
        "status": record.status,
        "trace_path": record.trace_path,
        "trace_sha256": record.trace_sha256,
        "objectives": to_json(record.objectives),
        "constraints": to_json(record.constraints),
        "strategy": record.strategy,
        "population": int(record.population),
        "seed": int(record.seed),
        "search": record.search,
        "budget": int(record.budget),
        "recheck_share": float(record.recheck_share),
        "space": to_json([gene.as_record() for gene in record.space]),
        "seed_configurations": to_json([c.key for c in record.seed_configurations]),
        "emulation": to_json(dataclasses.asdict(record.emulation)),
        # A list of pairs: the order of the allocators is the user's.
        "allocators": to_json(list(allocators.items())),
        "versions": to_json(dict(record.versions)),
        "machine": machine_json(record.machine),
        "calibration": to_json(record.calibration.as_record()) if record.calibration else _NOTHING,
        "reference": to_json(record.reference) if record.reference is not None else None,
        "workload": to_json(record.workload.as_record()),
    }


def row_campaign(row: sqlite3.Row) -> CampaignRecord:
    """Return the campaign's record."""
    texts = ("name", "created_at", "status", "trace_path", "trace_sha256", "strategy", "search")
    reference = json.loads(row["reference"]) if row["reference"] is not None else None
    return CampaignRecord(
        **{name: row[name] for name in (*texts, "population", "seed", "budget", "recheck_share")},
        objectives=tuple(json.loads(row["objectives"])),
        constraints=tuple(json.loads(row["constraints"])),
        space=tuple(map(Parameter.from_record, json.loads(row["space"]))),
        seed_configurations=tuple(
            Configuration.from_key(key) for key in json.loads(row["seed_configurations"])
        ),
        # Campaigns that were begun before the option existed had no huge pages.
        emulation=_OPTIONS.validate_python({"thp": "never", **json.loads(row["emulation"])}),
        allocators={n: AllocatorRecord(**a) for n, a in json.loads(row["allocators"])},
        versions=json.loads(row["versions"]),
        machine=_read(_MACHINE, row["machine"]),
        calibration=_read(_PRICES, row["calibration"]),
        reference=tuple(reference) if reference is not None else None,
        workload=WorkloadRecord.from_record(
            json.loads(row["workload"]) if "workload" in row.keys() else {}  # noqa: SIM118
        ),
    )


def sample_row(validation: int, sample: ValidationSample) -> Row:
    """Return the row of table validation_sample, without ended_at."""
    found = sample.outcome.values or RealMeasurement()
    return {
        "validation": int(validation),
        "label": sample.label,
        "configuration": sample.configuration.key,
        "round": int(sample.round),
        "position": int(sample.position),
        "trial": _int(sample.trial),
        **_ending(sample.outcome),
        "output_sha256": found.output_sha256,
        "mean_heap_bytes": _float(found.mean_heap_bytes),
        "curve": pack_curve(found.curve),
        **{name: _int(getattr(found, name)) for name in _REAL_INTEGERS},
    }


def row_sample(row: sqlite3.Row) -> ValidationSample:
    """Return the sample of a row."""
    found = RealMeasurement(
        **{name: row[name] for name in _REAL_INTEGERS},
        output_sha256=row["output_sha256"],
        mean_heap_bytes=row["mean_heap_bytes"],
        curve=unpack_curve(row["curve"]),
    )
    return ValidationSample(
        round=row["round"],
        position=row["position"],
        label=row["label"],
        configuration=Configuration.from_key(row["configuration"]),
        trial=row["trial"],
        outcome=_outcome(row, None if found == RealMeasurement() else found),
    )


def validation_row(record: ValidationRecord) -> Row:
    """Return the row of table validation, without id and created_at."""
    return {
        "command": to_json(record.command),
        "rounds": int(record.rounds),
        "baseline": record.baseline,
        "settings": to_json(_settings(record)),
        "machine": machine_json(record.machine),
    }


def _settings(record: ValidationRecord) -> Row:
    simulation = record.simulation
    return {
        "subjects": [subject.as_record() for subject in record.subjects],
        "options": {
            **dataclasses.asdict(record.conditions),
            **({} if simulation is None else {_SIMULATION: dataclasses.asdict(simulation)}),
        },
        "notices": record.notices,
        "brought_allocators": record.brought_allocators,
        "is_recorded_program": record.is_recorded_program,
        "shuffled": record.is_shuffled,
    }


def row_validation(row: sqlite3.Row, samples: Sequence[ValidationSample]) -> ValidationRecord:
    """Return the validation of a row with its samples."""
    settings: Mapping[str, Any] = json.loads(row["settings"])
    options = dict(settings.get("options", {}))
    simulation = options.pop(_SIMULATION, None)
    return ValidationRecord(
        command=tuple(json.loads(row["command"])),
        rounds=row["rounds"],
        baseline=row["baseline"],
        subjects=tuple(map(Subject.from_record, settings.get("subjects", ()))),
        conditions=_CONDITIONS.validate_python(options),
        simulation=None if simulation is None else SimulationRecord(**simulation),
        notices=tuple(settings.get("notices", ())),
        brought_allocators=tuple(settings.get("brought_allocators", ())),
        is_recorded_program=settings.get("is_recorded_program"),
        is_shuffled=settings.get("shuffled", False),
        machine=_read(_MACHINE, row["machine"]),
        identifier=row["id"],
        created_at=row["created_at"],
        samples=tuple(samples),
    )


def _read(adapter: TypeAdapter[_T], text: str) -> _T | None:
    return None if text == _NOTHING else adapter.validate_json(text)


def row_machine(text: str) -> Machine:
    """Return the machine of a row of table machine."""
    return _MACHINE.validate_json(text)


def machine_json(machine: Machine | None) -> str:
    """Return the JSON of a machine."""
    return _NOTHING if machine is None else to_json(dataclasses.asdict(machine))


def _ending(outcome: Outcome[object]) -> Row:
    return {"status": outcome.status.value, "reason": outcome.reason}


def _outcome(row: sqlite3.Row, values: _T | None) -> Outcome[_T]:
    status = Status(row["status"])
    reason = None if status is Status.OK else row["reason"] or status.value
    return Outcome(status, reason, values)


def _int(value: float | None) -> int | None:
    return None if value is None else int(value)


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)
