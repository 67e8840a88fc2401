"""What `record` says and keeps when things go wrong; real programs are in test_record.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tuner import recording
from tuner.errors import MissingToolError, OutputError, ProgramError
from tuner.recording import Ending, read_titles, record, recover

NO_EVENTS = "nothing was recorded: it called no allocation function of a library"


def ending(exit_status: int | None = None, signal_name: str | None = None) -> Ending:
    return Ending(exit_status, signal_name, wall_s=1.0, cpu_s=1.0, end_ns=1)


@pytest.mark.parametrize(
    ("end", "words", "is_crash"),
    [
        (ending(exit_status=0), "exited with status 0", False),
        (ending(exit_status=3), "exited with status 3", False),
        (ending(signal_name="SIGTERM"), "was ended by SIGTERM", False),
        (ending(signal_name="SIGKILL"), "was ended by SIGKILL", False),
        (ending(signal_name="SIGSEGV"), "was ended by SIGSEGV", True),
        (ending(signal_name="SIG40"), "was ended by SIG40", True),
    ],
)
def test_only_unwanted_signals_are_crashes(end: Ending, words: str, is_crash: bool) -> None:
    assert str(end) == words
    assert end.is_crash == is_crash


def test_a_library_path_the_loader_would_split_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "native_file", lambda name: Path("/opt/my tools") / name)
    with pytest.raises(MissingToolError, match="LD_PRELOAD allows no blank or colon"):
        record(["true"], tmp_path / "a.trace")
    assert not list(tmp_path.iterdir()), "and nothing is left behind"


def test_other_preloaded_libraries_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "libjemalloc.so.2")
    environment = recording._environment(tmp_path, follow=True)  # noqa: SLF001
    assert environment["LD_PRELOAD"].endswith("librecorder.so:libjemalloc.so.2")
    follow, exec_ns, folder = environment["MALLOC_TUNER_RECORD"].split(":", 2)
    assert (follow, folder) == ("1", str(tmp_path))
    assert 0 < int(exec_ns) <= time.monotonic_ns()


def test_handlers_of_the_caller_come_back(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    record(["ls", "/"], tmp_path / "a.trace")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_folder_without_spools_cannot_be_recovered(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"no recording here; give the folder OUTPUT\.spool"):
        recover(tmp_path, tmp_path / "a.trace")


def test_a_spool_that_is_none_is_told_and_kept(tmp_path: Path) -> None:
    spool = tmp_path / "a.trace.spool"
    spool.mkdir()
    (spool / "1.spool").write_text("garbage")
    with pytest.raises(OutputError, match="not a spool of this version of the recorder"):
        recover(spool, tmp_path / "a.trace")
    assert spool.exists()


def test_spools_that_a_full_disk_kept_empty_are_told_and_removed(tmp_path: Path) -> None:
    spool = tmp_path / "a.trace.spool"
    spool.mkdir()
    (spool / "1.spool").touch()
    with pytest.raises(OutputError, match="nothing could be recorded, the disk is full; make room"):
        recover(spool, tmp_path / "a.trace")
    assert not spool.exists()


def test_a_trace_that_cannot_be_written_leaves_the_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "a.trace"
    real = recording._tool  # noqa: SLF001

    def full_disk(*arguments: str) -> dict[str, object]:
        if arguments[0] != "--describe":
            message = f"{output}: cannot write: No space left on device"
            raise OutputError(message)
        return real(*arguments)

    monkeypatch.setattr(recording, "_tool", full_disk)
    with pytest.raises(OutputError, match=r"No space left.*kept.*trace recover .*a\.trace\.spool"):
        record(["ls", "/"], output)
    monkeypatch.setattr(recording, "_tool", real)
    (process,) = recover(tmp_path / "a.trace.spool", output)
    assert process.totals.n_events > 0
    assert not (tmp_path / "a.trace.spool").exists()


def test_a_program_that_allocates_nothing_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=NO_EVENTS):
        record(["true"], tmp_path / "a.trace")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [".", "", "..", "/"])
def test_a_folder_is_no_name_of_a_trace(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OutputError, match="is a folder; name the trace to write"):
        record(["true"], Path(name))


def test_a_device_is_no_trace_and_stays(tmp_path: Path) -> None:
    """A trace that cannot be written is removed again; as root that would remove the device."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OutputError, match="is not a regular file"):
        record(["true"], pipe)
    assert pipe.is_fifo()


def test_a_process_is_known_by_what_it_calls_itself_last(tmp_path: Path) -> None:
    """A server writes its role over its arguments; an image after exec has a second spool."""
    proc = tmp_path / "proc"
    for number, words in ((12, b"postgres: checkpointer \0\0\0"), (13, b""), (14, b"a\0b\xff\0")):
        (proc / str(number)).mkdir(parents=True)
        (proc / str(number) / "cmdline").write_bytes(words)
    for name in ("12.spool", "13.spool", "14-2.spool", "15.spool"):
        (tmp_path / name).touch()

    assert read_titles(tmp_path, proc) == {12: "postgres: checkpointer", 14: "a b\ufffd"}


def test_recording_needs_neither_numpy_nor_the_reader_of_programs() -> None:
    """Their start costs more than the recording of a short program."""
    code = "import sys, tuner.recording; print({'numpy', 'elftools', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout == "set()\n"
