"""The folder of a recording and the trace it becomes: what is there is not lost."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuner.cli.main import run
from tuner.errors import OutputError, TraceError
from tuner.recording import record, recover
from tuner.recording.program import recorder_environment
from tuner.recording.spool import locked, remove_left
from tuner.trace.file import Trace


@pytest.mark.parametrize("name", [".", "", "..", "/"])
def test_a_folder_is_no_name_of_a_trace(name: str, working_folder: Path):
    with pytest.raises(OutputError, match="is a folder; name the trace to write"):
        record(["true"], Path(name))


def test_a_working_folder_that_is_gone_is_no_defect(working_folder: Path):
    working_folder.rmdir()
    with pytest.raises(OutputError, match=r"^a\.trace: cannot write here: No such file"):
        record(["true"], Path("a.trace"))


def test_a_device_is_no_trace_and_stays(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OutputError, match="is not a regular file"):
        record(["true"], pipe)
    assert pipe.is_fifo()


@pytest.fixture
def there(tmp_path: Path) -> Path:
    trace = tmp_path / "a.trace"
    record(["ls", "-I", "", "/"], trace)
    os.utime(trace, (0, time.mktime((2026, 3, 1, 12, 30, 0, 0, 0, -1))))
    return trace


def test_a_trace_that_exists_is_kept(there: Path, capfd: pytest.CaptureFixture[str]):
    before = there.read_bytes()

    assert run(["record", "-o", str(there), "--", "ls", "/"]) == OutputError.exit_code

    out, err = capfd.readouterr()
    with Trace(there) as trace:
        n_events = trace.totals.n_events
    what = f"trace of ls -I '' /, {n_events:,} events, written 2026-03-01 12:30"
    assert f"{there}: exists ({what}); choose another name with -o, or replace it with" in err
    assert (out, there.read_bytes()) == ("", before), "the program did not even run"


def test_traces_of_children_are_kept_too(tmp_path: Path):
    (tmp_path / "a.2-sh.trace").write_text("no trace")

    with pytest.raises(OutputError, match=r"a\.2-sh\.trace: exists \(no trace, 8 bytes, written"):
        record(["ls", "/"], tmp_path / "a.trace", follow=True)
    assert len(record(["ls", "/"], tmp_path / "a.trace").processes) == 1


def test_all_traces_of_a_recording_are_replaced_when_asked_to(tmp_path: Path):
    made = record(["sh", "-c", "ls /; ls /; true"], tmp_path / "a.trace", follow=True)
    there, *further = (process.path for process in made.processes)
    assert [path.name for path in further] == ["a.2-ls.trace", "a.3-ls.trace"]
    mine = {there.with_name("a.2-mine.trace"): further[0], there.with_name("a.4-sh.trace"): there}
    for copy, path in mine.items():
        copy.write_bytes(path.read_bytes())

    record(["ls", "--all", "/"], there, follow=True, force=True)

    assert {*there.parent.iterdir()} == {there, *mine}
    with Trace(there) as trace:
        assert trace.metadata["argv"] == ["ls", "--all", "/"]


def test_a_folder_that_holds_no_recording_is_in_the_way_of_none(tmp_path: Path):
    output, spool = tmp_path / "a.trace", tmp_path / "a.trace.spool"
    spool.mkdir()
    (spool / "control").touch()
    record(["ls", "/"], output)

    spool.mkdir()
    (spool / "notes").touch()
    with pytest.raises(OutputError, match="spool/notes: is of no recording; move it"):
        record(["ls", "/"], output, force=True)


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path):
    (tmp_path / "a.trace.spool").touch()

    with pytest.raises(OutputError, match=r"a\.trace\.spool: is no folder; move it"):
        record(["ls", "/"], tmp_path / "a.trace")


def test_a_spool_that_cannot_be_removed_leaves_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def unlink(path: Path, **_: object) -> None:
        if path.name == "1.spool":
            raise PermissionError
        path.rename(tmp_path / "gone")

    spool = tmp_path / "a.trace.spool"
    spool.mkdir()
    for number in (1, 2):
        (spool / f"{number}.spool").touch()
    monkeypatch.setattr(Path, "unlink", unlink)

    remove_left(tmp_path / "a.trace")

    assert [path.name for path in spool.iterdir()] == ["1.spool"]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A program that still writes the spool of a command that was killed; maps quote its name."""
    spool = tmp_path / "two\nlines" / "a.trace.spool"
    spool.parent.mkdir()
    spool.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        env=recorder_environment(spool, follow=False),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process, spool
        process.kill()


def test_a_spool_whose_program_runs_is_not_recovered(running: tuple[subprocess.Popen[bytes], Path]):
    process, spool = running
    output = spool.with_suffix("")
    for attempt in (lambda: recover(spool, output), lambda: record(["ls"], output)):
        with pytest.raises(OutputError, match=f"still being written by process {process.pid};"):
            attempt()
    assert spool.exists()

    process.kill()
    process.wait()
    (found,) = recover(spool, output)

    assert found.totals.n_events > 0


def test_a_number_that_another_process_has_by_now_is_no_writer(tmp_path: Path):
    (tmp_path / f"{os.getpid()}.spool").touch()

    with locked(tmp_path, must_be_idle=True):
        pass


def test_a_spool_whose_command_runs_is_not_recovered(tmp_path: Path):
    with (
        locked(tmp_path, must_be_idle=False),
        pytest.raises(OutputError, match="its `malloc-tuner record` is still running"),
    ):
        recover(tmp_path, tmp_path / "a.trace")


def test_a_missing_trace_points_at_its_recording(tmp_path: Path):
    (tmp_path / "a.trace.spool").mkdir()

    with pytest.raises(TraceError, match=r"not there yet.*trace recover .*a\.trace\.spool -o"):
        Trace(tmp_path / "a.trace")
