"""`malloc-tuner validate` on a real program with real allocators."""

import hashlib
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.doubles.programs import compile_
from tests.doubles.runs import campaign_record, seen, trial
from tests.doubles.waiting import wait_until
from tuner import recording
from tuner.allocators import get_allocator
from tuner.cli.main import run
from tuner.records import Configuration, Status
from tuner.store import FINISHED, AllocatorRecord, Store, ValidationRecord
from tuner.trace.file import EVENT, write_trace
from tuner.trace.program import Recorded
from tuner.validate.trust import recorded_program

pytestmark = pytest.mark.end_to_end

MIB = 1 << 20
PROGRAM = "import os, sys; x = [bytes(5000) for _ in range(8000)]; print(len(x)); {}"
"""Allocates 40 MiB of blocks that no allocator of Python's own takes."""


def python(extra: str = "os._exit(0) if sys.stdout.flush() is None else None") -> list[str]:
    return [sys.executable, "-S", "-c", PROGRAM.format(extra)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished campaign of glibc and jemalloc with invented numbers."""
    names = ("glibc", "jemalloc")
    found = {name: get_allocator(name).locate() for name in names}
    record = replace(
        campaign_record(names, ("mean_heap", "cost"), 4),
        allocators={
            name: AllocatorRecord(str(i.library) if i.library else None, i.version)
            for name, i in found.items()
        },
    )
    trials = [
        trial(0, Configuration("glibc"), 40.0 * MIB, 5e6),
        trial(1, Configuration("jemalloc"), 42.0 * MIB, 4e6),
        trial(2, Configuration.of("jemalloc", {"dirty_decay_ms": 0}), 39.0 * MIB, 6e6),
        trial(3, Configuration.of("glibc", {"tcache_count": 0}), 41.0 * MIB, 7e6),
    ]
    with Store.create(tmp_path / "run", record) as store:
        for each in trials:
            store.add_trial(each)
        store.set_status(FINISHED)
    return tmp_path / "run"


def validations(folder: Path) -> list[ValidationRecord]:
    with Store.open(folder) as store:
        return store.validations()


def validate(folder: Path, *words: str, command: list[str] | None = None) -> int:
    return run(["validate", str(folder), *words, "--", *(command or python())])


def test_huge_pages_that_differ_from_the_campaigns_are_told(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with Store.open(folder) as store:
        record, trials = store.campaign(), store.trials()
    assert record.machine is not None
    record = replace(
        record,
        emulation=replace(record.emulation, thp="keep"),
        machine=replace(record.machine, thp="always"),
    )
    with Store.create(tmp_path / "everywhere", record) as store:
        for each in trials:
            store.add_trial(each)
    words = ["--points", "2", "--dominated", "0", "--rounds", "1", "--thp", "never", "--", "true"]
    assert run(["validate", str(tmp_path / "everywhere"), *words]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "huge pages differ: mode always in emulation, mode never in this validation" in said


def test_too_few_rounds_are_told_before_the_first_run(
    folder: Path, capfd: pytest.CaptureFixture[str]
):
    options = ("--points", "2", "--dominated", "0", "--timeout", "100 ms")
    assert run(["validate", str(folder), *options, "--rounds", "3", "--", "sleep", "60"]) == 8
    assert "note: this will be undecided: " in " ".join(capfd.readouterr().err.split())
    assert run(["validate", str(folder), *options, "--rounds", "12", "--", "sleep", "60"]) == 8
    assert "undecided" not in capfd.readouterr().err


def test_every_subject_is_measured_with_its_own_allocator(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "150")
    assert validate(folder, "--rounds", "2") == 0
    (record,) = validations(folder)
    assert {sample.outcome.status for sample in record.samples} == {Status.OK}
    assert len(record.samples) == 2 * 4
    for sample in record.samples:
        peak = seen(sample).peak_heap_bytes
        assert peak is not None
        assert peak > 38 * MIB
    out = capsys.readouterr().out
    for words in (
        "2 of 2 rounds",
        "glibc-default",
        "jemalloc-default",
        "undecided",
        "malloc-tuner report",
    ):
        assert words in out


def test_subject_whose_output_differs_is_out(folder: Path, capsys: pytest.CaptureFixture[str]):
    command = python("print('dirty' in os.environ.get('MALLOC_CONF', ''))")
    assert validate(folder, "--rounds", "2", command=command) == 0
    (record,) = validations(folder)
    failed = {s.configuration for s in record.samples if s.outcome.status is Status.FAILED}
    assert failed == {Configuration.of("jemalloc", {"dirty_decay_ms": 0})}
    assert "its output (stdout) differs from the baseline's" in capsys.readouterr().out


def test_library_is_in_the_program(folder: Path):
    command = python("print('libjemalloc' in open('/proc/self/maps').read())")
    assert validate(folder, "--rounds", "1", command=command) == 0
    (record,) = validations(folder)
    failed = {
        s.configuration.allocator for s in record.samples if s.outcome.status is Status.FAILED
    }
    assert failed == {"jemalloc"}
    good = {s.configuration.allocator for s in record.samples if s.outcome.status is Status.OK}
    assert good == {"glibc"}


def test_library_that_the_program_is_linked_against_gives_way(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    library = get_allocator("jemalloc").locate().library
    program = compile_(tmp_path, _LINKED, "-Wl,--no-as-needed", str(library), "-ldl")
    words = ("--rounds", "1", "--ignore-output", "--expect-status", "1")
    assert validate(folder, *words, command=[str(program)]) == 0
    (record,) = validations(folder)
    statuses = {s.label: (s.configuration.allocator, seen(s).exit_status) for s in record.samples}
    assert record.baseline == "as-it-is"
    assert statuses["as-it-is"] == statuses["jemalloc-default"] == ("jemalloc", 1)
    assert statuses["glibc-default"] == ("glibc", 0)
    assert "libjemalloc.so.2 of its own" in capsys.readouterr().out


_LINKED = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
    Dl_info info;
    dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info);
    return strstr(info.dli_fname, "jemalloc") != NULL;
}
"""


STUCK = """
import os, time
if os.path.exists({file!r}):
    with open({file!r}, "a") as file:
        file.write("x")
    if os.path.getsize({file!r}) > 6:
        time.sleep(600)
print(len([bytes(5000) for _ in range(8000)]))
"""
"""While a file is there, the seventh run and all after it hang."""


def test_killed_validation_is_continued_by_the_same_command(folder: Path, tmp_path: Path):
    file = tmp_path / "stuck"
    file.touch()
    program = [sys.executable, "-S", "-c", STUCK.format(file=str(file))]
    words = [sys.executable, "-m", "tuner.cli.main", "validate", str(folder), "--rounds", "3"]
    process = subprocess.Popen(
        [*words, "--", *program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_for_samples(folder, 3)
    process.kill()
    process.wait()
    file.unlink()
    (before,) = validations(folder)
    assert 3 <= len(before.samples) < 12
    assert validate(folder, "--rounds", "3", command=program) == 0
    (after,) = validations(folder)
    assert after.samples[: len(before.samples)] == before.samples
    assert len(after.samples) == 12


def test_program_does_not_outlive_a_killed_validation(folder: Path, tmp_path: Path):
    told = tmp_path / "pid"
    code = f"import os, time; open({str(told)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    words = [sys.executable, "-m", "tuner.cli.main", "validate", str(folder), "--"]
    process = subprocess.Popen(
        [*words, sys.executable, "-S", "-c", code],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: told.exists() and told.read_text() != "")
    process.kill()
    process.wait()
    program = Path("/proc") / told.read_text()
    wait_until(lambda: not program.exists())


def test_interrupt_ends_cleanly(folder: Path):
    words = [sys.executable, "-m", "tuner.cli.main", "validate", str(folder), "--rounds", "50"]
    process = subprocess.Popen(
        [*words, "--", *python()], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    wait_for_samples(folder, 2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "the same command goes on from there" in err
    assert "Traceback" not in err


def wait_for_samples(folder: Path, n: int) -> None:
    query = "SELECT count(*) FROM validation_sample"
    with closing(sqlite3.connect(folder / "store.sqlite")) as store:
        wait_until(lambda: store.execute(query).fetchall()[0][0] >= n)


def test_file_that_the_program_writes_is_compared(folder: Path, tmp_path: Path):
    target = tmp_path / "out.txt"
    write = f"open({str(target)!r}, 'w').write('same'); print(os.getpid())"
    options = ("--rounds", "1", "--output-file", str(target))
    assert validate(folder, *options, command=python(write)) == 0
    assert {s.outcome.status for s in validations(folder)[0].samples} == {Status.OK}


@pytest.mark.parametrize(
    ("words", "command", "code", "message"),
    [
        ((), ["/no/such/program"], 4, "/no/such/program: cannot execute"),
        ((), ["sh", "-c", "kill -SEGV $$"], 7, "sh: killed by SIGSEGV with the baseline"),
        (("--timeout", "200 ms"), ["sleep", "60"], 8, "sleep: still running after 0.2 s"),
        ((), ["date", "+%N"], 7, "--ignore-output or --output-file"),
        (("--points", "99"), ["true"], 12, "has no trial 99"),
        (("--output-file", "/x", "--ignore-output"), ["true"], 2, "--ignore-output does not apply"),
    ],
)
def test_mistake_is_named_with_its_exit_code(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    words: tuple[str, ...],
    command: list[str],
    code: int,
    message: str,
):
    assert validate(folder, *words, command=command) == code
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


def test_a_program_that_fails_does_not_replace_a_good_validation(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    trace = tmp_path / "app.trace"
    write_trace(trace, np.zeros(1, EVENT), {"command": ["true"], "exit_status": 0})
    with closing(sqlite3.connect(folder / "store.sqlite")) as store, store:
        store.execute("UPDATE campaign SET trace_path = ?", (str(trace),))
    assert validate(folder, "--rounds", "1", command=["true"]) == 0
    capsys.readouterr()

    assert validate(folder, "--rounds", "1", command=["sh", "-c", "exit 3"]) == 7
    assert "ends with exit status 3, but 0 is expected" in capsys.readouterr().err
    assert len(validations(folder)) == 1
    words = ("--rounds", "1", "--expect-status", "3")
    assert validate(folder, *words, command=["sh", "-c", "exit 3"]) == 0
    assert "another program than the recorded one" in " ".join(capsys.readouterr().out.split())
    assert run(["export", str(folder), "--pick", "balanced", "--format", "env"]) == 0
    assert "rounds of true" in capsys.readouterr().out
    assert run(["validate", str(folder), "--details"]) == 0
    assert "the recorded one" not in capsys.readouterr().out


def test_the_recorded_program_is_the_command_as_typed(folder: Path, tmp_path: Path):
    trace, command = tmp_path / "ls.trace", ["sh", "-c", "exec ls -d /"]
    recording.record(command, trace, is_silent=True)
    with Store.open(folder) as store:
        campaign = replace(store.campaign(), trace_path=str(trace))

    assert recorded_program(campaign) == Recorded(tuple(command), 0)


def test_store_in_use_and_missing_run_are_errors(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with Store.open(folder, writable=True):
        assert validate(folder) == 9
    assert validate(tmp_path / "nothing") == 9
    assert "nothing" in capsys.readouterr().err


def test_library_of_another_version_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]):
    with closing(sqlite3.connect(folder / "store.sqlite")) as store, store:
        store.execute("UPDATE campaign SET allocators = replace(allocators, '5.', '4.')")
    assert validate(folder) == 4
    assert "was measured, here is 5." in capsys.readouterr().err


def test_allocator_settings_of_the_user_do_not_leak_in(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MALLOC_CONF", "abort_conf:true,nonsense:1")
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    show = "print(sorted(k for k in os.environ if 'ARENA' in k))"
    assert validate(folder, "--rounds", "1", command=python(show)) == 0
    expected = hashlib.sha256(b"8000\n[]\n").hexdigest()
    assert {seen(s).output_sha256 for s in validations(folder)[0].samples} == {expected}
    assert {s.outcome.status for s in validations(folder)[0].samples} == {Status.OK}
