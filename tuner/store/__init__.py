"""The store of a campaign: one SQLite file, one writer, every trial committed when it ends.

What is measured is never lost: a trial is one transaction, flushed to the disk
before `Store.add_trial` returns, and a process killed at any moment leaves the
trials that ended.  A measured column is never changed afterwards.  Readers
(report, export, front) may look at a store while a campaign writes it.

Guarantees: a second writer is refused; a file of another program, another
layout or with damage is refused with one message; values of a wrong
type never enter (STRICT tables, see `tuner.store.schema`).

Limits: a local file system, see `tuner.store.locking`.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self, TypeVar

from tuner.errors import OutputError, StoreError
from tuner.records import Configuration, Measurement, Outcome, Trial
from tuner.store import rows
from tuner.store.connection import check_layout, connect, decoding, is_unfinished, translated
from tuner.store.locking import WriterLock
from tuner.store.schema import (
    APPLICATION_ID,
    MEASURED_TABLES,
    SCHEMA_VERSION,
    metric_columns,
    schema,
)
from tuner.store.values import (
    FINISHED,
    INTERRUPTED,
    RUNNING,
    AllocatorRecord,
    CampaignRecord,
    ClusterMachine,
    Incident,
    RealMeasurement,
    Recheck,
    RecordedSurroundings,
    ScreeningRecord,
    SimulationRecord,
    TraceRecord,
    ValidationConditions,
    ValidationRecord,
    ValidationSample,
    WorkloadRecord,
)

__all__ = [
    "FINISHED",
    "INTERRUPTED",
    "RUNNING",
    "STORE_NAME",
    "AllocatorRecord",
    "CampaignRecord",
    "ClusterMachine",
    "Incident",
    "RealMeasurement",
    "Recheck",
    "RecordedSurroundings",
    "ScreeningRecord",
    "SimulationRecord",
    "Store",
    "TraceRecord",
    "ValidationConditions",
    "ValidationRecord",
    "ValidationSample",
    "WorkloadRecord",
    "store_path",
]

STORE_NAME = "store.sqlite"
"""File name of the store inside a run folder."""

_T = TypeVar("_T")


def store_path(run: Path) -> Path:
    """Return the store of a run folder; the path of a store itself is returned as is."""
    return run / STORE_NAME if run.is_dir() or run.suffix != ".sqlite" else run


def _missing(path: Path) -> str:
    """Say what there is not, where a store is looked for."""
    folder = path.parent
    if path.name != STORE_NAME or folder.is_dir():
        return f"{path}: no such store"
    return f"{folder}: is no folder" if folder.exists() else f"{folder}: no such folder"


def _decodes(read: Callable[[Store], _T]) -> Callable[[Store], _T]:
    """Let a method that reads say which store is damaged, where a row makes no record."""

    @functools.wraps(read)
    def reading(store: Store) -> _T:
        with decoding(store.path):
            return read(store)

    return reading


class Store:
    """An open store; use `create` or `open`, and close it or use it in a ``with``."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: WriterLock | None) -> None:
        """Wrap an open connection; callers use `create` and `open`."""
        self.path = path
        self._connection = connection
        self._lock = lock
        connection.row_factory = sqlite3.Row

    @classmethod
    def create(cls, path: Path, campaign: CampaignRecord) -> Store:
        """Make the store of a new campaign and open it for writing.

        Args:
            path: a run folder, made when missing, or the path of the store.
            campaign: the record; `created_at` is set here.

        Raises:
            StoreError: there is a store already, or another process is making it.
            OutputError: the folder cannot be written or the disk is full.
        """
        path = _make_parent(path)
        lock = WriterLock(path)
        try:
            _refuse_existing(path)
            store = cls(path, connect(path, writable=True), lock)
        except BaseException:
            lock.release()
            raise
        try:
            store._lay_out(replace(campaign, created_at=_now()))
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def open(cls, path: Path, *, writable: bool = False) -> Store:
        """Open the store of a run.

        Args:
            path: a run folder or the path of its store.
            writable: True takes the writer's lock.

        Raises:
            StoreError: there is none, it is locked, damaged, of another program
                or of another layout.
            OutputError: it is to be written but may not be.
        """
        path = store_path(path)
        if not path.is_file():
            raise StoreError(f"{_missing(path)}; give the run folder of `tune` or `optimize`")
        lock = WriterLock(path) if writable else None
        try:
            connection = connect(path, writable=writable)
            try:
                check_layout(path, connection, writable=writable)
            except BaseException:
                connection.close()
                raise
        except BaseException:
            if lock:
                lock.release()
            raise
        store = cls(path, connection, lock)
        if writable:
            try:
                store._add_metrics()
            except BaseException:
                store.close()
                raise
        return store

    @classmethod
    def exists(cls, path: Path) -> bool:
        """Return whether a run holds a campaign that `open` can continue.

        A process killed inside `create` leaves an empty file, which does not count.
        """
        path = store_path(path)
        return path.is_file() and not is_unfinished(path)

    def close(self) -> None:
        """Close the file and give the writer's lock back; harmless when repeated."""
        self._connection.close()
        if self._lock:
            self._lock.release()

    def remove_empty(self) -> bool:
        """Remove the file if nothing was measured; return whether it did."""
        outcomes = [*(trial.outcome for trial in self.trials()), *self.screenings().values()]
        if self._lock is None or any(one.values for one in outcomes) or self.machines():
            return False
        self._connection.close()  # which removes the write-ahead log
        self.path.unlink()
        self.close()
        return True

    def __enter__(self) -> Self:
        """Return the store itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the store."""
        self.close()

    # Reading

    @contextlib.contextmanager
    def at_one_moment(self) -> Iterator[None]:
        """Let all that is read inside be of one moment, whatever a campaign commits meanwhile."""
        is_inside = self._connection.in_transaction
        if not is_inside:
            self._select("BEGIN")
        try:
            yield
        finally:
            if not is_inside and self._connection.in_transaction:  # which damage ends
                self._connection.execute("ROLLBACK")

    @_decodes
    def campaign(self) -> CampaignRecord:
        """Return the record of the campaign."""
        return rows.row_campaign(self._select("SELECT * FROM campaign")[0])

    @_decodes
    def trials(self) -> list[Trial]:
        """Return every trial with its curve, by number."""
        objectives: dict[int, list[float]] = defaultdict(list)
        with self.at_one_moment():
            for row in self._select("SELECT * FROM trial_objective ORDER BY trial, position"):
                objectives[row["trial"]].append(row["value"])
            found = self._select("SELECT * FROM trial ORDER BY number")
            steps = self.campaign().resolution
        return [rows.row_trial(row, objectives.get(row["number"]), steps) for row in found]

    @_decodes
    def screenings(self) -> dict[Configuration, Outcome[Measurement]]:
        """Return what was measured on a shrunk workload, in the order it ended."""
        if not self._select("SELECT 1 FROM sqlite_schema WHERE name = 'screening'"):
            return {}
        found = self._select("SELECT * FROM screening ORDER BY ended_at, configuration")
        return {
            Configuration.from_key(row["configuration"]): rows.row_outcome(row) for row in found
        }

    @property
    def knows_machines(self) -> bool:
        """True where asks and machines can be kept: not in stores of older layouts."""
        return bool(
            self._select("SELECT 1 FROM pragma_table_info('made_on') WHERE name = 'repeat'")
        )

    @_decodes
    def machines(self) -> list[ClusterMachine]:
        """Return the machines of a cluster that took part, the first one first."""
        if not self.knows_machines:
            return []
        return [
            ClusterMachine(
                row["name"],
                rows.row_machine(row["facts"]),
                Measurement.of_fields(json.loads(row["measured"])),
            )
            for row in self._select("SELECT * FROM machine ORDER BY rowid")
        ]

    @_decodes
    def places(self) -> dict[tuple[int, int], str]:
        """Return where trials (repeat 0) and re-measurements were made, if on a cluster."""
        if not self.knows_machines:
            return {}
        found = self._select("SELECT * FROM made_on")
        return {(row["trial"], row["repeat"]): row["machine"] for row in found}

    @_decodes
    def asks(self) -> list[tuple[int, ...]]:
        """Return, for each time that a strategy was asked ahead, the trials told just before."""
        if not self.knows_machines:
            return []
        found = self._select("SELECT told FROM ask ORDER BY position")
        return [tuple(json.loads(row["told"])) for row in found]

    @_decodes
    def rechecks(self) -> list[Recheck]:
        """Return every re-measurement, by trial and repeat."""
        found = self._select("SELECT * FROM recheck ORDER BY trial, repeat")
        return [rows.row_recheck(row) for row in found]

    @_decodes
    def incidents(self) -> list[Incident]:
        """Return the retried failures of the machine, oldest first."""
        return [rows.row_incident(row) for row in self._select("SELECT * FROM incident")]

    @_decodes
    def validations(self) -> list[ValidationRecord]:
        """Return every validation with its raw samples, oldest first."""
        samples: dict[int, list[ValidationSample]] = defaultdict(list)
        query = "SELECT * FROM validation_sample ORDER BY validation, round, position"
        with self.at_one_moment():
            for row in self._select(query):
                samples[row["validation"]].append(rows.row_sample(row))
            found = self._select("SELECT * FROM validation ORDER BY id")
        return [rows.row_validation(row, samples[row["id"]]) for row in found]

    # Writing: each method is one transaction and raises OutputError when it
    # cannot be kept (full disk, no permission); what was there stays.

    def add_trial(self, trial: Trial, machine: str | None = None) -> None:
        """Commit a trial that ended.

        Args:
            trial: what ended.
            machine: of a cluster, kept before with `add_machine`; None: this one.

        Raises:
            StoreError: its number or configuration is in the store already.
        """
        objectives = trial.objectives or trial.bound or ()
        with self._transaction():
            self._insert("trial", {**rows.trial_row(trial), "ended_at": _now()})
            self._connection.executemany(
                "INSERT INTO trial_objective (trial, position, value) VALUES (?, ?, ?)",
                [(int(trial.number), at, float(value)) for at, value in enumerate(objectives)],
            )
            self._add_place(trial.number, 0, machine)

    def _add_place(self, trial: int, repeat: int, machine: str | None) -> None:
        if machine is not None:
            row = {"trial": int(trial), "repeat": int(repeat), "machine": machine}
            self._insert("made_on", row)

    def add_machine(self, machine: ClusterMachine) -> None:
        """Commit a machine of a cluster before anything that it measured."""
        row = {
            "name": machine.name,
            "facts": rows.machine_json(machine.facts),
            "measured": rows.to_json(machine.default.fields),
        }
        with self._transaction():
            self._insert("machine", row)

    def add_ask(self, told: Sequence[int]) -> None:
        """Commit that a strategy is asked ahead of results that are missing.

        Args:
            told: numbers of the trials that it was told since it was last asked, in order.
        """
        with self._transaction():
            self._insert("ask", {"told": rows.to_json([int(number) for number in told])})

    def add_screening(
        self, configuration: Configuration, fidelity: float, outcome: Outcome[Measurement]
    ) -> None:
        """Commit a measurement on a shrunk workload, which no trial's is comparable with.

        Args:
            configuration: what was measured.
            fidelity: allocations of the shrunk workload over those of the whole, above 0 and
                below 1.
            outcome: how it ended.
        """
        place = {"configuration": configuration.key, "fidelity": float(fidelity)}
        with self._transaction():
            self._insert("screening", {**place, **rows.outcome_row(outcome), "ended_at": _now()})

    def add_recheck(self, recheck: Recheck, machine: str | None = None) -> None:
        """Commit a re-measurement; see `add_trial` for the machine."""
        with self._transaction():
            self._insert("recheck", {**rows.recheck_row(recheck), "ended_at": _now()})
            self._add_place(recheck.trial, recheck.repeat, machine)

    def withdraw_recheck(self, recheck: Recheck, incident: Incident) -> None:
        """Commit that a re-measurement without numbers was an incident."""
        with self._transaction():
            self._connection.execute(
                "DELETE FROM recheck WHERE trial = ? AND repeat = ? AND status <> 'ok'",
                (recheck.trial, recheck.repeat),
            )
            self._insert("incident", _incident_row(incident))

    def withdraw_trial(self, trial: Trial) -> None:
        """Commit that a trial without numbers was an incident; one with numbers stays."""
        with self._transaction():
            if self.knows_machines:
                self._connection.execute(
                    "DELETE FROM made_on WHERE repeat = 0 AND trial IN "
                    "(SELECT number FROM trial WHERE number = ? AND status <> 'ok')",
                    (trial.number,),
                )
            self._connection.execute(
                "DELETE FROM trial WHERE number = ? AND status <> 'ok'", (trial.number,)
            )
            incident = Incident(trial.configuration, 1, str(trial.reason))
            self._insert("incident", _incident_row(incident))

    def add_incident(self, incident: Incident) -> None:
        """Commit an attempt that does not count, such as a failure of the machine."""
        with self._transaction():
            self._insert("incident", _incident_row(incident))

    def begin_validation(self, record: ValidationRecord) -> int:
        """Commit the head of a validation and return its identifier."""
        row = {**rows.validation_row(record), "created_at": _now()}
        with self._transaction():
            return self._insert("validation", row)

    def add_validation_sample(self, validation: int, sample: ValidationSample) -> None:
        """Commit one run of the real program."""
        with self._transaction():
            row = rows.sample_row(validation, sample)
            self._insert("validation_sample", {**row, "ended_at": _now()})

    def set_status(self, status: str) -> None:
        """Change the state of the campaign: running, interrupted, finished."""
        self._update_campaign("status", status)

    def set_budget(self, budget: int) -> None:
        """Extend the campaign."""
        self._update_campaign("budget", int(budget))

    def set_reference(self, reference: Sequence[float]) -> None:
        """Freeze the reference point of the hypervolume."""
        self._update_campaign("reference", rows.to_json([float(value) for value in reference]))

    def _update_campaign(self, column: str, value: object) -> None:
        with self._transaction():
            # The column is one of the three literals above, never input.
            self._connection.execute(f"UPDATE campaign SET {column} = ?", (value,))  # noqa: S608

    def _lay_out(self, record: CampaignRecord) -> None:
        with self._transaction():
            for statement in schema().split(";\n"):
                self._connection.execute(statement)
            self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self._connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            self._insert("campaign", rows.campaign_row(record))

    def _add_metrics(self) -> None:
        """Add the columns of metrics that there were none of when the store was created."""
        with self._transaction():
            for table in MEASURED_TABLES:
                there = {row["name"] for row in self._select(f"PRAGMA table_info({table})")}
                lacking = metric_columns().keys() - there if there else ()
                for name in sorted(lacking):
                    kind = metric_columns()[name]
                    self._connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")

    def _insert(self, table: str, row: rows.Row) -> int:
        columns = ", ".join(row)
        places = ", ".join(f":{name}" for name in row)
        # Table and columns are names of the schema, never input.
        query = f"INSERT INTO {table} ({columns}) VALUES ({places})"  # noqa: S608
        return self._connection.execute(query, row).lastrowid or 0

    def _select(self, query: str) -> list[sqlite3.Row]:
        with translated(self.path, writable=self._lock is not None):
            return self._connection.execute(query).fetchall()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        if self._lock is None:
            raise StoreError(f"{self.path}: opened for reading only")
        with translated(self.path, writable=True):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


def _incident_row(incident: Incident) -> rows.Row:
    return {
        "configuration": incident.configuration.key,
        "attempt": int(incident.attempt),
        "reason": incident.reason,
        "happened_at": _now(),
    }


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")


def make_run_folder(run: Path) -> None:
    """Create a run folder, if it is not there.

    Raises:
        OutputError: it cannot be created.
    """
    try:
        run.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{run}: cannot be created ({error.strerror}); choose another run folder with -o"
        ) from error


def _make_parent(path: Path) -> Path:
    make_run_folder(path.parent if path.suffix == ".sqlite" else path)
    return store_path(path)


def _refuse_existing(path: Path) -> None:
    if Store.exists(path):
        raise StoreError(f"{path}: there is a store already; continue it or choose another folder")
