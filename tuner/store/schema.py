"""The tables of a campaign's store, and the version of their layout.

Every table is STRICT: SQLite then refuses a value of another type, such as the
8-byte BLOB that the sqlite3 module makes of a numpy integer without a word.
Numbers that are absent are NULL.  Texts that hold JSON are checked to be JSON.
docs/store.md describes every column.

``PRAGMA application_id`` marks the file as ours, ``PRAGMA user_version`` is
`SCHEMA_VERSION`.  Metrics are columns; a store that lacks the column of a metric
gets it when it is opened for writing, and has None for it until then.  Any other
change of the layout is a new number, and `tuner.store` refuses the numbers it
does not know.
"""

from tuner.metrics import METRICS

APPLICATION_ID = 0x6D547E01
"""Marks an SQLite file as a malloc-tuner store."""

SCHEMA_VERSION = 4
"""Layout of the tables below."""

READABLE_VERSIONS = (1, 2, 3, SCHEMA_VERSION)
"""Layouts that can be read and continued; 1 has neither `campaign.workload` nor `screening`,
and none before 4 has `ask`, `machine`, `made_on` and uncounted trials."""

MEASURED_TABLES = ("trial", "recheck", "screening")
"""Tables that have a column for every metric."""


def metric_columns() -> dict[str, str]:
    """Return the columns of a measurement with their types, as the table of metrics gives them."""
    return {m.field: "INTEGER" if m.is_whole else "REAL" for m in METRICS.values()}


def schema() -> str:
    """Return the whole layout, created in one transaction."""
    measurement = "".join(f"\n    {name} {kind}," for name, kind in metric_columns().items())
    return _SCHEMA.replace("{measurement}", f"{measurement}\n    curve BLOB")


_SCHEMA = """
CREATE TABLE campaign (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    name TEXT NOT NULL,
    created_at TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('running', 'interrupted', 'finished')),
    trace_path TEXT NOT NULL,
    trace_sha256 TEXT NOT NULL,
    objectives TEXT NOT NULL CHECK (json_valid(objectives)),
    constraints TEXT NOT NULL CHECK (json_valid(constraints)),
    strategy TEXT NOT NULL,
    population INTEGER NOT NULL CHECK (population > 0),
    seed INTEGER NOT NULL,
    search TEXT NOT NULL CHECK (search IN ('joint', 'separate')),
    budget INTEGER NOT NULL CHECK (budget > 0),
    recheck_share REAL NOT NULL CHECK (recheck_share BETWEEN 0.0 AND 1.0),
    space TEXT NOT NULL CHECK (json_valid(space)),
    seed_configurations TEXT NOT NULL CHECK (json_valid(seed_configurations)),
    emulation TEXT NOT NULL CHECK (json_valid(emulation)),
    allocators TEXT NOT NULL CHECK (json_valid(allocators)),
    versions TEXT NOT NULL CHECK (json_valid(versions)),
    machine TEXT NOT NULL CHECK (json_valid(machine)),
    calibration TEXT NOT NULL CHECK (json_valid(calibration)),
    reference TEXT CHECK (reference IS NULL OR json_valid(reference)),
    workload TEXT NOT NULL CHECK (json_valid(workload))
) STRICT;

CREATE TABLE trial (
    number INTEGER PRIMARY KEY CHECK (number >= 0),
    configuration TEXT NOT NULL UNIQUE CHECK (json_valid(configuration)),
    origin TEXT NOT NULL CHECK (origin IN ('default', 'seed', 'search')),
    status TEXT NOT NULL CHECK (status IN ('ok', 'refused', 'failed', 'timed_out', 'uncounted')),
    reason TEXT,
    violation REAL NOT NULL CHECK (violation >= 0.0),
    ended_at TEXT NOT NULL,{measurement},
    CHECK ((status IN ('ok', 'uncounted')) = (peak_heap_bytes IS NOT NULL)),
    CHECK ((status = 'ok') = (reason IS NULL))
) STRICT;

CREATE TABLE trial_objective (
    trial INTEGER NOT NULL REFERENCES trial (number),
    position INTEGER NOT NULL CHECK (position >= 0),
    value REAL NOT NULL,
    PRIMARY KEY (trial, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE recheck (
    trial INTEGER NOT NULL REFERENCES trial (number),
    repeat INTEGER NOT NULL CHECK (repeat >= 1),
    status TEXT NOT NULL CHECK (status IN ('ok', 'refused', 'failed', 'timed_out')),
    reason TEXT,
    ended_at TEXT NOT NULL,{measurement},
    PRIMARY KEY (trial, repeat),
    CHECK ((status = 'ok') = (peak_heap_bytes IS NOT NULL))
) STRICT;

CREATE TABLE screening (
    configuration TEXT PRIMARY KEY CHECK (json_valid(configuration)),
    fidelity REAL NOT NULL CHECK (fidelity > 0.0 AND fidelity < 1.0),
    status TEXT NOT NULL CHECK (status IN ('ok', 'refused', 'failed', 'timed_out')),
    reason TEXT,
    ended_at TEXT NOT NULL,{measurement},
    CHECK ((status = 'ok') = (peak_heap_bytes IS NOT NULL))
) STRICT;

CREATE TABLE ask (
    position INTEGER PRIMARY KEY CHECK (position >= 0),
    told TEXT NOT NULL CHECK (json_valid(told))
) STRICT;

CREATE TABLE machine (
    name TEXT PRIMARY KEY,
    facts TEXT NOT NULL CHECK (json_valid(facts)),
    measured TEXT NOT NULL CHECK (json_valid(measured))
) STRICT;

CREATE TABLE made_on (
    trial INTEGER NOT NULL REFERENCES trial (number),
    repeat INTEGER NOT NULL CHECK (repeat >= 0),
    machine TEXT NOT NULL REFERENCES machine (name),
    PRIMARY KEY (trial, repeat)
) STRICT, WITHOUT ROWID;

CREATE TABLE incident (
    id INTEGER PRIMARY KEY,
    configuration TEXT NOT NULL,
    attempt INTEGER NOT NULL CHECK (attempt >= 1),
    reason TEXT NOT NULL,
    happened_at TEXT NOT NULL
) STRICT;

CREATE TABLE validation (
    id INTEGER PRIMARY KEY,
    created_at TEXT NOT NULL,
    command TEXT NOT NULL CHECK (json_valid(command)),
    rounds INTEGER NOT NULL CHECK (rounds > 0),
    baseline TEXT NOT NULL,
    settings TEXT NOT NULL CHECK (json_valid(settings)),
    machine TEXT NOT NULL CHECK (json_valid(machine))
) STRICT;

CREATE TABLE validation_sample (
    validation INTEGER NOT NULL REFERENCES validation (id),
    round INTEGER NOT NULL CHECK (round >= 0),
    position INTEGER NOT NULL CHECK (position >= 0),
    label TEXT NOT NULL,
    configuration TEXT NOT NULL CHECK (json_valid(configuration)),
    trial INTEGER,
    status TEXT NOT NULL CHECK (status IN ('ok', 'refused', 'failed', 'timed_out')),
    reason TEXT,
    exit_status INTEGER,
    signal INTEGER,
    output_sha256 TEXT,
    peak_rss_bytes INTEGER,
    peak_heap_bytes INTEGER,
    mean_heap_bytes REAL,
    faults INTEGER,
    user_ns INTEGER,
    system_ns INTEGER,
    cpu_ns INTEGER,
    wall_ns INTEGER,
    instructions INTEGER,
    curve BLOB,
    ended_at TEXT NOT NULL,
    PRIMARY KEY (validation, round, position)
) STRICT;
"""
"""The layout, with a place for the columns of a measurement."""
