"""The store keeps what was measured, refuses what is wrong, and says why."""

import contextlib
import errno
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.doubles import synthetic
from tests.doubles.machine import MACHINE
from tests.doubles.runs import failed_trial, seen, synthetic_run
from tuner.emulation import Calibration, EmulationOptions
from tuner.errors import OutputError, StoreError
from tuner.metrics import METRICS
from tuner.records import Configuration, CurvePoint, Measurement, Origin, Outcome, Status, Trial
from tuner.runs import load_run
from tuner.store import (
    FINISHED,
    RUNNING,
    STORE_NAME,
    ClusterMachine,
    Incident,
    RealMeasurement,
    Recheck,
    RecordedSurroundings,
    ScreeningRecord,
    SimulationRecord,
    Store,
    TraceRecord,
    ValidationConditions,
    ValidationRecord,
    ValidationSample,
    WorkloadRecord,
)
from tuner.store.rows import pack_curve, unpack_curve
from tuner.store.schema import SCHEMA_VERSION
from tuner.store.subject import Subject


def trial(number: int = 0, settings: dict[str, int] | None = None) -> Trial:
    configuration = Configuration.of("glibc", settings or {"pad": number})
    numbers = synthetic.measure(configuration).with_values(wall=5)
    return Trial(
        number, configuration, Origin.SEARCH, Outcome.succeeded(numbers), (1.5, float(number)), 0.25
    )


def failed(number: int) -> Trial:
    configuration = Configuration.of("jemalloc", {"slack": number})
    return failed_trial(number, configuration, Status.FAILED, "killed by SIGSEGV")


def change(run: Path, *statements: str) -> None:
    """Change a store behind its back."""
    with contextlib.closing(sqlite3.connect(run / STORE_NAME)) as raw, raw:
        for statement in statements:
            raw.execute(statement)


def python(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def store(run: Path) -> Iterator[Store]:
    with Store.create(run, synthetic.record()) as made:
        yield made


def test_a_campaign_comes_back_as_it_was(run: Path):
    record = synthetic.record(
        constraints=("cost <= default * 1.02",),
        seed_configurations=(Configuration.of("glibc", {"pad": 0}),),
        calibration=Calibration(1600.0, 0.5, c_fault_interval=(1500.0, 1700.0)),
        machine=MACHINE,
    )

    Store.create(run, record).close()

    with Store.open(run) as store:
        found = store.campaign()
    assert found.created_at.endswith("+00:00")
    assert replace(record, created_at=found.created_at) == found
    assert list(record.allocators) == list(found.allocators)


def test_a_campaign_of_an_earlier_version_lacks_options_prices_and_facts(run: Path):
    Store.create(run, synthetic.record(machine=MACHINE, calibration=Calibration(1.0, 1.0))).close()
    machine = {**asdict(MACHINE), "of a later version": 1}
    del machine["thp_defrag"]
    with contextlib.closing(sqlite3.connect(run / "store.sqlite")) as file, file:
        file.execute(
            "UPDATE campaign SET emulation = ?, calibration = '{}', machine = ?",
            ('{"threads": "free"}', json.dumps(machine)),
        )

    with Store.open(run) as store:
        found = store.campaign()

    assert found.emulation == EmulationOptions(threads="free", thp="never")
    assert (found.calibration, found.prices) == (None, Calibration(0.0, 0.0))
    assert found.machine == MACHINE


def test_trials_come_back_by_number_with_their_curves(store: Store):
    trials = [trial(2), failed(0), trial(1)]
    for one in trials:
        store.add_trial(one)

    found = store.trials()

    assert sorted(trials, key=lambda t: t.number) == found
    assert trials[0].measurement is not None
    assert found[2].measurement is not None
    assert trials[0].measurement.curve == found[2].measurement.curve


def test_absent_numbers_stay_absent(store: Store):
    numbers = synthetic.measure(Configuration("glibc")).with_values(instructions=None, cost=None)
    store.add_trial(replace(trial(), outcome=Outcome.succeeded(numbers)))

    (found,) = store.trials()

    assert found.measurement is not None
    assert found.measurement["instructions"] is None
    assert found.measurement["cost"] is None
    assert found.measurement["p99_latency"] is None


def test_numpy_numbers_are_stored_as_numbers(store: Store, run: Path):
    numbers = synthetic.measure(Configuration("glibc"))
    odd = numbers.with_values(mean_heap=np.float64(2.5))
    values = (np.float64(1.5), np.float64(2))
    odd = odd.with_values(faults=np.int64(7))  # type: ignore[arg-type]
    store.add_trial(replace(trial(), outcome=Outcome.succeeded(odd), objectives=values))

    with contextlib.closing(sqlite3.connect(run / STORE_NAME)) as raw, raw:
        row = raw.execute("SELECT typeof(faults), typeof(mean_heap_bytes) FROM trial").fetchone()

    assert row == ("integer", "real")
    assert store.trials()[0].objectives == (1.5, 2.0)


def test_bytes_in_a_number_column_are_refused_by_the_schema(store: Store, run: Path):
    store.add_trial(trial())
    raw = sqlite3.connect(run / STORE_NAME)
    with pytest.raises(sqlite3.IntegrityError, match="cannot store BLOB"):
        raw.execute("UPDATE trial SET faults = ?", (np.int64(7),))
    raw.close()


def test_a_number_or_a_configuration_twice_is_refused_and_changes_nothing(store: Store):
    store.add_trial(trial(0, {"pad": 1}))
    for again in (trial(0, {"pad": 2}), trial(1, {"pad": 1})):
        with pytest.raises(StoreError, match="contradicts the store: UNIQUE"):
            store.add_trial(again)

    assert store.trials() == [trial(0, {"pad": 1})]


def test_rechecks_incidents_and_validations_come_back(store: Store):
    store.add_trial(trial())
    recheck = Recheck(0, 1, Outcome.succeeded(synthetic.measure(Configuration("glibc"))))
    lost = Recheck(0, 2, Outcome.did_not_succeed(Status.TIMED_OUT, "still running after 60 s"))
    incident = Incident(Configuration("glibc"), 1, "out of processes")
    sample = ValidationSample(
        0,
        1,
        "knee",
        Configuration.of("glibc", {"pad": 0}),
        0,
        Outcome.succeeded(
            RealMeasurement(
                exit_status=0,
                output_sha256="ab",
                mean_heap_bytes=1.5,
                cpu_ns=12,
                curve=(CurvePoint(0, 5, 6, 0),),
            )
        ),
    )
    crashed = replace(
        sample, round=1, outcome=Outcome.did_not_succeed(Status.FAILED, "killed by SIGSEGV")
    )
    record = ValidationRecord(
        ("gs", "a.ps"),
        7,
        "glibc default",
        (Subject("glibc default", Configuration("glibc"), 0, ("default",)),),
        ValidationConditions("stdout", "none", 1, RecordedSurroundings(cpu=1, thp="never")),
        SimulationRecord("tree", "tune", {"guest": "ab"}),
        ("busy",),
        ("libjemalloc.so.2",),
        is_recorded_program=True,
        is_shuffled=True,
        machine=MACHINE,
    )

    store.add_recheck(recheck)
    store.add_recheck(lost)
    store.add_incident(incident)
    identifier = store.begin_validation(record)
    store.add_validation_sample(identifier, sample)
    store.add_validation_sample(identifier, crashed)

    assert [recheck, lost] == store.rechecks()
    assert [incident] == [replace(i, happened_at="") for i in store.incidents()]
    (found,) = store.validations()
    expected = replace(record, samples=(sample, crashed), identifier=1)
    assert expected == replace(found, created_at="")
    assert found.samples[1].outcome.values is None
    assert seen(found.samples[0]).curve == seen(sample).curve


def test_status_budget_and_reference_can_change(store: Store):
    store.set_status(FINISHED)
    store.set_budget(500)
    store.set_reference((1.5, np.float64(2.5)))

    found = store.campaign()

    assert (found.status, found.budget, found.reference) == (FINISHED, 500, (1.5, 2.5))
    with pytest.raises(StoreError, match="CHECK constraint"):
        store.set_status("asleep")


def test_readers_see_a_store_while_it_is_written(store: Store, run: Path):
    store.add_trial(trial())
    with Store.open(run) as reader:
        before = len(reader.trials())
        store.add_trial(trial(1))
        after = len(reader.trials())

    assert (before, after) == (1, 2)


class _Overtaken:
    """Commits something while another connection has read one table and not yet the next."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, table: str, commit: Callable[[], None]):
        self.is_committed = False
        select = Store._select  # noqa: SLF001 - between two of its queries

        def overtaken(store: Store, query: str) -> list[sqlite3.Row]:
            if f" FROM {table} " in query and not self.is_committed:
                self.is_committed = True
                commit()
            return select(store, query)

        monkeypatch.setattr(Store, "_select", overtaken)


def test_a_trial_that_ends_while_trials_are_read_is_there_with_its_objectives_or_not_at_all(
    store: Store, run: Path, monkeypatch: pytest.MonkeyPatch
):
    store.add_trial(trial())
    with Store.open(run) as reader:
        other = _Overtaken(monkeypatch, "trial", lambda: store.add_trial(trial(1)))

        before, after = reader.trials(), reader.trials()

    assert other.is_committed
    assert before == [trial()]
    assert after == [trial(), trial(1)]


def test_a_run_is_read_as_it_was_at_one_moment(
    store: Store, run: Path, monkeypatch: pytest.MonkeyPatch
):
    store.add_trial(trial())
    again = Recheck(1, 1, Outcome.succeeded(synthetic.measure(Configuration("glibc"))))

    def measure_again() -> None:
        store.add_trial(trial(1))
        store.add_recheck(again)

    other = _Overtaken(monkeypatch, "recheck", measure_again)

    before = load_run(run)

    assert other.is_committed
    assert ([one.number for one in before.trials], before.rechecks) == ([0], ())
    after = load_run(run)
    assert ([one.number for one in after.trials], len(after.rechecks)) == ([0, 1], 1)


def test_a_validation_that_begins_while_validations_are_read_has_all_its_samples_or_is_not_there(
    store: Store, run: Path, monkeypatch: pytest.MonkeyPatch
):
    record = synthetic_run(n_trials=8, validation=True).validations[0]

    def validate() -> None:
        store.add_validation_sample(store.begin_validation(record), record.samples[0])

    with Store.open(run) as reader:
        other = _Overtaken(monkeypatch, "validation", validate)

        before, after = reader.validations(), reader.validations()

    assert other.is_committed
    assert ([len(one.samples) for one in before], [len(one.samples) for one in after]) == ([], [1])


def test_a_reader_leaves_nothing_beside_a_store_that_is_closed(run: Path, store: Store):
    store.add_trial(trial(0))
    store.close()

    with Store.open(run) as reader:
        assert [t.number for t in reader.trials()] == [0]

    assert not list(run.glob(f"{STORE_NAME}-*"))


def test_a_reader_cannot_write(run: Path, store: Store):
    with Store.open(run) as reader, pytest.raises(StoreError, match="opened for reading only"):
        reader.add_trial(trial())


def test_a_second_writer_is_refused_with_the_pid_of_the_first(run: Path, store: Store):
    code = f"""
from pathlib import Path
from tuner.store import Store
Store.open(Path({str(run)!r}), writable=True)
"""
    ended = python(code)

    assert f"StoreError: {run / STORE_NAME}: locked by pid {os.getpid()}" in ended.stderr


def test_a_writer_that_cannot_begin_leaves_no_lock(
    run: Path, store: Store, monkeypatch: pytest.MonkeyPatch
):
    store.close()
    with monkeypatch.context() as patched:
        patched.setattr("tuner.store.metric_columns", lambda: {"of a later version": "NO KIND("})
        with pytest.raises(StoreError, match="damaged") as failed:
            Store.open(run, writable=True)

    Store.open(run, writable=True).close()
    assert failed.traceback  # holds what was opened


def test_a_file_system_without_locks_is_not_another_writer(
    run: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(OutputError, match=r"\(No locks available\); choose .* local disk"):
        Store.create(run, synthetic.record())


def test_the_lock_of_a_killed_writer_is_free(run: Path):
    code = f"""
import os, signal
from pathlib import Path
from tests.doubles import synthetic
from tests.unit.store.test_store import trial
from tuner.store import Store
store = Store.create(Path({str(run)!r}), synthetic.record())
store.add_trial(trial())
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = python(code)

    assert ended.returncode == -signal.SIGKILL
    with Store.open(run, writable=True) as store:
        assert [trial()] == store.trials()
        assert store.campaign().status == RUNNING


@pytest.mark.parametrize("name", ["app", "app.v2", "a.b"])
def test_a_run_folder_may_have_any_ending(tmp_path: Path, name: str):
    folder = tmp_path / name
    Store.create(folder, synthetic.record()).close()

    assert (folder / STORE_NAME).is_file()
    assert Store.exists(folder)


def test_create_does_not_overwrite(run: Path, store: Store):
    store.close()

    with pytest.raises(StoreError, match="there is a store already"):
        Store.create(run, synthetic.record())


def test_an_empty_store_of_a_killed_creation_is_made_anew(run: Path):
    run.mkdir()
    change(run, "PRAGMA journal_mode = WAL")

    assert not Store.exists(run)
    Store.create(run, synthetic.record()).close()
    assert Store.exists(run)


def test_a_missing_store_is_named(tmp_path: Path):
    with pytest.raises(StoreError, match="no such store; give the run folder"):
        Store.open(tmp_path)
    for path, what in ((tmp_path / "none", "no such folder"), (Path(__file__), "is no folder")):
        with pytest.raises(StoreError, match=f"^{path}: {what}; give the run folder"):
            Store.open(path)


def test_a_file_of_another_program_is_refused(run: Path):
    run.mkdir()
    change(run, "CREATE TABLE holiday (photo BLOB)")

    with pytest.raises(StoreError, match="not a store of malloc-tuner"):
        Store.open(run)
    with pytest.raises(StoreError, match="there is a store already"):
        Store.create(run, synthetic.record())


def test_another_layout_is_refused_with_both_versions(run: Path, store: Store):
    store.close()
    change(run, f"PRAGMA user_version = {SCHEMA_VERSION + 1}")

    with pytest.raises(StoreError, match=f"version {SCHEMA_VERSION + 1}.*knows {SCHEMA_VERSION}"):
        Store.open(run)


def test_the_first_layout_is_read_and_continued(run: Path, store: Store):
    store.add_trial(trial(0))
    store.close()
    change(
        run,
        "ALTER TABLE campaign DROP COLUMN workload",
        "DROP TABLE screening",
        "DROP TABLE made_on",
        "PRAGMA user_version = 1",
    )

    with Store.open(run, writable=True) as old:
        assert old.campaign().workload == WorkloadRecord()
        assert old.screenings() == {}
        old.add_trial(trial(1, {"a": 2}))
        old.add_trial(failed(2))
        old.withdraw_trial(failed(2))
        assert len(old.trials()) == 2


def test_only_a_trial_without_numbers_is_withdrawn_and_where_it_was_made(store: Store):
    store.add_machine(ClusterMachine("far", MACHINE, synthetic.measure(Configuration("glibc"))))
    store.add_trial(failed(0), "far")
    store.add_trial(trial(1), "far")

    store.withdraw_trial(failed(0))
    store.withdraw_trial(trial(1))

    assert [one.number for one in store.trials()] == [1]
    assert store.places() == {(1, 0): "far"}
    assert store.incidents()[0].reason == "killed by SIGSEGV"


def test_what_is_known_of_the_workload_comes_back(tmp_path: Path):
    known = WorkloadRecord(
        notes=("of low fidelity",),
        resolution=(("cost", 0.25), ("mean_heap", 0.5)),
        caveat="of low fidelity",
        n_events=9,
        recorded_with="/opt/libjemalloc.so.2",
        screening=ScreeningRecord(0.25, 0.5),
        further=(TraceRecord("/b.trace", "5f"),),
        program=(("cost", 2e9), ("peak_heap", 1e6)),
    )
    with Store.create(tmp_path / "known", synthetic.record(workload=known)) as store:
        assert store.campaign().workload == known
    with Store.create(tmp_path / "empty", synthetic.record()) as store:
        assert store.campaign().workload == WorkloadRecord()


def test_screenings_come_back_with_their_fidelity(store: Store):
    found = trial(1)
    store.add_screening(found.configuration, 0.25, found.outcome)

    assert store.screenings() == {found.configuration: found.outcome}
    with contextlib.closing(sqlite3.connect(store.path)) as raw, raw:
        assert raw.execute("SELECT fidelity FROM screening").fetchall() == [(0.25,)]
    with pytest.raises(StoreError):
        store.add_screening(found.configuration, 0.25, found.outcome)


def test_a_screening_is_never_of_the_whole_workload(store: Store):
    found = trial(1)
    with pytest.raises(StoreError):
        store.add_screening(found.configuration, 1.0, found.outcome)


def _fill(store: Store, first: int = 0) -> None:
    for number in range(first, 50):
        store.add_trial(trial(number))


@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("where", ["head", "middle", "cut"])
def test_a_damaged_file_is_called_damaged(run: Path, store: Store, where: str, writable: bool):
    _fill(store)
    store.close()
    path = run / STORE_NAME
    content = bytearray(path.read_bytes())
    if where == "cut":
        del content[len(content) // 2 :]
    else:
        begin = 0 if where == "head" else 2 * 4096
        content[begin : begin + 2 * 4096] = b"\xa5" * (2 * 4096)
    path.write_bytes(content)

    def read() -> None:
        with Store.open(run, writable=writable) as opened:
            if not writable:  # a writer fails before it adds anything
                opened.campaign()
                opened.trials()

    with pytest.raises(StoreError, match="damaged"):
        read()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE trial SET curve = CAST(x'00' || substr(curve, 2) AS BLOB)",
        "UPDATE trial SET curve = substr(curve, 1, 9)",
        "UPDATE trial SET origin = 'sea\\ch'",
        "UPDATE trial SET configuration = '[]' WHERE number = 3",
        "UPDATE campaign SET objectives = '['",
        "UPDATE campaign SET space = '[{}]'",
        "UPDATE campaign SET versions = CAST(x'ff' AS TEXT)",
        """UPDATE campaign SET emulation = '{"threads": "baion"}'""",
        "DELETE FROM campaign",
    ],
)
def test_a_row_that_makes_no_record_is_called_damaged(run: Path, store: Store, damage: str):
    _fill(store)
    store.close()
    change(run, "PRAGMA ignore_check_constraints = ON", damage)

    with pytest.raises(StoreError, match=r"store.sqlite: damaged \(.+\); restore it from a copy"):
        load_run(run)


@pytest.mark.parametrize("seed", range(2))
def test_a_damaged_byte_is_read_or_called_damaged(run: Path, store: Store, seed: int):
    _fill(store)
    store.close()
    path, random = run / STORE_NAME, np.random.default_rng(seed)
    whole = path.read_bytes()
    for at in random.integers(len(whole), size=50):
        content = bytearray(whole)
        content[at] ^= int(random.integers(1, 256))
        path.write_bytes(content)
        with contextlib.suppress(StoreError):
            load_run(run)


@settings(max_examples=50)
@given(junk=st.binary(max_size=300))
def test_no_junk_crashes_the_reader(junk: bytes, tmp_path_factory: pytest.TempPathFactory):
    run = tmp_path_factory.mktemp("junk")
    (run / STORE_NAME).write_bytes(junk)

    for writable in (False, True):
        with pytest.raises(StoreError):
            Store.open(run, writable=writable)


def test_a_full_disk_is_an_output_error_and_loses_nothing(run: Path, store: Store):
    code = f"""
import resource
from pathlib import Path
from tests.unit.store.test_store import trial
from tuner.errors import OutputError
from tuner.store import Store
with Store.open(Path({str(run)!r}), writable=True) as store:
    for number in range(1000):
        if number == 20:
            resource.setrlimit(resource.RLIMIT_FSIZE, (40960, resource.RLIM_INFINITY))
        try:
            store.add_trial(trial(number))
        except OutputError as error:
            print(number, "cannot be written" in str(error), len(store.trials()))
            break
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.add_trial(trial(number))
"""
    store.close()
    ended = python(code)
    assert ended.returncode == 0, ended.stderr
    failed_at, is_told, n_readable = ended.stdout.split()

    assert ("True", failed_at) == (is_told, n_readable)
    assert int(failed_at) >= 20
    with Store.open(run) as reader:
        assert reader.trials() == [trial(number) for number in range(int(failed_at) + 1)]


def test_sqlite_running_out_of_pages_is_an_output_error(store: Store):
    store.add_trial(trial())
    connection = store._connection  # noqa: SLF001 - the only way to make this disk full
    connection.execute("PRAGMA max_page_count = 1")

    with pytest.raises(OutputError, match=r"full.*run the same command again"):
        _fill(store, first=1)

    assert store.trials()[0] == trial()


def as_nobody(code: str) -> subprocess.CompletedProcess[str]:
    """Run Python code as a user who may not write to what belongs to root."""
    # What is imported is imported before: that user may not reach Python's own folder.
    program = f"""
import os
import encodings.idna, numpy, sqlite3, urllib.parse, zlib
from pathlib import Path
from tests.doubles import synthetic
from tuner.errors import OutputError
from tuner.store import Store
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
{code}"""
    return python(program)


@pytest.fixture
def open_to_all(tmp_path: Path) -> Iterator[Path]:
    """Return a folder that other users can reach, unlike pytest's own."""
    folder = Path(f"/tmp/test-store-{os.getpid()}-{tmp_path.name}")
    folder.mkdir(mode=0o755)
    yield folder
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755)
    shutil.rmtree(folder)


def test_a_read_only_folder_is_an_output_error_for_writers_only(open_to_all: Path):
    with Store.create(open_to_all, synthetic.record()) as store:
        store.add_trial(trial())
    open_to_all.chmod(0o555)
    code = f"""
run = Path({str(open_to_all)!r})
with Store.open(run) as reader:
    print(len(reader.trials()))
opening = lambda: Store.open(run, writable=True)
creating = lambda: Store.create(run / "new", synthetic.record())
for attempt in (opening, creating):
    try:
        attempt()
    except OutputError as error:
        print(str(error).split(";")[0])
"""
    ended = as_nobody(code)

    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[0] == "1"
    assert lines[1].startswith(f"{open_to_all / STORE_NAME}")
    assert lines[2].startswith(f"{open_to_all / 'new'}: cannot be created")
    assert len(lines) == 3


def test_a_store_that_may_not_be_read_is_not_called_unwritable(open_to_all: Path):
    Store.create(open_to_all, synthetic.record()).close()
    (open_to_all / STORE_NAME).chmod(0)

    ended = as_nobody(f"Store.open(Path({str(open_to_all)!r}))")

    assert f"StoreError: {open_to_all / STORE_NAME}: cannot be read (unable to" in ended.stderr


def test_a_log_that_cannot_be_read_is_not_left_out(open_to_all: Path, run: Path):
    """What was committed after the last checkpoint is in the log only."""
    with Store.create(run, synthetic.record()) as store:
        store.add_trial(trial())
        for name in (STORE_NAME, f"{STORE_NAME}-wal"):
            shutil.copy(run / name, open_to_all / name)
            (open_to_all / name).chmod(0o444)
    open_to_all.chmod(0o555)

    ended = as_nobody(f"Store.open(Path({str(open_to_all)!r}))")

    assert ended.returncode == 1
    assert "StoreError" in ended.stderr or "OutputError" in ended.stderr


def test_a_trial_is_on_the_disk_when_it_is_committed(run: Path, monkeypatch: pytest.MonkeyPatch):
    """SQLite flushes at each commit (2 is FULL): a power cut loses no trial that ended."""
    connections: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def remembered(*words: Any, **options: Any) -> sqlite3.Connection:
        connections.append(connect(*words, **options))
        return connections[-1]

    monkeypatch.setattr(sqlite3, "connect", remembered)
    with Store.create(run, synthetic.record()):
        created = connections[-1].execute("PRAGMA synchronous").fetchone()[0]
    with Store.open(run, writable=True):
        opened = connections[-1].execute("PRAGMA synchronous").fetchone()[0]

    assert (created, opened) == (2, 2)


numbers = st.integers(0, 2**63 - 1)


@given(points=st.lists(st.builds(CurvePoint, numbers, numbers, numbers, numbers), max_size=20))
def test_curves_are_packed_without_loss(points: list[CurvePoint]):
    assert tuple(points) == unpack_curve(pack_curve(points))


reals = st.floats(0, 1e18, allow_nan=False)


@settings(max_examples=25)
@given(
    values=st.fixed_dictionaries(
        {
            name: (numbers if metric.is_whole else reals)
            | (st.none() if metric.missing else st.nothing())
            for name, metric in METRICS.items()
        }
    )
)
def test_every_measurement_survives_the_store(
    values: dict[str, float | None], tmp_path_factory: pytest.TempPathFactory
):
    measured = Measurement(values)
    with Store.create(tmp_path_factory.mktemp("any"), synthetic.record()) as store:
        store.add_trial(replace(trial(), outcome=Outcome.succeeded(measured)))
        assert store.trials()[0].measurement == measured
